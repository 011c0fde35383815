"""An adapted environment: an instance of a library's class that gets methods, without a change to that class."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


class Adapted:
    """Makes environments of a library's factory, each with the methods of `mixed_in` before its own.

    It pickles if the library's factory does, as AsyncGRPO needs it.
    """

    mixed_in: type

    def __init__(self, factory: Callable[[], Any]) -> None:
        self.factory = factory

    def __call__(self) -> Any:
        """A new environment, of a class with the name of the library's."""
        environment = self.factory()
        environment.__class__ = _mixed(self.mixed_in, type(environment))  # type: ignore[arg-type]  # a class is hashable
        return environment


@cache
def _mixed(mixed_in: type, kind: type) -> type:
    return type(kind.__name__, (mixed_in, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})
