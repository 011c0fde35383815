"""The module `solution` as the tests see it."""

from __future__ import annotations

import builtins
import sys
from types import ModuleType
from typing import Any

from trl_grpo_ext.sandbox.inside.remote_class import RemoteClass
from trl_grpo_ext.sandbox.inside.standing import Requester


class SolutionModule(ModuleType):
    """What `import solution` gives the tests."""

    def __init__(self, program: Requester) -> None:
        super().__init__("solution")
        self.__dict__["_remote"] = program

    def __getattr__(self, name: str) -> Any:
        program: Requester = self.__dict__["_remote"]
        if name == "__all__":
            return _unbound(program.request("public"))
        if name.startswith("__"):
            raise AttributeError(f"module 'solution' has no attribute {name!r}", name=name, obj=self)
        found = program.look_up([name])[name]
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


def note_name(name: str, value: Any) -> None:
    """Remember by which kind of name the tests have a class: PEP 8 gives classes capitals, and functions none.

    A program may define a class where the tests expect a function. What it returns is a result, then.
    """
    if isinstance(value, RemoteClass):
        if name.lstrip("_")[:1].isupper():
            value._remote_class.capital = True
        else:
            value._remote_class.small = True
