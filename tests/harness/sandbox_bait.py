"""Bait for the corpus's programs: canaries on this machine, and checks for traces that programs leave."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from trl_grpo_ext.programs.sandbox.zygote import zygote_mark

Check = Mapping[str, Any]
"""A check after a program's run, from the corpus: its `type`, and keys such as `path`."""

SECRET = "trl_grpo_ext_secret_of_the_host"
_FOLDER, _PORT, _NAME = "/tmp/trl_grpo_ext_canary_dir", "47999", "trl_grpo_ext_canary"
"""Placeholders in the programs for the canaries' folder and port, and for names of further targets."""
_LEFTOVER_SECONDS = 5.0
# In the settings with which a zygote is started.
_NAMESPACES = b'"namespaces": true'


class Canaries:
    """Targets for attacks on this machine, and detection of successful attacks.

    The targets are a world-writable folder with a file `keep`, a process, and addresses to connect to; only the sandbox
    protects them.

    Attributes:
        folder: The folder; `socket` inside it is an address, too.
        victim: The process's id.
        port: The TCP and UDP port on 127.0.0.1.
        abstract: The name of an abstract Unix socket.
    """

    def __init__(self) -> None:
        self._opened = contextlib.ExitStack()
        self.folder = Path(
            self._opened.enter_context(
                tempfile.TemporaryDirectory(
                    prefix="trl_grpo_ext-canary-", ignore_cleanup_errors=True
                )
            )
        )
        self.folder.chmod(0o777)
        self._keep = self.folder / "keep"
        self._keep.write_text("canary")
        self._keep.chmod(0o666)
        self.abstract = self.folder.name
        tcp = self._listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        self.port = int(tcp.getsockname()[1])
        self._listeners = [
            tcp,
            self._listen(socket.AF_INET, socket.SOCK_DGRAM, tcp.getsockname()),
        ]
        if sys.platform == "linux":
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                self._listeners.append(
                    self._listen(socket.AF_UNIX, kind, "\0" + self.abstract)
                )
            # A Unix socket's path has at most 107 characters.
            with contextlib.suppress(OSError):
                self._listeners.append(
                    self._listen(
                        socket.AF_UNIX, socket.SOCK_STREAM, str(self.folder / "socket")
                    )
                )
        self._names = {path.name for path in self.folder.iterdir()}
        self._was = self._state()
        self._victim = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE
        )
        self.victim = self._victim.pid

    def _listen(
        self, family: socket.AddressFamily, kind: socket.SocketKind, address: Any
    ) -> socket.socket:
        listener = self._opened.enter_context(socket.socket(family, kind))
        listener.bind(address)
        if kind is socket.SOCK_STREAM:
            listener.listen()
        return listener

    def _state(self) -> tuple[object, ...]:
        """Return every property of the file `keep` that a program could change."""
        try:
            found = self._keep.stat()
            return (
                self._keep.read_text(),
                found.st_mode,
                found.st_nlink,
                found.st_uid,
                found.st_mtime_ns,
            )
        except OSError as error:
            return (type(error).__name__,)

    def harmed(self) -> list[str]:
        """List successful attacks since the last call."""
        found = []
        if new := {path.name for path in self.folder.iterdir()} - self._names:
            self._names |= new
            found.append("a file was written")
        if self._state() != self._was:
            found.append("a file was changed")
        # Unlike select(), poll() accepts descriptors above 1023.
        poller = select.poll()
        for listener in self._listeners:
            poller.register(listener, select.POLLIN)
        reached = {descriptor for descriptor, _ in poller.poll(0)}
        for listener in self._listeners:
            if listener.fileno() in reached:
                listener.accept()[
                    0
                ].close() if listener.type is socket.SOCK_STREAM else listener.recv(1)
                found.append("a connection was made")
        if self._victim.poll() is not None:
            found.append("a process was killed")
        return found

    def __enter__(self) -> Canaries:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._victim.kill()
        self._victim.communicate()
        self._opened.close()


class Bait:
    """A run's canaries, and the machine's state before it for later checks.

    Args:
        checks: Checks of all programs.
        seconds: Time from now until every program's effects are done, in seconds.
    """

    def __init__(self, checks: Sequence[Check], seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._checks = checks
        self._opened = contextlib.ExitStack()
        self._reached: list[str] | None = None

    def __enter__(self) -> Bait:
        self._canaries = self._opened.enter_context(Canaries())
        self._paths = {
            self.filled(each["path"])
            for each in self._checks
            if each["type"].startswith("path_absent")
        }
        self._there = {path for path in self._paths if os.path.lexists(path)}
        self._folders = {name: _names(name) for name in ("purelib", "stdlib")}
        self._opened.callback(_set_variable, "HF_TOKEN", os.environ.get("HF_TOKEN"))
        os.environ["HF_TOKEN"] = SECRET
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opened.close()
        for path in self._paths - self._there:
            with contextlib.suppress(OSError):
                Path(path).unlink()

    def filled(self, text: str) -> str:
        """Replace a program's or path's placeholders by names from this run."""
        named = text.replace(_FOLDER, str(self._canaries.folder)).replace(
            _PORT, str(self._canaries.port)
        )
        return named.replace(_NAME, self._canaries.abstract)

    def taken(self, checks: Sequence[Check], *, harmless: bool) -> list[str]:
        """List harm possibly done by a program with these checks; a harmless program answers for its own checks."""
        if self._reached is None:
            time.sleep(max(0.0, self._until - time.monotonic()))
            self._reached = self._canaries.harmed()
        found = [] if harmless else list(self._reached)
        for check in checks:
            found += self._check(check)
        return list(dict.fromkeys(found))

    def _check(self, check: Check) -> list[str]:
        kind, path = check["type"], self.filled(check.get("path", ""))
        if (
            kind.startswith("path_absent")
            and path not in self._there
            and os.path.lexists(path)
        ):
            return [f"{path} was written"]
        if kind == "path_present" and not os.path.lexists(path):
            return [f"{path} was removed"]
        folder = {
            "no_new_file_in_site_packages": "purelib",
            "no_new_file_in_stdlib": "stdlib",
        }.get(kind)
        if folder and (new := _names(folder) - self._folders[folder]):
            return [f"new in {folder}: {', '.join(sorted(new))}"]
        return []


def _names(folder: str) -> set[str]:
    with contextlib.suppress(OSError):
        return {path.name for path in Path(sysconfig.get_path(folder)).iterdir()}
    return set()


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def leftover_processes() -> list[int]:
    """Return ids of sandbox processes that still run although no program does, after waiting up to 5 seconds."""
    until = time.monotonic() + _LEFTOVER_SECONDS
    while (left := sandboxed_processes()) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def sandboxed_processes() -> list[int]:
    """Return ids of processes with the command line of this process's zygotes, except the zygotes.

    This process may have several sandboxes, of other levels too.
    """
    mark = zygote_mark().encode()
    everything = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    lines = {
        pid: line for pid in everything if mark in (line := _read(f"/proc/{pid}/cmdline"))
    }
    parents = {pid: _parent(pid) for pid in lines}
    started = {pid for pid, parent in parents.items() if parent == os.getpid()}
    # With namespaces, process 1 of the new process tree is a child of the started process.
    keepers = {pid for pid in started if _NAMESPACES in lines[pid]}
    zygotes = {pid for pid, parent in parents.items() if parent in keepers}
    return sorted(parents.keys() - started - zygotes)


def _parent(pid: int) -> int:
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
