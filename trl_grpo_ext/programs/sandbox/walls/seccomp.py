"""Build a seccomp filter: a list of allowed system calls; all others fail with EPERM.

An allow list also covers system calls of future kernels. The filter is a binary search over call numbers, because the
kernel runs it once for every number when it is installed.
"""

from __future__ import annotations

import ctypes
import errno
import resource
import signal
import struct
from collections.abc import Iterable

from trl_grpo_ext.programs.sandbox.walls import kernel


def _calls(table: str) -> dict[str, int]:
    """Parse a table of system calls into name -> number on this machine.

    An entry is a name, its number on x86-64 and its number on arm64, from the kernel's headers; `-` means that the
    machine lacks the call.
    """
    column = 1 if kernel.MACHINE == "x86_64" else 2
    entries = [entry.split() for entry in table.split(",")]
    return {entry[0]: int(entry[column]) for entry in entries if entry[column] != "-"}


# Calls that reach only the process itself and files that it may open.
_FREE = _calls(
    """
    read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, preadv 295 69,
    pwritev 296 70, close 3 57, lseek 8 62, open 2 -, openat 257 56, creat 85 -, stat 4 -, lstat 6 -,
    fstat 5 80, newfstatat 262 79, statx 332 291, statfs 137 43, fstatfs 138 44, access 21 -,
    faccessat 269 48, faccessat2 439 439, readlink 89 -, readlinkat 267 78, getcwd 79 17, chdir 80 49,
    fchdir 81 50, mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35, rename 82 -,
    renameat 264 38, renameat2 316 276, link 86 -, linkat 265 37, symlink 88 -, symlinkat 266 36,
    ftruncate 77 46, fsync 74 82, fdatasync 75 83, getdents 78 -, getdents64 217 61, umask 95 166,
    fadvise64 221 223, listxattr 194 11, llistxattr 195 12, flistxattr 196 13, getxattr 191 8,
    lgetxattr 192 9, fgetxattr 193 10, munmap 11 215, mprotect 10 226,
    mremap 25 216, madvise 28 233, brk 12 214, msync 26 227, rt_sigaction 13 134,
    rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136, rt_sigtimedwait 128 137,
    rt_sigsuspend 130 133, sigaltstack 131 132, restart_syscall 219 128, dup 32 23, dup2 33 -,
    dup3 292 24, pipe 22 -, pipe2 293 59, eventfd 284 -, eventfd2 290 19, epoll_create 213 -,
    epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22, epoll_pwait2 441 441,
    poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, timerfd_create 283 85, timerfd_settime 286 86,
    timerfd_gettime 287 87, signalfd4 289 74, recvfrom 45 207, recvmsg 47 212,
    shutdown 48 210, getsockopt 55 209, getsockname 51 204,
    getpeername 52 205, clock_gettime 228 113, clock_getres 229 114, clock_nanosleep 230 115,
    nanosleep 35 101, gettimeofday 96 169, time 201 -, times 100 153, getitimer 36 102, setitimer 38 103,
    alarm 37 -, pause 34 -, getpid 39 172, gettid 186 178, getppid 110 173, getuid 102 174,
    geteuid 107 175, getgid 104 176, getegid 108 177, getgroups 115 158, getresuid 118 148,
    getresgid 120 150, getpgrp 111 -, getpgid 121 155, getsid 124 156, getrlimit 97 163,
    getrusage 98 165, sysinfo 99 179, getpriority 140 141, capget 125 90,
    sched_yield 24 124, sched_getaffinity 204 123, sched_getparam 143 121, sched_getscheduler 145 120,
    sched_get_priority_max 146 125, sched_get_priority_min 147 126, getrandom 318 278, getcpu 309 168,
    membarrier 324 283, futex 202 98, futex_waitv 449 449, set_robust_list 273 99,
    get_robust_list 274 100, rseq 334 293, set_tid_address 218 96, exit 60 93, exit_group 231 94,
    wait4 61 260, waitid 247 95
    """
)
# Calls that need a private file system and process tree, because Landlock does not cover them.
_PRIVATE_WORLD = _calls(
    """
    fork 57 -, fallocate 285 47, truncate 76 45, vfork 58 -, chmod 90 -, fchmod 91 52, fchmodat 268 53,
    fchmodat2 452 452, utimensat 280 88, utime 132 -, utimes 235 -, futimesat 261 -
    """
)
# Calls that are allowed with certain arguments only.
_CHECKED = _calls(
    """
    mmap 9 222, clone 56 220, ioctl 16 29, fcntl 72 25, prctl 157 167, prlimit64 302 261, socketpair 53 199,
    kill 62 129, tgkill 234 131, sendto 44 206
    """
)
# Calls that succeed and do nothing. A lock on a file of Python's library would affect other programs. Each session gets
# its own share of the processor, so a program with many sessions would slow other programs down. The kernel continues
# stopped processes of a group whose leader's parent has ended, so no program gets a process group of its own.
_IDLE = _calls("flock 73 32, setsid 112 157, setpgid 109 154")
# Calls that report ENOSYS, because the C library has a fallback for kernels without them.
_ABSENT = _calls("clone3 435 435")

