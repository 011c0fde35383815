r"""Find marked answers: `\boxed{}` and `<answer>`. Takes time linear in the length of the text."""

from __future__ import annotations

import re
from typing import NamedTuple

# Characters between two boxes that are parts of an answer, as in math-verify.
MAX_GAP_CHARS = 70
# Characters of a name before a box, such as `x_1 = `.
_MAX_NAME_CHARS = 24
# A box with more words holds steps of the work.
MAX_BOXED_WORDS = 8

_BOX = re.compile(r"\\\\?(?:boxed|fbox)\s*\{")
_BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s+([0-9A-Za-z]+|\\[A-Za-z]+)")
_BRACES = re.compile(r"\\[{}\\]|[{}]")
_JOINED = re.compile(r"^[\s$,;\\()\[\]]*$|,|;|\band\b|\bor\b")
_CORRECTED = re.compile(
    r"\b(?:simplifies|equals?|becomes|gives|then|no|not|wait|but|so|actually|instead|rather|sorry|correct\w*)\b",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"(?:^|[\s$(,;&])((?:[A-Za-z]|\\[A-Za-z]{2,8})(?:_\{?\w{1,3}\}?)?)\s*&?=\s*$"
)
_SENTENCE_END = re.compile(r"[.!?]\s+[A-Z]|\n\s*\n")
_OR = re.compile(r"\b(?:or|oder|ou|o)\b")
_WORD = re.compile(r"[A-Za-z]{3,}")
_BLANK = re.compile(
    r"\\(?:[hv]?phantom|[hv]space\*?)\s*\{[^{}]*\}|\\(?:q?quad|text\s*\{\s*\}|[,;:! ])|~"
)
_PLACEHOLDER = re.compile(
    r"[\s.…_]*|(?:\\text\s*\{\s*)?\[?(?:your |the |final )*answer(?: here)?\]?(?:\s*\})?",
    re.IGNORECASE,
)
_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
# The gap between neighbouring marks: only words without content.
BESIDE = re.compile(
    r"[\W_]*(?:(?:and|or|und|oder|et|ou|y|o|e|(?:I hope )?it is correct|the|my|so|thus|final|answer|is|in"
    r"|text|quad|qquad|begin|end|align\w*|displaystyle)\b[\W_]*){0,6}",
    re.IGNORECASE,
)


class Mark(NamedTuple):
    """A marked passage with start index, end index and content."""

    start: int
    end: int
    content: str


def boxes(text: str) -> list[Mark]:
    r"""Find the outermost boxes; a box inside a box counts as its content.

    Examples:
        >>> [box.content for box in boxes(r"\boxed{1}, \boxed{\boxed{2}} and \boxed 3")]
        ['1', '2', '3']
    """
    # Most golds contain no box.
    if "box" not in text:
        return []
    found, unclosed = _scan_boxes(text)
    # An unclosed box hides later boxes: search from the last opening alone.
    if unclosed is not None:
        openings = [match.start() for match in _BOX.finditer(text, unclosed)]
        for last in openings[-1:]:
            found += _scan_boxes(text, last)[0]
    bare = [
        Mark(match.start(), match.end(), match[1]) for match in _BARE_BOX.finditer(text)
    ]
    return sorted(found + bare)


def _scan_boxes(text: str, at: int = 0) -> tuple[list[Mark], int | None]:
    """Find the closed outermost boxes from index `at` on, and the start of an unclosed box's content, else None."""
    found = []
    while box := _BOX.search(text, at):
        depth = 1
        for brace in _BRACES.finditer(text, box.end()):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
            if not depth:
                found.append(
                    Mark(
                        box.start(), brace.end(), _unboxed(text[box.end() : brace.start()])
                    )
                )
                at = brace.end()
                break
        else:
            return found, box.end()
    return found, None


def _unboxed(content: str) -> str:
    """Remove a box around a whole content."""
    for _ in range(5):
        match = _BOX.match(content.strip())
        if not match or not content.strip().endswith("}"):
            break
        content = content.strip()[match.end() : -1]
    return content


def box_answers(text: str) -> list[Mark]:
    r"""Find the boxes' answers, in order; neighbouring boxes joined by commas or `and` form an answer together.

    Examples:
        >>> [mark.content for mark in box_answers(r"\boxed{1}, \boxed{2}. No, it is \boxed{3}.")]
        ['1, 2', '3']
    """
    runs: list[list[Mark]] = []
    found = boxes(text)
    meant = [box for box in found if not is_placeholder(box.content)]
    for box in meant or found:
        if (
            runs
            and _joins(text[runs[-1][-1].end : box.start])
            and not is_working(runs[-1][-1].content)
        ):
            runs[-1].append(box)
        else:
            runs.append([box])
    return [_joined(text, run) for run in runs]


def _joined(text: str, run: list[Mark]) -> Mark:
    gaps = text[run[0].end : run[-1].start]
    contents = dict.fromkeys(_named(text, run))
    return Mark(
        run[0].start, run[-1].end, (" or " if _OR.search(gaps) else ", ").join(contents)
    )


def _named(text: str, run: list[Mark]) -> list[str]:
    r"""Return the boxes' contents, with names if every box has a name: `x = \boxed{1}` and `y = \boxed{2}`."""
    contents = [box.content.strip() for box in run]
    if len({*contents}) == 1 or any("=" in content for content in contents):
        return contents
    names = [
        _NAME.search(text, max(0, box.start - _MAX_NAME_CHARS), box.start) for box in run
    ]
    if not all(names):
        return contents
    return [
        f"{name[1]} = {content}"
        for name, content in zip(names, contents, strict=True)
        if name
    ]


def is_working(content: str) -> bool:
    """Check whether a box holds steps of work instead of an answer, as in texts that box every line."""
    return len(content) > MAX_GAP_CHARS or len(_WORD.findall(content)) > MAX_BOXED_WORDS


def is_placeholder(content: str) -> bool:
    r"""Check whether a mark's content is invisible or only a placeholder for the answer: `...`, `\phantom{2}`."""
    return _PLACEHOLDER.fullmatch(_BLANK.sub("", content)) is not None


def _joins(gap: str) -> bool:
    if len(gap) > MAX_GAP_CHARS or _CORRECTED.search(gap):
        return False
    return BESIDE.fullmatch(gap) is not None or (
        _JOINED.search(gap) is not None and not _SENTENCE_END.search(gap)
    )


def tags(text: str) -> list[Mark]:
    """Find all closed `<answer>` tags; of nested tags, the innermost."""
    found, opened = [], None
    for tag in _TAG.finditer(text):
        if not tag[1]:
            opened = tag
        elif opened is not None:
            found.append(Mark(opened.start(), tag.end(), text[opened.end() : tag.start()]))
            opened = None
    return found


def concluding(text: str, marks: list[Mark]) -> list[Mark]:
    """Return the last mark and its neighbours, the last first, so that no answer among several is preferred.

    Marks are neighbours if no word but "and" or "or" is between them. A placeholder such as `<answer>...</answer>`
    counts only if no mark has content.

    Examples:
        >>> text = "<answer>1</answer> Hmm. <answer>2</answer> or <answer>3</answer>"
        >>> [mark.content for mark in concluding(text, tags(text))]
        ['3', '2']
    """
    meant = [mark for mark in marks if not is_placeholder(mark.content)] or marks
    last = meant[-1:]
    for mark in reversed(meant[:-1]):
        gap = text[mark.end : last[-1].start]
        if (
            len(gap) > MAX_GAP_CHARS
            or not BESIDE.fullmatch(gap)
            or is_working(mark.content)
        ):
            break
        last.append(mark)
    return last
