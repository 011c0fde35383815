"""What a program under test may read: Python's library, shared libraries, and a few devices. Nothing else."""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig

from trl_grpo_ext.sandbox.inside import kernel

_MOUNT_SETATTR = 442
_AT_RECURSIVE, _AT_EMPTY_PATH = 0x8000, 0x1000
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo", "/etc/localtime")
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


def readable_paths(extra: list[str]) -> list[str]:
    """The folders and files that a program needs to run at all, as they are outside."""
    python = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), sys.base_prefix + "/lib"]
    paths = [path for path in (*_LIBRARIES, *python, *extra) if os.path.exists(path)]
    return [path for path in dict.fromkeys(paths) if not any(path.startswith(other + "/") for other in paths)]


PRIVATE_SCRATCH = "/scratch/tmp"
"""Where a program's private folder is in a private root: the only thing in a folder that Landlock's rules can name
before there is any program. `/tmp` is a link to it, unless that would hide something that a program must read."""


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
