"""A seccomp filter: the system calls that a program may make; every other fails with EPERM.

A list of what is allowed, since the kernel grows calls that nobody here has heard of. The filter is a binary search
over call numbers, because the kernel runs it once for every number when it is installed.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterable

from trl_grpo_ext.sandbox.inside import kernel, syscalls

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, value

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_ARGUMENTS = 16  # where the arguments begin, 8 bytes each, low half first
_X32 = 0x40000000  # x86-64's other table of calls

_CLONE_THREAD = 0x10000
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, window size, FIONREAD, FIONBIO, close-on-exec
_FCNTLS = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032)  # not F_SETOWN, which directs signals at others
_PRCTLS = (3, 15, 16, 0x53564D41)  # dumpable?, thread names, names of memory areas
_AF_UNIX, _SOCK_STREAM = 1, 1
TEMPLATE_PID = 0x7EA11FED  # beyond the numbers that processes can have

allow: list[Instruction] = [(_RETURN, 0, 0, _ALLOW)]


def _fail(number: int) -> list[Instruction]:
    return [(_RETURN, 0, 0, _ERROR | number)]


def _if_argument_in(
    index: int, values: Iterable[int], then: list[Instruction], mask: int = 0xFFFFFFFF
) -> list[Instruction]:
    """`then` if the low half of an argument is one of the values, else EPERM."""
    values = tuple(values)
    tests = [(_JUMP_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    masked = [(_AND, 0, 0, mask)] if mask != 0xFFFFFFFF else []
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * index), *masked, *tests, *_fail(errno.EPERM), *then]


def _clone(threads_only: bool) -> list[Instruction]:
    """Threads, and processes unless `threads_only`; never with a new namespace."""
    rest = [(_JUMP_ANY_BIT, 1, 0, _CLONE_THREAD), *_fail(errno.EPERM), *allow] if threads_only else allow
    return [(_LOAD, 0, 0, _ARGUMENTS), (_JUMP_ANY_BIT, 0, 1, kernel.CLONE_NEW_ANY), *_fail(errno.EPERM), *rest]


def _checked(own_world: bool, pid: int) -> dict[str, list[Instruction]]:
    own_process = allow if own_world else _if_argument_in(0, [pid], allow)
    unix_stream = _if_argument_in(1, [_SOCK_STREAM], allow, mask=0xF)
    return {
        "clone": _clone(threads_only=not own_world),
        "ioctl": _if_argument_in(1, _IOCTLS, allow),
        "fcntl": _if_argument_in(1, _FCNTLS, allow),
        "prctl": _if_argument_in(0, _PRCTLS, allow),
        "prlimit64": _if_argument_in(0, [0], allow),
        # A datagram socket could send to any address.
        "socketpair": _if_argument_in(0, [_AF_UNIX], unix_stream),
        "kill": own_process,
        "tgkill": own_process,
    }


def build(*, own_world: bool, pid: int = TEMPLATE_PID) -> bytes:
    """The filter's program.

    Args:
        own_world: Whether the process has its own file system and process tree. Without, it may not fork, may signal
            only itself, and may not change what Landlock does not guard, such as the mode of files.
        pid: The process, if it has no world of its own.

    Raises:
        OSError: on a machine whose calls are not known here.
    """
    if kernel.MACHINE not in _ARCHITECTURE:
        raise OSError(f"seccomp: the system calls of {kernel.MACHINE} are not known here")
    column = 0 if kernel.MACHINE == "x86_64" else 1
    actions: dict[int, list[Instruction]] = {}
    tables = [(syscalls.FREE, allow), (syscalls.ABSENT, _fail(errno.ENOSYS))]
    if own_world:
        tables.append((syscalls.PRIVATE_WORLD, allow))
    for table, action in tables:
        actions |= {number: action for numbers in table.values() if (number := numbers[column]) is not None}
    for name, action in _checked(own_world, pid).items():
        number = syscalls.CHECKED[name][column]
        assert number is not None
        actions[number] = action
    program = [
        (_LOAD, 0, 0, 4),
        (_JUMP_EQUAL, 1, 0, _ARCHITECTURE[kernel.MACHINE]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_JUMP_AT_LEAST, 0, 1, _X32),
        *_fail(errno.EPERM),
        *_search(_segments(actions)),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _segments(actions: dict[int, list[Instruction]]) -> list[tuple[int, list[Instruction]]]:
    """The actions as (first number, action), each up to the next's first number; what is not named fails."""
    segments: list[tuple[int, list[Instruction]]] = []
    refuse = _fail(errno.EPERM)
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
    first = segments[middle][0]
    if len(low) < 256:
        return [(_JUMP_AT_LEAST, len(low), 0, first), *low, *high]
    return [(_JUMP_AT_LEAST, 0, 1, first), (0x05, 0, 0, len(low)), *low, *high]


def for_process(program: bytes, pid: int) -> bytes:
    """A filter that was built for the process TEMPLATE_PID, for another."""
    return program.replace(struct.pack("=I", TEMPLATE_PID), struct.pack("=I", pid))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def installing(program: bytes) -> kernel.Call:
    """A call that puts a process and its children under the filter, for good. Needs no_new_privs."""
    pointer = ctypes.byref(_Program(len(program) // 8, program))
    return kernel.call("prctl", kernel.PR_SET_SECCOMP, kernel.SECCOMP_MODE_FILTER, pointer, 0, 0, why="seccomp")
