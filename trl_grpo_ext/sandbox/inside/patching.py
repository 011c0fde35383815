"""Repeat in the program what tests change in Python itself; changes by the program never reach the judge.

Tests seed the random generator, patch `time.time`, put text into `sys.stdin`, set environment variables. In a single
process, the program would see these changes.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from trl_grpo_ext.sandbox.inside.crossing.values import MISSING
from trl_grpo_ext.sandbox.inside.handle import Stub
from trl_grpo_ext.sandbox.inside.operations import LIBRARY
from trl_grpo_ext.sandbox.inside.proxy import ProgramProxy
from trl_grpo_ext.sandbox.inside.remote_class import RemoteClass, make_data_class

_PATCHED = ("builtins", "datetime", "math", "os", "random", "sys", "time")
_PATCHED_WHERE_NAMED = ("getpass", "platform", "secrets", "shutil", "socket", "subprocess", "urllib.request", "uuid")
_OWN = frozenset({"stdout", "stderr", "modules", "path"})
_LISTENING = ("logging", "assertLogs", "assertNoLogs", "assertWarns", "warnings", "warns(")
_PATCHING = ("patch", "setattr", "stdin", "argv", "builtins", "time.time =", "time.sleep =")
_RUNNER = "exec(compile("
"""Start of the setup line that embeds the replacement for pytest; it belongs to no test."""


def share_changes(program: ProgramProxy) -> None:
    """Forward changes of Python's state to the program, for features that the tests' source mentions."""
    lines = (line for source in program.sources.values() for line in source.splitlines(keepends=True))
    text = "".join(line for line in lines if not line.startswith(_RUNNER))
    if "seed" in text:
        _share_seeds(program)
    if "chdir" in text:
        _share_folder(program)
    for module in LIBRARY:
        if module in text:
            _forward_library(program, module)
    if any(word in text for word in _PATCHING):
        for name in (*_PATCHED, *(each for each in _PATCHED_WHERE_NAMED if each in text)):
            _watch(program, importlib.import_module(name))
    if any(word in text for word in ("environ", "setenv", "putenv")):
        _share_environment(program)
    if any(word in text for word in _LISTENING):
        _listen(program)


def _share_seeds(program: ProgramProxy) -> None:
    import random

    seed = random.seed

    def seed_both(a: Any = None, *rest: Any, **options: Any) -> None:
        seed(a, *rest, **options)
        program.request("seed", a)

    random.seed = seed_both


def _share_folder(program: ProgramProxy) -> None:
    chdir = os.chdir

    def chdir_both(path: Any) -> None:
        chdir(path)
        program.request("chdir", os.getcwd())

    os.chdir = chdir_both


def _forward_library(program: ProgramProxy, module: str) -> None:
    """Forward library functions that inspect objects: for program objects, they run in the program."""
    home = importlib.import_module(module)
    for name in LIBRARY[module]:
        own = getattr(home, name, None)
        if own is not None:
            setattr(home, name, _forwarding(program, module, name, getattr(own, "__wrapped__", own)))


def _forwarding(program: ProgramProxy, module: str, name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    home = own.__code__.co_filename

    @functools.wraps(own)
    def function(*args: Any, **kwargs: Any) -> Any:
        # Forward calls of the tests only: the code that runs tests must not be told by the program what a fixture is.
        caller: Any = sys._getframe(1)
        while caller.f_code.co_filename == home:
            caller = caller.f_back
        by_tests = caller.f_code.co_filename.startswith("<tests")
        subject = next(iter((*args, *kwargs.values())), None)
        if by_tests and isinstance(subject, Stub | RemoteClass):
            found = program.request("library", module, name, *args, **kwargs)
            # A test's class decorator returns the test's own class, never an object of the program.
            if name != "_process_class" or not isinstance(subject, RemoteClass):
                return found
            make_data_class(subject, *args[3:5])
            return subject
        return own(*args, **kwargs)

    return function


def _watch(program: ProgramProxy, module: ModuleType) -> None:
    """Repeat in the program every attribute assignment to a module."""
    originals: dict[str, Any] = {}

    class Watched(ModuleType):
        def __setattr__(self, name: str, value: Any) -> None:
            originals.setdefault(name, vars(self).get(name, MISSING))
            super().__setattr__(name, value)
            if name.startswith("__") or name in _OWN or isinstance(value, ModuleType):
                return
            if value is originals[name]:
                program.request("unpatch", module.__name__, name)
            else:
                program.request("patch", module.__name__, name, value)

        def __delattr__(self, name: str) -> None:
            super().__delattr__(name)
            program.request("unpatch", module.__name__, name)

    module.__class__ = Watched


def _listen(program: ProgramProxy) -> None:
    """Replay the program's log records and warnings in the judge, where tests look for them."""
    import logging
    import warnings

    def log(name: str, level: int, text: str) -> None:
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
        changed = {name: now.get(name) for name in known.keys() | now.keys() if known.get(name) != now.get(name)}
        known.clear()
        known.update(now)
        program.request("environ", changed)

    program.before = tell
