"""Extract programs from texts, and complete them with the prompt's code.

Completions are never parsed here, only read line by line in linear time, since hostile text reaches the trainer's
process. Python's parser reads only the prompt's code, which comes from the dataset.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from trl_grpo_ext.programs.suites.bad_tests import BadTests
from trl_grpo_ext.programs.suites.blocks import (
    FencedBlock,
    fenced_blocks,
    open_quotes,
    with_first_fence,
    with_helpers,
)
from trl_grpo_ext.programs.suites.calls_behind import with_call_behind
from trl_grpo_ext.programs.suites.files import as_files, without_imports_of
from trl_grpo_ext.programs.suites.first_line import with_first_line_indented
from trl_grpo_ext.programs.suites.prose_behind import without_prose, without_tokens
from trl_grpo_ext.programs.suites.source import (
    Statement,
    binds_of,
    imported_modules,
    is_empty,
    joined,
    reads_of,
    statements,
)
from trl_grpo_ext.protocol import first_value
from trl_grpo_ext.sample import Prompt

REFERENCE_COLUMNS = (
    "canonical_solution",
    "reference",
    "solution",
    "code",
    "gold_standard_solution",
)

_FUTURE = re.compile(r"^from[ \t]+__future__[ \t]", re.MULTILINE)
_TOP_RETURN = re.compile(r"^(?:return|yield)\b", re.MULTILINE)

# Marks of code without a fence: of formats with a part for the thinking, of HTML, and of Code Llama's prompts.
_MARKS = (
    ("<answer>", "</answer>"),
    ("<solution>", "</solution>"),
    ("<code>", "</code>"),
    ("[PYTHON]", "[/PYTHON]"),
)
_BEGIN = re.compile(r"^\[BEGIN\][ \t]*$\n?", re.MULTILINE)
# Of a program that is tested by its output; a usage may replace `sys.stdin`.
_READS_INPUT = re.compile(r"\binput\(|\bopen\(0\b|\bfileinput\b|\bstdin\b(?![ \t]*=[^=])")
_PRINTS = re.compile(r"\bprint\b|\bstdout\b|\bwrite\b")
_CODE_START = re.compile(
    r"^(?:from\s+\w|import\s+\w|(?:async\s+)?def\s+\w|class\s+\w|@\w)", re.MULTILINE
)


def extract_program(
    text: str, names: Collection[str] = (), called: Collection[str] = ()
) -> str | None:
    r"""Extract the program from an answer, the text after the thinking; None if the answer has no code.

    The program is the last block tagged as Python, else the last block with any tag; without a fence it is the whole
    text, or the text in `<answer>` or another pair of `_MARKS`, or between MBPP's `[BEGIN]` and `[DONE]`. Of several
    blocks, others may show usage or explain a line: see `_programs`. Definitions of other blocks count if the program
    or `names` need them; blocks may be files that import from each other. Blank blocks are skipped. An unclosed block
    ends with the text. The indentation of an indented fence, as in a list, is removed from its lines. A program's own
    indentation stays: it may be the body of a function, see `complete_program`.

    Args:
        text: The answer.
        names: Names that the tests need, all of them.
        called: Names of which the tests call at least one; `names` by default. Empty for tests of a program's output.

    Examples:
        >>> extract_program("Here it is:\n```python\nx = 1\n```\nIt prints:\n```\n1\n```")
        'x = 1\n'
        >>> extract_program("    return x + 1\n")
        '    return x + 1\n'
    """
    text = with_first_fence(without_tokens(text.replace("\r\n", "\n")))
    found = fenced_blocks(text)
    if not found:
        for opening, closing in _MARKS:
            text = _between(text, opening, closing)
        text, _, _ = text.partition("\n[DONE]")
        program = _without_blank_lines(_BEGIN.split(text)[-1])
        return without_prose(program) if program else None
    filled = [block for block in found if block.code.strip()]
    candidates = [block for block in filled if block.is_python] or filled
    if not candidates:
        return None
    files = as_files(candidates)
    chosen = _programs(files.blocks, called or names)[-1]
    others = [block.code for block in files.blocks if block is not chosen]
    # A body belongs to the prompt's stub.
    if _is_indented(chosen.code):
        return chosen.code
    program = with_helpers(chosen.code, others, names, files.taken)
    # Tests of output run the program; other tests call what it defines.
    if called or names:
        return program
    behind = files.blocks[files.blocks.index(chosen) + 1 :]
    return with_call_behind(program, [block.code for block in behind])


def ends_answer(program: str, answer: str) -> bool:
    r"""Test if the answer ends with the program: no closing fence, tag or prose stands behind it.

    Examples:
        >>> ends_answer("print(1\n", "~~~py\nprint(1"), ends_answer("print(1\n", "~~~py\nprint(1\n~~~")
        (True, False)
    """
    return _last_line(program) == _last_line(without_tokens(answer))


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2].strip()


def _programs(blocks: list[FencedBlock], called: Collection[str]) -> list[FencedBlock]:
    """Keep the blocks that may be the program, by the first test that any block passes; else all.

    If the tests call names, a program writes one of them, is a function's body, or imports one of them: `from solution
    import add` shows a use of another block. Otherwise it reads input and prints.
    """
    tests: list[Callable[[str], bool]]
    if called:
        tests = [
            lambda code: any(_writes(code, name) for name in called),
            _is_indented,
            # The first line of a body may have lost its indentation.
            lambda code: _is_indented(code.partition("\n")[2]),
            lambda code: any(_defines(code, name) for name in called),
        ]
    else:
        tests = [lambda code: bool(_READS_INPUT.search(code) and _PRINTS.search(code))]
    for test in tests:
        found = [block for block in blocks if test(block.code)]
        if found:
            return found
    return blocks


def reference_program(
    row: Mapping[str, Any], columns: Sequence[str] = REFERENCE_COLUMNS
) -> str | None:
    """Extract the reference program from the first of `columns` with a value; None if the row has none."""
    reference = first_value(row, columns)
    if not isinstance(reference, str):
        return None
    return extract_program(reference)


def _between(text: str, opening: str, closing: str) -> str:
    """Return what the last pair of marks in a text holds; the whole text if code or a string stands around the pair."""
    before, found, after = text.rpartition(opening)
    if not found:
        return text
    code, _, rest = after.partition(closing)
    *lines_before, beside = before.split("\n")
    quotes = ""
    for line in lines_before:
        quotes = open_quotes(line, quotes)
    is_marked = not beside.strip() and not quotes
    if not is_marked or _CODE_START.search(before) or _CODE_START.search(rest):
        return text
    return code


def _without_blank_lines(text: str) -> str | None:
    """Strip leading blank lines, but keep indentation; None for a blank text."""
    program = text.lstrip()
    if not program:
        return None
    start = text.rfind("\n", 0, len(text) - len(program)) + 1
    return text[start:]


@dataclass(frozen=True)
class PromptCode:
    """The Python code of a prompt.

    Attributes:
        text: The code as written in the prompt; empty if the prompt has no code.
        parts: Its top-level statements.
        entry_point: The name that the completion must define.
        reference: The names that the row's reference solution defines; None without a reference.
    """

    text: str = ""
    parts: tuple[Statement, ...] = ()
    entry_point: str | None = None
    reference: frozenset[str] | None = None

    @property
    def ends_with_stub(self) -> bool:
        """True if the last statement is the entry point, a stub for the completion to fill."""
        return bool(self.parts) and self._is_entry_point(self.parts[-1])

    @property
    def ends_with_empty_stub(self) -> bool:
        """True if the last statement is a stub without code, with or without a docstring."""
        return self.ends_with_stub and is_empty(self.parts[-1].node)

    @property
    def stub_indent(self) -> str:
        """Indentation of the stub's first statement, usually the docstring; empty for a stub without statements."""
        node = self.parts[-1].node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return ""
        first = node.body[0]
        lines = self.text.split("\n")
        # A body that the prompt lacks has been added behind its last line.
        if first.lineno > len(lines):
            return ""
        return lines[first.lineno - 1][: first.col_offset]

    # Cached, since each completion of the prompt needs them.
    @cached_property
    def helpers(self) -> tuple[Statement, ...]:
        """Imports, functions, classes and values of the prompt, without the entry point."""
        return tuple(
            part
            for part in self.parts
            if part.is_definition and not self._is_entry_point(part)
        )

    def definitions(self, names: Iterable[str]) -> list[Statement]:
        """Collect the definitions that `names` need, transitively, without the entry point's own definition."""
        wanted = set(names)
        while True:
            needed = [
                part for part in self.helpers if not part.usage.binds.isdisjoint(wanted)
            ]
            more = reads_of(needed)
            if more <= wanted:
                break
            wanted |= more
        return [
            part
            for part in self.helpers
            if part in needed or part.is_future or part.is_star_import
        ]

    def _is_entry_point(self, part: Statement) -> bool:
        return (
            self.entry_point is not None
            and part.is_code
            and self.entry_point in part.usage.binds
        )


def prompt_code(prompt: Prompt | None, entry_point: str | None) -> PromptCode:
    r"""Find the code of a prompt that defines the entry point, or else helpers.

    In a conversation, only the user's messages are read. The result is the last fenced block that defines the entry
    point, with helpers of other blocks; without fences, the whole text, or the text from the first line that looks like
    code. If nothing defines the entry point, the last code with functions or classes counts, since they may be helpers.
    A missing body at the end of the code is accepted.

    Examples:
        >>> found = prompt_code("import math\ndef area(r):\n    '''Of a circle.'''\n", "area")
        >>> found.ends_with_stub, [part.text for part in found.definitions(["math"])]
        (True, ['import math'])
    """
    if entry_point is None or prompt is None:
        return PromptCode(entry_point=entry_point)
    return _read(tuple(_user_texts(prompt)), entry_point)


@lru_cache(maxsize=256)
def _read(texts: tuple[str, ...], entry_point: str) -> PromptCode:
    candidates: list[str] = []
    # The last message counts first.
    for text in reversed(texts):
        candidates += _candidates(text.replace("\r\n", "\n"))
    codes = [
        PromptCode(candidate, tuple(_parts(candidate)), entry_point)
        for candidate in candidates
    ]
    defining = [code for code in codes if entry_point in binds_of(code.parts)]
    helping = [code for code in codes if any(part.is_code for part in code.parts)]
    importing = [code for code in codes if code.parts and all(map(_is_import, code.parts))]
    # The first one counts, if there is any.
    for found in (*defining, *helping, *importing):
        helpers = _helpers([*helping, *importing], found)
        return replace(found, parts=(*helpers, *found.parts))
    return PromptCode(entry_point=entry_point)


def _helpers(codes: Sequence[PromptCode], found: PromptCode) -> list[Statement]:
    """List functions, classes, imports and constants of other blocks of a prompt; blocks may also show usage."""
    bound = {found.entry_point}.union(*map(_binds, found.parts))
    helpers = []
    for code in codes:
        for part in code.parts:
            binds = _binds(part)
            if binds and binds.isdisjoint(bound) and _is_helper(part):
                helpers.append(part)
                bound |= binds
    return helpers


def _binds(part: Statement) -> frozenset[str]:
    """Return the names that a statement binds; a star import stands for its names."""
    return frozenset({part.text}) if part.is_star_import else part.usage.binds


def _is_helper(part: Statement) -> bool:
    if part.is_star_import:
        # Tests that a prompt shows may import all of the program, as a module that the program does not have.
        return sys.stdlib_module_names.issuperset(imported_modules(part.node))
    is_constant = part.is_definition and all(map(str.isupper, part.usage.binds))
    return part.is_code or _is_import(part) or is_constant


def _is_import(part: Statement) -> bool:
    return isinstance(part.node, ast.Import | ast.ImportFrom)


def _user_texts(prompt: Prompt) -> list[str]:
    if isinstance(prompt, str):
        return [prompt]
    texts = []
    for message in prompt:
        if isinstance(message, Mapping) and message.get("role") == "user":
            texts.append(_content(message.get("content")))
    return texts


def _content(content: Any) -> str:
    """Return a message's text, joined from its blocks if necessary."""
    if isinstance(content, str):
        return content
    texts = []
    if isinstance(content, list | tuple):
        for block in content:
            if isinstance(block, Mapping):
                texts.append(str(block.get("text") or ""))
    return "\n".join(texts)


def _candidates(text: str) -> list[str]:
    blocks = [
        block.code for block in fenced_blocks(text) if block.is_python or not block.tag
    ]
    if blocks:
        # The last block counts first.
        return blocks[::-1]
    start = _CODE_START.search(text)
    if start is None:
        return []
    return [text, text[start.start() :]]


def _parts(code: str) -> list[Statement]:
    """Parse code whose last body may be missing; an empty list for invalid Python."""
    for candidate in (code, _with_body(code)):
        try:
            return statements(candidate)
        except BadTests:
            # The code may end with a header: the second candidate has a body for it.
            continue
    return []


def _with_body(code: str) -> str:
    """Append `pass` as body if code ends after a definition's header."""
    lines = code.rstrip().split("\n")
    last = ""
    for line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            last = line
    indent = len(last) - len(last.lstrip())
    # A body stands deeper than its header, and at the depth of a docstring that is there already.
    if last.endswith(":"):
        indent += 4
    return "\n".join([*lines, " " * indent + "pass\n"])


def complete_program(
    program: str, code: PromptCode, entry_point: str | None, names: Collection[str] = ()
) -> str:
    r"""Join the extracted program with the code of its prompt to a complete program.

    A body, text whose first code line is indented, is appended to the prompt's stub, as in HumanEval. Then come before
    it the prompt's imports and helpers that it mentions, such as `from typing import List`, which a model does not
    always repeat, and those of `names`, which the tests take from it, such as a class. A program that is indented as a
    whole and defines the entry point is dedented, not treated as a body.

    Examples:
        >>> from trl_grpo_ext.programs.suites.program_text import prompt_code
        >>> code = prompt_code("def double(x):\n    '''Twice x.'''\n", "double")
        >>> complete_program("    return 2 * x\n", code, "double")
        "def double(x):\n    '''Twice x.'''\n    return 2 * x\n"
    """
    if not entry_point:
        return program
    if code.ends_with_empty_stub:
        program = with_first_line_indented(program, code.stub_indent, entry_point)
    if _is_indented(program):
        whole = textwrap.dedent(program)
        is_body = _TOP_RETURN.search(whole) or not _defines(whole, entry_point)
        if is_body and not code.ends_with_stub:
            return program
        program = f"{code.text.rstrip()}\n{program}" if is_body else whole
    return _with_prompt_helpers(program, code, names)


def _is_indented(program: str) -> bool:
    for line in program.split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            return line[0] in {" ", "\t"}
    return False


def _has_word(program: str, name: str) -> bool:
    return name in program and re.search(rf"\b{re.escape(name)}\b", program) is not None


def _defines(program: str, name: str) -> bool:
    """Test if an unindented line defines or imports the name."""
    imported = rf"^(?:from|import)[ \t].*\b{re.escape(name)}\b"
    return _writes(program, name) or re.search(imported, program, re.MULTILINE) is not None


def _writes(program: str, name: str) -> bool:
    """Test if an unindented line defines the name as a function, a class or a value."""
    name = re.escape(name)
    written = (
        rf"^(?:(?:async[ \t]+)?def[ \t]+{name}\b|class[ \t]+{name}\b|{name}[ \t]*[:=])"
    )
    return re.search(written, program, re.MULTILINE) is not None


def _with_prompt_helpers(program: str, code: PromptCode, names: Collection[str]) -> str:
    # A `__future__` import must stay at the top, and its program has imports of its own.
    if not code.parts or _FUTURE.search(program):
        return program
    program = without_imports_of(joined(list(code.parts)), program)
    wanted = []
    for name in binds_of(code.helpers):
        is_needed = name in names or _has_word(program, name)
        if is_needed and not _defines(program, name):
            wanted.append(name)
    helpers = [part for part in code.definitions(wanted) if not part.is_future]
    if not helpers:
        return program
    return f"{joined(helpers)}\n\n{program}"
