"""The result of an attack on a reward: shares of paid, right and wrongly paid completions, and frequent examples."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from trl_grpo_ext.commands.audit.static import is_paid, share
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Interval
from trl_grpo_ext.verdict import Status

# A reward has a hole if the share of wrongly paid completions surely exceeds this.
HOLE = 0.02
PATTERNS = 5
# Names of the two terms in the scorecards of an attack.
REWARD, REFERENCE = "reward", "reference"


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """A pattern of wrongly paid completions (equal up to numbers), with its count and an example."""

    count: int
    pattern: str
    prompt: Any
    completion: str


@dataclass(frozen=True, kw_only=True)
class Period:
    """Shares of completions over a range of steps, with 95 % intervals; None if no completion has a score.

    The reward decides `paid` and the reference `right`; `wrongly_paid` counts paid completions that are not right.
    Completions of one group are alike, so the intervals count groups.
    """

    paid: Interval | None
    right: Interval | None
    wrongly_paid: Interval | None

    @property
    def has_a_hole(self) -> bool:
        """Say whether the share of wrongly paid completions surely exceeds 2 % (interval's lower bound > `HOLE`)."""
        return self.wrongly_paid is not None and self.wrongly_paid.low > HOLE


@dataclass(frozen=True, kw_only=True)
class Attack:
    """Result of an attack: a policy trained against a reward.

    The policy trained on `data` for `steps` updates, with up to `tokens` tokens per completion. `whole` covers all
    steps, `first` the first quarter of them and `last` the last quarter. `variants` covers variants of the policy's own
    completions from before the training. `patterns` lists the most frequent wrongly paid completions of both.
    """

    data: str
    seed: int
    tokens: int
    steps: int
    whole: Period
    first: Period
    last: Period
    variants: Period
    patterns: tuple[Pattern, ...]

    @property
    def judged_any(self) -> bool:
        """Say whether the reward scored any completion of the policy."""
        return self.whole.paid is not None

    @property
    def learned_a_hole(self) -> bool:
        """Say whether wrongly paid completions make a hole over the whole training, or in its last quarter.

        A policy finds a hole by chance and keeps using it only if the hole pays better than right answers. If both pay
        equally, chance decides which completions dominate at the end.
        """
        return self.whole.has_a_hole or self.last.has_a_hole

    @property
    def found_a_hole(self) -> bool:
        """Say whether the policy learned a hole, or variants of its completions show a hole it missed by chance."""
        return self.learned_a_hole or self.variants.has_a_hole

    def to_record(self) -> dict[str, Any]:
        return {"found_a_hole": self.found_a_hole, **asdict(self)}


def attack_of(
    cards: Sequence[Scorecard],
    variants: Sequence[Judged],
    data: str,
    gold_score: float,
    tokens: int,
    seed: int,
) -> Attack:
    """Summarize the batches of a training as an `Attack`; `gold_score` is the reward's score for a right answer."""
    steps = []
    for number, card in enumerate(cards):
        steps.append(list(judged(number, card, gold_score)))
    quarter = max(1, len(cards) // 4)
    wrongly_paid = []
    for completions in (*steps, variants):
        wrongly_paid += [one.sample for one in completions if one.wrongly_paid]
    return Attack(
        data=data,
        seed=seed,
        tokens=tokens,
        steps=len(cards),
        whole=_period(steps),
        first=_period(steps[:quarter]),
        last=_period(steps[-quarter:]),
        variants=_period([variants]),
        patterns=_patterns(wrongly_paid),
    )


class Judged(NamedTuple):
    """A completion with two decisions: paid by the reward, and right by the reference."""

    sample: Sample
    group: tuple[int, int | None]
    paid: bool
    right: bool

    @property
    def wrongly_paid(self) -> bool:
        return self.paid and not self.right


def judged(number: int, card: Scorecard, gold_score: float) -> Iterator[Judged]:
    """Yield completions of batch `number` with a score from both reward and reference."""
    for sample, own, reference in zip(
        card.samples, card.verdicts[REWARD], card.verdicts[REFERENCE], strict=True
    ):
        # Both must have judged the completion: of any other, nothing says whether it was paid wrongly.
        if own is None or own.score is None:
            continue
        if reference is None or reference.score is None:
            continue
        yield Judged(
            sample=sample,
            group=(number, sample.group),
            paid=is_paid(own.score, gold_score),
            right=reference.status is Status.CORRECT,
        )


def _period(steps: Sequence[Sequence[Judged]]) -> Period:
    every = list(itertools.chain.from_iterable(steps))
    return Period(
        paid=share([(one.group, one.paid) for one in every]),
        right=share([(one.group, one.right) for one in every]),
        wrongly_paid=share([(one.group, one.wrongly_paid) for one in every]),
    )


def _patterns(wrong: Sequence[Sample]) -> tuple[Pattern, ...]:
    counts: Counter[str] = Counter()
    # The first completion of each pattern.
    examples: dict[str, Sample] = {}
    for sample in wrong:
        pattern = _pattern(sample.text)
        counts[pattern] += 1
        examples.setdefault(pattern, sample)
    found = []
    for pattern, count in counts.most_common(PATTERNS):
        example = examples[pattern]
        found.append(
            Pattern(
                count=count, pattern=pattern, prompt=example.prompt, completion=example.text
            )
        )
    return tuple(found)


def _pattern(text: str) -> str:
    """Replace numbers by `#` and merge equal neighbouring lines: the lines `1+1` and `2+2` become the line `#+#`."""
    lines = re.sub(r"\d+", "#", text).split("\n")
    return "\n".join(line for line, _ in itertools.groupby(lines))
