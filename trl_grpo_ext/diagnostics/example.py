"""An example: a completion that shows a finding, made safe to print."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from trl_grpo_ext.diagnostics.finding import Finding
from trl_grpo_ext.figures.gold import gold_column
from trl_grpo_ext.figures.primary import passes
from trl_grpo_ext.figures.repeated_and_foreign import is_silent
from trl_grpo_ext.figures.terms import would_fool
from trl_grpo_ext.figures.voids import cause_of
from trl_grpo_ext.sample import last_message
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.text import on_one_line
from trl_grpo_ext.verdict import Blame, Status, Verdict

MOST_CHARS = 300
# Characters of an answer or of a reason: a user's verifier may return any text; ours.
MOST_REASON = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A completion with its verdicts; texts are cut, in one line, and hold no control characters.

    `gold` is of the first usual column that the row has, `verdicts` are such as `"incorrect 0, answer 41 (no_boxed)"`
    by term, and what is unknown is None.
    """

    step: int | None
    group: int | None
    prompt: str
    text: str
    gold: str | None
    verdicts: Mapping[str, str]
    advantage: float | None


# Of each sample, whether it shows the finding.
RowFilter = Callable[[Scorecard, Finding], Sequence[bool]]


def _any_row(card: Scorecard, finding: Finding) -> Sequence[bool]:
    return [True] * len(card)


def _named(card: Scorecard, finding: Finding) -> list[str]:
    """Terms of the batch that the finding names."""
    return [term for term in card.terms if term in finding.terms]


def _of_the_named(test: Callable[[Verdict], bool]) -> RowFilter:
    """Build a filter: samples with such a verdict from the finding's terms, or from any term."""

    def has_such_a_verdict(card: Scorecard, finding: Finding) -> Sequence[bool]:
        rows = [False] * len(card)
        for term in _named(card, finding) or card.terms:
            for row, verdict in enumerate(card.verdicts[term]):
                if verdict is not None and test(verdict):
                    rows[row] = True
        return rows

    return has_such_a_verdict


def _is_unread(card: Scorecard, finding: Finding) -> Sequence[bool]:
    """Mark finished samples with an unparseable primary verdict."""
    rows = []
    for sample, verdict in zip(card.samples, card.primary, strict=True):
        is_unparseable = verdict is not None and verdict.status is Status.UNPARSEABLE
        rows.append(is_unparseable and sample.truncated is not True)
    return rows


def _is_disputed(card: Scorecard, finding: Finding) -> Sequence[bool]:
    """Mark samples that the primary verdict passes and the second opinion of the finding fails."""
    opinions = [
        card.verdicts[term] for term in _named(card, finding) if card.weights[term] == 0
    ]
    # The finding is of an evaluation, not of a second opinion.
    if not opinions:
        return _any_row(card, finding)
    rows = []
    for row, verdict in enumerate(card.primary):
        is_refused = any(passes(opinion[row]) is False for opinion in opinions)
        rows.append(passes(verdict) is True and is_refused)
    return rows


def _is_ungraded(card: Scorecard, finding: Finding) -> Sequence[bool]:
    """Mark samples with grader failures, or policy timeouts if the finding counts those."""
    if finding.numbers.get("of_the_policy"):
        return _of_the_named(
            lambda one: one.blame is Blame.POLICY and one.status is Status.TIMEOUT
        )(card, finding)
    return _of_the_named(lambda one: one.blame is Blame.GRADER)(card, finding)


def _is_void_beside_others(card: Scorecard, finding: Finding) -> Sequence[bool]:
    """Mark void samples of the finding's term, or of the environment, beside judged siblings."""
    shown = [False] * len(card)
    for rows in card.members:
        if all(card.void[row] for row in rows):
            continue
        for row in rows:
            cause = cause_of(card, row)
            shown[row] = cause is not None and cause[0] == "".join(finding.terms[:1])
    return shown


_ROWS: Mapping[str, RowFilter] = {
    "way_out": _is_void_beside_others,
    "grader_trouble": _is_ungraded,
    "bad_data": _of_the_named(lambda one: one.blame is Blame.DATA),
    "unparseable_flood": _is_unread,
    "truncation": lambda card, finding: [
        sample.truncated is True for sample in card.samples
    ],
    "label_hacks": _of_the_named(would_fool),
    "reward_hacking": _is_disputed,
    "noisy_verifier": _is_disputed,
}


def examples(cards: Iterable[Scorecard], finding: Finding, limit: int) -> list[Example]:
    """Choose completions that illustrate a finding, highest advantage first; findings without a kind take any.

    Cards are searched in order.
    """
    kind = _ROWS.get(finding.code, _any_row)
    found: list[Example] = []
    for card in cards:
        shows = kind(card, finding)
        advantages = card.advantages or [0.0] * len(card)
        by_advantage = sorted(range(len(card)), key=lambda row: -advantages[row])
        rows = [row for row in by_advantage if shows[row]]
        # Equal completions are quoted once: the first row by text.
        distinct = {card.samples[row].text: row for row in reversed(rows)}
        found += [
            _example(card, row) for row in rows if distinct[card.samples[row].text] == row
        ]
        if len(found) >= limit:
            break
    return found[:limit]


def safe_reason(reason: str) -> str:
    """Shorten a verdict's reason for a sentence; user verifiers return arbitrary text.

    Examples:
        >>> safe_reason("no_boxed"), len(safe_reason("x" * 100_000))
        ('no_boxed', 60)
    """
    return on_one_line(reason, MOST_REASON)


def _example(card: Scorecard, row: int) -> Example:
    sample = card.samples[row]
    gold = gold_column(sample.row)
    verdicts = {term: card.verdicts[term][row] for term in card.terms}
    return Example(
        step=sample.step,
        group=sample.group,
        prompt=on_one_line(last_message(sample.prompt), MOST_CHARS),
        text=f"(no text, {sample.length} tokens)"
        if is_silent(sample)
        else on_one_line(sample.text, MOST_CHARS),
        gold=None if gold is None else on_one_line(str(sample.row[gold]), MOST_CHARS),
        verdicts={
            term: _shown(verdict)
            for term, verdict in verdicts.items()
            if verdict is not None
        },
        advantage=None if card.advantages is None else card.advantages[row],
    )


def _shown(verdict: Verdict) -> str:
    text = str(verdict.status)
    if verdict.score is not None:
        text += f" {verdict.score:.3g}"
    if verdict.answer is not None:
        text += f", answer {on_one_line(verdict.answer, MOST_REASON)}"
    if verdict.reason:
        text += f" ({safe_reason(verdict.reason)})"
    return text