# Opcode, instructions to skip if true, instructions to skip if false, operand.
Instruction = tuple[int, int, int, int]

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _AND, _RETURN = (
    0x20,
    0x15,
    0x35,
    0x45,
    0x54,
    0x06,
)
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Offset of the first argument in seccomp_data; each argument has 8 bytes, low half first.
_ARGUMENTS = 16
# This bit marks the second system call table of x86-64.
_X32 = 0x40000000

_MAP_SHARED, _MAP_ANONYMOUS, _MAP_HUGETLB = 0x1, 0x20, 0x40000
_CLONE_FILES, _CLONE_THREAD = 0x400, 0x10000
# TCGETS, window size, FIONREAD, FIONBIO and close-on-exec.
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# F_SETOWN is left out: it directs signals at other processes.
_FCNTLS = (0, 1, 2, 3, 4, 1030, 1032)
# F_GETLK and F_OFD_GETLK are left out: they would reveal locks of other processes.
_LOCKING_FCNTLS = (6, 7, 37, 38)
# Whether the process is dumpable, thread names, names of memory areas.
_PRCTLS = (3, 15, 16, 0x53564D41)
_AF_UNIX, _SOCK_STREAM = 1, 1
_MSG_OOB = 1
# A clone's lowest byte: the signal that the parent gets when the child ends.
_EXIT_SIGNAL = 0xFF
# No process can have this number.
TEMPLATE_PID = 0x7EA11FED

allow: list[Instruction] = [(_RETURN, 0, 0, _ALLOW)]
_EPERM: Instruction = (_RETURN, 0, 0, _ERROR | errno.EPERM)


def _fail(number: int) -> list[Instruction]:
    return [(_RETURN, 0, 0, _ERROR | number)]


def _if_argument_in(
    index: int,
    values: Iterable[int],
    then: list[Instruction],
    *,
    mask: int = 0xFFFFFFFF,
    otherwise: Iterable[Instruction] = (_EPERM,),
) -> list[Instruction]:
    """Branch on a system call argument.

    If its low 32 bits, masked by `mask`, equal an element of `values`, `then` runs; otherwise `otherwise` runs, by
    default EPERM.
    """
    values, otherwise = tuple(values), tuple(otherwise)
    # A jump that matches skips the remaining tests and `otherwise`.
    last = len(values) - 1 + len(otherwise)
    tests = [(_JUMP_EQUAL, last - place, 0, value) for place, value in enumerate(values)]
    masked = [(_AND, 0, 0, mask)] if mask != 0xFFFFFFFF else []
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * index), *masked, *tests, *otherwise, *then]


def _clone(threads_only: bool) -> list[Instruction]:
    """Allow new threads, and new processes unless `threads_only`.

    A new namespace, or a thread with a file descriptor table of its own, is refused. So is a process whose end would
    continue its parent.
    """
    thread = _CLONE_THREAD | _CLONE_FILES
    kinds = [thread] if threads_only else [thread, _CLONE_FILES, 0]
    checked = _if_argument_in(0, kinds, allow, mask=thread | kernel.CLONE_NEW_ANY)
    return _if_argument_in(
        0, [signal.SIGCONT], [_EPERM], mask=_EXIT_SIGNAL, otherwise=checked
    )


def _signals(index: int, receivers: list[Instruction]) -> list[Instruction]:
    """Refuse SIGCONT, the argument at `index`, which would undo a stop of the sandbox; else check the receivers."""
    return _if_argument_in(index, [signal.SIGCONT], [_EPERM], otherwise=receivers)


def _mmap() -> list[Instruction]:
    """Allow private memory and mapped files.

    Huge pages escape the memory count. Shared anonymous memory, once unmapped by the process, would escape it too.
    """
    mask = _MAP_SHARED | _MAP_ANONYMOUS | _MAP_HUGETLB
    return _if_argument_in(3, [0, _MAP_SHARED, _MAP_ANONYMOUS], allow, mask=mask)


def _fcntl() -> list[Instruction]:
    """Allow descriptor commands; report success for lock commands without locking."""
    return _if_argument_in(
        1, _FCNTLS, allow, otherwise=_if_argument_in(1, _LOCKING_FCNTLS, _fail(0))
    )


