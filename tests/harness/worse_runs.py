"""Simulated runs with falling scores, and with a broken policy."""

from __future__ import annotations

from diagnosis_simulator import Case
from simulated_run import ACCURACY, FORMAT, Run, Term, lenient, unit_tests

FALLEN = ("fall|fell|lost|worse|dropped|halved|down from",)

WORSE = {
    "rose_and_decays": Case(
        "The score rises to .8 by step 100 and decays to .4 by step 240, with beta 0 and nothing else to see.",
        Run(score=[(0, 0.2), (100, 0.8), (120, 0.78), (240, 0.4)], steps=240),
        expected=("getting_worse",),
        says=FALLEN,
    ),
    "halved_out_of_the_blue": Case(
        "At step 90 the score drops from .7 to .35 within four steps and stays there; nothing else has changed.",
        Run(score=[(0, 0.4), (90, 0.7), (94, 0.35)], steps=150),
        expected=("getting_worse",),
        says=FALLEN,
    ),
    "halved_by_a_spike": Case(
        "One gradient of norm 400 at step 80, and the score drops from .7 to .35.",
        Run(
            score=[(0, 0.4), (80, 0.7), (82, 0.35)],
            logs={"grad_norm": [(79, 0.3), (80, 400.0), (81, 0.5), (140, 0.3)]},
            steps=140,
        ),
        expected=("getting_worse", "nonfinite_updates"),
        says=(*FALLEN, "gradient"),
    ),
    "halved_as_the_grader_fails": Case(
        "From step 80 the grader fails on a third of the completions, and those that it still judges get worse.",
        Run(
            score=[(0, 0.35), (80, 0.65), (84, 0.35)],
            shares={"grader": [(79, 0.0), (80, 0.33)]},
            steps=140,
        ),
        expected=("grader_trouble", "getting_worse"),
    ),
    "falls_from_the_start": Case(
        "The learning rate is too high for this model: accuracy goes from .55 to .2 from the first step on.",
        Run(score=[(0, 0.55), (130, 0.2)], steps=150, options={"learning_rate": 5e-5}),
        expected=("getting_worse",),
        says=FALLEN,
    ),
    "falls_slowly_with_beta": Case(
        "With beta .04 and a KL as usual the score goes down slowly, from .6 to .42, over 250 steps.",
        Run(score=[(0, 0.6), (250, 0.42)], steps=250, options={"beta": 0.04}),
        expected=("getting_worse",),
        says=FALLEN,
    ),
    "evaluation_falls_training_flat": Case(
        "The training score stands at .5 while the evaluation goes from .5 to .2.",
        Run(score=0.5, evaluation=[(20, 0.5), (160, 0.2)], steps=160, groups=16),
        expected=("getting_worse",),
        says=("evaluation", *FALLEN),
    ),
    "evaluation_peaks_training_rises": Case(
        "Overfitting: training goes on to .9, the evaluation rises to .6 at step 80 and falls to .3.",
        Run(
            score=[(0, 0.3), (160, 0.9)],
            evaluation=[(0, 0.3), (80, 0.6), (180, 0.3)],
            steps=180,
            pool=120,
        ),
        expected=("getting_worse", "reward_hacking"),
        says=("evaluation",),
    ),
    "evaluation_peaks_training_stands": Case(
        "Training rises to .55 by step 70 and stands; the evaluation peaks there at .55 and falls to .25.",
        Run(
            score=[(0, 0.3), (70, 0.55)],
            evaluation=[(0, 0.3), (70, 0.55), (180, 0.25)],
            steps=180,
        ),
        expected=("getting_worse", "reward_hacking"),
        says=("evaluation",),
    ),
    "forgets_the_second_task": Case(
        "Math rises from .3 to .7, code, the other half of the rows, falls from .65 to .25; the mean stands.",
        Run(
            score={"math": [(0, 0.3), (150, 0.7)], "code": [(0, 0.65), (150, 0.25)]},
            row=lambda prompt, step: {"task": "code" if prompt % 2 else "math"},
            terms=(
                Term(name="math", judge=lenient, when={"task": "math"}),
                Term(name="code", judge=unit_tests, when={"task": "code"}),
            ),
            steps=160,
            groups=12,
        ),
        expected=("getting_worse",),
        says=("code",),
    ),
    "unravels_with_entropy": Case(
        "Entropy goes from .4 to 4 nats from step 60 on, text turns to noise, and .65 becomes .2.",
        Run(
            score=[(0, 0.4), (60, 0.65), (130, 0.2)],
            logs={"entropy": [(0, 0.5), (60, 0.4), (130, 4.0)]},
            shares={
                "common": [(0, 0.3), (60, 0.3), (130, 0.0)],
                "unread": [(60, 0.0), (130, 0.2)],
            },
            steps=150,
        ),
        expected=("getting_worse", "kl_blowup"),
        says=("entropy", *FALLEN),
    ),
}

