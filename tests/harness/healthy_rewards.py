"""Healthy simulated runs with several terms, schedules, shadow terms, judges and formats."""

from __future__ import annotations

from dataclasses import replace

from diagnosis_simulator import Case
from simulated_run import (
    ACCURACY,
    FORMAT,
    Run,
    Term,
    accuracy,
    brevity,
    lenient,
    no_penalty,
    opinion,
    share_of_tests,
    strict,
    style,
    unit_tests,
)

from trl_grpo_ext.mix import linear

LEARNS = [(0, 0.3), (150, 0.65)]

RUNS = {
    "judge_with_little_noise": Case(
        "An LLM judge whose marks vary by .03 for the same text, as marks do; its mean goes from .35 to .6.",
        Run(
            score=[(0, 0.35), (150, 0.6)],
            terms=(Term(name="quality", judge=opinion(0.03), seconds=0.05),),
            steps=150,
            spread=0.6,
            short=True,
            tokens=6.0,
        ),
    ),
    "marks_only": Case(
        "No verdict is ever right, all are marks between 0 and 1; their mean goes from .4 to .6.",
        Run(
            score=[(0, 0.4), (150, 0.6)],
            terms=(Term(name="quality", judge=opinion(0.15)),),
            steps=150,
        ),
    ),
    "format_first": Case(
        "The format is learned in 30 steps, while accuracy is at .15; then accuracy goes to .5.",
        Run(
            score=[(0, 0.13), (40, 0.16), (180, 0.5)],
            terms=(ACCURACY, FORMAT),
            steps=180,
            spread=1.0,
            shares={"untagged": [(0, 0.9), (30, 0.03)]},
        ),
    ),
    "boxes_are_learned": Case(
        "Six answers in ten cannot be read at first, one in fifty after 30 steps; the score goes from .2 to .6.",
        Run(
            score=[(0, 0.45), (140, 0.65)],
            steps=140,
            shares={"unread": [(0, 0.6), (30, 0.02)]},
        ),
    ),
    "format_faded_out": Case(
        "The format's weight goes from .3 to 0 by 40 % of the run, as planned; the format stays.",
        Run(
            score=LEARNS,
            terms=(ACCURACY, replace(FORMAT, weight=linear(0.3, 0.0, until=0.4))),
            steps=150,
            shares={"untagged": [(0, 0.5), (40, 0.04)]},
        ),
    ),
    "penalty_faded_in": Case(
        "A small length penalty comes in between steps 50 and 100; completions shrink a little, accuracy rises.",
        Run(
            score=LEARNS,
            terms=(
                ACCURACY,
                Term(
                    name="brevity",
                    judge=brevity,
                    weight=linear(0.0, 0.1, begin=0.33, until=0.66),
                ),
            ),
            steps=150,
            tokens=[(0, 220), (60, 220), (150, 170)],
        ),
    ),
    "shadow_stricter_by_a_constant": Case(
        "A strict shadow is a tenth below the primary term, at the start as at the end; both rise.",
        Run(
            score=LEARNS,
            terms=(ACCURACY, Term(name="strict", judge=strict, weight=0.0)),
            steps=150,
            shares={"strict": 0.12},
        ),
    ),
    "shadow_more_lenient_by_a_little": Case(
        "A lenient shadow finds what the primary term cannot read, 4 % of the answers; both rise.",
        Run(
            score=LEARNS,
            terms=(ACCURACY, Term(name="lenient", judge=lenient, weight=0.0)),
            steps=150,
            shares={"unread": 0.04},
        ),
    ),
    "two_tasks": Case(
        "Math at .6 and code at .15, routed by `when`; both rise, by .2 and by .15.",
        Run(
            score={"math": [(0, 0.6), (150, 0.8)], "code": [(0, 0.15), (150, 0.3)]},
            row=lambda prompt, step: {"task": "code" if prompt % 2 else "math"},
            terms=(
                Term(name="math", judge=lenient, when={"task": "math"}),
                Term(name="code", judge=unit_tests, when={"task": "code"}),
            ),
            steps=150,
            groups=12,
        ),
    ),
    "rare_task": Case(
        "A term for the rows in French, one in twenty, beside accuracy for all; .3 to .65.",
        Run(
            score=LEARNS,
            row=lambda prompt, step: {"language": "fr" if prompt % 20 == 0 else "en"},
            terms=(
                ACCURACY,
                Term(name="french", judge=style, weight=0.2, when={"language": "fr"}),
            ),
            steps=150,
            shares={"stylish": 0.5},
        ),
    ),
    "nothing_to_punish": Case(
        "A penalty for repetition, of weight .5, has nothing to punish, and is 0 throughout.",
        Run(
            score=LEARNS,
            terms=(ACCURACY, Term(name="repetition", judge=no_penalty, weight=0.5)),
            steps=150,
        ),
    ),
    "tie_breaker_unscaled": Case(
        "A style mark of weight .01 under `scale_rewards: none`, where it is as small as it looks; .3 to .65.",
        Run(
            score=LEARNS,
            terms=(ACCURACY, Term(name="style", judge=style, weight=0.01)),
            steps=150,
            shares={"stylish": 0.4},
            options={"scale_rewards": "none", "loss_type": "dr_grpo"},
        ),
    ),
    "gated_style": Case(
        "Style counts for right answers only, weight .1, and both rise.",
        Run(
            score=LEARNS,
            terms=(ACCURACY, Term(name="style", judge=style, weight=0.1, gate="accuracy")),
            steps=150,
            shares={"stylish": [(0, 0.2), (150, 0.5)]},
        ),
    ),
    "share_of_tests": Case(
        "Code with partial credit: the share of tests goes from .3 to .6, whole programs from little to a fifth.",
        Run(
            score=[(0, 0.3), (150, 0.6)],
            terms=(Term(name="tests", judge=share_of_tests),),
            steps=150,
            spread=1.2,
        ),
    ),
    "code_with_some_endless_loops": Case(
        "One program in twelve runs for ever at first, one in fifty later; .25 to .5.",
        Run(
            score=[(0, 0.25), (150, 0.5)],
            terms=(Term(name="tests", judge=unit_tests),),
            steps=150,
            shares={"slow": [(0, 0.08), (150, 0.02)]},
            logs={"step_time": 40.0},
        ),
    ),
    "some_are_cut": Case(
        "One completion in twenty is cut at the limit, as ever; .3 to .65.",
        Run(score=LEARNS, steps=150, shares={"cut": 0.05}),
    ),
    "few_gold_errors": Case(
        "Three golds in a hundred are wrong, as in most data; .5 to .85.",
        Run(score=[(0, 0.5), (150, 0.88)], steps=150, rows={"gold": 0.03}),
    ),
    "learned_with_gold_errors": Case(
        "Learned to .96 of what can be learned, with 3 % of the golds wrong, and there it stays.",
        Run(
            score=[(0, 0.4), (80, 0.97)],
            terms=(ACCURACY, FORMAT),
            steps=160,
            rows={"gold": 0.03},
        ),
    ),
    "small_shadow_of_style": Case(
        "A style mark of weight 0 is watched, and falls a little while accuracy rises, which is what was asked.",
        Run(
            score=LEARNS,
            terms=(
                Term(name="accuracy", judge=accuracy),
                Term(name="style", judge=style, weight=0.0),
            ),
            steps=150,
            shares={"stylish": [(0, 0.5), (150, 0.3)]},
        ),
    ),
    "reason_and_evaluation_rise": Case(
        "The textbook: accuracy, format, beta .04, an evaluation that follows training, .3 to .6.",
        Run(
            score=LEARNS,
            terms=(ACCURACY, FORMAT),
            steps=150,
            evaluation=[(0, 0.28), (150, 0.58)],
            shares={"untagged": [(0, 0.4), (60, 0.05)]},
            options={"beta": 0.04, "scale_rewards": "batch"},
        ),
    ),
}
