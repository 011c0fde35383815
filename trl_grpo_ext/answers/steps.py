r"""Read the layout of working: bullets, lines of steps, and aligned blocks whose last row is the result."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.signal_words import (
    AS_REASON,
    CONDITION,
    DENIAL,
    DOUBT,
    THEREFORE,
    TURN,
    WRONG,
    any_of,
    contains_any,
)
from trl_grpo_ext.answers.read.spelling import strip_delimiters
from trl_grpo_ext.answers.read.tree import (
    Apply,
    Collection,
    Logic,
    Node,
    Number,
    Relation,
    Symbol,
    Words,
    symbols,
    walk,
)

# More steps are not read: no honest ending needs as many.
MAX_STEPS = 30
# The sign that replaces a dash before an item.
BULLET = "•"

_DASHED = re.compile(r"[ \t]*[-–−—](?=[ \t]+\S)")
_WORD = re.compile(r"(?<![\\{A-Za-z])[A-Za-z]{3,}")
_UNFINISHED = re.compile(r"[-–−+*/×÷=<>≤≥&\\(,][ \t]*$")
_ITEM = re.compile(r"(?:^|\n)[ \t]*(?:[*•‣]|\(?\d{1,2}[.)])[ \t]+")
# A list at the end of a text: bullets only, since numbers may count steps.
_LIST = re.compile(r"(?:\A|\n)[ \t]*((?:[*•‣][ \t]+[^\n]+(?:\n\s*|\Z)){2,})\Z")
# Between calculations that are steps: "3 * 4 = 12, and 12 + 2 = 14", "3a = 15, so a = 5".
_THEN = rf"(?:and|then|{THEREFORE}|giving|yielding|leading to)\b"
_ARROW = r"→|⇒|⟹|[=-]>|\\(?:to|implies|iff|[Rr]ightarrow|Longrightarrow)(?![A-Za-z])"
_NEXT_STEP = re.compile(rf"[,;]\s+(?:and\s+)?(?:{_THEN})?|\b{_THEN}|{_ARROW}")
# Words that count the steps: "First 60 * 2 = 120; then 120 + 8 = 128"
_ORDER = re.compile(
    r"(?:^|(?<=[,;]\s))\s*(?:and\s+)?(?:first|next|then|finally|after that|to begin with),?\s+",
    re.IGNORECASE,
)
# Words before a statement about a letter: "divide by 4: x = 6"
_DONE = re.compile(
    r"^\s*[A-Za-z][^:=<>≤≥]{2,60}:\s+(?=[^:A-Za-z]{0,12}(?:frac\{)?[A-Za-z](?![A-Za-z]))"
)
# An arrow between two amounts: "100 km → 8 L", alone or before another such pair
_PAIRED = re.compile(
    r"((?:^|\n|[,;]\s|\bso\s)[ \t]*(?:so\s)?\d[\d.,]{0,12}(?: ?[A-Za-z]{1,15}){1,2}) ?(?:→|⇒|[-=]>) ?"
    r"(?=\$?\d[\d.,]{0,12}(?: ?[A-Za-z]{1,15}){0,2}[ \t]*(?:[,;.\n]|\Z))"
)
_LED_BY_ARROW = re.compile(rf"^(?:{_ARROW})\s*")
# "Since 3^4 = 81, we have log_3(81) = 4": a reason, and the words before its conclusion
_REASON = re.compile(rf"\W*(?:since|because|{AS_REASON})\s", re.IGNORECASE)
_LED_BY_WORDS = re.compile(
    r"(?:we|you) (?:have|get|find|see that|know that|conclude that)\s|it follows that\s"
)
_COMPARED = re.compile(r"[=<>≤≥]|\\(?:[lg]e|leq|geq|approx)(?![A-Za-z])|≈")
_SIGNS = frozenset(("=", "~", "<", ">", "<=", ">="))
# Displays of several rows, with the delimiters around them.
_BLOCK = re.compile(
    r"(?:(?:\\\[|\$\$)\s{0,9})?\\begin\{(aligned|align\*?|gather(?:ed)?\*?|split|eqnarray\*?)\}"
    r"(?P<rows>.{1,1000}?)\\end\{\1\}(?:\s{0,9}[.,]?\s{0,9}(?:\\\]|\$\$))?",
    re.DOTALL,
)
_ROW = re.compile(r"\\\\(?:\s?\[[^\]\n]{1,9}\])?")
# A row's remark: "3x &= 12 && \text{divide by 3}"
_REMARK = re.compile(
    r"&&.*|\\q?quad\s*(?:&|\\text|\().*|&\s*(?:\\q?quad\s*)?\\text\{.*|\\(?:nonumber|notag)\b",
    re.DOTALL,
)
# A remark, or a line before a list, that leaves what it tells open.
_LEAVES_OPEN = any_of(
    CONDITION, DENIAL, DOUBT, TURN, WRONG, r"or|either|extraneous|guess\w*"
)
_CONTINUES = re.compile(r"(?:[=<>≤≥≈]|\\(?:[lg]eq?|approx)(?![A-Za-z]))(?!>)")
# Ends of what a case tells: "Case 1: x = 5. Case 2: x = 3", "Either x = 5, or x - 3 = 0, so x = 3"
_CASE_END = re.compile(r"\n+|(?<=[.!?])\s+|;\s|,?\s+or\s+")
_CASE_STEP = re.compile(
    rf"{_ARROW}|[,:]\s+|\b(?:(?:which|this|that)\s+)?(?:gives?|giving|yields?|means|implies)\s|\b(?:{_THEN}|we\s+(?:get|have|find)\b)"
)
# "Case 1", "If x >= 2", "First factor"
_CASE_LABEL = re.compile(r"\W*(?:[^\W\d_][^=:]{0,40}|\d{1,2}[.)])?\W*")
_SUPPOSED = re.compile(rf"\W*(?:{CONDITION}|for|when|either)\s", re.IGNORECASE)
_EITHER = re.compile(r"^either\s", re.IGNORECASE)
_NO_CASE = any_of(
    DENIAL,
    DOUBT,
    TURN,
    WRONG,
    r"extraneous|reject\w*|guess\w*|suppose|assume|let|check\w*|try",
)


def with_bullets(text: str) -> str:
    r"""Rewrite the dashes before a text's items as bullets, so that no item is read as a negative number.

    A dash before a space begins an item if two lines of the text begin so. The line before the dash is empty, an item
    or has a word, and does not end within a formula.

    Examples:
        >>> with_bullets("Steps:\n- 4 * 5 = 20\n- 20 - 2 = 18"), with_bullets("x =\n- 8"), with_bullets("-8\n-9")
        ('Steps:\n• 4 * 5 = 20\n• 20 - 2 = 18', 'x =\n- 8', '-8\n-9')
    """
    thinking, mark, said = text.rpartition("</think>")
    lines = said.split("\n")
    items: list[int] = []
    for place, line in enumerate(lines):
        if not _DASHED.match(line):
            continue
        before = lines[place - 1].strip(" \t\r*_") if place else ""
        follows = not before or _WORD.search(before) or items[-1:] == [place - 1]
        if follows and not _UNFINISHED.search(before):
            items.append(place)
    if len(items) < 2:
        return text
    for place in items:
        lines[place] = _DASHED.sub(BULLET, lines[place], count=1)
    return thinking + mark + "\n".join(lines)


def with_rates(text: str) -> str:
    """Write an arrow between two amounts as an equation of different units, which tells a rate.

    Examples:
        >>> with_rates("100 km → 8 L; 250 km → 20 L"), with_rates("3 * 4 → 12")
        ('100 km = 8 L; 250 km = 20 L', '3 * 4 → 12')
    """
    return _PAIRED.sub(r"\1 = ", text) if contains_any(text, "→⇒>") else text


def list_items(text: str) -> list[str]:
    r"""Return the items of the bulleted list at a text's end; an empty list without such a list.

    Examples:
        >>> list_items("They are\n• 2\n• **3**"), list_items("1. 4 + 5 = 9\n2. 9 + 2 = 11")
        (['2', '3'], [])
    """
    found = _LIST.search(text)
    if found is None:
        return []
    items = [item.strip(" *.;,\n") for item in _ITEM.split(found[1])]
    return [strip_delimiters(item) for item in items if item]


def is_list_open(text: str) -> bool:
    r"""Check whether the line before the list at a text's end denies or doubts the list, or asks for it.

    Examples:
        >>> is_list_open("They are not:\n• 2\n• 3"), is_list_open("They are:\n• 2\n• 3")
        (True, False)
    """
    found = _LIST.search(text)
    before = text[: found.start()].rstrip() if found else ""
    line = before.rpartition("\n")[2]
    return line.endswith("?") or _LEAVES_OPEN.search(line) is not None


def last_step(text: str) -> str:
    r"""Return the last of several calculations, or the solution of a statement before it: `x = 7` of "2x = 14, x = 7".

    The steps stand on lines of their own, or behind commas, words such as "so", or arrows. Empty unless all steps are
    calculations with numbers, or statements in the letters of the last step, which alone is solved. A reason, and a
    chain of arrows, lead to any statement behind them.

    Examples:
        >>> last_step("3 * 4 = 12\n12 + 2 = 14"), last_step("2x > 8 → x > 4"), last_step("x = 2\nx = 3")
        ('12 + 2 = 14', 'x > 4', '')
        >>> last_step("Since 3^4 = 81, log_3(81) = 4"), last_step("s^2 = 81 → s = 9 → P = 36")
        ('log_3(81) = 4', 'P = 36')
    """
    if not _COMPARED.search(text):
        return ""
    lines = [line for line in _ITEM.sub("\n", text).split("\n") if line.strip()]
    reason = _REASON.match(text) if len(lines) == 1 else None
    if reason:
        return _behind_reason(text[reason.end() :])
    parts = lines if len(lines) > 1 else _NEXT_STEP.split(_ORDER.sub("", text))
    if not 1 < len(parts) <= MAX_STEPS:
        return ""
    written = [_LED_BY_ARROW.sub("", _bare(_without_action(part))) for part in parts]
    nodes = [_statement(part) for part in written]
    *steps, last = nodes
    unknown = _unknown(last)
    if (
        len(lines) == 1
        and len(re.split(_ARROW, text)) == len(parts)
        and _implied(steps, last)
    ):
        return written[-1]
    if last is None or unknown is None:
        return ""
    letters = symbols(last)
    if not all(_leads_to(unknown, letters, step) for step in steps):
        return ""
    return written[-1]


def case_values(text: str) -> list[str]:
    r"""Return the solutions that a text's end tells case by case; empty unless several cases solve the same letter.

    A case ends in the letter's value, `x = 5`. Each other step is a statement, a condition or a label.

    Examples:
        >>> case_values("x + 5 = 0 -> x = -5\nx - 3 = 0 -> x = 3")
        ['x = -5', 'x = 3']
        >>> case_values("If x >= 2, x = 5. If x < 2, x = -1."), case_values("Case 1: x = 5\nCase 2: not x = 3")
        (['x = 5', 'x = -1'], [])
    """
    if _NO_CASE.search(text):
        return []
    told: dict[Node, str] = {}
    letters = set()
    parts = _CASE_END.split(_ITEM.sub("\n", text).replace("**", ""))
    if len(parts) > MAX_STEPS:
        return []
    is_ended = False
    for part in reversed(parts):
        *steps, last = [_bare(step) for step in _CASE_STEP.split(part)]
        solved = _case_value(last)
        # A further solution before other text leaves open which count.
        if is_ended and solved and solved.sides[-1] not in told:
            return []
        is_ended |= not all(map(_is_case_step, steps)) or not (solved or told)
        is_ended |= not solved and not _is_case_step(last)
        if solved and not is_ended:
            letters.add(solved.sides[0])
            told.setdefault(solved.sides[-1], _EITHER.sub("", last))
    return list(told.values())[::-1] if len(told) > 1 and len(letters) == 1 else []


def _case_value(step: str) -> Relation | None:
    """Read the value that a case gives to a letter; None for other texts."""
    match _statement(_EITHER.sub("", step)):
        case Relation(("=", *signs), (Symbol(), *_, value)) as found if not symbols(
            value
        ) and {*signs} <= {"="}:
            signs_of_value = {one.name for one in walk(value) if isinstance(one, Apply)}
            return None if "+-" in signs_of_value else found
    return None


def _is_case_step(step: str) -> bool:
    """Check for a step to a case's value: a label, a condition or a statement."""
    if _CASE_LABEL.fullmatch(step):
        return True
    return _statement(_SUPPOSED.sub("", step)) is not None


