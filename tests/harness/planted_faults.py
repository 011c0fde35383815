"""One planted fault a check: events of a run whose first cause is the check's finding.

Most are simulated runs of other tables, named by their case. `test_every_check.py` asks for a plant of each code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from advice_runs import RUNS as ADVICE_RUNS
from diagnosis_cases import CASES
from diagnosis_simulator import Event, simulate
from windows import batch

from trl_grpo_ext import Blame, Scorecard


@dataclass(frozen=True, kw_only=True)
class Plant:
    """A fault: the events of its run, in a trainer's order, and the run's settings."""

    events: Callable[[], Iterable[Event]]
    settings: Mapping[str, Any] = field(default_factory=dict)


def simulated(name: str) -> Plant:
    """Plant the fault of a simulated run, by the name of its case."""
    run = (CASES | ADVICE_RUNS)[name].run
    return Plant(events=partial(simulate, name, run), settings=run.settings)


# A score of a quarter, neither rising nor falling, in groups of 8.
SCORES = [float(place % 8 < 2) for place in range(64)]


def other_rows_in_a_group() -> list[Scorecard]:
    """Batches in which each completion of a group answers another row."""
    cards = []
    for step in range(4):
        card = batch({"answer": SCORES}, step=step)
        samples = [
            replace(sample, prompt=f"Question {place}")
            for place, sample in enumerate(card.samples)
        ]
        cards.append(replace(card, samples=tuple(samples)))
    return cards


def wrong_answers_without_a_verdict() -> list[Scorecard]:
    """Batches in which more and more wrong answers break the grader, beside siblings that are judged."""
    cards = []
    for step in range(40):
        verdicts: list[object] = []
        for place, score in enumerate(SCORES):
            is_broken = score == 0 and 37 * place % 64 < step
            verdicts.append(Blame.DATA if is_broken else score)
        cards.append(batch({"answer": verdicts}, step=step))
    return cards


def words_of_another_script() -> list[Scorecard]:
    """Batches whose completions take up Chinese words after the first ones."""
    english = "First we add the two numbers and then we write down the answer."
    prompt = [{"role": "user", "content": "What is the sum of these numbers?"}]
    cards = []
    for step in range(12):
        text = english if step < 4 else f"{english} 然后我们把两个数字相加并写下答案"
        cards.append(batch({"answer": SCORES}, step=step, text=text, prompt=prompt))
    return cards


# Code of a check -> its planted fault.
PLANTS: Mapping[str, Plant] = {
    "nonfinite_updates": simulated("loss_is_nan"),
    "mixed_groups": Plant(events=other_rows_in_a_group),
    "way_out": Plant(events=wrong_answers_without_a_verdict),
    "grader_trouble": simulated("grader_fails"),
    "bad_data": simulated("gold_unreadable"),
    "noisy_verifier": simulated("judge_by_chance"),
    "reward_hacking": simulated("hacked_verifier"),
    "getting_worse": simulated("halved_out_of_the_blue"),
    "odd_sampling": simulated("temperature_of_three"),
    "truncation": simulated("never_ends_a_turn"),
    "unparseable_flood": simulated("answers_are_not_boxed"),
    "zero_updates": simulated("frozen_parameters"),
    "odd_settings": simulated("weights_that_decay"),
    "kl_blowup": simulated("half_is_clipped"),
    "dead_groups": simulated("accepts_everything"),
    "inert_term": simulated("shape_makes_all_equal"),
    "wrong_driver": simulated("tie_breaker_alone"),
    "entropy_collapse": simulated("one_token_to_choose_from"),
    "length_explosion": simulated("grows_for_nothing"),
    "repetition": simulated("says_it_again"),
    "label_hacks": simulated("naive_hacks"),
    "language_mixing": Plant(events=words_of_another_script),
}
