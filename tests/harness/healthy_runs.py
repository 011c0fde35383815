"""Healthy simulated runs with unusual curves."""

from __future__ import annotations

from diagnosis_simulator import Case
from simulated_run import Curve, Run, Term, accuracy

WARM_UP = [(0, 0.0), (20, 1e-6), (150, 0.0)]


def rises(start: float, end: float, steps: int, at: float = 0.8) -> Curve:
    """Make a curve from `start` to `end`, fast first and slow later; `end` is reached after the share `at` of steps."""
    half = start + 0.65 * (end - start)
    return [(0, start), (steps * at * 0.4, half), (steps * at, end)]


RUNS = {
    "slow_learner": Case(
        "From .10 to .25 in 250 steps, steadily.",
        Run(score=[(0, 0.1), (250, 0.25)], steps=250),
    ),
    "noisy_learner": Case(
        "Batches differ a lot in difficulty; under the noise the score goes from .3 to .6.",
        Run(score=[(0, 0.3), (200, 0.6)], steps=200, sway=0.6, noise=0.35),
    ),
    "harder_evaluation": Case(
        "Training goes from .3 to .8, the evaluation, which is harder, from .1 to .3.",
        Run(score=[(0, 0.3), (180, 0.8)], steps=180, evaluation=[(0, 0.1), (180, 0.3)]),
    ),
    "curriculum": Case(
        "The data gets harder at steps 70 and 140, as its column `level` says; the evaluation rises all along.",
        Run(
            score={
                "level 1": [(0, 0.35), (70, 0.75)],
                "level 2": [(70, 0.45), (140, 0.68)],
                "level 3": [(140, 0.4), (210, 0.6)],
            },
            row=lambda prompt, step: {"task": f"level {min(3, 1 + int(step) // 70)}"},
            steps=210,
            evaluation=[(0, 0.2), (210, 0.55)],
        ),
    ),
    "learned_all": Case(
        "From .4 to .97 by step 80, where it stays: the run has learned what there is to learn.",
        Run(score=[(0, 0.4), (40, 0.8), (80, 0.97)], steps=160),
    ),
    "starts_high": Case(
        "A good model: .9 at the first step, .96 at the last.",
        Run(score=[(0, 0.9), (100, 0.96)], spread=1.0),
    ),
    "converged_without_beta": Case(
        "Learned to .95 with beta 0; entropy ends at .04 and the gradient nearly at 0, as they should.",
        Run(
            score=rises(0.5, 0.95, 150, 0.5),
            steps=150,
            logs={"entropy": [(0, 0.6), (75, 0.08), (150, 0.04)]},
        ),
    ),
    "warm_up": Case(
        "The learning rate starts at 0 and warms up for 20 steps, in which nothing moves; then .3 becomes .6.",
        Run(
            score=[(0, 0.3), (20, 0.3), (140, 0.6)],
            steps=150,
            logs={"learning_rate": WARM_UP},
        ),
    ),
    "length_grows_with_the_score": Case(
        "Thinking gets longer, 100 to 400 tokens, and pays: .2 becomes .7.",
        Run(
            score=rises(0.2, 0.7, 150, 1.0),
            steps=150,
            tokens=[(0, 100), (150, 400)],
            options={"max_completion_length": 2048},
        ),
    ),
    "gets_concise": Case(
        "Completions shrink from 350 to 120 tokens while accuracy rises from .4 to .7.",
        Run(score=[(0, 0.4), (120, 0.7)], tokens=[(0, 350), (120, 120)]),
    ),
    "small_batch": Case(
        "Two groups of eight a batch: the score of a batch jumps between 0 and 1, its mean goes from .3 to .6.",
        Run(score=[(0, 0.3), (200, 0.6)], groups=2, steps=200, noise=0.4),
    ),
    "one_bad_batch": Case(
        "A batch of hopeless prompts at step 100: .05 once, .55 before and after.",
        Run(score=[(0, 0.3), (99, 0.55), (100, 0.05), (101, 0.55), (140, 0.6)], steps=140),
    ),
    "dip_of_five_steps": Case(
        "From .6 down to .3 for five steps at step 80, and back; it ends at .7.",
        Run(
            score=[(0, 0.3), (79, 0.6), (81, 0.3), (85, 0.3), (88, 0.6), (150, 0.7)],
            steps=150,
        ),
    ),
    "long_plateau_then_a_rise": Case(
        "At .15 for 100 steps, then the model gets it and is at .6 by step 200.",
        Run(score=[(0, 0.15), (100, 0.15), (200, 0.6)], steps=200, spread=1.0),
    ),
    "evaluation_at_its_ceiling": Case(
        "The evaluation is at .97 from the start and stays there; training goes from .6 to .9.",
        Run(score=rises(0.6, 0.9, 160), steps=160, evaluation=0.97),
    ),
    "evaluation_with_noise": Case(
        "Evaluations of 32 prompts, once each, go up and down around a slow rise, .4 to .5; training rises.",
        Run(
            score=[(0, 0.4), (180, 0.6)],
            steps=180,
            evaluation=[(0, 0.4), (180, 0.5)],
            every=15,
            options={"num_generations_eval": 1},
        ),
    ),
    "four_generations": Case(
        "Groups of four: half of them are not live, and the score goes from .35 to .6.",
        Run(
            score=[(0, 0.35), (180, 0.6)],
            steps=180,
            groups=12,
            options={"num_generations": 4},
        ),
    ),
    "thirty_two_generations": Case(
        "Hard prompts with groups of 32: .05 becomes .3.",
        Run(
            score=[(0, 0.05), (120, 0.3)],
            steps=120,
            groups=3,
            options={"num_generations": 32},
        ),
    ),
    "kl_pays": Case(
        "The KL goes to .4 with beta .04 while the score goes from .3 to .75.",
        Run(
            score=rises(0.3, 0.75, 150),
            steps=150,
            options={"beta": 0.04},
            logs={"kl": [(0, 0.001), (150, 0.4)]},
        ),
    ),
    "many_dead_groups_and_a_rise": Case(
        "Prompts are easy or hopeless, a third of the groups are live and `drop_dead_groups` is on; .35 to .55.",
        Run(
            score=[(0, 0.35), (180, 0.55)],
            steps=180,
            spread=4.0,
            options={"drop_dead_groups": True},
        ),
    ),
    "logs_every_ten_steps": Case(
        "An ordinary run, .3 to .65, that logs every ten steps.",
        Run(score=[(0, 0.3), (150, 0.65)], steps=150, options={"logging_steps": 10}),
    ),
    "fast_lora": Case(
        "LoRA at 2e-4: .3 becomes .8 in 40 steps, and then it wavers between .78 and .82.",
        Run(
            score=[(0, 0.3), (40, 0.8), (60, 0.82), (80, 0.79), (110, 0.81), (150, 0.8)],
            steps=150,
            options={"learning_rate": 2e-4},
        ),
    ),
    "one_gradient_spike": Case(
        "One gradient of 20 times the usual norm at step 60, clipped, without any effect; .3 to .6.",
        Run(
            score=[(0, 0.3), (140, 0.6)],
            steps=140,
            logs={"grad_norm": [(59, 0.3), (60, 6.0), (61, 0.3)]},
        ),
    ),
    "two_updates_a_batch": Case(
        "Two updates a batch, 5 % of the tokens are clipped, as is usual; .3 to .6.",
        Run(
            score=[(0, 0.3), (200, 0.6)],
            steps=200,
            options={"num_iterations": 2},
            logs={
                "clip_ratio/region_mean": 0.05,
                "clip_ratio/high_mean": 0.03,
                "clip_ratio/low_mean": 0.02,
            },
        ),
    ),
    "short_run": Case(
        "Sixty steps on a lunch break, .3 to .42.",
        Run(score=[(0, 0.3), (60, 0.42)], steps=60, groups=16),
    ),
    "rare_errors": Case(
        "One verdict in 300 fails as a service restarts; .3 to .6.",
        Run(score=[(0, 0.3), (140, 0.6)], steps=140, shares={"grader": 0.003}),
    ),
    "slow_verifier_that_is_worth_it": Case(
        "A verifier takes a fifth of the step; .3 to .6.",
        Run(
            score=[(0, 0.3), (120, 0.6)],
            terms=(Term(name="accuracy", judge=accuracy, seconds=0.034),),
            steps=120,
        ),
    ),
    "sorted_epochs": Case(
        "Each epoch of 40 steps goes from easy to hard rows: the score is a saw that rises from epoch to epoch.",
        Run(
            score=[
                (s + d, 0.35 + s / 400 + h)
                for s in range(0, 200, 40)
                for d, h in ((0, 0.12), (39, -0.12))
            ],
            steps=200,
            # TRL shuffles by default.
            options={"shuffle_dataset": False},
        ),
    ),
    "ends_on_hard_batches": Case(
        "The last two batches happen to be hard, .3 after .65.",
        Run(score=[(0, 0.3), (147, 0.65), (148, 0.3), (150, 0.3)], steps=150),
    ),
    "lucky_first_batch": Case(
        "The first two batches are easy, .85; after that the run goes from .35 to .65.",
        Run(score=[(0, 0.85), (1, 0.85), (2, 0.35), (150, 0.65)], steps=150),
    ),
    "one_low_evaluation": Case(
        "The evaluation at step 100 is .3 between .5 and .55, and the next ones are fine.",
        Run(
            score=[(0, 0.4), (180, 0.65)],
            steps=180,
            evaluation=[(0, 0.4), (80, 0.5), (100, 0.3), (120, 0.54), (180, 0.6)],
        ),
    ),
}
