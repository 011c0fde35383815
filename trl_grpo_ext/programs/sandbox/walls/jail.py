"""Build a jail around one forked process: all walls, ordered so that no wall prevents a later one.

A zygote prepares a `Cell` once. Before each fork it lists the system calls that put up the walls; the child makes these
calls before it reads the first byte of a program. A list saves memory copies: a child copies each page that Python
writes to, even for a reference count, and separate code for each wall touched 300 pages. Walls that children can share,
such as the empty network, belong to the zygote.
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

from trl_grpo_ext.programs.sandbox.walls import filesystem, kernel, seccomp

# The hard limit of zygotes: no child can have more.
_OPEN_FILES = 128
DESCRIPTORS = 8
"""The number of file descriptors reserved for children.

A child finds its descriptors below this number. The zygote keeps these numbers open, so that a descriptor that it
receives never gets one of them.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Jail settings that a zygote applies to its children.

    Attributes:
        namespaces: Whether the zygote has a file system, a process tree and an empty network of its own.
        scratch: The working directory of a program; with namespaces, a program can be allowed to write files there.
        rules: Landlock calls by `keeps_files`: for children that may write files (True) and for children that may not
            (False); an empty dict leaves Landlock out.
        filter: The seccomp program; empty without isolation.
        user: The user number that children change to; None to keep the user of the zygote.
        base_bytes: Bytes of memory that a child has mapped at birth; the memory limit is added to them.
        tasks: Processes of the user besides the program itself; None if the kernel does not count them per user.
    """

    namespaces: bool
    scratch: str
    rules: dict[bool, kernel.PreparedCall]
    filter: bytes
    user: int | None
    base_bytes: int
    tasks: int | None

    def walls(
        self,
        limits: dict[str, Any],
        *,
        descriptors: int,
        keeps_files: bool,
        own_folder: bool = True,
    ) -> list[kernel.PreparedCall]:
        """List the calls that jail a child whose file descriptors are already in place; `lock` makes them.

        Args:
            limits: `job.Limits` as a dict.
            descriptors: Number of file descriptors of the child. Later ones are closed.
            keeps_files: Whether the child may write to the scratch folder; it can do so only in namespaces.
            own_folder: Whether the scratch folder belongs to this child alone. Otherwise the child uses the folder of
                `mount_shared`.
        """
        calls = [kernel.call("setsid")]
        if self.namespaces and keeps_files and own_folder:
            calls += self._mounting(limits["disk_mb"])
        # After the mount: otherwise the working directory would be the folder that the mount covers.
        calls.append(kernel.call("chdir", os.fsencode(self.scratch)))
        calls += self._limits(limits)
        if self.user is not None:
            # After the mount, which needs the capabilities of the zygote's user.
            calls += becoming(self.user)
        if self.filter:
            calls.append(kernel.dropping_capabilities())
        if self.rules:
            calls.append(self.rules[keeps_files])
        calls.append(kernel.closing_from(descriptors))
        # The monitor measures memory from outside; only root may look into a process that is not dumpable.
        calls.append(kernel.call("prctl", kernel.PR_SET_DUMPABLE, 1, 0, 0, 0))
        # Last, since it forbids the calls above. Without namespaces, `lock` installs a filter of its own.
        if self.filter and self.namespaces:
            calls.append(seccomp.installing(self.filter))
        return calls

    def place(self, descriptors: Sequence[int]) -> list[kernel.PreparedCall]:
        """List the calls that move file descriptors to 0, 1 and so on. If the first is -1, /dev/null takes number 0.

        Each child opens /dev/null itself: children that share an open file would see each other's flags.
        """
        calls = []
        for target, source in enumerate(descriptors):
            # Received descriptors lie at DESCRIPTORS or above, so no dup2 overwrites one that is still needed.
            calls.append(kernel.call("dup2", max(source, 0), target))
        if descriptors[0] >= 0:
            return calls
        # The kernel gives the lowest free number, which is 0 after the close.
        null = [kernel.call("close", 0), kernel.call("open", b"/dev/null", os.O_RDWR)]
        return [*null, *calls[1:]]

    def lock(self, calls: Iterable[kernel.PreparedCall]) -> None:
        """Put this process, a fresh child, into its jail.

        Raises:
            OSError: if a wall cannot be put up.
        """
        kernel.perform(calls)
        if self.namespaces:
            return
        # This call stands alone because a change of user would reset it.
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if self.filter:
            # The program may signal only itself, so the filter needs the child's process number.
            kernel.perform(
                [seccomp.installing(seccomp.for_process(self.filter, os.getpid()))]
            )
        if os.getppid() == 1:
            # The zygote died before PR_SET_PDEATHSIG was in force.
            os._exit(1)

    def mount_shared(self, disk_mb: int) -> None:
        """Mount a scratch folder in this process, a zygote; its children share the folder until `unmount_shared`.

        A judge opens files that a program has left there, so the mount follows no symbolic links for any process.
        """
        kernel.perform([self._mount(disk_mb, kernel.MS_NOSYMFOLLOW)])

    def unmount_shared(self) -> None:
        """Unmount the folder of `mount_shared` and drop all its files."""
        # Detached: a plain umount fails for as long as any process has a file of the folder open.
        kernel.do("umount2", self.scratch.encode(), kernel.MNT_DETACH)

    def _mounting(self, disk_mb: int) -> list[kernel.PreparedCall]:
        """List the calls by which a child mounts a scratch folder that no other process sees."""
        return [kernel.call("unshare", kernel.CLONE_NEWNS), self._mount(disk_mb)]

    def _mount(self, disk_mb: int, more_flags: int = 0) -> kernel.PreparedCall:
        options = f"size={disk_mb}m,nr_inodes=4096,mode=700"
        if self.user is not None:
            options += f",uid={self.user},gid={self.user}"
        flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC | more_flags
        return kernel.call(
            "mount", b"tmpfs", self.scratch.encode(), b"tmpfs", flags, options.encode()
        )

    def _limits(self, limits: dict[str, Any]) -> Iterator[kernel.PreparedCall]:
        # The kernel counts whole seconds: rounded down, the limit would end right programs early.
        yield limiting("RLIMIT_CPU", max(1, math.ceil(limits["cpu_seconds"])))
        yield limiting("RLIMIT_AS", self.base_bytes + (limits["memory_mb"] << 20))
        yield limiting("RLIMIT_FSIZE", limits["disk_mb"] << 20)
        if self.tasks is not None:
            yield limiting("RLIMIT_NPROC", self.tasks + limits["processes"])


def prepare(*, filtered: bool) -> None:
    """Set the limits and privileges that children of this process, a zygote in its namespaces, inherit."""
    for name in (
        "RLIMIT_CORE",
        "RLIMIT_MEMLOCK",
        "RLIMIT_MSGQUEUE",
        "RLIMIT_NICE",
        "RLIMIT_RTPRIO",
    ):
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
    """Build the Landlock rules of a `Cell`, by whether a child may write files."""
    if namespaces:
        # The private root holds readable paths only, so one rule for all of it is enough.
        rights = {"/": filesystem.READ}
        devices: Sequence[str] = ["/dev"]
    else:
        rights = {**readable.rights(), scratch: filesystem.READ}
        devices = filesystem.DEVICES
    rights |= dict.fromkeys(devices, filesystem.READ_FILE | filesystem.WRITE_FILE)
    reading = filesystem.restricting(version, rights)
    if not namespaces:
        return {False: reading, True: reading}
    # The scratch folder of each child is mounted below this parent folder. The rest of the private root is read-only.
    keeping = rights | {os.path.dirname(scratch): filesystem.KEEP_FILES}
    return {False: reading, True: filesystem.restricting(version, keeping)}


def limiting(limit: str, value: int) -> kernel.PreparedCall:
    """Prepare a call that sets a hard and a soft limit; a program could catch the signal of a soft limit.

    The call fails if this process has a lower hard limit: correct programs would be cut off and blamed for it.
    """
    number = getattr(resource, limit)
    _, most = resource.getrlimit(number)
    why = f"{limit}: programs get {value}, and `ulimit` gives this process {most} at most"
    return kernel.call("setrlimit", number, struct.pack("QQ", value, value), why=why)


def becoming(user: int) -> list[kernel.PreparedCall]:
    """Prepare the calls that change user and group for good and drop all supplementary groups."""
    return [
        kernel.call("setgroups", 0, None),
        kernel.call("setresgid", user, user, user),
        kernel.call("setresuid", user, user, user),
    ]