def _implied(steps: Sequence[Node | None], last: Node | None) -> bool:
    """Check whether a chain of arrows ends with the value of a new letter, or of an expression in solved letters."""
    solved = {_unknown(step) for step in steps}
    if not all(map(_relations, steps)) or last is None:
        return False
    unknown = _unknown(last)
    if unknown is not None:
        return unknown not in solved
    return symbols(last) <= solved and any(
        isinstance(side, Number) for one in _relations(last) for side in one.sides
    )


def _behind_reason(text: str) -> str:
    """Return the statement that concludes a sentence after its reason; empty if other text does."""
    *before, last = _NEXT_STEP.split(text)
    said = _bare(_LED_BY_WORDS.sub("", last.strip()))
    return said if before and _statement(said) else ""


def with_last_rows(text: str) -> str:
    r"""Replace each aligned block that derives a result by the result, its last row.

    A block whose earlier rows give results too, such as a system's solution, stays as it is.

    Examples:
        >>> with_last_rows(r"\[\begin{aligned} 3x &= 12 \\ x &= 4 \end{aligned}\]")
        '$x = 4$'
        >>> with_last_rows(r"\begin{align*} A &= 3 \cdot 5 \\ &= 15 \end{align*}")
        '$A = 3 \\cdot 5 = 15$'
    """
    return _BLOCK.sub(_last_row, text) if r"\begin" in text else text


