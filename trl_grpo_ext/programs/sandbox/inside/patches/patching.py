"""Repeat in the program the tests' changes to Python itself; the program's changes never reach the judge.

Tests seed the random generator, patch `time.time`, put text into `sys.stdin`, set environment variables. In a single
process, the program would see these changes.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import os
import re
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.compiled import own_lines
from trl_grpo_ext.programs.sandbox.inside.crossing.values import MISSING
from trl_grpo_ext.programs.sandbox.inside.handle import Stub
from trl_grpo_ext.programs.sandbox.inside.operations import LIBRARY
from trl_grpo_ext.programs.sandbox.inside.patches.named_modules import (
    NEVER_WATCHED,
    imported,
    named_modules,
    root_of,
)
from trl_grpo_ext.programs.sandbox.inside.proxy import ProgramProxy
from trl_grpo_ext.programs.sandbox.inside.remote_class import (
    RemoteAttribute,
    RemoteClass,
    make_data_class,
)

_PATCHED = ("builtins", "datetime", "math", "os", "random", "sys", "time")
_SEEDS = (
    ("random", "seed"),
    ("random", "setstate"),
    ("numpy.random", "seed"),
    ("numpy.random", "set_state"),
)
_PATCHERS = frozenset({"pytest", "tests", "unittest.mock"})
"""Modules that set attributes of library classes on behalf of a test."""
# Judge and program each have their own of these attributes of `sys`.
_OWN = frozenset({"stdout", "stderr", "modules", "path"})
_LISTENING = ("logging", "assertLogs", "assertNoLogs", "assertWarns", "warnings", "warns(")
_PATCHING = ("patch", "setattr", "stdin", "argv", "builtins", "time.time =", "time.sleep =")
_ASSIGNED = re.compile(r"^[ \t]*(?!self\b)(\w+)\.[\w.]+ *=(?!=)", re.MULTILINE)
"""Objects whose attributes are assigned, such as `time` in `time.time = fake`."""


def share_changes(program: ProgramProxy) -> None:
    """Forward changes of Python's state to the program, for features mentioned in the tests' source."""
    texts = [own_lines(source) for source in program.sources.values()]
    text = "".join(texts)
    for home, name in _SEEDS:
        if name in text and root_of(home) in text:
            _repeat_calls(program, home, name)
    if "chdir" in text:
        _repeat_calls(program, "os", "chdir")
    for module in LIBRARY:
        if module in text:
            _forward_library(program, module)
    is_patched = any(word in text for word in _PATCHING)
    is_assigned = any(f"import {name}" in text for name in _ASSIGNED.findall(text))
    if is_patched or is_assigned:
        _watch_all(program, texts)
    if any(word in text for word in ("environ", "setenv", "putenv")):
        _share_environment(program)
    if any(word in text for word in _LISTENING):
        _listen(program)


def _repeat_calls(program: ProgramProxy, home: str, name: str) -> None:
    """Repeat in the program each call of a state-changing library function."""
    module = imported(home)
    own = getattr(module, name, None)
    if own is None:
        return

    def call_both(*args: Any, **options: Any) -> None:
        own(*args, **options)
        program.request("repeat", home, name, *args, **options)

    setattr(module, name, call_both)


def _forward_library(program: ProgramProxy, module: str) -> None:
    """Forward library functions that inspect objects: for program objects, they run in the program."""
    home = importlib.import_module(module)
    for name in LIBRARY[module]:
        own = getattr(home, name, None)
        if own is not None:
            setattr(
                home,
                name,
                _forwarding(program, module, name, getattr(own, "__wrapped__", own)),
            )


def _forwarding(
    program: ProgramProxy, module: str, name: str, own: Callable[..., Any]
) -> Callable[..., Any]:
    home = own.__code__.co_filename

    @functools.wraps(own)
    def function(*args: Any, **kwargs: Any) -> Any:
        # Forward calls of the tests only: the code that runs tests must not be told by the program what a fixture is.
        caller: Any = sys._getframe(1)
        # Functions of the library also call each other: their caller outside the library's file counts.
        while caller.f_code.co_filename == home:
            caller = caller.f_back
        by_tests = caller.f_code.co_filename.startswith("<tests")
        subject = next(iter((*args, *kwargs.values())), None)
        if by_tests and issubclass(type(subject), Stub | RemoteClass | RemoteAttribute):
            found = program.request("library", module, name, *args, **kwargs)
            # A test's class decorator returns the test's own class, never an object of the program.
            if name != "_process_class" or not isinstance(subject, RemoteClass):
                return found
            make_data_class(subject, *args[3:5])
            return subject
        return own(*args, **kwargs)

    return function


def _watch_all(program: ProgramProxy, texts: list[str]) -> None:
    _watch_classes(program)
    for module in [*map(imported, _PATCHED), *named_modules(texts)]:
        # A module that is watched already has another class.
        if type(module) is ModuleType:
            _watch(program, module)


def _watch(program: ProgramProxy, module: ModuleType) -> None:
    """Repeat in the program every attribute assignment to a module, except assignments by the module's own code.

    `warnings.catch_warnings`, for example, sets and restores attributes of `warnings`.
    """
    own = root_of(module.__name__)
    originals: dict[str, Any] = {}

    class Watched(ModuleType):
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            # Python makes each module that it imports by `type(sys)`.
            return ModuleType(*args, **kwargs)

        def __setattr__(self, name: str, value: Any) -> None:
            originals.setdefault(name, vars(self).get(name, MISSING))
            super().__setattr__(name, value)
            if name.startswith("__") or name in _OWN or isinstance(value, ModuleType):
                return
            if root_of(_module_of(sys._getframe(1))) == own:
                return
            if value is originals[name]:
                program.request("unpatch", module.__name__, name)
            else:
                program.request("patch", module.__name__, name, value)

        def __delattr__(self, name: str) -> None:
            super().__delattr__(name)
            program.request("unpatch", module.__name__, name)

    # Python looks `__setattr__` up on the class, so the module needs another class.
    module.__class__ = Watched


def _module_of(frame: FrameType) -> str:
    """Return the name of the module that sets an attribute, by itself or through `set_both` below."""
    while frame.f_globals is globals() and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


def _watch_classes(program: ProgramProxy) -> None:
    """Forward to the program the attributes that patches set in library classes, such as `pathlib.Path.exists`.

    A class cannot be watched like a module, so this function replaces `setattr` and `delattr`, which patches call.
    A module that only a patch names, as in `patch("requests.get")`, is watched from its first patch on.
    """
    set_attribute = setattr
    delete_attribute = delattr
    originals: dict[tuple[type, str], Any] = {}

    def set_both(target: Any, name: str, value: Any, /) -> None:
        if _is_unwatched(target, sys._getframe(1)):
            _watch(program, target)
        place = _place_in_library(target, name, sys._getframe(1))
        if place:
            originals.setdefault((target, name), vars(target).get(name, MISSING))
        set_attribute(target, name, value)
        if place and value is originals[target, name]:
            program.request("unpatch", *place)
        elif place:
            program.request("patch", *place, value)

    def delete_both(target: Any, name: str, /) -> None:
        place = _place_in_library(target, name, sys._getframe(1))
        delete_attribute(target, name)
        if place:
            program.request("unpatch", *place)

    builtins.setattr, builtins.delattr = set_both, delete_both


def _is_unwatched(target: Any, caller: FrameType) -> bool:
    """Test if a test's patch sets an attribute of a module that program and tests share, and that is not watched."""
    if type(target) is not ModuleType or caller.f_globals.get("__name__") not in _PATCHERS:
        return False
    name = target.__name__
    # A module that the tests have made themselves has no specification.
    is_imported = target.__spec__ is not None and sys.modules.get(name) is target
    return is_imported and root_of(name) not in NEVER_WATCHED


