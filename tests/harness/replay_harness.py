"""Write recorded runs for replay tests, with the real recorder and planted or shipped verifiers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from trl_grpo_ext import RewardMix, Sample, Status, Verdict, Verifier
from trl_grpo_ext.commands.replay.recorded_batches import NewRewards
from trl_grpo_ext.commands.replay.replayed_run import ReplayedRun
from trl_grpo_ext.figures.advantages import AdvantageSettings, advantages_of
from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.mix.reward_plan import plan_rewards
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.recorder import LogRecorder, Recorder
from trl_grpo_ext.runs.run_settings import run_settings, write_settings
from trl_grpo_ext.verdict import as_verdict, grader_error

GROUP = 4


class Holds(Verifier):
    """A verifier that looks for a word in the text, and counts its calls."""

    asked = 0

    def __init__(self, word: str) -> None:
        self.word = word

    def verify(self, sample: Sample) -> Verdict:
        Holds.asked += 1
        return as_verdict(self.word in sample.text)


class Moody(Verifier):
    """A nondeterministic verifier: every third call scores 1."""

    asked = 0

    def verify(self, sample: Sample) -> Verdict:
        Moody.asked += 1
        return as_verdict(Moody.asked % 3 == 0)


class Number(Verifier):
    """A verifier that reads the text's first word as score; any other word is a grader error."""

    def verify(self, sample: Sample) -> Verdict:
        first = sample.text.split()[0]
        try:
            score = float(first)
        except ValueError:
            return grader_error("planted")
        return Verdict(
            status=Status.CORRECT if score == 1 else Status.INCORRECT, score=score
        )


HOLDS = f"{Holds.__module__}.{Holds.__qualname__}"
MOODY = f"{Moody.__module__}.{Moody.__qualname__}"
NUMBER = f"{Number.__module__}.{Number.__qualname__}"


def term(name: str, verifier: str, **more: Any) -> dict[str, Any]:
    """Write an entry of `rewards:` in a recipe."""
    return {"name": name, "verifier": verifier} | more


def record(
    folder: Path,
    rewards: Sequence[dict[str, Any]],
    batches: Sequence[Sequence[str]],
    *,
    mode: Any = "train",
    first_step: int = 0,
    max_steps: int = 10,
    ended: bool = True,
    with_advantages: bool = True,
    row: dict[str, Any] | None = None,
    **settings: Any,
) -> RecordedRun:
    """Record a run like a trainer: batches of these texts, in groups of four."""
    mix = build_mix(list(rewards))
    args = SimpleNamespace(num_generations=GROUP, max_steps=max_steps, **settings)
    write_settings(folder, run_settings(args, plan_rewards(mix), 1))
    recorder = Recorder(folder)
    groups = recorder.groups_recorded()
    for place, texts in enumerate(batches):
        step = first_step + place
        samples = [
            Sample(
                text=text,
                prompt="?",
                group=groups + index // GROUP,
                step=step,
                row=row or {},
            )
            for index, text in enumerate(texts)
        ]
        groups += -(-len(texts) // GROUP)
        card = mix.score(samples, min(1.0, step / max_steps), step=step, mode=mode)
        if with_advantages:
            made = advantages_of(card, AdvantageSettings.read(settings))
            card = card.with_advantages(made.values.tolist())
        recorder.on_batch(card)
    if ended:
        LogRecorder(folder).on_log(first_step + len(batches), {"train_runtime": 1.0})
    return RecordedRun(folder)


def nothing_changed(replayed: ReplayedRun) -> None:
    """Assert that a replay changes no verdict, advantage or group."""
    comparison = replayed.comparison
    assert comparison.not_reproduced == comparison.without_advantages == 0
    assert [changes.changed for changes in comparison.terms.values()] == [0] * len(
        replayed.sources
    )
    assert comparison.changed == 0
    assert comparison.advantages.sign_changes == 0
    assert comparison.groups.changes == []


def new_rewards(
    rewards: Sequence[dict[str, Any]] | RewardMix, **settings: Any
) -> NewRewards:
    """Make new rewards for a replay; without settings, the replay computes advantages like the run."""
    mix = rewards if isinstance(rewards, RewardMix) else build_mix(list(rewards))
    return NewRewards(
        mix=mix, settings=AdvantageSettings.read(settings) if settings else None
    )
