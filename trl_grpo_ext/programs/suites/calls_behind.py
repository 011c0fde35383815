"""Find the block of an answer that calls the program of another block: `main()`, for tests of a program's output.

Completions are read by patterns in linear time, never parsed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trl_grpo_ext.programs.suites.blocks import (
    is_definition,
    top_statements,
    without_texts,
    written_names,
)
from trl_grpo_ext.programs.suites.free_names import assigned_names

# Strings and comments are "" here.
_EMPTY = r"(?:[ \t]*\"\")?\s*"
_NAME = r"[^\W\d]\w*"
# `main()`, `Solver().run()`, `sys.exit(main())`, and the same in a loop over as many tests as the input says
_CALL = rf"(?:(?:print|exit|sys\.exit|asyncio\.run)\()?({_NAME})\(\)(?:\.{_NAME}\(\))?\)?;?{_EMPTY}"
_LOOP = rf"for[ \t]+{_NAME}[ \t]+in[ \t]+range\((?:{_NAME}|int\(input\(\)\))\):{_EMPTY}"
_GUARD = rf"if[ \t]+__name__[ \t]*==[ \t]*\"\"[ \t]*:{_EMPTY}"
_CALLING = re.compile(f"(?:{_GUARD}|{_LOOP})?{_CALL}")
_IMPORT = re.compile(r"(?:from|import)[ \t]")
_COUNT = re.compile(rf"{_NAME}[ \t]*=[ \t]*int\(input\(\)\){_EMPTY}")
_SETTING = re.compile(r"\"\"|(?:sys\.setrecursionlimit|threading\.stack_size)\(")


def with_call_behind(program: str, behind: Sequence[str]) -> str:
    """Append the first block that only calls the program, without arguments, if the program calls nothing itself.

    Args:
        program: The program.
        behind: The blocks that stand behind it in the answer.

    Examples:
        >>> print(with_call_behind("def main(): print(input())\\n", ["main()"]))
        def main(): print(input())
        main()
    """
    if not behind or not _only_defines(program):
        return program
    names = written_names(program)
    for block in behind:
        if _only_calls(block, names):
            return program + block
    return program


def _only_defines(program: str) -> bool:
    """Test if a program's top level defines and calls nothing that it defines."""
    plain = without_texts(program)
    parts = top_statements(plain)
    defined = written_names(plain)
    for part in parts:
        is_value = bool(assigned_names(part)) and not _calls_any(part, defined)
        is_quiet = is_value or is_definition(part) or _SETTING.match(part)
        if part.strip() and not is_quiet:
            return False
    return True


def _calls_any(part: str, names: set[str]) -> bool:
    return not names.isdisjoint(re.findall(rf"({_NAME})[ \t]*\(", part))


def _only_calls(block: str, names: set[str]) -> bool:
    """Test if a block calls one of the names, and does nothing else than count tests and import."""
    called = set()
    for part in top_statements(without_texts(block)):
        call = _CALLING.fullmatch(part)
        if call:
            called.add(call[1])
            continue
        is_quiet = _IMPORT.match(part) or _COUNT.fullmatch(part) or not part.strip(' \t\n"')
        if not is_quiet:
            return False
    return bool(called) and called <= names
