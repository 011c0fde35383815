"""Verdict changes: which verdicts of a term differ under the new rewards."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trl_grpo_ext.sample import last_message
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.text import shortened
from trl_grpo_ext.verdict import Verdict

NO_VERDICT = "no verdict"  # the term did not apply to the row

Kind = tuple[str, str]


@dataclass(slots=True)
class TermChanges:
    """What becomes of one term.

    Attributes:
        examples_a_kind: How many examples to keep of each kind of change.
        verdicts: Verdicts that were compared: samples of batches in which both sides have the term.
        kinds: How many changed, by status before and after.
        examples: The first few of each kind.
    """

    examples_a_kind: int
    verdicts: int = 0
    kinds: Counter[Kind] = field(default_factory=Counter)
    examples: dict[Kind, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def changed(self) -> int:
        """How many verdicts changed."""
        return self.kinds.total()

    def add(self, term: str, old: Scorecard, new: Scorecard) -> None:
        """Take in a batch."""
        if term not in old.verdicts or term not in new.verdicts:
            return
        self.verdicts += len(old)
        pairs = zip(old.verdicts[term], new.verdicts[term], strict=True)
        for index, (before, after) in enumerate(pairs):
            if is_other(before, after):
                kind = _kind(before, after)
                self.kinds[kind] += 1
                examples = self.examples.setdefault(kind, [])
                if len(examples) < self.examples_a_kind:
                    examples.append(
                        sample_record(old, index) | {"from": _told(before), "to": _told(after), "term": term}
                    )

    def to_record(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "verdicts": self.verdicts,
            "changed": self.changed,
            "kinds": [
                {"from": kind[0], "to": kind[1], "count": count, "examples": self.examples[kind]}
                for kind, count in self.kinds.most_common()
            ],
        }


class VerdictChanges:
    """The changes of all terms, by name: first those of the new mix, in order, then those that are gone."""

    def __init__(self, new_terms: Sequence[str], examples_a_kind: int) -> None:
        self._examples_a_kind = examples_a_kind
        self.terms: dict[str, TermChanges] = {term: TermChanges(examples_a_kind) for term in new_terms}

    def add(self, old: Scorecard, new: Scorecard) -> None:
        """Take in a batch."""
        for term in dict.fromkeys((*new.terms, *old.terms)):
            self.terms.setdefault(term, TermChanges(self._examples_a_kind)).add(term, old, new)


def is_other(before: Verdict | None, after: Verdict | None) -> bool:
    """Whether two verdicts differ in what counts: status and score."""
    if before is None or after is None:
        return before is not after
    if before.status is not after.status or (before.score is None) != (after.score is None):
        return True
    return before.score is not None and not math.isclose(before.score, after.score or 0.0, rel_tol=1e-9, abs_tol=1e-12)


def _kind(before: Verdict | None, after: Verdict | None) -> Kind:
    kinds = tuple(NO_VERDICT if verdict is None else str(verdict.status) for verdict in (before, after))
    return (kinds[0], kinds[1] if kinds[0] != kinds[1] else f"{kinds[1]}, other score")


def _told(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {
        "status": str(verdict.status),
        "score": verdict.score,
        "blame": str(verdict.blame),
        "answer": verdict.answer,
        "reason": verdict.reason,
    }


MAX_CHARS = 2000


def sample_record(card: Scorecard, index: int) -> dict[str, Any]:
    """Step, group, place in the batch, the last message of the prompt, and the text; long ones cut in the middle."""
    sample = card.samples[index]
    return {
        "step": sample.step,
        "group": sample.group,
        "sample": index,
        "prompt": shortened(last_message(sample.prompt), MAX_CHARS),
        "text": shortened(sample.text, MAX_CHARS),
    }
