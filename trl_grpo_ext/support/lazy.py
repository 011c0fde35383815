"""Import names of a package on first use, so that importing the package loads little."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any


def lazy_exports(
    package: str,
    homes: Mapping[str, str],
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make a package's `__getattr__` and `__dir__` (PEP 562).

    `homes` maps each name to its module within the package, such as `mix.term`; the package must have an `__all__`.

    Examples:
        >>> find, names = lazy_exports("trl_grpo_ext", {"Status": "verdict"})
        >>> find("Status").CORRECT, "Verdict" in names()
        (<Status.CORRECT: 'correct'>, True)
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{homes[name]}")
        return getattr(module, name)

    def names() -> list[str]:
        module = sys.modules[package]
        loaded = vars(module)
        return sorted({*loaded, *module.__all__})

    return find, names


def find_object(module: str, qualname: str) -> object:
    """Import an object by module and qualified name.

    Raises:
        ImportError: if the module cannot be imported.
        AttributeError: if the module has no such object.
    """
    get = attrgetter(qualname)
    found: object = get(import_module(module))
    return found
