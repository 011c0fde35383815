"""A local Python for the model: a session for each rollout, or a tool without memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from trl_grpo_ext.programs.sandbox.isolation import IsolationError
from trl_grpo_ext.programs.sandbox.job import Limits
from trl_grpo_ext.programs.sandbox.packages import check_packages
from trl_grpo_ext.programs.sandbox.session import SESSION_LIMITS, CellResult, PythonSession
from trl_grpo_ext.programs.sandbox.zygote import LostError
from trl_grpo_ext.support.text import cut

OUTPUT_CHARS = 4000
"""The most characters of a call's output that the model reads, by default."""


class PythonEnvironment:
    """A jailed Python for the model: the tool `python`, in a session of its own for each rollout.

    Names stay from call to call, and end with the rollout. The code runs behind the walls of the sandbox
    (docs/sandbox.md), on the machine of the trainer. A subclass has other settings, or a reward::

        class PandasEnvironment(PythonEnvironment):
            packages = ("pandas",)

    Attributes:
        limits: Wall time and output of a call; memory, processes and disk space of a session, and CPU time of each of
            its processes. A session that exceeds a limit ends: the model is told, and its next call starts a new one.
        calls: The most calls of a rollout.
        seconds: Wall time of all calls of a rollout. The last call may exceed it by `limits.wall_seconds`.
        output_chars: The most characters that the model reads of a call; of more, it reads the first and the last half.
        packages: Packages that the code may import besides Python's library and numpy, by import name.
        allow_unsafe: Whether to run the code without walls on a machine where no walls hold.

    Raises:
        ValueError: for packages that are not installed, or that programs must not see, and where no walls hold.

    Examples:
        >>> environment = PythonEnvironment()
        >>> environment.reset()
        >>> environment.python("x = 40"), environment.python("print(x + 2)"), environment.python("x / 0")
        ('(no output)', '42', 'ZeroDivisionError: division by zero (line 1)')
        >>> environment.reset()
        >>> environment.python("x")
        "NameError: name 'x' is not defined (line 1)"
    """

    limits: Limits = SESSION_LIMITS
    calls: int = 20
    seconds: float = 60.0
    output_chars: int = OUTPUT_CHARS
    packages: Sequence[str] = ()
    allow_unsafe: bool = False
    # Each rollout has a process of its own.
    parallel_calls = True

    def __init__(self) -> None:
        check_packages(self.packages)
        self._session = PythonSession(
            self.limits, packages=self.packages, allow_unsafe=self.allow_unsafe
        )
        # A run must not begin if each of its calls would fail.
        self._session.check()
        self._begin()

    def reset(self, **_: Any) -> None:
        """Start a rollout without any names."""
        self._end_rollout()
        self._begin()

    def python(self, code: str) -> str:
        """Run Python code. Names stay from call to call.

        Args:
            code: The code. Of an expression in its last line, the value is shown.

        Returns:
            What was printed, or the error.
        """
        if self._calls >= self.calls:
            return f"There are no calls left: {self._calls} were made. Answer now."
        if self._seconds >= self.seconds:
            return f"There is no time left: the calls have taken {self._seconds:.0f} s. Answer now."
        self._calls += 1
        began = time.perf_counter()
        try:
            result = _run(self._session, code)
        except RuntimeError as error:
            self._failed.append(str(error.__cause__))
            raise
        finally:
            self._seconds += time.perf_counter() - began
        if result.end is not None:
            self._ended.append(f"{result.end.ending}: {result.end.detail}")
        return _shown(
            result,
            self.output_chars,
            "Its names are gone; the next call starts a new session.",
        )

    @property
    def state(self) -> dict[str, Any]:
        """The number of calls, their seconds, why sessions have ended, and failures of the sandbox."""
        return {
            "calls": self._calls,
            "seconds": round(self._seconds, 3),
            "ended": self._ended,
            "failed": self._failed,
        }

    def _begin(self) -> None:
        self._calls = 0
        self._seconds = 0.0
        self._ended: list[str] = []
        self._failed: list[str] = []

    def _end_rollout(self) -> None:
        self._session.close()


def python(code: str) -> str:
    """Run Python code. Each call starts anew, without the names of earlier calls.

    Args:
        code: The code. Of an expression in its last line, the value is shown.

    Returns:
        What was printed, or the error.
    """
    session = PythonSession()
    try:
        return _shown(_run(session, code), OUTPUT_CHARS, "")
    finally:
        session.close()


def _run(session: PythonSession, code: object) -> CellResult:
    """Run a cell.

    Raises:
        TypeError: for code that is no text.
        RuntimeError: if the sandbox failed. The model reads the message: its code is not to blame.
    """
    if not isinstance(code, str):
        raise TypeError(f"code is a text of Python, got {type(code).__name__}.")
    try:
        return session.run(code)
    except (LostError, IsolationError, OSError) as error:
        raise RuntimeError(
            "The sandbox failed, not your code: it was not run to its end. All names are gone."
        ) from error


def cut_for_the_model(text: str, most: int) -> str:
    """Keep the first and the last half of a long text, and say how much is left out."""
    half = most // 2
    return cut(text, half, half, f"\n[{len(text) - 2 * half} characters are left out]\n")


def _shown(result: CellResult, most: int, after_the_end: str) -> str:
    """Return what the model reads of a cell."""
    text = cut_for_the_model(result.output.rstrip("\n"), most)
    if result.end is None:
        return text or "(no output)"
    end = (
        f"[The code was ended: {result.end.ending}, {result.end.detail}. {after_the_end}".rstrip()
        + "]"
    )
    return f"{text}\n{end}" if text else end
