"""An environment to begin with: a calculator, which says whether it has come to the row's solution."""

from __future__ import annotations

from typing import Any


class Calculator:
    """Multiplies for the model. The recipe `agent` trains a tiny model to ask it.

    Examples:
        >>> calculator = Calculator()
        >>> calculator.reset(solution="4042")
        >>> calculator.multiply(47, 86), calculator.get_reward(), calculator.state
        (4042, True, {'result': 4042})
    """

    def reset(self, solution: str = "", **_: Any) -> None:
        """Begin a rollout on a row with this solution."""
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
        """Whether the last result is the row's solution."""
        return str(self._result) == self._solution

    @property
    def state(self) -> dict[str, int | None]:
        """The last result, for verifiers, the record and the report."""
        return {"result": self._result}
