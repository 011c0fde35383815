"""Parse a list of tag entries to a structure, and parse texts by it, in time linear in the text's length."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

# `reasoning/step{2,}`: parents, name and frequency.
_ENTRY = re.compile(
    r"((?:[A-Za-z_][\w.:-]*/)*)([A-Za-z_][\w.:-]*)([?*+]|\{[0-9]+(?:,[0-9]*)?\})?", re.ASCII
)
_COUNTS: Mapping[str, tuple[int, int | None]] = {
    "": (1, 1),
    "?": (0, 1),
    "*": (0, None),
    "+": (1, None),
}


@dataclass(frozen=True, slots=True)
class TagPart:
    """A tag of the structure: its name, place and allowed number.

    Attributes:
        name: The tag's name, without brackets.
        path: The names from the outermost tag to this tag, joined by slashes.
        place: The index among the tags of the same parent, from 0.
        least: The least number of occurrences inside each parent element.
        most: The greatest number of occurrences inside each parent element; None for any number.
        children: The tags inside this tag, by name, in order.
    """

    name: str
    path: str
    place: int
    least: int
    most: int | None
    children: dict[str, TagPart] = field(default_factory=dict)

    def walk(self) -> Iterator[TagPart]:
        """Yield this part and all parts inside it, depth first."""
        yield self
        for child in self.children.values():
            yield from child.walk()

    def required(self) -> Iterator[TagPart]:
        """Yield the required parts among this part and its descendants; descendants of an optional part are skipped."""
        if self.least:
            yield self
            for child in self.children.values():
                yield from child.required()


@lru_cache(maxsize=64)
def read_structure(entries: tuple[str, ...]) -> dict[str, TagPart]:
    """Parse tag entries such as `reasoning/step{2,}`, and return the outermost parts by name.

    Raises:
        ValueError: for an unreadable entry, a repeated entry, a count such as `{3,2}`, or a parent tag that is not
            listed before the entry.

    Examples:
        >>> structure = read_structure(("plan?", "reasoning", "reasoning/step{2,}", "answer"))
        >>> [(part.path, part.least, part.most) for top in structure.values() for part in top.walk()]
        [('plan', 0, 1), ('reasoning', 1, 1), ('reasoning/step', 2, None), ('answer', 1, 1)]
    """
    top: dict[str, TagPart] = {}
    parts: dict[str, TagPart] = {}
    for entry in entries:
        parents, name, frequency = _read_entry(entry)
        parent = parents.removesuffix("/")
        siblings = top
        if parent:
            if parent not in parts:
                raise ValueError(
                    f"The tag {entry!r} stands in {parent!r}, which is not listed before it; list it."
                )
            siblings = parts[parent].children
        path = parents + name
        if name in siblings:
            raise ValueError(
                f"The tag {path!r} is listed twice; say how often it is there, as in {name}+."
            )
        least, most = _counts(frequency, entry)
        part = TagPart(
            name=name,
            path=path,
            place=len(siblings),
            least=least,
            most=most,
        )
        siblings[name] = part
        parts[path] = part
    return top


class _Entry(NamedTuple):
    """Parts of an entry: `reasoning/step{2,}` has parents `reasoning/`, name `step` and frequency `{2,}`."""

    parents: str
    name: str
    frequency: str


def _read_entry(entry: object) -> _Entry:
    match = None
    if isinstance(entry, str):
        match = _ENTRY.fullmatch(entry)
    if match is None:
        raise ValueError(
            f"{entry!r} is no tag. Write its name without brackets, the tags it stands in before it, and how often "
            "after it, as in `answer`, `reasoning/step+`, `note?`, `step*` or `step{2,4}`."
        )
    return _Entry(match[1], match[2], match[3] or "")


def _counts(written: str, entry: str) -> tuple[int, int | None]:
    """Parse a frequency to its bounds: `{2,4}` to (2, 4), `{2,}` to (2, None)."""
    if written in _COUNTS:
        return _COUNTS[written]
    first, comma, second = written.strip("{}").partition(",")
    least = int(first)
    if comma and not second:
        return least, None
    most = int(second) if comma else least
    if most == 0 or most < least:
        raise ValueError(
            f"The tag {entry!r} can never be there as often as that; write the smaller number first."
        )
    return least, most


@dataclass(slots=True)
class Element:
    """A pair of tags in a text, with character offsets.

    The element spans `start` to `end`, and its content `opened` to `closed`; `closed` and `end` are -1 until the
    closing tag is read. `part` is None for an element that the structure does not allow at its place.
    """

    part: TagPart | None
    name: str
    start: int
    opened: int
    closed: int = -1
    end: int = -1
    children: list[Element] = field(default_factory=list)


def read_tags(
    text: str, structure: Mapping[str, TagPart], *, mentions: bool = False
) -> Reading:
    """Parse the elements of a text, and collect the faults of single tags: `misplaced`, `unopened`, `unclosed`.

    Args:
        text: Any text. Only tags spelled exactly as in the structure count as tags.
        structure: The result of `read_structure`.
        mentions: Treat other tags inside a tag without children as text.

    Examples:
        >>> reading = read_tags("<a>1</a></b>", read_structure(("a", "b")))
        >>> [element.name for element in reading.elements], reading.faults
        (['a'], [('unopened', 'b')])
    """
    # Names may have dots.
    names = "|".join(map(re.escape, sorted(tag_names(structure))))
    tags = re.compile(f"<(/?)({names})>")
    reading = Reading(structure, mentions=mentions)
    for tag in tags.finditer(text):
        if tag[1]:
            reading.close(tag)
        else:
            reading.open(tag)
    reading.finish()
    return reading


def tag_names(structure: Mapping[str, TagPart]) -> set[str]:
    """Collect the tag names of a structure, nested tags included."""
    names = set()
    for top in structure.values():
        for part in top.walk():
            names.add(part.name)
    return names


class Reading:
    """A parser state: elements found and faults so far, built tag by tag.

    Attributes:
        elements: The outermost elements at allowed places.
        faults: Pairs of reason code and tag name, in the order of detection.
    """

    def __init__(self, structure: Mapping[str, TagPart], *, mentions: bool) -> None:
        self.elements: list[Element] = []
        self.faults: list[tuple[str, str]] = []
        self.structure = structure
        self.mentions = mentions
        self.stack: list[Element] = []
        # Tag name -> number of open elements.
        self.depths: Counter[str] = Counter()

    def open(self, tag: re.Match[str]) -> None:
        name = tag[2]
        if self._is_mention(name):
            return
        part = self._allowed_here().get(name)
        # A misplaced element is kept on the stack, for its closing tag.
        if part is None:
            self.faults.append(("misplaced", name))
        element = Element(
            part=part,
            name=name,
            start=tag.start(),
            opened=tag.end(),
        )
        self.stack.append(element)
        self.depths[name] += 1

    def close(self, tag: re.Match[str]) -> None:
        name = tag[2]
        if self._is_mention(name):
            return
        # A count per name, since a search of the stack would take quadratic time.
        if not self.depths[name]:
            self.faults.append(("unopened", name))
            return
        # Elements inside this element that are still open end here, unclosed.
        while self.stack[-1].name != name:
            self._drop()
        element = self._pop()
        element.closed = tag.start()
        element.end = tag.end()
        # A misplaced element is a fault already, and no part of the structure.
        if element.part is None:
            return
        siblings = self.stack[-1].children if self.stack else self.elements
        siblings.append(element)

    def finish(self) -> None:
        while self.stack:
            self._drop()

    def _allowed_here(self) -> Mapping[str, TagPart]:
        if not self.stack:
            return self.structure
        inside = self.stack[-1].part
        # Inside a misplaced element, every tag is misplaced.
        if inside is None:
            return {}
        return inside.children

    def _is_mention(self, name: str) -> bool:
        if not self.mentions or not self.stack:
            return False
        inside = self.stack[-1]
        is_leaf = inside.part is not None and not inside.part.children
        return is_leaf and inside.name != name

    def _drop(self) -> None:
        self.faults.append(("unclosed", self._pop().name))

    def _pop(self) -> Element:
        element = self.stack.pop()
        self.depths[element.name] -= 1
        return element
