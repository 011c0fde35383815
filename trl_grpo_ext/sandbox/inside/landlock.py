"""Landlock: which files a process may open, whatever its user may. https://docs.kernel.org/userspace-api/landlock.html"""

from __future__ import annotations

import os
import struct

from trl_grpo_ext.sandbox.inside import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 10, 1 << 11
_ALL_OF_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_NEWEST = (1 << 16) - 1

READ = READ_FILE | READ_DIR
# Everything in a private folder but running files and making devices, sockets and pipes.
KEEP_FILES = _NEWEST & ~(EXECUTE | _MAKE_CHAR | _MAKE_SOCK | _MAKE_FIFO | _MAKE_BLOCK)
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15


def abi() -> int:
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

    def restricting(self) -> kernel.Call:
        """A call that puts a process and its children under the rules, for good. Needs no_new_privs."""
        return kernel.call("syscall", _RESTRICT_SELF, self._descriptor, 0, why="landlock_restrict_self")
