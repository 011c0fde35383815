"""The module `solution` as the tests see it."""

from __future__ import annotations

import builtins
import sys
from types import ModuleType
from typing import Any

from trl_grpo_ext.sandbox.inside.proxy import ProgramProxy


class SolutionModule(ModuleType):
    """What `import solution` gives the tests."""

    def __init__(self, program: ProgramProxy) -> None:
        super().__init__("solution")
        self.__dict__["_remote"] = program

    def __getattr__(self, name: str) -> Any:
        program: ProgramProxy = self.__dict__["_remote"]
        if name == "__all__":
            return _unbound(program.request("public"))
        found = [] if name.startswith("__") else program.look_up([name])[name]
        if not found:
            raise AttributeError(f"module 'solution' has no attribute {name!r}", name=name, obj=self)
        return found[0]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            self.__dict__["_remote"].request("set_name", name, value)

    def __delattr__(self, name: str) -> None:
        self.__dict__["_remote"].request("delete_name", name)


def _unbound(public: list[str]) -> list[str]:
    """The names that `from solution import *` brings: none that stands for something where it is written.

    Otherwise a program could replace `print`, `math` or a helper of the tests.
    """
    frame = sys._getframe(2)
    taken = {*dir(builtins), *frame.f_globals, *frame.f_locals}
    return [name for name in public if type(name) is str and name not in taken]
