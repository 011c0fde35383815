"""An example: a completion that shows what a finding is about, safe to print."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trl_grpo_ext.diagnostics.batch_facts import would_fool
from trl_grpo_ext.sample import Prompt, completion_text
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import Blame, Status, Verdict

MOST_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A completion with its verdicts; texts are cut, in one line, and hold no control characters.

    Attributes:
        step: The optimizer step.
        group: The group.
        prompt: The last message of the prompt.
        text: The completion.
        verdicts: By term, `"incorrect 0, answer 41 (no_boxed)"`.
        advantage: None if it is not known.
    """

    step: int | None
    group: int | None
    prompt: str
    text: str
    verdicts: Mapping[str, str]
    advantage: float | None

    def to_record(self) -> dict[str, Any]:
        """A dict of plain JSON values."""
        return asdict(self)


Rows = Callable[[Scorecard, int], bool]


def _any_row(card: Scorecard, row: int) -> bool:
    return True


def _any_verdict(test: Callable[[Verdict], bool]) -> Rows:
    return lambda card, row: any(
        verdict is not None and test(verdict) for verdict in (card.verdicts[term][row] for term in card.terms)
    )


def _is_disputed(card: Scorecard, row: int) -> bool:
    """Whether the primary term passes it and a shadow fails it."""
    if not card.in_force:
        return False
    verdicts = {term: card.verdicts[term][row] for term in card.terms}
    primary = verdicts.pop(card.in_force[0])
    shadows = [verdict for term, verdict in verdicts.items() if card.weights[term] == 0 and verdict is not None]
    passed = primary is not None and primary.status is Status.CORRECT
    return passed and any(shadow.status is not Status.CORRECT for shadow in shadows)


_ROWS: Mapping[str, Rows] = {
    "grader_trouble": _any_verdict(lambda one: one.blame is Blame.GRADER or one.status is Status.TIMEOUT),
    "starved_grader": _any_verdict(lambda one: one.reason.endswith("starved")),
    "bad_data": _any_verdict(lambda one: one.blame is Blame.DATA),
    "unparseable_flood": _any_verdict(lambda one: one.status is Status.UNPARSEABLE),
    "truncation": lambda card, row: card.samples[row].truncated is True,
    "label_hacks": _any_verdict(would_fool),
    "reward_hacking": _is_disputed,
    "verifier_disagreement": _is_disputed,
}


def examples(cards: Iterable[Scorecard], code: str | None, limit: int) -> list[Example]:
    """Completions that show a finding, those with the highest advantage first; any, if it has no kind of its own.

    Args:
        cards: Scorecards, those to be searched first in front.
        code: The finding's code; None for any completions.
        limit: The most that are returned.
    """
    shows = _ROWS.get(code or "", _any_row)
    found: list[Example] = []
    for card in cards:
        rows = [row for row in _best_first(card) if shows(card, row)]
        distinct = {card.samples[row].text: row for row in reversed(rows)}  # the first of each text
        found += [_example(card, row) for row in rows if distinct[card.samples[row].text] == row]
        if len(found) >= limit:
            break
    return found[:limit]


def _best_first(card: Scorecard) -> list[int]:
    advantages = card.advantages or [0.0] * len(card)
    return sorted(range(len(card)), key=lambda row: -advantages[row])


def safe_text(text: str, most: int = MOST_CHARS) -> str:
    """The text in one line, without what a terminal would obey, and cut in its middle.

    Example:
        >>> safe_text("a\\n\\x1b[31mb")
        'a [31mb'
        >>> safe_text("0123456789", most=5)
        '01 ... 89'
    """
    if len(text) > 4 * most:  # text may be long, and what follows is not fast
        text = text[: 2 * most] + text[-2 * most :]
    line = " ".join(text.split())
    line = "".join(char for char in line if not unicodedata.category(char).startswith("C"))
    return line if len(line) <= most else f"{line[: most // 2]} ... {line[-(most // 2) :]}"


def _example(card: Scorecard, row: int) -> Example:
    sample = card.samples[row]
    verdicts = {term: card.verdicts[term][row] for term in card.terms}
    return Example(
        step=sample.step,
        group=sample.group,
        prompt=safe_text(_last_words(sample.prompt)),
        text=safe_text(sample.text),
        verdicts={term: _shown(verdict) for term, verdict in verdicts.items() if verdict is not None},
        advantage=None if card.advantages is None else card.advantages[row],
    )


def _last_words(prompt: Prompt | None) -> str:
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    return completion_text([{**prompt[-1], "role": "assistant"}]) if prompt else ""


def _shown(verdict: Verdict) -> str:
    score = "" if verdict.score is None else f" {verdict.score:.3g}"
    answer = "" if verdict.answer is None else f", answer {safe_text(verdict.answer, 60)}"
    return f"{verdict.status}{score}{answer}" + (f" ({safe_text(verdict.reason, 60)})" if verdict.reason else "")
