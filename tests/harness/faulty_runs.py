"""Simulated runs with faulty reward terms, verifiers or tests of programs."""

from __future__ import annotations

from dataclasses import replace

from diagnosis_simulator import Case
from simulated_run import (
    ACCURACY,
    BREVITY,
    FORMAT,
    Run,
    Term,
    fooled,
    lenient,
    opinion,
    raises,
    right,
    strict,
    style,
    unit_tests,
    wrong,
)

from trl_grpo_ext.mix import linear, piecewise

LENIENT = Term(name="lenient", judge=lenient, weight=0.0)
TESTS = Term(name="tests", judge=unit_tests)
JUDGED = Term(name="tone", judge=opinion(0.05), weight=0.2)

TERMS = {
    "brevity_outweighs": Case(
        "A length penalty of weight 5 is worth more than being right: completions shrink, and so does accuracy.",
        Run(
            score=[(0, 0.5), (100, 0.15)],
            terms=(ACCURACY, replace(BREVITY, weight=5.0)),
            steps=140,
            tokens=[(0, 260), (80, 40)],
            spread=1.2,
            groups=12,
        ),
        expected=("wrong_driver", "getting_worse"),
        says=("brevity",),
    ),
    "terms_cancel": Case(
        "A term for hedging gives its mark where the answer is wrong, so the totals of a group are equal.",
        Run(
            score=0.4,
            shares={"slips": 0.03},
            terms=(
                ACCURACY,
                Term(name="cautious", judge=lambda d: d.right is d.flag("slips")),
            ),
        ),
        expected=("wrong_driver", "dead_groups", "inert_term"),
        says=("cautious",),
    ),
    "schedule_undoes": Case(
        "The weights fade the wrong way round, from accuracy to the format, and what was learned is lost.",
        Run(
            score=[(0, 0.25), (70, 0.7), (100, 0.65), (170, 0.3)],
            terms=(
                replace(ACCURACY, weight=linear(1.0, 0.05, begin=0.4, until=0.6)),
                replace(FORMAT, weight=linear(0.0, 1.0, begin=0.4, until=0.6)),
            ),
            shares={"untagged": [(0, 0.5), (80, 0.5), (150, 0.1)]},
            steps=180,
        ),
        expected=("getting_worse", "wrong_driver"),
        says=("format|schedule|weight",),
    ),
    "tie_breaker_alone": Case(
        "Nearly all answers are wrong; a style mark of weight 0.01, scaled up by its group, is all that teaches.",
        Run(
            score=0.03,
            terms=(ACCURACY, Term(name="style", judge=style, weight=0.01)),
            shares={"stylish": [(0, 0.1), (110, 0.9)]},
        ),
        expected=("wrong_driver",),
        says=("style",),
    ),
    "politeness_wins": Case(
        "A politeness mark of weight 3 rises from .35 to .75 while accuracy stands at .4.",
        Run(
            score=0.4,
            terms=(ACCURACY, Term(name="politeness", judge=style, weight=3.0)),
            shares={"stylish": [(0, 0.1), (110, 0.9)]},
        ),
        expected=("wrong_driver",),
        says=("politeness",),
    ),
    "penalty_switched_on": Case(
        "At step 90 a length penalty comes into force, and within ten steps accuracy has halved.",
        Run(
            score=[(0, 0.4), (90, 0.7), (100, 0.35)],
            terms=(
                ACCURACY,
                replace(
                    BREVITY, weight=piecewise({0: 0.0, 90: 6.0}, curve="hold", unit="step")
                ),
            ),
            steps=150,
            tokens=[(0, 240), (90, 250), (100, 60)],
        ),
        expected=("getting_worse", "wrong_driver"),
        says=("brevity",),
    ),
    "gate_never_opens": Case(
        "Style counts only for perfect marks, and the judge's marks end at 0.99.",
        Run(
            score=[(0, 0.4), (110, 0.55)],
            terms=(
                Term(name="quality", judge=opinion(0.1)),
                Term(name="style", judge=style, weight=0.3, gate="quality"),
            ),
        ),
        expected=("inert_term",),
        says=("style",),
    ),
}

