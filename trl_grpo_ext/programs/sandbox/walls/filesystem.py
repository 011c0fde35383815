"""Limit the files that a program under test can read and write.

A program may read Python's standard library, shared libraries, a few devices and the packages listed in its job, and no
other file. In namespaces, a private root shows only these paths, plus a scratch folder that disappears with the
program. Without namespaces, no folder belongs to the program alone, so it can write no file. Landlock forbids all other
paths, even to root.

Site-packages folders of any Python on this machine are hidden. Packages listed in a job get paths of their own, see
`sandbox.packages`: bind mounts in a private root, symbolic links without a private root.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trl_grpo_ext.programs.sandbox.walls import kernel

# Number of the system call on all machines.
_MOUNT_SETATTR = 442
_AT_RECURSIVE, _AT_EMPTY_PATH = 0x8000, 0x1000
_INSTALLED = ("site-packages", "dist-packages")
# Candidate mount points for the private root: the first that exists and holds no readable path is taken.
_MOUNT_POINTS = ("/tmp", "/var/tmp", "/proc")
_LIBRARIES = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/usr/share/zoneinfo",
    "/etc/localtime",
)
# `/dev/zero` is left out: its shared pages count against no memory limit.
DEVICES = ("/dev/null", "/dev/random", "/dev/urandom")
PRIVATE_SCRATCH = "/scratch/tmp"
"""The private folder of a program in a private root.

A Landlock rule needs an existing path, and this folder is created before any program starts. `/tmp` is a symbolic link
to it, unless a path that the program must read lies in `/tmp`.
"""


@dataclass(frozen=True, slots=True)
class Readable:
    """Paths that a program may read.

    Attributes:
        paths: Folders and files on this machine; no path lies beneath another path in the list.
        hidden: Folders of installed packages beneath `paths`, which the program must not read.
        shown: Packages for the program: path in the sandbox -> path on this machine.
    """

    paths: list[str]
    hidden: list[str]
    shown: Mapping[str, str]

    def rights(self) -> dict[str, int]:
        """Return Landlock rights by path; a rule holds for everything beneath its path.

        A folder that contains a hidden folder therefore gets only the right to list names, and each entry beside the
        hidden folder gets a rule of its own. File names inside hidden folders stay visible, because Python lists their
        parent folder; file contents do not.
        """
        rights: dict[str, int] = {}
        hidden = {os.path.realpath(path) for path in self.hidden}
        waiting = [os.path.realpath(path) for path in self.paths]
        while waiting:
            path = waiting.pop()
            holds_hidden = any(each.startswith(path + "/") for each in hidden)
            if not holds_hidden:
                rights[path] = READ
                continue
            rights[path] = _READ_DIR
            with os.scandir(path) as entries:
                for entry in entries:
                    # A rule for a symbolic link would open its target, wherever it lies.
                    if not entry.is_symlink() and entry.path not in hidden:
                        waiting.append(entry.path)
        for path, source in self.shown.items():
            # Python lists the folder to find the package's link, and then reads the package behind the link.
            rights[os.path.dirname(path)] = READ
            rights[source] = READ
        return rights


def what_may_be_read(shown: Mapping[str, str]) -> Readable:
    """List Python's library, shared libraries and the packages `shown`, without folders of installed packages."""
    # A virtual environment has no standard library of its own, only packages: take the paths of the base installation.
    compiled = sysconfig.get_path("platstdlib", vars={"platbase": sys.base_exec_prefix})
    python = [sysconfig.get_path("stdlib"), compiled, sys.base_prefix + "/lib"]
    there = [path for path in dict.fromkeys((*_LIBRARIES, *python)) if os.path.exists(path)]
    paths = []
    for path in there:
        is_beneath_another = any(path.startswith(other + "/") for other in there)
        if not is_beneath_another:
            paths.append(path)
    # A symbolic link to a folder is shown as a link, so look for installed packages in the folder behind the link.
    folders = dict.fromkeys(
        os.path.realpath(path) if os.path.islink(path) else path for path in paths
    )
    hidden: list[str] = []
    for folder in folders:
        hidden += _installed_in(folder)
    return Readable(paths, hidden, shown)


def _installed_in(folder: str) -> Iterator[str]:
    """Yield each site-packages or dist-packages folder in a folder or in one of its direct subfolders."""
    if not os.path.isdir(folder):
        return
    with os.scandir(folder) as entries:
        folders = [
            folder,
            *(entry.path for entry in entries if entry.is_dir(follow_symlinks=False)),
        ]
    for name in _INSTALLED:
        for each in folders:
            path = f"{each}/{name}"
            if os.path.isdir(path) and not os.path.islink(path):
                yield path


def make_private_root(readable: Readable) -> None:
    """Mount and enter a new read-only root that holds only `readable`, the devices and a scratch folder.

    Raises:
        OSError: if the kernel forbids a mount.
    """
    folder = _mount_point(readable)
    # Mounts below a shared mount would appear on the host too, and pivot_root refuses a shared parent.
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    _mount_small(folder)
    for path in readable.paths:
        _show(path, folder)
    # An empty tmpfs covers each folder, so that a program cannot even list the installed packages.
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
    # The root becomes read-only last, because the steps above make folders, files and links in it.
    kernel.enter_root(folder)
    kernel.mount(
        "none",
        "/",
        None,
        kernel.MS_REMOUNT
        | kernel.MS_BIND
        | kernel.MS_RDONLY
        | kernel.MS_NOSUID
        | kernel.MS_NODEV,
    )


