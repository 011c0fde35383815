"""What the tests change in Python itself happens in the program too, as it does in one process: never the other way.

They seed the generator, patch `time.time`, put text into `sys.stdin`, set variables of the environment.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Mapping
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
"""How the line of the setup begins that is no test's, but the stand-in for pytest."""


def text_of(sources: Mapping[str, str]) -> str:
    """Join the source code of the tests, without the stand-in for pytest."""
    lines = (line for source in sources.values() for line in source.splitlines(keepends=True))
    return "".join(line for line in lines if not line.startswith(_RUNNER))


def share_changes(program: ProgramProxy) -> None:
    """Have the program do as the tests do. What the tests' source code does not mention is left alone."""
    text = text_of(program.sources)
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
    """Have functions that look into an object look into the program's objects where they are."""
    home = importlib.import_module(module)
    for name in LIBRARY[module]:
        own = getattr(home, name, None)
        if own is not None:
            setattr(home, name, _forwarding(program, module, name, getattr(own, "__wrapped__", own)))


def _forwarding(program: ProgramProxy, module: str, name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    home = own.__code__.co_filename

    @functools.wraps(own)
    def function(*args: Any, **kwargs: Any) -> Any:
        # Only for the tests themselves: what runs them must not be told by the program what is a fixture.
        caller: Any = sys._getframe(1)
        while caller.f_code.co_filename == home:
            caller = caller.f_back
        by_tests = caller.f_code.co_filename.startswith("<tests")
        subject = next(iter((*args, *kwargs.values())), None)
        if by_tests and isinstance(subject, Stub | RemoteClass):
            found = program.request("library", module, name, *args, **kwargs)
            if name != "_process_class" or not isinstance(subject, RemoteClass):
                return found
            make_data_class(subject, *args[3:5])
            return subject  # the class that the test has written, and no other
        return own(*args, **kwargs)

    return function


def _watch(program: ProgramProxy, module: ModuleType) -> None:
    """Tell the program of each name that is set in a module."""
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
    """Have what the program logs and warns of logged, and warned of, where the tests look for it."""
    import logging
    import warnings

    def log(name: str, level: int, text: str) -> None:
        if (type(name), type(level), type(text)) != (str, int, str):
            raise TypeError("a record of a log is text")
        logger = logging.getLogger(name)
        if logger.isEnabledFor(level):
            logger.handle(logging.LogRecord(name, level, "solution", 0, text, None, None))

    def warn(warning: Warning) -> None:  # it raises where the tests want warnings to be errors
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
