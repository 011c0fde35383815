"""Find faults of gold columns that no single row shows: golds that contradict each other, or never change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from trl_grpo_ext.answers.golds import gold_texts
from trl_grpo_ext.mix.data_check import MARKED, FileLines, place
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.rewards.bases.answer_verifier import GoldVerifier
from trl_grpo_ext.sample import sample_of_row

# Fewer prompts may well have equal answers.
FEWEST_PROMPTS = 8
IMAGE_COLUMNS = frozenset({"image", "images"})
# Contradictory prompts to print.
SHOWN_PROMPTS = 3


class Gold(NamedTuple):
    """A row's gold answer, beside the row's number."""

    row: int
    text: str


def gold_columns(mix: RewardMix, rows: Any) -> dict[str, GoldVerifier]:
    """Return the gold columns of a mix's verifiers, each with the first verifier that reads the column."""
    columns: dict[str, GoldVerifier] = {}
    for _, verifier in mix.verifiers:
        if isinstance(verifier, GoldVerifier):
            for column in verifier.gold_columns:
                if column in rows.column_names:
                    columns.setdefault(column, verifier)
    return columns


def gold_faults(mix: RewardMix, rows: Any, lines: FileLines | None) -> Iterator[str]:
    """Yield a sentence for each gold column whose golds contradict each other or never change.

    Golds contradict each other if the verifier takes neither for the other: 1/2 and 0.5 are one gold.

    Examples:
        >>> from datasets import Dataset
        >>> from trl_grpo_ext import RewardTerm
        >>> from trl_grpo_ext.rewards import MathVerifier
        >>> mix = RewardMix([RewardTerm(name="math", verifier=MathVerifier())])
        >>> rows = Dataset.from_dict({"prompt": ["2+2?", "1+1?", "2+2?"], "answer": ["4", "2", "5"]})
        >>> for fault in gold_faults(mix, rows, None):
        ...     print(fault)
        1 prompt has several golds in `answer`: '4' and '5' (rows 0, 2 (counted from 0)). Drop the wrong rows.
    """
    # The same words ask for another answer beside another image.
    if not IMAGE_COLUMNS.isdisjoint(rows.column_names):
        return
    for column, verifier in gold_columns(mix, rows).items():
        golds = _golds_by_prompt(rows, column)
        several = [found for found in golds.values() if _contradict(found, rows, verifier)]
        if several:
            yield _contradiction(several, column, lines)
        texts: set[str] = set()
        for found in golds.values():
            texts.update(gold.text for gold in found)
        if len(texts) == 1 and len(golds) >= FEWEST_PROMPTS:
            yield (
                f"the gold of each row is {texts.pop()!r} in `{column}`: a policy that always says so is always "
                "right. Is it the column of the answers?"
            )


def _golds_by_prompt(rows: Any, column: str) -> dict[str, list[Gold]]:
    golds: dict[str, list[Gold]] = {}
    for row, (prompt, cell) in enumerate(zip(rows["prompt"], rows[column], strict=True)):
        texts = gold_texts(cell)
        if texts:
            # A conversation is a list, which cannot be a key.
            key = prompt if isinstance(prompt, str) else json.dumps(prompt, default=str)
            golds.setdefault(key, []).append(Gold(row, texts[0].strip()))
    return golds


def _contradict(golds: list[Gold], rows: Any, verifier: GoldVerifier) -> bool:
    """Return whether a gold of a prompt is wrong by the prompt's first gold."""
    first = golds[0]
    others = {gold.text for gold in golds} - {first.text}
    if not others:
        return False
    # In the usual marks: a verifier that reads boxes only finds the other gold, too.
    samples = [sample_of_row(rows[first.row], MARKED.format(other)) for other in others]
    verdicts = verifier.judge_samples(samples)
    # A verdict without a score, such as a fault of the data, contradicts nothing.
    return any(verdict.score == 0.0 for verdict in verdicts)


def _contradiction(several: list[list[Gold]], column: str, lines: FileLines | None) -> str:
    begun = "1 prompt has" if len(several) == 1 else f"{len(several)} prompts have"
    examples = []
    for found in several[:SHOWN_PROMPTS]:
        texts = list(dict.fromkeys(repr(gold.text) for gold in found))
        numbers = [gold.row for gold in found]
        examples.append(f"{' and '.join(texts[:2])} ({place(numbers, lines)})")
    return (
        f"{begun} several golds in `{column}`: {'; '.join(examples)}. Drop the wrong rows."
    )
