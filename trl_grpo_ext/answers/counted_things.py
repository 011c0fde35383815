r"""Leave out the words by which an answer names the things that the question counts: `240 \text{ sheep}` is 240."""

from __future__ import annotations

import re
from functools import lru_cache

from trl_grpo_ext.answers.find.asked import question_of
from trl_grpo_ext.answers.read.quantities import known_words
from trl_grpo_ext.answers.read.units import is_unit, raised_by

# Characters of a question that are searched for the things.
_REACH = 1_000
# 24 cups of sugar, 24 \text{ cups of sugar}, \text{35 push-ups}
_COUNTED = re.compile(
    r"\s*(?:\\text\s*\{\s*)?(\d[\d.,]{0,20})\s?(?:\\[,;: ]|~)?\s*(?:\\text\s*\{)?(?:\s|~|\\ )*"
    r"([A-Za-z][A-Za-z'-]{0,30}(?:\s[A-Za-z][A-Za-z'-]{0,30}){0,5})[\s.}]*"
)
# "blue marbles": such plurals change no value already.
_PLURAL = re.compile(r"(?:[A-Za-z]{4,31}\s)*[A-Za-z]{3,30}s")
_NO_THINGS = frozenset("than times too as or percent of".split())  # noqa: SIM905
_WORD = re.compile(r"[a-z][a-z'-]*")


def without_counted_things(answer: str, prompt: str) -> str:
    r"""Remove the counted things of the question from an answer; its number and a unit of the things stay.

    Other words, or words that make another number of it, stay.

    Examples:
        >>> without_counted_things(r"24 \text{ cups of sugar}", "How many cups of sugar does it take?")
        '24 \\text{ cups}'
        >>> without_counted_things(r"240 \text{ sheep}", "How many sheep do they have together?")
        '240'
        >>> without_counted_things("240 goats", "How many sheep do they have together?")
        '240 goats'
    """
    if not prompt or not answer.rstrip(" .}")[-1:].isalpha():
        return answer
    counted = _COUNTED.fullmatch(answer)
    if counted is None or _PLURAL.fullmatch(counted[2]):
        return answer
    said = _WORD.findall(counted[2].casefold())
    measure, of, _ = " ".join(said).partition(" of ")
    measured = measure.split()
    is_named = any(
        not is_unit(word) and word not in known_words("counted") for word in said
    )
    if not is_named or not _is_asked(tuple(said), measured[-1], prompt):
        return answer
    # 12 US dollars, 12 square feet of wall
    units = [word for word in measured if is_unit(word) or raised_by(word) > 1]
    if units or of:
        return rf"{counted[1]} \text{{ {' '.join(units) or measure}}}"
    return counted[1]


@lru_cache(maxsize=1024)
def _is_asked(said: tuple[str, ...], head: str, prompt: str) -> bool:
    """Check whether a question has words side by side, and counts their head: `How many red sheep`."""
    changing = known_words("scaling") | known_words("changing") | known_words("negating")
    is_changed = any(word in changing and not is_unit(word) for word in said)
    if is_changed or _NO_THINGS & {said[0], said[-1]} or "per" in said:
        return False
    question = question_of(prompt)[-_REACH:].casefold()
    if _in_singular(said) not in _in_singular(_WORD.findall(question)):
        return False
    asked = re.escape(head.rstrip("s"))
    counting = rf"\b(?:how (?:many|much)|number of) (?:[a-z'-]+ ){{0,2}}?{asked}s?\b"
    return re.search(counting, question) is not None


def _in_singular(words: list[str] | tuple[str, ...]) -> str:
    """Join words without the ends of their plurals, each between spaces."""
    return f" {' '.join(word.rstrip('s') for word in words)} "