def _limits() -> list[Instruction]:
    """Allow all resource limits except RLIMIT_CPU, whose change reports success and does nothing.

    By that limit, a process could have the kernel kill it.
    """
    pointer = _ARGUMENTS + 8 * 2
    asked = [(_LOAD, 0, 0, _ARGUMENTS + 8), (_JUMP_EQUAL, 0, 5, resource.RLIMIT_CPU)]
    # A call without a new value only reads the limit. The pointer to the value is compared in two halves.
    only_read = [
        (_LOAD, 0, 0, pointer),
        (_JUMP_EQUAL, 0, 2, 0),
        (_LOAD, 0, 0, pointer + 4),
        (_JUMP_EQUAL, 1, 0, 0),
    ]
    return [*asked, *only_read, *_fail(0), *allow]


def _checked(own_world: bool) -> dict[str, list[Instruction]]:
    receivers = allow if own_world else _if_argument_in(0, [TEMPLATE_PID], allow)
    unix_stream = _if_argument_in(1, [_SOCK_STREAM], allow, mask=0xF)
    return {
        "clone": _clone(threads_only=not own_world),
        "ioctl": _if_argument_in(1, _IOCTLS, allow),
        "mmap": _mmap(),
        "fcntl": _fcntl(),
        "prctl": _if_argument_in(0, _PRCTLS, allow),
        # Process 0 is the caller: a program must not lower the limits of another process.
        "prlimit64": _if_argument_in(0, [0], _limits()),
        # A datagram socket could send to any address.
        "socketpair": _if_argument_in(0, [_AF_UNIX], unix_stream),
        "kill": _signals(1, receivers),
        "tgkill": _signals(2, receivers),
        # A reader that polls would take an out-of-band byte for a message.
        "sendto": _if_argument_in(3, [0], allow, mask=_MSG_OOB),
    }


def build(*, own_world: bool) -> bytes:
    """Build the filter program.

    Args:
        own_world: Whether the process has its own file system and process tree. Without them, it may not fork, may
            signal only itself (see `for_process`), and may not make changes that Landlock does not guard, such as file
            modes.

    Raises:
        OSError: on a machine whose system call numbers are not listed here.
    """
    if kernel.MACHINE not in _ARCHITECTURE:
        raise OSError(f"seccomp: the system calls of {kernel.MACHINE} are not known here")
    actions: dict[int, list[Instruction]] = {}
    tables = [(_FREE, allow), (_ABSENT, _fail(errno.ENOSYS)), (_IDLE, _fail(0))]
    if own_world:
        tables.append((_PRIVATE_WORLD, allow))
    for table, action in tables:
        actions |= dict.fromkeys(table.values(), action)
    actions |= {_CHECKED[name]: action for name, action in _checked(own_world).items()}
    program = [
        # A 32-bit call has other numbers than this table: it is recognized by its architecture and kills the process.
        (_LOAD, 0, 0, 4),
        (_JUMP_EQUAL, 1, 0, _ARCHITECTURE[kernel.MACHINE]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_JUMP_AT_LEAST, 0, 1, _X32),
        _EPERM,
        *_search(_segments(actions)),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _segments(actions: dict[int, list[Instruction]]) -> list[tuple[int, list[Instruction]]]:
    """Group call numbers into segments (first number, action); a segment ends where the next begins.

    Numbers without an action get EPERM.
    """
    segments: list[tuple[int, list[Instruction]]] = []
    refuse = [_EPERM]
    # One number beyond the last action, so that the last segment refuses all higher numbers.
    for number in range(max(actions) + 2):
        action = actions.get(number, refuse)
        if not segments or segments[-1][1] != action:
            segments.append((number, action))
    return segments


def _search(segments: list[tuple[int, list[Instruction]]]) -> list[Instruction]:
    if len(segments) == 1:
        return segments[0][1]
    middle = len(segments) // 2
    low, high = _search(segments[:middle]), _search(segments[middle:])
    # A jump skips at most 255 instructions; packing a longer jump raises struct.error.
    return [(_JUMP_AT_LEAST, len(low), 0, segments[middle][0]), *low, *high]


def for_process(program: bytes, pid: int) -> bytes:
    """Fit a filter to a process: replace TEMPLATE_PID by its process number."""
    return program.replace(struct.pack("=I", TEMPLATE_PID), struct.pack("=I", pid))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def installing(program: bytes) -> kernel.PreparedCall:
    """Prepare a prctl call that installs a filter for good in a process and its children.

    The call needs no_new_privs.
    """
    # An instruction has 8 bytes. `byref` keeps the structure and its bytes alive until the call is made.
    pointer = ctypes.byref(_Program(len(program) // 8, program))
    return kernel.call(
        "prctl",
        kernel.PR_SET_SECCOMP,
        kernel.SECCOMP_MODE_FILTER,
        pointer,
        0,
        0,
        why="seccomp",
    )
