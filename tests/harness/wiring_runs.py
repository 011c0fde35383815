"""Simulated runs with faulty wiring, golds, grader or data."""

from __future__ import annotations

import math

from diagnosis_simulator import Case
from simulated_run import ACCURACY, FORMAT, Run, Term, accuracy, style

from trl_grpo_ext.verdict import grader_error

WIRING = {
    "when_matches_nothing": Case(
        "A term's `when` says `maths`, the rows say `math`: no completion is ever judged by it.",
        Run(
            score=[(0, 0.3), (110, 0.5)],
            row=lambda prompt, step: {"task": "math"},
            terms=(
                ACCURACY,
                Term(name="units", judge=style, weight=0.5, when={"task": "maths"}),
            ),
        ),
        expected=("inert_term",),
        says=("units",),
    ),
    "verifier_takes_the_step": Case(
        "The run learns, but of the 60 seconds of a step the verifier takes 50.",
        Run(
            score=[(0, 0.3), (110, 0.6)],
            terms=(Term(name="accuracy", judge=accuracy, seconds=0.78),),
            logs={"step_time": 60.0},
        ),
        expected=("grader_trouble",),
        says=("time|seconds|slow",),
    ),
    "half_is_clipped": Case(
        "With 8 updates a batch, half of all tokens are clipped from step 15 to the end, and the score stands.",
        Run(
            score=0.35,
            logs={
                "clip_ratio/region_mean": [(0, 0.05), (15, 0.5)],
                "clip_ratio/high_mean": [(0, 0.03), (15, 0.28)],
                "clip_ratio/low_mean": [(0, 0.02), (15, 0.22)],
            },
            steps=240,
            options={"num_iterations": 8, "learning_rate": 2e-5},
        ),
        expected=("kl_blowup",),
        says=("clip",),
    ),
    "gradient_spikes": Case(
        "Every 15 steps the gradient norm is a thousand times the usual one, and the score gets nowhere.",
        Run(
            score=0.4,
            logs={
                "grad_norm": [
                    (s + d, 300.0 if d == 0 else 0.3)
                    for s in range(15, 120, 15)
                    for d in (-1, 0, 1)
                ]
            },
            options={"learning_rate": 1e-5},
        ),
        expected=("kl_blowup",),
        says=("gradient|grad_norm",),
    ),
    "learning_rate_typo": Case(
        "The learning rate is 1e-9 instead of 1e-6: gradients flow, and the score stands at .3.",
        Run(score=0.3, options={"learning_rate": 1e-9}, steps=150),
        expected=("zero_updates",),
        says=("learning rate|learning_rate",),
    ),
    "schedule_at_zero": Case(
        "The scheduler was given 30 steps of a run of 150: from then on the learning rate is 0.",
        Run(
            score=[(0, 0.3), (30, 0.36)],
            steps=150,
            logs={"learning_rate": [(0, 1e-6), (30, 0.0)]},
        ),
        expected=("zero_updates",),
        says=("learning rate|learning_rate",),
    ),
    "frozen_parameters": Case(
        "All adapters are frozen: the gradient norm is 0 though most groups are live.",
        Run(score=0.4, logs={"grad_norm": 0.0}),
        expected=("zero_updates",),
        says=("gradient|frozen",),
    ),
    "optimizer_before_adapter": Case(
        "The optimizer was built before the adapter: it holds none of the 28 parameters that are trained.",
        Run(
            score=0.4,
            options={
                "learning_rate": 1e-4,
                "trainable_tensors": 28,
                "optimized_tensors": 0,
            },
        ),
        expected=("zero_updates",),
        says=("optimizer holds none of the 28 trainable",),
    ),
    "huge_beta": Case(
        "A beta of 20 holds the policy at its reference: the KL stays at .0003 and the score at .35.",
        Run(score=0.35, options={"beta": 20.0}, logs={"kl": 0.0003}, steps=150),
        expected=("zero_updates", "dead_groups"),
        says=("beta",),
    ),
    "temperature_zero": Case(
        "Temperature 0: the eight completions of a group are one and the same, so no group teaches anything.",
        Run(
            score=0.45,
            greedy=True,
            options={"temperature": 0.0},
            logs={"entropy": 0.2, "grad_norm": 0.0},
        ),
        expected=("dead_groups", "entropy_collapse", "inert_term"),
        says=("temperature|same|identical",),
    ),
    "four_prompts": Case(
        "A filter has left four prompts: training goes to 1, and the evaluation stays at .2.",
        Run(
            score=[(0, 0.3), (50, 0.97), (150, 0.99)],
            pool=4,
            evaluation=0.2,
            steps=150,
            spread=0.8,
        ),
        expected=("reward_hacking",),
        says=("4 prompts, each answered 2,400 times",),
    ),
    "six_prompts_no_evaluation": Case(
        "The same six prompts again and again: three are always right, three always wrong, none teaches.",
        Run(score=0.5, pool=6, spread=9.0, steps=150),
        expected=("dead_groups",),
        says=("prompt",),
    ),
    "loss_is_nan": Case(
        "In fp16 the gradient norm is NaN from step 40 on, and the score falls back to nothing.",
        Run(
            score=[(0, 0.3), (40, 0.4), (41, 0.0)],
            shares={"cut": [(40, 0.0), (41, 1.0)]},
            logs={"grad_norm": [(0, 0.4), (39, 0.4), (40, math.nan)]},
            steps=80,
        ),
        expected=("nonfinite_updates",),
    ),
}