POLICY = {
    "broken_lora": Case(
        "LoRA at a learning rate of .3: after three updates the text is noise to the limit, and all is wrong.",
        Run(
            score=[(0, 0.35), (2, 0.3), (5, 0.0)],
            steps=60,
            shares={"cut": [(0, 0.0), (2, 0.05), (5, 1.0)]},
            logs={
                "entropy": [(0, 0.5), (2, 0.8), (5, 8.0)],
                "grad_norm": [(0, 0.5), (3, 40.0), (6, 0.0)],
            },
            options={"learning_rate": 0.3},
        ),
        expected=("kl_blowup", "getting_worse"),
        says=("broke|collapsed|fall|fell|far from",),
    ),
    "broken_midway": Case(
        "With beta .04 the KL goes from .1 to 60 at step 70, the score from .55 to 0, text runs to the limit.",
        Run(
            score=[(0, 0.35), (70, 0.55), (76, 0.0)],
            steps=130,
            shares={"cut": [(70, 0.02), (76, 0.97)]},
            logs={
                "kl": [(0, 0.01), (70, 0.1), (76, 60.0)],
                "entropy": [(0, 0.5), (70, 0.4), (76, 6.0)],
            },
            options={"beta": 0.04, "learning_rate": 2e-5},
        ),
        expected=("kl_blowup", "getting_worse"),
        says=("broke|collapsed|fall|fell|far from",),
    ),
    "drifts_for_nothing": Case(
        "The KL climbs to 30 and the score is where it began, at .35.",
        Run(
            score=0.35,
            options={"beta": 0.001},
            logs={"kl": [(0, 0.01), (30, 3.0), (110, 30.0)]},
        ),
        expected=("kl_blowup",),
        says=("kl|reference",),
    ),
    "stops_exploring": Case(
        "Entropy is .01 from step 40 on, every group gives one answer, and the score stays at .35.",
        Run(
            score=[(0, 0.25), (40, 0.35)],
            spread=[(0, 1.5), (40, 12.0)],
            shares={"common": [(0, 0.2), (40, 0.98)]},
            logs={"entropy": [(0, 0.7), (40, 0.01)]},
        ),
        expected=("entropy_collapse", "dead_groups"),
        says=("entropy|explor|same|differ",),
    ),
    "grows_for_nothing": Case(
        "Completions grow from 150 to 700 tokens, and accuracy stays at .45.",
        Run(
            score=0.45,
            tokens=[(0, 150), (110, 700)],
            options={"max_completion_length": 2048},
        ),
        expected=("length_explosion",),
        says=("long",),
    ),
    "says_it_again": Case(
        "More and more completions end in loops of the same words, and accuracy stays at .4.",
        Run(
            score=0.4,
            terms=(ACCURACY, FORMAT),
            looping=[(0, 0.02), (20, 0.05), (90, 0.8)],
            tokens=220.0,
        ),
        expected=("repetition",),
        says=("repeat",),
    ),
}

RUNS = {"getting worse": WORSE, "policy": POLICY}
