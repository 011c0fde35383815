"""The files of a program under test: what it may read and what it may keep.

It may read Python's library, shared libraries and a few devices, and keep files in its scratch folder; nothing else.
In namespaces a private root shows only these. Landlock forbids all other paths to every user. Without
namespaces the scratch folder is this machine's, so it is measured while a program runs, and emptied afterwards.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
import sys
import sysconfig

from trl_grpo_ext.sandbox.inside import kernel

_MOUNT_SETATTR = 442  # a system call
_AT_RECURSIVE, _AT_EMPTY_PATH = 0x8000, 0x1000
_MAX_FILES = 1024  # of a scratch folder: more are not counted
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo", "/etc/localtime")
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
PRIVATE_SCRATCH = "/scratch/tmp"
"""Where a program's private folder is in a private root: the only thing in a folder that Landlock's rules can name
before there is any program. `/tmp` is a link to it, unless that would hide something that a program must read."""


def readable_paths(extra: list[str]) -> list[str]:
    """The folders and files that a program needs to run at all, as they are outside."""
    python = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), sys.base_prefix + "/lib"]
    paths = [path for path in (*_LIBRARIES, *python, *extra) if os.path.exists(path)]
    return [path for path in dict.fromkeys(paths) if not any(path.startswith(other + "/") for other in paths)]


def make_private_root(folder: str, readable: list[str]) -> None:
    """Make a new root, with nothing in it but what may be read, and enter it.

    Args:
        folder: An empty folder to put it on, for the time that it takes.
        readable: Paths to show in it, read-only.

    Raises:
        OSError: if this process may not mount.
    """
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", folder, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=1m,nr_inodes=4096,mode=755")
    for path in readable:
        _show(path, folder)
    for device in DEVICES:
        if os.path.exists(device):
            _bind(device, folder + device)
    os.makedirs(folder + PRIVATE_SCRATCH)
    for link in ("/dev/shm", "/tmp"):
        if not os.path.exists(folder + link):
            os.symlink(PRIVATE_SCRATCH, folder + link)
    kernel.enter_root(folder)
    kernel.mount(
        "none", "/", None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
    )


def _show(path: str, folder: str) -> None:
    if os.path.islink(path):
        os.makedirs(os.path.dirname(folder + path), exist_ok=True)
        os.symlink(os.readlink(path), folder + path)
        path = os.path.realpath(path)
    if not os.path.lexists(folder + path):
        _bind(path, folder + path)
        _make_read_only(folder + path)


def _bind(path: str, target: str) -> None:
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
    kernel.mount(path, target, None, kernel.MS_BIND | kernel.MS_REC)


def _make_read_only(target: str) -> None:
    # struct mount_attr: set, clear, propagation, user namespace
    attributes = (ctypes.c_uint64 * 4)(kernel.MS_RDONLY | kernel.MS_NOSUID, 0, 0, 0)
    descriptor = os.open(target, os.O_PATH)
    try:
        flags = _AT_RECURSIVE | _AT_EMPTY_PATH
        kernel.syscall("mount_setattr", _MOUNT_SETATTR, descriptor, b"", flags, attributes, ctypes.sizeof(attributes))
    except OSError:  # before Linux 5.12: flags that the mount has already must be kept
        kept = os.statvfs(target).f_flag & (kernel.MS_NODEV | kernel.MS_NOEXEC)
        flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID | kept
        kernel.mount("none", target, None, flags)
    finally:
        os.close(descriptor)


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1  # https://docs.kernel.org/userspace-api/landlock.html

_EXECUTE, WRITE_FILE, READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 10, 1 << 11
_ALL_OF_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_NEWEST = (1 << 16) - 1

READ = READ_FILE | _READ_DIR
# Everything in a private folder but running files and making devices, sockets and pipes.
KEEP_FILES = _NEWEST & ~(_EXECUTE | _MAKE_CHAR | _MAKE_SOCK | _MAKE_FIFO | _MAKE_BLOCK)
_OF_FILES = _EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15


def landlock_abi() -> int:
    """The version that this kernel has, 0 for none."""
    try:
        return kernel.syscall("landlock_create_ruleset", _CREATE_RULESET, 0, 0, 1)
    except OSError:
        return 0


class Ruleset:
    """What may be opened: nothing, but by `rights` what lies at or beneath a path that is there.

    The network and outside signals are closed where possible.
    """

    def __init__(self, version: int, rights: dict[str, int]) -> None:
        self._files = _ALL_OF_ABI.get(version, _NEWEST)
        net, scoped = (3 if version >= 4 else 0), (3 if version >= 6 else 0)
        size = 8 if version < 4 else 16 if version < 6 else 24
        attributes = struct.pack("=QQQ", self._files, net, scoped)[:size]
        self._descriptor = kernel.syscall("landlock_create_ruleset", _CREATE_RULESET, attributes, size, 0)
        for path, allowed in rights.items():
            if os.path.exists(path):
                self._allow(path, allowed)

    def _allow(self, path: str, rights: int) -> None:
        if not os.path.isdir(path):
            rights &= _OF_FILES
        descriptor = os.open(path, os.O_PATH)
        rule = struct.pack("=Qi", rights & self._files, descriptor)
        try:
            kernel.syscall("landlock_add_rule", _ADD_RULE, self._descriptor, _RULE_PATH_BENEATH, rule, 0)
        finally:
            os.close(descriptor)

    def restricting(self) -> kernel.PreparedCall:
        """A call that puts a process and its children under the rules, for good. Needs no_new_privs."""
        return kernel.call("syscall", _RESTRICT_SELF, self._descriptor, 0, why="landlock_restrict_self")


def used_bytes(folder: str) -> int:
    """Bytes in the files of a folder; more than any limit if there are too many files to count."""
    total, files, folders = 0, 0, [folder]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                files += 1
                if files > _MAX_FILES:
                    return 1 << 62
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def clear(folder: str) -> None:
    """Remove what is in a folder. What lies deep is first moved up, so that no path is ever too long."""
    moved = 0
    while entries := os.listdir(folder):
        for name in entries:
            path = os.path.join(folder, name)
            if not _is_folder(path):
                os.unlink(path)
                continue
            with contextlib.suppress(OSError):  # empty, as most are
                os.rmdir(path)
                continue
            os.chmod(path, 0o700)
            for inner in os.listdir(path):
                moved += 1
                _move(os.path.join(path, inner), os.path.join(folder, f".moved-{moved}"))
            with contextlib.suppress(OSError):  # a name was taken: the next round tries another
                os.rmdir(path)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _move(path: str, target: str) -> None:
    if _is_folder(path):
        os.chmod(path, 0o700)
    with contextlib.suppress(OSError):
        os.rename(path, target)


def unnamed_bytes(pid: int, folder: str) -> int:
    """Bytes in files of a folder that have no name left, but that a process still has open or mapped."""
    sizes: dict[int, int] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found = os.stat(f"/proc/{pid}/fd/{name}")
                if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                    sizes[found.st_ino] = found.st_blocks * 512
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            if line.endswith(" (deleted)\n") and f" {folder}/" in line:
                sizes.setdefault(int(line.split()[4]), 1 << 62)  # how large cannot be seen
    return sum(sizes.values())
