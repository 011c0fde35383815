"""Simulated runs whose cause is easily mistaken for another, and what their finding must advise."""

from __future__ import annotations

from dataclasses import dataclass, replace

from diagnosis_simulator import Case
from simulated_run import ACCURACY, BREVITY, Draw, Run, Term, lenient, raises, unread

from trl_grpo_ext import Verdict
from trl_grpo_ext.mix.shape import Clip
from trl_grpo_ext.verdict import skipped


@dataclass(frozen=True)
class Advice(Case):
    """A case whose action is looked at too: `does` is in the action of the first cause, and `never` is not."""

    does: str = ""
    never: str = ""


def seldom_read(draw: Draw) -> Verdict:
    """Reads answers of completions that were not cut; most are cut."""
    return unread("no_boxed") if draw.cut else lenient(draw)


def needs_pandas(draw: Draw) -> Verdict:
    """Tests that import a package, which is not installed, in three rows of ten."""
    if not draw.of_rows("pandas"):
        return lenient(draw)
    lacking = skipped("tests_do_not_run")
    return replace(
        lacking, details={"why": "ModuleNotFoundError: No module named 'pandas'"}
    )


def repeats(draw: Draw) -> float:
    """A penalty: -1 for a completion that repeats itself, else 0."""
    return -1.0 if draw.flag("loops") else 0.0


