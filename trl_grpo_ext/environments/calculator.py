"""An example environment: a calculator that rewards the row's solution as its last result."""

from __future__ import annotations

from typing import Any


class Calculator:
    """A calculator that multiplies for the model. The recipe `agent` trains a tiny model to call it.

    Examples:
        >>> calculator = Calculator()
        >>> calculator.reset(solution="4042")
        >>> calculator.multiply(47, 86), calculator.get_reward(), calculator.state
        (4042, True, {'result': 4042})
    """

    def reset(self, solution: str = "", **_: Any) -> None:
        """Start a rollout for a row's solution."""
        self._solution = solution
        self._result: int | None = None

    def multiply(self, a: int, b: int) -> int:
        """Multiply two numbers.

        Args:
            a: The first.
            b: The second.
        """
        self._result = a * b
        return self._result

    def get_reward(self) -> bool:
        """Return whether the last result is the row's solution."""
        return str(self._result) == self._solution

    @property
    def state(self) -> dict[str, int | None]:
        """The last result, for verifiers, the record and the report."""
        return {"result": self._result}
