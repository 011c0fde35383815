"""Stand-ins for pytest's own fixtures, such as `monkeypatch`; their source goes to the judge with pytest_shim."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

_MISSING: Any = object()


class MonkeyPatch:
    """Stand-in for pytest's `MonkeyPatch`: changes attributes, items and variables for one test."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []

    @classmethod
    @contextmanager
    def context(cls) -> Iterator[MonkeyPatch]:
        """Yield a `MonkeyPatch`, and undo its changes after the block."""
        patch = cls()
        try:
            yield patch
        finally:
            patch.undo()

    def setattr(
        self, target: Any, name: Any, value: Any = _MISSING, raising: bool = True
    ) -> None:
        """Set an attribute, given as `"time.time"` and a value, or as object, name and value."""
        if value is _MISSING:
            path, value = target, name
            target, name = _resolved(path)
        old = _attribute(target, name)
        if raising and old is _MISSING:
            raise AttributeError(f"{target!r} has no attribute {name!r}")
        self._undo.append(
            lambda: delattr(target, name) if old is _MISSING else setattr(target, name, old)
        )
        setattr(target, name, value)

    def delattr(self, target: Any, name: str = "", raising: bool = True) -> None:
        if not name:
            target, name = _resolved(target)
        old = _attribute(target, name)
        if old is not _MISSING:
            self._undo.append(lambda: setattr(target, name, old))
            delattr(target, name)
        elif raising:
            raise AttributeError(name)

    def setitem(self, target: Any, key: Any, value: Any) -> None:
        old = target.get(key, _MISSING) if hasattr(target, "get") else target[key]
        self._undo.append(
            lambda: (
                target.__delitem__(key) if old is _MISSING else target.__setitem__(key, old)
            )
        )
        target[key] = value

    def delitem(self, target: Any, key: Any, raising: bool = True) -> None:
        if key in target:
            old = target.pop(key)
            self._undo.append(lambda: target.__setitem__(key, old))
        elif raising:
            raise KeyError(key)

    def setenv(self, name: str, value: str, prepend: str | None = None) -> None:
        old = os.environ.get(name)
        self.setitem(
            os.environ,
            name,
            value if prepend is None or old is None else f"{value}{prepend}{old}",
        )

    def delenv(self, name: str, raising: bool = True) -> None:
        self.delitem(os.environ, name, raising)

    def chdir(self, path: Any) -> None:
        old = os.getcwd()  # noqa: PTH109 - pathlib is slow to import
        self._undo.append(lambda: os.chdir(old))
        os.chdir(path)

    def undo(self) -> None:
        # The last change first: of two changes of one attribute, the first knows the original.
        while self._undo:
            self._undo.pop()()


def _attribute(target: Any, name: str) -> Any:
    """Return an attribute, a static or class method as its class holds it; `_MISSING` without the attribute."""
    # `getattr` unwraps such a method; its bare function, put back, would be of another kind.
    raw = vars(target).get(name) if isinstance(target, type) else None
    if isinstance(raw, staticmethod | classmethod):
        return raw
    return getattr(target, name, _MISSING)


def _resolved(path: str) -> tuple[Any, str]:
    """Split `"package.module.name"` into the imported owner and the attribute name."""
    owner, _, name = path.rpartition(".")
    try:
        return importlib.import_module(owner), name
    except ModuleNotFoundError:
        # The owner is no module but an attribute of a module, such as a class.
        outer, last = _resolved(owner)
        return getattr(outer, last), name


def monkeypatch() -> Iterator[MonkeyPatch]:
    """Yield a `MonkeyPatch`, and undo its changes after the test."""
    patch = MonkeyPatch()
    yield patch
    patch.undo()


class Captured(NamedTuple):
    """Captured text of stdout and stderr."""

    out: str
    err: str


class Capture:
    """Stand-in for pytest's `capsys` object."""

    @contextmanager
    def disabled(self) -> Iterator[None]:
        """Hide text printed inside a block from the capture."""
        streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
        try:
            yield
        finally:
            sys.stdout, sys.stderr = streams

    def readouterr(self) -> Captured:
        """Return the text printed since the previous call."""
        found = []
        for stream in (sys.stdout, sys.stderr):
            text = stream.getvalue() if isinstance(stream, io.StringIO) else ""
            stream.seek(0)
            stream.truncate()
            found.append(text)
        return Captured(*found)


def capsys() -> Iterator[Capture]:
    """Capture stdout and stderr during a test."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    yield Capture()
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