def _mount_point(readable: Readable) -> str:
    """Return a folder for the private root that holds no readable path, which the mount would hide."""
    sources = [*readable.paths, *readable.shown.values()]
    for candidate in filter(os.path.isdir, _MOUNT_POINTS):
        folder = os.path.realpath(candidate)
        # The slash keeps `/tmp-data` from counting as a path in `/tmp`.
        if not any(f"{path}/".startswith(f"{folder}/") for path in sources):
            return folder
    raise OSError(f"private root: readable paths lie in all of {', '.join(_MOUNT_POINTS)}")


def make_links(shown: Mapping[str, str]) -> None:
    """Create a symbolic link for each package `shown`, where programs have no private root."""
    for path, source in shown.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(source, path)


def _mount_small(folder: str) -> None:
    kernel.mount(
        "tmpfs",
        folder,
        "tmpfs",
        kernel.MS_NOSUID | kernel.MS_NODEV,
        "size=1m,nr_inodes=4096,mode=755",
    )


def _show(path: str, folder: str) -> None:
    if os.path.islink(path):
        os.makedirs(os.path.dirname(folder + path), exist_ok=True)
        os.symlink(os.readlink(path), folder + path)
        path = os.path.realpath(path)
    # `/lib` may be a link to `/usr/lib`, which is in the list itself and needs a single mount.
    if not os.path.lexists(folder + path):
        _bind(path, folder + path)
        _make_read_only(folder + path)


def _bind(path: str, target: str) -> None:
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        # The kernel binds a file or device only onto a file, so an empty one is made.
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
    kernel.mount(path, target, None, kernel.MS_BIND | kernel.MS_REC)


def _make_read_only(target: str) -> None:
    # struct mount_attr: set, clear, propagation, user namespace
    attributes = (ctypes.c_uint64 * 4)(kernel.MS_RDONLY | kernel.MS_NOSUID, 0, 0, 0)
    descriptor = os.open(target, os.O_PATH)
    try:
        # MS_REC has taken mounts below the source along; only a recursive change makes them read-only too.
        flags = _AT_RECURSIVE | _AT_EMPTY_PATH
        kernel.syscall(
            "mount_setattr",
            _MOUNT_SETATTR,
            descriptor,
            b"",
            flags,
            attributes,
            ctypes.sizeof(attributes),
        )
    except OSError:
        # Linux before 5.12 lacks mount_setattr. A remount must repeat the flags that the mount already has.
        kept = os.statvfs(target).f_flag & (kernel.MS_NODEV | kernel.MS_NOEXEC)
        flags = (
            kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID | kept
        )
        kernel.mount("none", target, None, flags)
    finally:
        os.close(descriptor)


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
# Values: https://docs.kernel.org/userspace-api/landlock.html
_RULE_PATH_BENEATH, _LOG_SAME_EXEC_OFF = 1, 1
_BOTH_OF_TCP = 3
_SOCKETS_AND_SIGNALS = 3

_EXECUTE, WRITE_FILE, READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 10, 1 << 11
# Bits by ABI version: 2 adds moves between folders, 3 adds truncation, 5 adds ioctl on devices.
_ALL_OF_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_NEWEST = (1 << 16) - 1

READ = READ_FILE | _READ_DIR
# All rights in a private folder except executing files and making devices, sockets and pipes.
KEEP_FILES = _NEWEST & ~(_EXECUTE | _MAKE_CHAR | _MAKE_SOCK | _MAKE_FIFO | _MAKE_BLOCK)
_OF_FILES = _EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15


def landlock_abi() -> int:
    """Return the Landlock ABI version of this kernel; 0 without Landlock."""
    try:
        return kernel.syscall("landlock_create_ruleset", _CREATE_RULESET, 0, 0, 1)
    except OSError:
        return 0


def restricting(version: int, rights: dict[str, int]) -> kernel.PreparedCall:
    """Prepare a call that puts a process and its children under Landlock rules for good.

    The process can then open only paths at or beneath a key of `rights`, with the rights of that key; keys that do not
    exist are skipped. ABI 4 and later also close TCP, ABI 6 and later also abstract Unix sockets and signals to
    processes outside. The call needs no_new_privs.

    Args:
        version: Landlock ABI of this kernel, from `landlock_abi`.
        rights: Path -> bit mask of access rights.

    Raises:
        OSError: if the kernel refuses a rule.
    """
    files = _ALL_OF_ABI.get(version, _NEWEST)
    # Without this flag, a program could fill the audit log of the machine with denials.
    silent = _LOG_SAME_EXEC_OFF if version >= 7 else 0
    # Numbers of 8 bytes each: files, TCP, and what lies outside; old kernels know fewer.
    numbers = [files]
    if version >= 4:
        numbers.append(_BOTH_OF_TCP)
    if version >= 6:
        numbers.append(_SOCKETS_AND_SIGNALS)
    attributes = struct.pack(f"={len(numbers)}Q", *numbers)
    size = len(attributes)
    rules = kernel.syscall("landlock_create_ruleset", _CREATE_RULESET, attributes, size, 0)
    for path, allowed in rights.items():
        if os.path.exists(path):
            _allow(rules, path, allowed & files)
    return kernel.call(
        "syscall", _RESTRICT_SELF, rules, silent, why="landlock_restrict_self"
    )


def _allow(rules: int, path: str, rights: int) -> None:
    if not os.path.isdir(path):
        # The kernel refuses a rule that gives rights of folders, such as listing, to a file.
        rights &= _OF_FILES
    descriptor = os.open(path, os.O_PATH)
    try:
        rule = struct.pack("=Qi", rights, descriptor)
        kernel.syscall("landlock_add_rule", _ADD_RULE, rules, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)
