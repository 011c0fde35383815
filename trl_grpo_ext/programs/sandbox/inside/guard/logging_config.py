"""Limit the names that a logging configuration of the program may use.

`logging.config.dictConfig` imports what a configuration names, calls it, and sets attributes of the result. In the
judge, a name may be one that stands in the tests, a class of `logging`, or a standard stream.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NoReturn

_CONFIGURING = ("dictConfig", "fileConfig", "DictConfigurator")
_MODULES = ("logging", "logging.handlers")
_STREAMS = ("sys.stdout", "sys.stderr")


def guard_logging_config(
    text: str, stands_in_tests: Callable[[Any], bool], refuse: Callable[[str], NoReturn]
) -> None:
    """Guard `logging.config` if the tests' text mentions a function of it: the module is slow to import.

    Args:
        text: The tests.
        stands_in_tests: Returns whether a name is a constant of the tests.
        refuse: Ends the judge; its argument describes the name.
    """
    if not any(name in text for name in _CONFIGURING):
        return
    config: Any = importlib.import_module("logging.config")

    def checked(name: Any) -> Any:
        if not (stands_in_tests(name) or _is_harmless(name)):
            refuse(f"logging.config finds {str(name)[:60]}")
        return name

    find, find_class = config.BaseConfigurator.resolve, config._resolve
    config.BaseConfigurator.resolve = lambda self, name: find(self, checked(name))
    config._resolve = lambda name: find_class(checked(name))


def _is_harmless(name: Any) -> bool:
    """Test if a name denotes a class that `logging` itself defines, or a standard stream."""
    if type(name) is not str:
        return False
    module, _, last = name.rpartition(".")
    if module not in _MODULES:
        return name in _STREAMS
    found = getattr(importlib.import_module(module), last, None)
    # `logging` has other modules among its attributes, such as `logging.os`.
    return isinstance(found, type) and found.__module__ == module
