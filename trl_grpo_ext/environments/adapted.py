"""Adapt a library's environments: their instances get methods, while the library's class stays unchanged."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


class Adapted:
    """A wrapper of a library's factory that adds the methods of `mixed_in` to each environment, with precedence.

    It can be pickled if the library's factory can, as AsyncGRPO requires.
    """

    mixed_in: type

    def __init__(self, factory: Callable[[], Any]) -> None:
        self.factory = factory

    def __call__(self) -> Any:
        """Create an environment; its class keeps the library's class name."""
        environment = self.factory()
        environment.__class__ = _mixed(self.mixed_in, type(environment))  # type: ignore[arg-type]  # a class is hashable
        return environment


@cache
def _mixed(mixed_in: type, kind: type) -> type:
    return type(
        kind.__name__,
        (mixed_in, kind),
        {"__module__": kind.__module__, "__doc__": kind.__doc__},
    )