def _last_row(block: re.Match[str]) -> str:
    """Return the last row of a block as a formula, or the whole block if an earlier row gives a result too."""
    rows: list[str] = []
    for row in _ROW.split(block["rows"]):
        remark = _REMARK.search(row)
        if remark and (_LEAVES_OPEN.search(remark[0]) or "?" in remark[0]):
            return block[0]
        said = " ".join(_REMARK.sub("", row).replace("&", "").split()).rstrip(" ,;.")
        said = _LED_BY_ARROW.sub("", said)
        if rows and _CONTINUES.match(said):
            rows[-1] += " " + said
        elif said:
            rows.append(said)
    nodes = [_statement(row) for row in rows]
    is_derived = bool(nodes) and None not in nodes and _unknown(nodes[-1]) is not None
    if not is_derived or any(_is_result(node) for node in nodes[:-1]):
        return block[0] if len(rows) != 1 else f"${rows[0]}$"
    return f"${rows[-1]}$"


def _bare(part: str) -> str:
    """Return a step's text without the delimiters and stops around it."""
    said = strip_delimiters(part.strip(" \t.,;*"))
    return said.strip(" $") if said.count("$") == 1 else said.strip(" .")


def _without_action(part: str) -> str:
    """Remove the words that tell how a step is done, unless they leave its statement open."""
    done = _DONE.match(part)
    return part[done.end() :] if done and not _LEAVES_OPEN.search(done[0]) else part


