"""A jail: the walls around one process, put up once it has been forked, in the order in which each still can be.

A zygote prepares a `Cell` once. Before each fork it makes a list of the system calls that put up the walls, and the
child makes them before it reads the first byte of a program. A list, since a child must copy every page that Python
writes to, if only to count references: a loop over calls touches few pages, code of its own for each wall touched 300.
What can be shared between children, such as the empty network, is the zygote's already.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.sandbox.walls import filesystem, kernel, seccomp

_OPEN_FILES = 128
DESCRIPTORS = 8
"""A child finds its descriptors below this number; the zygote holds these, so that none that arrives is among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What a zygote knows of the jails of its children.

    Attributes:
        namespaces: Whether the zygote has a file system, a process tree and an empty network of its own.
        scratch: The folder that a program begins in; in namespaces it may keep files there.
        rules: Landlock's, as calls, for a child that may keep files and for one that may not; none to do without.
        filter: Of system calls; empty where there are no walls at all.
        user: The user to become, or None to stay who one is.
        base_bytes: Memory that a child has mapped at birth; limits come on top.
        tasks: Processes of this user that are there anyway, or None if they cannot be counted.
    """

    namespaces: bool
    scratch: str
    rules: dict[bool, kernel.PreparedCall]
    filter: bytes
    user: int | None
    base_bytes: int
    tasks: int | None

    def walls(
        self, limits: dict[str, Any], *, descriptors: int, keeps_files: bool, own_folder: bool = True
    ) -> list[kernel.PreparedCall]:
        """The calls that put a child into its jail, once its descriptors are in their places; for `lock`.

        Args:
            limits: `job.Limits` as a dict.
            descriptors: How many it has. All others are closed.
            keeps_files: Whether it may write to the scratch folder, where there are namespaces.
            own_folder: Whether that folder is the child's alone; else it is the one of `mount_shared`.
        """
        return [
            kernel.call("setsid"),
            *(self._mounting(limits["disk_mb"]) if self.namespaces and keeps_files and own_folder else ()),
            kernel.call("chdir", os.fsencode(self.scratch)),
            *self._limits(limits),
            *(becoming(self.user) if self.user is not None else ()),
            *([kernel.dropping_capabilities()] if self.filter else ()),
            *([self.rules[keeps_files]] if self.rules else ()),
            kernel.closing_from(descriptors),
            # Its memory is measured from outside, which a process that cannot be dumped hides from all but root.
            kernel.call("prctl", kernel.PR_SET_DUMPABLE, 1, 0, 0, 0),
            *([seccomp.installing(self.filter)] if self.filter and self.namespaces else ()),
        ]

    def place(self, descriptors: Sequence[int]) -> list[kernel.PreparedCall]:
        """The calls that put these at 0, 1 and so on; for the first ones, those of -1, /dev/null.

        It is opened for each child: two that shared what one has opened would see each other's flags.
        """
        null = [kernel.call("close", 0), kernel.call("open", b"/dev/null", os.O_RDWR)]  # the lowest that is free: 0
        places = [kernel.call("dup2", max(source, 0), target) for target, source in enumerate(descriptors)]
        return [*null, *places[1:]] if descriptors[0] < 0 else places

    def lock(self, calls: Iterable[kernel.PreparedCall]) -> None:
        """Put this process, a fresh child, into its jail; raises OSError if a wall cannot be put up."""
        kernel.perform(calls)
        if self.namespaces:
            return
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # not among the calls: a change of user would undo it
        if self.filter:  # it may signal itself only, so the filter needs its number
            kernel.perform([seccomp.installing(seccomp.for_process(self.filter, os.getpid()))])
        if os.getppid() == 1:  # the zygote went while PDEATHSIG was not yet set
            os._exit(1)

    def mount_shared(self, disk_mb: int) -> None:
        """Mount a scratch folder in this process, a zygote, that all its children share until `unmount_shared`.

        A judge opens the files that a program has left there, so nobody follows symbolic links in it.
        """
        kernel.perform([self._mount(disk_mb, kernel.MS_NOSYMFOLLOW)])

    def unmount_shared(self) -> None:
        """Drop the folder of `mount_shared` with all that is in it."""
        kernel.do("umount2", self.scratch.encode(), kernel.MNT_DETACH)

    def _mounting(self, disk_mb: int) -> list[kernel.PreparedCall]:
        """The calls by which a child mounts a scratch folder that no other process sees."""
        return [kernel.call("unshare", kernel.CLONE_NEWNS), self._mount(disk_mb)]

    def _mount(self, disk_mb: int, more_flags: int = 0) -> kernel.PreparedCall:
        size = f"size={disk_mb}m,nr_inodes=4096,mode=700"
        owner = "" if self.user is None else f",uid={self.user},gid={self.user}"
        flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC | more_flags
        return kernel.call("mount", b"tmpfs", self.scratch.encode(), b"tmpfs", flags, (size + owner).encode())

    def _limits(self, limits: dict[str, Any]) -> Iterator[kernel.PreparedCall]:
        yield limiting("RLIMIT_CPU", max(1, math.ceil(limits["cpu_seconds"])))
        yield limiting("RLIMIT_AS", self.base_bytes + (limits["memory_mb"] << 20))
        yield limiting("RLIMIT_FSIZE", limits["disk_mb"] << 20)
        if self.tasks is not None:
            yield limiting("RLIMIT_NPROC", self.tasks + limits["processes"])


def prepare(*, filtered: bool) -> None:
    """Set what the children of this process, a zygote that has entered its namespaces, will inherit."""
    for name in ("RLIMIT_CORE", "RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE", "RLIMIT_NICE", "RLIMIT_RTPRIO"):
        if hasattr(resource, name):
            kernel.perform([limiting(name, 0)])
    kernel.perform([limiting("RLIMIT_NOFILE", _OPEN_FILES)])
    if filtered:
        kernel.drop_bounding_set()
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    while os.open("/dev/null", os.O_RDWR) < DESCRIPTORS:
        pass


def rules_of(
    version: int, namespaces: bool, scratch: str, readable: filesystem.Readable
) -> dict[bool, kernel.PreparedCall]:
    """Landlock's rules for a `Cell`."""
    rights = {"/": filesystem.READ} if namespaces else readable.rights() | {scratch: filesystem.READ}
    rights |= dict.fromkeys(
        ["/dev"] if namespaces else filesystem.DEVICES, filesystem.READ_FILE | filesystem.WRITE_FILE
    )
    reading = filesystem.restricting(version, rights)
    if not namespaces:
        return {False: reading, True: reading}
    # In a file system of its own, each child's folder is mounted in this one, which is read-only.
    keeping = rights | {os.path.dirname(scratch): filesystem.KEEP_FILES}
    return {False: reading, True: filesystem.restricting(version, keeping)}


def limiting(limit: str, value: int) -> kernel.PreparedCall:
    """Set a limit, hard and soft: the signal that a soft one sends could be caught.

    It fails where this process may have less: right programs would be cut, and take the blame for it.
    """
    number = getattr(resource, limit)
    _, most = resource.getrlimit(number)
    why = f"{limit}: programs get {value}, and `ulimit` gives this process {most} at most"
    return kernel.call("setrlimit", number, struct.pack("QQ", value, value), why=why)


def becoming(user: int) -> list[kernel.PreparedCall]:
    """Change to another user and group for good, with no other groups."""
    return [
        kernel.call("setgroups", 0, None),
        kernel.call("setresgid", user, user, user),
        kernel.call("setresuid", user, user, user),
    ]
