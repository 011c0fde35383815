"""Join an answer's blocks as files of one program: remove imports between blocks, and put imported blocks first.

Completions are read by patterns in linear time, never parsed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from trl_grpo_ext.programs.suites.blocks import (
    TEXT,
    FencedBlock,
    is_formatted,
    without_texts,
)
from trl_grpo_ext.programs.suites.solution_imports import SOLUTION, is_known_module
from trl_grpo_ext.programs.suites.source import top_level

# A function, class or value at the top of a file
_WRITTEN = re.compile(
    r"^(?:(?:async[ \t]+)?(?:def|class)[ \t]+([^\W\d]\w*)|([^\W\d]\w*)[ \t]*(?::[^=\n]*)?=[^=])",
    re.MULTILINE,
)
# Strings and comments come first: an import in them is none.
_IMPORT = re.compile(
    rf"{TEXT}|^(?P<indent>[ \t]*)(?:from[ \t]+(?P<module>[\w.]+)[ \t]+)?import\b"
    r"(?P<names>[ \t]*\([^)]*\)?|(?:\\\n|[^#;\n\\])*)",
    re.MULTILINE,
)
_ATTRIBUTE = re.compile(r"(?<![\w.])([^\W\d]\w*)\.([^\W\d]\w*)")
_TEXT_OR_ATTRIBUTE = re.compile(f"{TEXT}|{_ATTRIBUTE.pattern}")
_COMMENT = re.compile(r"#.*")
_IMPORTED = re.compile(r"([^\W\d][\w.]*|\*)(?:\s+as\s+(\w+))?")

# The last block that writes a name, by its place in the answer, and where in the block
_Writers = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Files:
    """An answer's blocks, read as files of one program.

    Attributes:
        blocks: The blocks without their imports of each other. A block stays in its place unless one before it imports
            from it.
        taken: The names that they import from each other.
    """

    blocks: list[FencedBlock]
    taken: frozenset[str]


def as_files(blocks: Sequence[FencedBlock]) -> Files:
    r"""Read blocks as files.

    An import is of other blocks if its module is relative or unknown, and they write all names that it takes.

    Examples:
        >>> main = FencedBlock("py", "from tools import double\nprint(double(2))\n")
        >>> tools = FencedBlock("py", "def double(x): return 2 * x\n")
        >>> [block.code for block in as_files([main, tools]).blocks]
        ['def double(x): return 2 * x\n', 'pass\nprint(double(2))\n']
    """
    files = _files([block.code for block in blocks])
    read = [
        replace(block, code=file.read(block.code))
        for file, block in zip(files, blocks, strict=True)
    ]
    order = _imported_first([file.imported() for file in files])
    taken = frozenset[str]().union(*(file.taken for file in files))
    return Files([read[place] for place in order], taken)


def without_imports_of(other: str, code: str) -> str:
    r"""Remove a program's imports of given code, such as the prompt's code.

    Examples:
        >>> without_imports_of("class User: ...\n", "from models import User\nUser()\n")
        'pass\nUser()\n'
    """
    return _files([other, code])[1].read(code)


class _File:
    """A code block, read as a file.

    Attributes:
        taken: The names that it imports from other blocks, known once it is read.
    """

    def __init__(self, place: int, writers: _Writers, *, is_alone: bool) -> None:
        self.taken: set[str] = set()
        self._place = place
        self._writers = writers
        self._is_alone = is_alone
        # Names that stand for other blocks as modules, with what the code reads of them
        self._modules: dict[str, set[str]] = {}

    def read(self, code: str) -> str:
        """Return the code without its imports of other blocks."""
        if "import" not in code:
            return code
        read: dict[str, set[str]] = {}
        for name, attribute in _ATTRIBUTE.findall(without_texts(code)):
            read.setdefault(name, set()).add(attribute)
        self._modules = {
            name: attributes
            for name, attributes in read.items()
            if all(map(self._is_of_another, attributes))
        }
        used: set[str] = set()
        code = _IMPORT.sub(lambda found: self._without(found, used), code)
        if not used:
            return code
        return _TEXT_OR_ATTRIBUTE.sub(lambda found: _without_modules(found, used), code)

    def imported(self) -> list[int]:
        """Return the places of the imported blocks."""
        # An intersection with a mapping would go through all of the mapping, for each block.
        names = [name for name in sorted(self.taken) if name in self._writers]
        return [self._writers[name][0] for name in names]

    def _without(self, found: re.Match[str], used: set[str]) -> str:
        """Replace an import between blocks by assignments of its `as` names; keep all other text.

        Args:
            found: A match of `_IMPORT`.
            used: Names that stand for other blocks as modules, to add to.
        """
        names = _names(found["names"] or "")
        if not names:
            return found[0]
        taken: set[str] = set()
        modules: set[str] = set()
        lines = []
        for name, bound in names:
            if found["module"] and self._is_written(name, found.start()):
                taken.add(name)
                if bound != name:
                    lines.append(f"{bound} = {name}")
                    taken.add(bound)
            elif bound in self._modules:
                modules.add(bound)
            elif name != "*" or self._is_alone or not found["module"]:
                return found[0]
        if not _is_of_unknown(found["module"], names):
            return found[0]
        self.taken |= taken.union(*map(self._modules.__getitem__, modules))
        used |= modules
        return found["indent"] + ("; ".join(lines) or "pass")

    def _is_of_another(self, name: str) -> bool:
        return name in self._writers and self._writers[name][0] != self._place

    def _is_written(self, name: str, end: int) -> bool:
        """Test if another block writes a name, or this one in front of `end`."""
        return self._is_of_another(name) or (
            name in self._writers and self._writers[name][1] < end
        )


def _files(codes: Sequence[str]) -> list[_File]:
    writers: dict[str, tuple[int, int]] = {}
    for place, code in enumerate(codes):
        for found in _WRITTEN.finditer(code):
            writers[found[1] or found[2]] = (place, found.start())
    is_alone = len({place for place, _ in writers.values()}) < 2
    return [_File(place, writers, is_alone=is_alone) for place in range(len(codes))]


def _without_modules(found: re.Match[str], used: Collection[str]) -> str:
    """Write `User` for `models.User`, also in a formatted text; leave any other text as it is."""
    *_, name, attribute = found.groups()
    if name:
        return attribute if name in used else found[0]
    if is_formatted(found):
        return _ATTRIBUTE.sub(
            lambda inner: inner[2] if inner[1] in used else inner[0], found[0]
        )
    return found[0]


def _names(text: str) -> list[tuple[str, str]]:
    """Return the names of an import, each with the name that it binds; nothing for an invalid import.

    Examples:
        >>> _names(" (a,  # the first\\n  b as c)")
        [('a', 'a'), ('b', 'c')]
    """
    names = []
    plain = _COMMENT.sub("", text).replace("\\\n", " ").strip(" \t()\n")
    for each in plain.rstrip(",").split(","):
        found = _IMPORTED.fullmatch(each.strip())
        if found is None:
            return []
        names.append((found[1], found[2] or top_level(found[1])))
    return names


def _is_of_unknown(module: str | None, names: Sequence[tuple[str, str]]) -> bool:
    """Test if an import names a relative module, `solution`, or modules unknown to Python and to all packages."""
    modules = [module] if module else [name for name, _ in names]
    # A relative module has no top level.
    tops = {top_level(each) for each in modules} - {"", SOLUTION}
    return not any(map(is_known_module, tops))


def _imported_first(imported: Sequence[Sequence[int]]) -> list[int]:
    """Order files so that each stands behind those it imports; of files that import each other, the first comes last.

    Args:
        imported: The places of the files that each file imports.
    """
    waiting = [list(each) for each in imported]
    opened: set[int] = set()
    order = []
    for first in range(len(imported)):
        path = [] if first in opened else [first]
        opened.add(first)
        while path:
            further = waiting[path[-1]]
            if not further:
                order.append(path.pop())
                continue
            place = further.pop()
            if place not in opened:
                opened.add(place)
                path.append(place)
    return order