def _statement(text: str) -> Node | None:
    """Read an equation or an inequality, or several joined by "or"; None for other texts, and beside other words."""
    if not _COMPARED.search(text):
        return None
    found = read(text)
    is_plain = not found.stray and not any(
        isinstance(one, Words) for one in walk(found.node)
    )
    return found.node if is_plain and _relations(found.node) else None


def _relations(node: Node | None) -> Sequence[Relation]:
    """Return the equations and inequalities that a statement joins; empty for other values."""
    match node:
        case Relation(signs, _) if _SIGNS.issuperset(signs):
            return (node,)
        case Logic(_, parts) | Collection("list", parts):
            found = [one for one in parts if isinstance(one, Relation)]
            return found if len(found) == len(parts) else ()
    return ()


def _unknown(node: Node | None) -> str | None:
    """Return the letter that a statement solves, an empty string for a calculation, and None for other statements."""
    letters = {_solved(relation) for relation in _relations(node)}
    return letters.pop() if len(letters) == 1 else None


def _solved(relation: Relation) -> str | None:
    """Return the letter that stands alone on one side, while no other side has it; empty for numbers on all sides."""
    if not symbols(relation):
        return "" if set(relation.signs) <= {"=", "~"} else None
    for place, side in enumerate(relation.sides):
        others = relation.sides[:place] + relation.sides[place + 1 :]
        is_alone = isinstance(side, Symbol) and not any(
            side.name in symbols(other) for other in others
        )
        if isinstance(side, Symbol) and is_alone and symbols(side):
            return side.name
    return None


def _leads_to(unknown: str, letters: frozenset[str], node: Node | None) -> bool:
    """Check whether a statement is a step to the solution: a calculation, or an unsolved statement in its letters."""
    relations = _relations(node)
    if unknown and relations:
        return all(_is_unsolved(relation, unknown, letters) for relation in relations)
    if not relations or any(map(symbols, relations)):
        return False
    # 0.5 = 500, but not 36 / 4 = 9
    return not any(map(_is_of_other_numbers, relations))


def _is_of_other_numbers(step: Relation) -> bool:
    """Check whether all sides of a step are numbers, of different values."""
    values = [side.value for side in step.sides if isinstance(side, Number)]
    return len(values) == len(step.sides) and len(set(values)) > 1


def _is_unsolved(step: Relation, unknown: str, letters: frozenset[str]) -> bool:
    """Check whether a statement is a calculation, or leaves a letter unsolved; of more letters, it solves none."""
    found = symbols(step)
    if found in (letters, frozenset()):
        return _solved(step) != unknown
    return letters < found and _solved(step) is None


def _is_result(node: Node | None) -> bool:
    """Check whether a statement gives a letter a value without letters: `x = 4`."""
    return any(
        _solved(relation) and len(symbols(relation)) == 1 for relation in _relations(node)
    )
