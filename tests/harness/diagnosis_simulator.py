"""Simulate training runs: turn a run's description into its events, in a trainer's order.

Nothing is trained. A curve gives the probability of a correct completion at each step, and batches are drawn from it:
binomial per prompt, with prompts of different difficulty, groups of siblings, and noise in all logs. Equal names
draw equal runs.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from random import Random
from statistics import fmean, pstdev

import numpy as np
from simulated_run import Curve, Draw, Run, at

from trl_grpo_ext import RewardMix, RewardTerm, Sample, Scorecard, Verdict, Verifier
from trl_grpo_ext.figures.advantages import AdvantageSettings, advantages_of
from trl_grpo_ext.scorecard import Mode
from trl_grpo_ext.verdict import as_verdict

# (step, TRL's logs of the step)
Logged = tuple[int, dict[str, float]]
Event = Scorecard | Logged

# TRL logs the current values of these names, not means over the logging interval.
LAST_OF_STEP = ("learning_rate", "grad_norm", "num_tokens", "epoch")
CLIP_RATIOS = ("low_mean", "low_min", "high_mean", "high_max", "region_mean")
# In seconds.
STEP_TIME = 11.0


class _Told(Verifier):
    """A verifier with planted verdicts per sample, so that dataset rows need no planted columns."""

    def __init__(self) -> None:
        self.told: dict[int, Verdict] = {}

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        return [self.told[id(sample)] for sample in samples]

    def verify(self, sample: Sample) -> Verdict:
        return self.told[id(sample)]


def simulate(name: str, run: Run) -> Iterator[Event]:
    """Simulate a run: yield training and evaluation batches as scorecards, and the logs after each step."""
    return _Simulation(run, Random(zlib.crc32(name.encode()))).events()


class _Simulation:
    def __init__(self, run: Run, rng: Random) -> None:
        self.run, self.rng, self.settings = run, rng, run.settings
        self.told = {term.name: _Told() for term in run.terms}
        self.mix = RewardMix(
            [
                RewardTerm(
                    name=one.name,
                    verifier=self.told[one.name],
                    weight=one.weight,
                    gate=one.gate,
                    when=one.when,
                    shape=one.shape,
                    score_range=one.score_range,
                )
                for one in run.terms
            ]
        )
        self.groups_seen = self.tokens_seen = 0

    def events(self) -> Iterator[Event]:
        pending: list[dict[str, float]] = []
        card: Scorecard | None = None
        for step in range(self.run.steps):
            if step % self.settings["num_iterations"] == 0:
                card = self.batch(
                    step,
                    [self.rng.randrange(self.run.pool) for _ in range(self.run.groups)],
                )
                yield card
            assert card is not None
            pending.append(
                self.of_update(step, card)
                | (self.of_batch(card) if card.step == step else {})
            )
            if (step + 1) % self.settings["logging_steps"] == 0:
                names = {name: None for logs in pending for name in logs}
                means = {
                    name: fmean(logs[name] for logs in pending if name in logs)
                    for name in names
                }
                yield step + 1, means | {name: pending[-1][name] for name in LAST_OF_STEP}
                pending = []
            if self.run.evaluation is not None and (step + 1) % self.run.every == 0:
                yield from self.evaluate(step + 1)

    def evaluate(self, step: int) -> Iterator[Event]:
        """Evaluate 32 fixed prompts in two batches, and yield TRL's log of the evaluation."""
        cards = [
            self.batch(step, range(10_000 + begin, 10_016 + begin), mode="eval")
            for begin in (0, 16)
        ]
        yield from cards
        both = [self.of_batch(card) for card in cards]
        yield (
            step,
            {
                f"eval_{name}": fmean(logs[name] for logs in both)
                for name in both[0]
                if name in both[1]
            },
        )

    def batch(self, step: int, prompts: Sequence[int], mode: Mode = "train") -> Scorecard:
        shift = self.run.sway * self.rng.gauss()
        size = int(
            self.settings["num_generations" if mode == "train" else "num_generations_eval"]
        )
        draws, samples = [], []
        for prompt in prompts:
            members = self.group(step, prompt, size, shift, mode)
            draws += members
            samples += [self.sample(draw, place) for place, draw in enumerate(members)]
            self.groups_seen += 1
        for term in self.run.terms:
            cost = at(term.seconds, step)
            verdicts = (
                (one, as_verdict(term.judge(draw)))
                for one, draw in zip(samples, draws, strict=True)
            )
            self.told[term.name].told = {
                id(one): replace(
                    found, seconds=found.seconds or cost * self.rng.uniform(0.8, 1.2)
                )
                for one, found in verdicts
            }
        card = self.mix.score(
            samples, min(1.0, step / self.run.steps), step=step, mode=mode
        )
        return card.with_advantages(
            advantages_of(card, AdvantageSettings.read(self.settings)).values.tolist()
        )

    def group(
        self, step: int, prompt: int, size: int, shift: float, mode: Mode
    ) -> list[Draw]:
        run, rng = self.run, self.rng
        row = run.row(prompt, step)
        true, other = str(prompt * 37 % 9973), str((prompt + 1) * 37 % 9973)
        row = {"answer": other if run.is_row("gold", prompt) else true} | row
        chance = run.chance(prompt, row, step, shift, evaluation=mode == "eval")
        usual = rng.randint(1, 36)
        most, length = int(self.settings["max_completion_length"]), at(run.tokens, step)
        members = []
        for _ in range(1 if run.greedy else size):
            right = rng.random() < chance
            slip = (
                usual
                if rng.random() < at(run.shares.get("common", 0.25), step)
                else rng.randint(1, 36)
            )
            wanted = round(
                length * rng.lognormvariate(-0.03, 0.25) * (0.95 if right else 1.05)
            )
            cut = wanted > most or rng.random() < at(run.shares.get("cut", 0.0), step)
            members.append(
                Draw(
                    run=run,
                    step=step,
                    rng=rng,
                    prompt=prompt,
                    row=row,
                    true=true,
                    ability=chance,
                    right=right and not cut,
                    answer=true if right else str(int(true) + slip),
                    tokens=6 if run.short else most if cut else max(4, wanted),
                    cut=cut,
                )
            )
        return members * size if run.greedy else members

    def sample(self, draw: Draw, place: int) -> Sample:
        answer = f"\\boxed{{{draw.answer}}}"
        way = "" if self.run.greedy else f"Way {self.rng.randrange(10**6)}.{place}: "
        said = (
            answer
            if self.run.short
            else f"{way}I work it out step by step and find{'' if draw.cut else ' ' + answer}"
        )
        first = 0 if self.run.greedy or self.run.short else place
        loops = self.rng.random() < at(self.run.looping, draw.step)
        return Sample(
            text=said + " again and again" * (20 if loops else 0),
            prompt=f"Question {draw.prompt}: what comes out of it?",
            completion_ids=[7] * draw.tokens
            if loops
            else range(first, first + draw.tokens),
            truncated=draw.cut,
            row=draw.row,
            group=self.groups_seen,
            step=int(draw.step),
        )

    def of_update(self, step: int, card: Scorecard) -> dict[str, float]:
        """Make TRL's logs of an update; entries of `Run.logs` override them."""
        live, settings = float(np.mean(card.live)), self.settings
        score = (
            fmean(one.score or 0.0 for one in card.primary if one is not None)
            if any(card.primary)
            else 0.0
        )
        clipped = dict.fromkeys([f"clip_ratio/{name}" for name in CLIP_RATIOS], 0.0)
        logs: dict[str, Curve] = {
            "grad_norm": 0.3 * math.sqrt(live),
            "entropy": 0.15 + 0.5 * (1 - score),
            "step_time": STEP_TIME,
            **clipped,
        }
        if settings["beta"]:
            logs["kl"] = 0.1 * (step + 1) / self.run.steps
        found = {
            name: at(curve, step) * self.rng.lognormvariate(0, self.run.noise)
            for name, curve in (logs | dict(self.run.logs)).items()
        }
        decayed = float(settings["learning_rate"]) * (1 - step / self.run.steps)
        return {
            "loss": self.rng.gauss(0, 0.01) * live
            + float(settings["beta"]) * found.get("kl", 0.0),
            **found,
            "learning_rate": at(self.run.logs.get("learning_rate", decayed), step),
            "num_tokens": float(self.tokens_seen),
            "epoch": (step + 1) * self.run.groups / self.run.pool,
        }

    def of_batch(self, card: Scorecard) -> dict[str, float]:
        """Make TRL's logs of a batch."""
        lengths = [float(length) for length in card.tokens]
        ended = [
            length
            for length, one in zip(lengths, card.samples, strict=True)
            if not one.truncated
        ]
        self.tokens_seen += int(sum(lengths)) + 20 * len(card)
        totals = [total for total in card.totals if total is not None]
        judging = sum(
            one.seconds
            for column in card.verdicts.values()
            for one in column
            if one is not None
        )
        logs = {
            "completions/mean_length": fmean(lengths),
            "completions/min_length": min(lengths),
            "completions/max_length": max(lengths),
            "completions/clipped_ratio": 1 - len(ended) / len(lengths),
            "completions/mean_terminated_length": fmean(ended or [0.0]),
            "frac_reward_zero_std": 1 - float(np.mean(card.live)),
            "verified/grader/judging_seconds": judging,
            "verified/grader/share_of_step": judging
            / at(self.run.logs.get("step_time", STEP_TIME), card.step or 0),
        }
        if totals:
            logs |= {"reward": fmean(totals), "reward_std": pstdev(totals)}
        for term in card.terms:
            values = [value for value in card.rewards(term) if value is not None]
            if values:
                logs |= {
                    f"rewards/{term}/mean": fmean(values),
                    f"rewards/{term}/std": pstdev(values),
                }
        return logs


@dataclass(frozen=True)
class Case:
    """A run with its expected diagnosis.

    Attributes:
        story: The events of the run in a practitioner's words.
        expected: The accepted codes of the first cause; empty for a healthy run, without a finding above information.
        says: Parts that the diagnosis sentence must contain, in lower case; `a|b` accepts either.
    """

    story: str
    run: Run
    _: KW_ONLY
    expected: tuple[str, ...] = ()
    says: tuple[str, ...] = ()

    def missing(self, sentence: str) -> list[str]:
        """List the entries of `says` missing in a sentence."""
        said = sentence.lower()
        return [
            words
            for words in self.says
            if not any(word in said for word in words.split("|"))
        ]
