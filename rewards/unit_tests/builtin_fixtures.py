"""Fixtures of pytest's own that the judge has. Their source travels with pytest_shim's."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_MISSING: Any = object()


class MonkeyPatch:
    """Changes things for one test."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []

    def setattr(self, target: Any, name: Any, value: Any = _MISSING, raising: bool = True) -> None:
        """Set an attribute, named as `"time.time"` or as an object and a name."""
        if value is _MISSING:
            path, value = target, name
            target, name = _resolved(path)
        old = getattr(target, name, _MISSING)
        if raising and old is _MISSING:
            raise AttributeError(f"{target!r} has no attribute {name!r}")
        self._undo.append(lambda: delattr(target, name) if old is _MISSING else setattr(target, name, old))
        setattr(target, name, value)

    def delattr(self, target: Any, name: str = "", raising: bool = True) -> None:
        if not name:
            target, name = _resolved(target)
        old = getattr(target, name, _MISSING)
        if old is not _MISSING:
            self._undo.append(lambda: setattr(target, name, old))
            delattr(target, name)
        elif raising:
            raise AttributeError(name)

    def setitem(self, target: Any, key: Any, value: Any) -> None:
        old = target.get(key, _MISSING) if hasattr(target, "get") else target[key]
        self._undo.append(lambda: target.__delitem__(key) if old is _MISSING else target.__setitem__(key, old))
        target[key] = value

    def delitem(self, target: Any, key: Any, raising: bool = True) -> None:
        if key in target:
            old = target.pop(key)
            self._undo.append(lambda: target.__setitem__(key, old))
        elif raising:
            raise KeyError(key)

    def setenv(self, name: str, value: str, prepend: str | None = None) -> None:
        old = os.environ.get(name)
        self.setitem(os.environ, name, value if prepend is None or old is None else f"{value}{prepend}{old}")

    def delenv(self, name: str, raising: bool = True) -> None:
        self.delitem(os.environ, name, raising)

    def chdir(self, path: Any) -> None:
        old = os.getcwd()  # noqa: PTH109 - pathlib is slow to import
        self._undo.append(lambda: os.chdir(old))
        os.chdir(path)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


def _resolved(path: str) -> tuple[Any, str]:
    """The owner and the name of `"package.module.name"`."""
    owner, _, name = path.rpartition(".")
    try:
        return importlib.import_module(owner), name
    except ModuleNotFoundError:
        outer, last = _resolved(owner)
        return getattr(outer, last), name


def monkeypatch() -> Iterator[MonkeyPatch]:
    """What is changed by it is as before when the test is over."""
    patch = MonkeyPatch()
    yield patch
    patch.undo()


class Captured(NamedTuple):
    """What was printed."""

    out: str
    err: str


class _Capture:
    def readouterr(self) -> Captured:
        """What was printed since this was called last."""
        found = []
        for stream in (sys.stdout, sys.stderr):
            text = stream.getvalue() if isinstance(stream, io.StringIO) else ""
            stream.seek(0)
            stream.truncate()
            found.append(text)
        return Captured(*found)


def capsys() -> Iterator[_Capture]:
    """Keeps what is printed."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    yield _Capture()
    sys.stdout, sys.stderr = streams


def _temporary_folder(prefix: str) -> Any:
    # Slow to import, and seldom needed.
    folder = importlib.import_module("tempfile").mkdtemp(prefix=prefix)
    return importlib.import_module("pathlib").Path(folder)


def tmp_path() -> Any:
    """Make a folder that tests and program share, as a `pathlib.Path`."""
    return _temporary_folder("pytest-")


class TempPathFactory:
    """Makes folders that tests and program share."""

    def mktemp(self, basename: str, numbered: bool = True) -> Any:
        return _temporary_folder(basename)


BUILTIN_FIXTURES: dict[str, Callable[[], Any]] = {
    "monkeypatch": monkeypatch,
    "capsys": capsys,
    "tmp_path": tmp_path,
    "tmp_path_factory": TempPathFactory,
}