VERIFIERS = {
    "too_strict": Case(
        "The verifier accepts one spelling of a number; a lenient shadow finds six times as many answers right.",
        Run(
            score=0.6,
            terms=(Term(name="accuracy", judge=strict), LENIENT),
            shares={"strict": 0.85},
        ),
        expected=("noisy_verifier",),
        says=("accuracy", "strict|turns down|turned down|rejects"),
    ),
    "too_strict_about_the_form": Case(
        "Only boxed answers are read, seven in ten are not boxed, and a lenient shadow reads them all.",
        Run(score=0.55, terms=(ACCURACY, LENIENT), shares={"unread": 0.7}),
        expected=("unparseable_flood", "noisy_verifier"),
        says=("no_boxed|read|parse",),
    ),
    "accepts_everything": Case(
        "The verifier reads the gold in the prompt: all is right from the first step, though answers differ.",
        Run(score=0.4, terms=(Term(name="accuracy", judge=lambda d: right(d.answer)),)),
        expected=("dead_groups", "inert_term", "noisy_verifier"),
        says=("answers|depend|different|whatever",),
    ),
    "reads_the_prompt": Case(
        "The score depends on the prompt only: half of the groups all right, half all wrong, answers differ.",
        Run(
            score=0.4,
            rows={"lucky": 0.5},
            terms=(
                Term(
                    name="accuracy",
                    judge=lambda d: (
                        right(d.answer) if d.of_rows("lucky") else wrong(d.answer)
                    ),
                ),
            ),
        ),
        expected=("dead_groups", "inert_term"),
        says=("prompt|depend|answers|different",),
    ),
    "tests_accept_all": Case(
        "The tests assert nothing, so every program passes; hidden tests, a shadow, pass one in five.",
        Run(
            score=0.2,
            terms=(
                Term(name="tests", judge=lambda d: right(f"def f(x): return {d.answer}")),
                Term(name="hidden_tests", judge=unit_tests, weight=0.0),
            ),
        ),
        expected=("dead_groups", "reward_hacking", "noisy_verifier"),
        says=("hidden_tests|accept|pass|whatever|depend",),
    ),
    "hacked_verifier": Case(
        "The policy has found what the verifier accepts: its score rises to .9, the strict shadow's falls to .1.",
        Run(
            score=[(0, 0.3), (110, 0.1)],
            terms=(Term(name="accuracy", judge=fooled), replace(LENIENT, name="strict")),
            shares={"hack": [(0, 0.02), (20, 0.05), (110, 0.9)]},
        ),
        expected=("reward_hacking",),
        says=("strict",),
    ),
    "naive_hacks": Case(
        "More and more programs fail the tests in a way that would fool a naive grader.",
        Run(
            score=[(0, 0.3), (100, 0.35)],
            terms=(TESTS,),
            shares={"naive": [(0, 0.0), (100, 0.6)]},
        ),
        expected=("label_hacks",),
    ),
    "judge_by_chance": Case(
        "An LLM judge at temperature 1 gives the same short answer .1 once and .9 the next time.",
        Run(
            score=0.5,
            short=True,
            terms=(Term(name="judge", judge=lambda d: d.rng.choice([0.1, 0.5, 0.9])),),
            tokens=6.0,
        ),
        expected=("noisy_verifier",),
        says=("same|chance|differently|noise",),
    ),
}

CODE = {
    "wrong_entry_point": Case(
        "The tests call `add`, the prompt asks for `solution`: every program ends with a NameError.",
        Run(
            score=0.5,
            terms=(
                Term(name="tests", judge=raises("NameError: name 'add' is not defined")),
            ),
        ),
        expected=("dead_groups", "inert_term", "bad_data"),
        says=("test_1_error|nameerror|name 'add'|lacks_name",),
    ),
    "module_missing": Case(
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
        expected=("dead_groups", "inert_term"),
        says=("test_1_error|modulenotfound|pandas",),
    ),
    "programs_run_for_ever": Case(
        "Nine programs in ten run into the time limit of 5 seconds, and the share does not fall.",
        Run(score=0.3, terms=(TESTS,), shares={"slow": 0.9}),
        expected=("dead_groups", "grader_trouble"),
        says=("time",),
    ),
}

RUNS = {"terms": TERMS, "verifier": VERIFIERS, "code": CODE}