DATA = {
    "too_hard": Case(
        "Competition problems for a model of half a billion parameters: one answer in a hundred is right.",
        Run(score=0.01, spread=1.0, shares={"common": 0.05}),
        expected=("dead_groups",),
    ),
    "too_easy": Case(
        "The model knows the data: 99 % are right at the first step and at the last.",
        Run(score=0.992),
        expected=("dead_groups",),
    ),
    "known_or_hopeless": Case(
        "Half of 2,000 prompts are always right, half always wrong, one group in ten is live; the score stands.",
        Run(score=0.5, spread=14.0, shares={"common": 0.05}, steps=150),
        expected=("dead_groups",),
    ),
    "answers_are_not_boxed": Case(
        "The prompt does not ask for a box: three in four answers cannot be read, at the end as at the start.",
        Run(score=0.6, shares={"unread": 0.75}),
        expected=("unparseable_flood",),
    ),
    "cut_at_the_limit": Case(
        "The limit of 256 tokens cuts six completions in ten, and what is cut is wrong.",
        Run(
            score=0.6,
            terms=(ACCURACY, FORMAT),
            tokens=280.0,
            options={"max_completion_length": 256},
        ),
        expected=("truncation",),
        says=("cut|truncat",),
    ),
}

GOLD = {
    "gold_shifted": Case(
        "The gold is the next row's: the model solves most prompts, groups agree, and nothing is right; "
        "completions grow.",
        Run(
            score=0.8,
            rows={"gold": 1.0},
            tokens=[(0, 150), (110, 260)],
            options={"loss_type": "dapo"},
        ),
        expected=("dead_groups", "bad_data"),
        says=("gold",),
    ),
    "gold_shifted_in_a_third": Case(
        "A third of the rows have the gold of another row; the others are learned, and the score stops at .62.",
        Run(score=[(0, 0.5), (60, 0.94), (150, 0.96)], rows={"gold": 0.35}, steps=160),
        expected=("dead_groups", "entropy_collapse", "bad_data"),
        says=("gold",),
    ),
    "gold_unreadable": Case(
        "A quarter of the rows have a gold answer that cannot be parsed.",
        Run(score=[(0, 0.3), (110, 0.5)], rows={"no_gold": 0.25}),
        expected=("bad_data",),
        says=("gold|data|row",),
    ),
}

GRADERS = {
    "grader_fails": Case(
        "Four verdicts in ten end with a refused connection.",
        Run(score=[(0, 0.3), (110, 0.4)], shares={"grader": 0.4}),
        expected=("grader_trouble",),
    ),
    "light_judge_down": Case(
        "A judge of weight .2 is down from the first step, so every row is void and nothing is trained on.",
        Run(
            score=0.4,
            steps=80,
            terms=(
                ACCURACY,
                Term(
                    name="tone",
                    judge=lambda d: grader_error("raised_APIConnectionError"),
                    weight=0.2,
                ),
            ),
        ),
        expected=("grader_trouble",),
        says=("tone",),
    ),
    "grader_starved": Case(
        "One verdict in four runs out of time since its worker gets no CPU.",
        Run(score=[(0, 0.3), (110, 0.4)], shares={"starved": 0.25}),
        expected=("grader_trouble",),
        says=("cpu|time",),
    ),
    "grader_dies_midway": Case(
        "The grader's service falls over at step 70 of 120 and stays down for half of the verdicts.",
        Run(
            score=[(0, 0.3), (70, 0.5), (120, 0.52)],
            shares={"grader": [(0, 0.0), (69, 0.0), (70, 0.5)]},
        ),
        expected=("grader_trouble",),
    ),
}

RUNS = {"wiring": WIRING, "gold": GOLD, "grader": GRADERS, "data": DATA}