def _place_in_library(target: Any, name: str, caller: FrameType) -> tuple[str, str] | None:
    """Return module and path of a library class attribute that a test's patch sets; None for any other attribute.

    Both the program and the tests have the class.
    """
    if (
        not issubclass(type(target), type)
        or caller.f_globals.get("__name__") not in _PATCHERS
    ):
        return None
    home, path = target.__module__, target.__qualname__
    if type(home) is not str or root_of(home) in NEVER_WATCHED or home == "tests":
        return None
    found: Any = sys.modules.get(home)
    for part in path.split("."):
        found = getattr(found, part, None)
    # A class that was defined in a function cannot be found by its path.
    return (home, f"{path}.{name}") if found is target else None


def _listen(program: ProgramProxy) -> None:
    """Replay the program's log records and warnings in the judge, where tests look for them."""
    import logging
    import warnings

    def log(name: str, level: int, text: str) -> None:
        # Exact types: methods of a stand-in would ask the program while a record is formatted.
        if (type(name), type(level), type(text)) != (str, int, str):
            raise TypeError("a record of a log is text")
        logger = logging.getLogger(name)
        if logger.isEnabledFor(level):
            logger.handle(logging.LogRecord(name, level, "solution", 0, text, None, None))

    def warn(warning: Warning) -> None:
        # This call raises if the tests turn warnings into errors.
        warnings.warn_explicit(warning, type(warning), "solution", 0)

    program.request("listen", log, warn)


def _share_environment(program: ProgramProxy) -> None:
    known = dict(os.environ)

    def tell() -> None:
        now = dict(os.environ)
        if now == known:
            return
        changed = {}
        for name in known.keys() | now.keys():
            if known.get(name) != now.get(name):
                changed[name] = now.get(name)
        known.clear()
        known.update(now)
        program.request("environ", changed)

    program.before = tell
