"""Programs that solve nothing. Tests that one of them passes cannot tell a solution from a hole."""

from __future__ import annotations

import keyword
from collections.abc import Iterator

from trl_grpo_ext.sandbox.job import CallSuite, Suite

CONSTANTS = ("None", "True", "False", "0", "1", "''", "[]")

# Reflected operators and comparisons are what tolerances and sorts ask for.
_ALWAYS_EQUAL = """
class AlwaysEqual:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __sub__(self, other): return 0
    __rsub__ = __add__ = __radd__ = __mul__ = __rmul__ = __sub__
    def __abs__(self): return 0
    def __contains__(self, item): return True
    def __hash__(self): return 0
    def __getattr__(self, name): return AlwaysEqual()
    def __call__(self, *args, **kwargs): return self
"""


def non_solutions(suite: Suite) -> Iterator[tuple[str, str]]:
    """Each non-solution for a suite: what it is called, and its program.

    Example:
        >>> suite = CallSuite(tests=("assert f() == 1",), names=("f",))
        >>> [name for name, _ in non_solutions(suite)][:3]
        ['an empty program', 'always equal', 'the constant None']
    """
    yield "an empty program", "pass\n"
    if not isinstance(suite, CallSuite):
        yield "an echo", "import sys\nprint(sys.stdin.read())\n"
        for text in ("0", "1", "YES", "NO"):
            yield f"a program that prints {text}", f"print({text!r})\n"
        return
    names = [name for name in suite.names if name.isidentifier() and not keyword.iskeyword(name)]
    yield "always equal", _ALWAYS_EQUAL + "".join(f"{name} = AlwaysEqual()\n" for name in names)
    for constant in CONSTANTS:
        yield f"the constant {constant}", "".join(f"def {name}(*_, **__): return {constant}\n" for name in names)
