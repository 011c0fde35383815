"""The files of a program under test: what it may read and what it may keep.

It may read Python's library, shared libraries and a few devices; nothing else. In namespaces a private root shows
only these, and a scratch folder that is gone when the program is. Without namespaces no folder is the program's alone,
so it can write no files. Landlock forbids all other paths to every user.

Packages that a Python here has installed are hidden. Those that it is shown have places of their own, see
`sandbox.packages`: in a private root they are mounted there, and without one, links lead from there to them.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trl_grpo_ext.sandbox.walls import kernel

_MOUNT_SETATTR = 442  # a system call
_AT_RECURSIVE, _AT_EMPTY_PATH = 0x8000, 0x1000
_INSTALLED = ("site-packages", "dist-packages")
_MOUNT_POINTS = ("/tmp", "/var/tmp", "/proc")  # one is there, may be mounted on, and has nothing that is to be shown
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo", "/etc/localtime")
DEVICES = ("/dev/null", "/dev/random", "/dev/urandom")  # not /dev/zero, whose shared pages count for nobody
PRIVATE_SCRATCH = "/scratch/tmp"
"""Where a program's private folder is in a private root: the only thing in a folder that Landlock's rules can name
before there is any program. `/tmp` is a link to it, unless that would hide something that a program must read."""


@dataclass(frozen=True, slots=True)
class Readable:
    """What a program may read.

    Attributes:
        paths: Folders and files; none lies beneath another.
        hidden: Folders of installed packages beneath `paths`, which it may not read.
        shown: Folders and files that it finds elsewhere: by the path there, the path here.
    """

    paths: list[str]
    hidden: list[str]
    shown: Mapping[str, str]

    def rights(self) -> dict[str, int]:
        """Landlock's rights to it. Rules hold for all that is beneath, so what lies beside a hidden folder has its own.

        The names, but not the files, in the hidden folders can be read: Python lists the folder that they are in.
        """
        rights: dict[str, int] = {}
        hidden = {os.path.realpath(path) for path in self.hidden}
        waiting = [os.path.realpath(path) for path in self.paths]
        while waiting:
            path = waiting.pop()
            if not any(each.startswith(path + "/") for each in hidden):
                rights[path] = READ
                continue
            rights[path] = _READ_DIR
            with os.scandir(path) as entries:
                waiting += [each.path for each in entries if not each.is_symlink() and each.path not in hidden]
        links = {os.path.dirname(path) for path in self.shown}
        return rights | dict.fromkeys((*links, *self.shown.values()), READ)


def what_may_be_read(shown: Mapping[str, str]) -> Readable:
    """What a program needs to run at all, and what else it is shown."""
    # Not as they are in a virtual environment, which has no library of its own, only packages.
    compiled = sysconfig.get_path("platstdlib", vars={"platbase": sys.base_exec_prefix})
    python = [sysconfig.get_path("stdlib"), compiled, sys.base_prefix + "/lib"]
    there = [path for path in dict.fromkeys((*_LIBRARIES, *python)) if os.path.exists(path)]
    paths = [path for path in there if not any(path.startswith(other + "/") for other in there)]
    # What is a link to another folder is shown as such.
    folders = dict.fromkeys(os.path.realpath(path) if os.path.islink(path) else path for path in paths)
    return Readable(paths, [each for folder in folders for each in _installed_in(folder)], shown)


def _installed_in(folder: str) -> Iterator[str]:
    """The folders of installed packages in a folder, or in one of its folders."""
    if not os.path.isdir(folder):
        return
    with os.scandir(folder) as entries:
        folders = [folder, *(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))]
    for name in _INSTALLED:
        yield from (path for each in folders if os.path.isdir(path := f"{each}/{name}") and not os.path.islink(path))


def make_private_root(readable: Readable) -> None:
    """Make a new root, with nothing in it but what may be read, read-only, and enter it; OSError if forbidden."""
    sources = [f"{path}/" for path in (*readable.paths, *readable.shown.values())]
    folders = [os.path.realpath(each) for each in _MOUNT_POINTS if os.path.isdir(each)]
    folder = next(each for each in folders if not any(path.startswith(f"{each}/") for path in sources))
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    _mount_small(folder)
    for path in readable.paths:
        _show(path, folder)
    for path in readable.hidden:
        _mount_small(folder + path)
        _make_read_only(folder + path)
    for path, source in readable.shown.items():
        _bind(source, folder + path)
        _make_read_only(folder + path)
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


def make_links(shown: Mapping[str, str]) -> None:
    """Make a link to all that programs are shown, where they have no root of their own."""
    for path, source in shown.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(source, path)


def _mount_small(folder: str) -> None:
    kernel.mount("tmpfs", folder, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=1m,nr_inodes=4096,mode=755")


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
_RULE_PATH_BENEATH, _LOG_SAME_EXEC_OFF = 1, 1  # https://docs.kernel.org/userspace-api/landlock.html

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


def restricting(version: int, rights: dict[str, int]) -> kernel.PreparedCall:
    """A call that puts a process and its children under rules, for good. Needs no_new_privs.

    Nothing may be opened, but by `rights` what lies at or beneath a path that is there. The network and outside signals
    are closed where possible.
    """
    files = _ALL_OF_ABI.get(version, _NEWEST)
    silent = _LOG_SAME_EXEC_OFF if version >= 7 else 0  # or a program could fill the machine's audit log
    net, scoped = (3 if version >= 4 else 0), (3 if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    attributes = struct.pack("=QQQ", files, net, scoped)[:size]
    rules = kernel.syscall("landlock_create_ruleset", _CREATE_RULESET, attributes, size, 0)
    for path, allowed in rights.items():
        if os.path.exists(path):
            _allow(rules, path, allowed & files)
    return kernel.call("syscall", _RESTRICT_SELF, rules, silent, why="landlock_restrict_self")


def _allow(rules: int, path: str, rights: int) -> None:
    if not os.path.isdir(path):
        rights &= _OF_FILES
    descriptor = os.open(path, os.O_PATH)
    try:
        rule = struct.pack("=Qi", rights, descriptor)
        kernel.syscall("landlock_add_rule", _ADD_RULE, rules, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)