RUNS: dict[str, Advice] = {
    "falls_without_an_evaluation": Advice(
        "The score falls from .7 to .4, nothing else changes, and nothing is held out.",
        Run(score=[(0, 0.7), (60, 0.7), (150, 0.4)], steps=150),
        expected=("getting_worse",),
        says=("harder", "policy is worse"),
        does="compare the rows",
    ),
    "cut_and_wrong_all_the_same": Advice(
        "Six in ten completions are cut, and those that come to an end are right one time in two hundred.",
        Run(score=0.005, shares={"cut": 0.6}),
        expected=("truncation",),
        says=("come to an end have 0.0",),
        does="prompt as the model gets it",
        never="max_completion_length",
    ),
    "never_ends_a_turn": Advice(
        "Every completion is cut, from the first batch on: the stop token is wrong.",
        Run(score=0.3, shares={"cut": 1.0}),
        expected=("truncation",),
        says=("100 % of the completions are cut", "none comes to an end"),
        does="eos_token",
    ),
    "shape_makes_all_equal": Advice(
        "The verifier tells right from wrong, and a clip at 0 makes one value of both.",
        Run(score=0.4, terms=(replace(ACCURACY, shape=Clip(high=0.0)),)),
        expected=("inert_term",),
        says=("shape of `accuracy`",),
        does="shape of `accuracy`",
    ),
    "tiny_learning_rate": Advice(
        "A learning rate of 1e-8 with TRL's default beta of 0, so that no KL is measured.",
        Run(score=0.35, options={"learning_rate": 1e-8}, logs={"learning_rate": 1e-8}),
        expected=("zero_updates",),
        says=("learning rate of 1e-08",),
        does="raise the learning rate",
    ),
    "frozen_adapter": Advice(
        "A learning rate of 1e-3, a gradient, and a KL of exactly 0: the adapter that is trained is not in use.",
        Run(
            score=0.35,
            options={"beta": 0.04, "learning_rate": 1e-3},
            logs={"kl": 0.0, "learning_rate": 1e-3},
        ),
        expected=("zero_updates",),
        says=("where it began",),
        does="adapter",
        never="raise the learning rate",
    ),
    "adapter_times_0": Advice(
        "lora_alpha is 0, so that the gradient is.",
        Run(
            score=0.35,
            options={"beta": 0.04, "learning_rate": 1e-3, "lora_alpha": 0},
            logs={"kl": 0.0, "grad_norm": 0.0, "learning_rate": 1e-3},
        ),
        expected=("zero_updates",),
        says=("lora_alpha of 0",),
        does="set lora_alpha",
        never="raise the learning rate",
    ),
    "dropout_is_on": Advice(
        "The model's config has a dropout, so that two passes differ by 9 nats from the first step on.",
        Run(
            score=0.35,
            options={"beta": 0.04, "dropout": {"attention_dropout": 0.3}},
            logs={"kl": 9.0},
        ),
        expected=("odd_settings",),
        says=("attention_dropout is 0.3",),
        does="set attention_dropout to 0",
        never="learning rate",
    ),
    "warm_up_longer_than_the_run": Advice(
        "The learning rate warms up for 2000 steps, and the run has 120.",
        Run(score=0.35, logs={"learning_rate": [(0, 0.0), (2000, 1e-6)]}, noise=0.0),
        expected=("zero_updates",),
        says=("warm-up takes 2001 steps",),
        does="warmup_steps",
    ),
    "temperature_of_three": Advice(
        "The temperature is 3, so hardly a completion is right.",
        Run(score=0.02, options={"temperature": 3.0}),
        expected=("odd_sampling",),
        says=("a temperature of 3 samples texts",),
        does="set temperature to 1",
        never="easier data",
    ),
    "one_token_to_choose_from": Advice(
        "top_k is 1, so the temperature does not matter, and the completions of a group are one and the same.",
        Run(score=0.4, greedy=True, options={"top_k": 1}),
        expected=("entropy_collapse",),
        says=("does not explore",),
        does="top_k",
        never="raise the temperature",
    ),
    "package_of_the_tests_is_missing": Advice(
        "In three rows of ten the tests import pandas, which is not installed.",
        Run(
            score=[(0, 0.3), (110, 0.5)],
            terms=(Term(name="tests", judge=needs_pandas),),
            rows={"pandas": 0.3},
        ),
        expected=("bad_data",),
        says=("no module named 'pandas'",),
        does="install",
        never="drop",
    ),
    "package_of_the_programs_is_missing": Advice(
        "Every program imports pandas, which the sandbox does not have.",
        Run(
            score=0.5,
            terms=(
                Term(
                    name="tests",
                    judge=raises("ModuleNotFoundError: No module named 'pandas'"),
                ),
            ),
        ),
        expected=("dead_groups",),
        says=("no module named 'pandas'",),
        does="install `pandas`",
    ),
    "penalty_with_a_weight_below_0": Advice(
        "A penalty of -1 for a loop has a weight of -1, so loops are paid for.",
        Run(
            score=0.4,
            terms=(ACCURACY, Term(name="loops", judge=repeats, weight=-1.0)),
            shares={"loops": [(0, 0.1), (110, 0.8)]},
        ),
        expected=("wrong_driver",),
        says=("`loops` pays",),
        does="give `loops` the weight 1",
    ),
    "grows_though_short_ones_are_paid": Advice(
        "A term prefers shorter completions by a little, and completions grow all the same.",
        Run(
            score=0.45,
            terms=(ACCURACY, replace(BREVITY, weight=0.5)),
            tokens=[(0, 150), (110, 700)],
            options={"max_completion_length": 2048},
        ),
        expected=("length_explosion",),
        does="already",
        never="add a term",
    ),
    "gold_is_wrong_behind_truncation": Advice(
        "The gold is of other rows, and four completions in ten are cut before their answer.",
        Run(
            score=0.85,
            terms=(Term(name="accuracy", judge=seldom_read),),
            rows={"gold": 1.0},
            shares={"cut": 0.4, "common": 0.1},
        ),
        expected=("bad_data",),
        says=("gold",),
        does="compare answers and gold",
    ),
    "weights_that_decay": Advice(
        "A weight decay of 1000 takes back what each step has learned.",
        Run(score=0.4, options={"weight_decay": 1000.0}),
        expected=("odd_settings",),
        says=("weight_decay is 1000",),
        does="weight_decay to 0",
    ),
    "pairs_that_are_all_wrong": Advice(
        "Hopeless prompts in groups of two.",
        Run(score=0.0, groups=32, options={"num_generations": 2}),
        expected=("dead_groups",),
        does="groups of more than 2",
    ),
    "undone_by_a_style_of_large_marks": Advice(
        "Quality, marked from 0 to 50, falls while a style term of the same weight rises.",
        Run(
            score=[(0, 0.6), (150, 0.35)],
            terms=(
                Term(name="quality", judge=lambda draw: 50.0 * draw.right),
                Term(name="style", judge=lambda draw: 10.0 + 40.0 * draw.flag("stylish")),
            ),
            shares={"stylish": [(0, 0.1), (140, 0.9)]},
            steps=160,
        ),
        expected=("getting_worse",),
        says=("learned `style` instead",),
        does="`style` gated",
    ),
}
