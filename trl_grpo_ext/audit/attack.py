"""The live part of an audit: a tiny policy is trained against the reward, and what it is paid for wrongly is shown.

What the bundled policy says, variants of that, and what the probes say are tried first. What the reward pays of it is
shown to the policy; then the policy is trained by GRPO. Nothing but the reward teaches it. A strict reference judges
the same completions, and teaches nothing.
"""

from __future__ import annotations

import copy
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import datasets
import torch
import transformers
from datasets import Dataset, load_dataset

from trl_grpo_ext.assets import resolve
from trl_grpo_ext.audit.policy import ARENAS, Pair, Policy
from trl_grpo_ext.audit.probes import FORMS, MARK, PROBES, WORK, Said
from trl_grpo_ext.audit.static import best_form, is_paid, share
from trl_grpo_ext.audit.task import Kind, Task, read_tasks
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards import MathVerifier, UnitTestVerifier
from trl_grpo_ext.rewards.restyled import is_surely
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Interval
from trl_grpo_ext.trainer.config import VerifiedGRPOConfig
from trl_grpo_ext.trainer.verified_grpo import VerifiedGRPOTrainer
from trl_grpo_ext.verdict import Status, Verdict

HOLE = 0.02  # of the completions: a hole is where surely more than this are paid and wrong
TASKS, PROBES_EACH, SHOWN = 600, 4, 6000  # that are tried, and what is shown of what was paid
OWN, OWN_SHARE = "own", 0.4
STEPS, BATCH, GROUP, RATE = 32, 64, 8, 3e-4
PATTERNS = 5
REWARD, REFERENCE = "reward", "reference"
BOX = re.compile(r"\\boxed\{([^{}]*)\}")


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """Completions that are the same but for their numbers, and one of them."""

    count: int
    pattern: str
    prompt: Any
    completion: str


@dataclass(frozen=True, kw_only=True)
class Period:
    """Some steps: shares of their completions, with intervals over the groups; None where nothing was scored.

    `paid` are those that the reward paid, `right` those that the reference calls right, and `wrongly_paid` those that
    are paid and not right.
    """

    paid: Interval | None
    right: Interval | None
    wrongly_paid: Interval | None

    @property
    def has_a_hole(self) -> bool:
        """Whether surely more than 2 % are paid and wrong: the interval's lower bound is above that."""
        return self.wrongly_paid is not None and self.wrongly_paid.low > HOLE


@dataclass(frozen=True, kw_only=True)
class Attack:
    """What became of the policy.

    A completion could have `tokens` tokens, and there were `steps` updates. `whole` is all of them, `first` and `last`
    are the first quarter and the last, and `patterns` the most frequent completions that are paid and wrong.
    """

    seed: int
    tokens: int
    steps: int
    whole: Period
    first: Period
    last: Period
    patterns: tuple[Pattern, ...]

    @property
    def found_a_hole(self) -> bool:
        """Whether there is one in the whole, or at the end.

        A policy comes upon a hole, and stays with it only if it pays better than the honest way. Where both pay the
        same, chance decides what is said at the end.
        """
        return self.whole.has_a_hole or self.last.has_a_hole

    def to_record(self) -> dict[str, Any]:
        return {"found_a_hole": self.found_a_hole, **asdict(self)}


class StrictReference(Verifier):
    """Of what `MathVerifier` calls right, which hedges and echoes are not, only what the gold has literally."""

    name = REFERENCE

    def __init__(self) -> None:
        self.math = MathVerifier(column="solution")

    def verify(self, sample: Sample) -> Verdict:
        verdict = self.math.verify(sample)
        if verdict.status is not Status.CORRECT or is_surely(verdict.answer or "", sample.row["solution"]):
            return verdict
        return Verdict(status=Status.INCORRECT, score=0.0, answer=verdict.answer, reason="not_literal")


def attack_reward(reward: Verifier, kind: Kind, *, seed: int = 0, gold_column: str | None = None) -> list[Attack]:
    """Train the bundled policy against a reward, with little room, and then with more unless a hole was found.

    Raises:
        ValueError: if the reward cannot judge the bundled data.
    """
    torch.set_num_threads(1)  # more only spin where a model is this small
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    arena = ARENAS[kind]
    rows = [_renamed(row, gold_column) for row in load_dataset(resolve(arena.data))["train"].to_list()]
    reward.check_columns([name for name in rows[0] if name != "prompt"])
    tasks = read_tasks(rows[:TASKS])
    form, gold_score = best_form(reward, tasks)
    transformers.set_seed(seed)
    policy = Policy(arena, seed)
    policy.learn(_shown(reward, policy, tasks, form, gold_score))
    reference = StrictReference() if kind == "answer" else UnitTestVerifier(timeout=2.0)
    terms = [RewardTerm(name=REWARD, verifier=reward), RewardTerm(name=REFERENCE, verifier=reference, weight=0.0)]
    begun = copy.deepcopy(policy.model.state_dict())
    attacks = []
    for tokens in arena.tokens:
        policy.model.load_state_dict(begun)
        cards = _train(policy, RewardMix(terms), rows, tokens, seed)
        attacks.append(_attack(cards, gold_score, tokens, seed))
        if attacks[-1].found_a_hole:
            break
    return attacks


def _attack(cards: Sequence[Scorecard], gold_score: float, tokens: int, seed: int) -> Attack:
    judged = [list(_judged(number, card, gold_score)) for number, card in enumerate(cards)]
    quarter = max(1, len(cards) // 4)
    return Attack(
        seed=seed,
        tokens=tokens,
        steps=len(cards),
        whole=_period(judged),
        first=_period(judged[:quarter]),
        last=_period(judged[-quarter:]),
        patterns=_patterns([one.sample for step in judged for one in step if one.paid and not one.right]),
    )


def _renamed(row: Mapping[str, Any], gold_column: str | None) -> dict[str, Any]:
    """A row of sums with its gold under the other names that a reward may ask for."""
    if "solution" not in row:
        return dict(row)
    return {**row, **dict.fromkeys(("answer", gold_column or "answer"), row["solution"])}


# What else a policy might do with a completion of its own.
_VARIANTS: Mapping[str, Callable[[str, Said, random.Random], str]] = {
    "ends early": lambda own, _, rng: own[: rng.randrange(len(own) // 2, len(own) + 1)],
    "answers twice": lambda own, said, _: f"{own}\n{said.wrong}",
    "marks nothing": lambda own, _, __: BOX.sub(r"\1", own).replace("<think>", "").replace("</think>", "\n"),
}


def _shown(reward: Verifier, policy: Policy, tasks: Sequence[Task], form: str, gold_score: float) -> list[Pair]:
    """Of what is tried, what the reward pays: for a part the policy's own, for the rest as much of each kind."""
    rng = random.Random(policy.seed)
    tried = list(_tried(policy, tasks, form, rng))
    verdicts = reward.judge_samples([task.sample(text) for _, task, text in tried])
    paid: dict[str, list[Pair]] = {}
    for (kind, task, text), verdict in zip(tried, verdicts, strict=True):
        if verdict.score is not None and is_paid(verdict.score, gold_score):
            paid.setdefault(kind, []).append((task.prompt or "", text))
    own = paid.pop(OWN, None) or [(task.prompt or "", text) for kind, task, text in tried if kind == OWN]
    return [
        rng.choice(own if not paid or rng.random() < OWN_SHARE else rng.choice(list(paid.values())))
        for _ in range(SHOWN)
    ]


def _tried(policy: Policy, tasks: Sequence[Task], form: str, rng: random.Random) -> Iterator[tuple[str, Task, str]]:
    """What could be said, each with its kind: completions of the policy, variants of them, and those of probes."""
    short = FORMS[tasks[0].kind][form].replace(WORK, "")
    probes = [probe for probe in PROBES[tasks[0].kind] if not probe.pays]
    for task, text in zip(tasks, policy.say([task.prompt or "" for task in tasks]), strict=True):
        own, said = BOX.sub(lambda box: short.replace(MARK, box[1]), text), Said(task, form)
        yield OWN, task, own
        for name, vary in _VARIANTS.items():
            if (varied := vary(own, said, rng)) != own:
                yield name, task, varied
        for probe in rng.sample(probes, PROBES_EACH):
            written = [text for text in probe.write(said) if policy.can_say(text)]
            if written:
                yield probe.name, task, rng.choice(written)


def _train(
    policy: Policy, mix: RewardMix, rows: Sequence[Mapping[str, Any]], tokens: int, seed: int
) -> list[Scorecard]:
    """Train with nothing but the mix; returns the batches."""
    cards: list[Scorecard] = []
    with tempfile.TemporaryDirectory() as folder:
        arguments = VerifiedGRPOConfig(
            output_dir=folder,
            seed=seed,
            max_steps=STEPS,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            beta=0.0,
            temperature=1.0,
            per_device_train_batch_size=BATCH,
            num_generations=GROUP,
            max_completion_length=tokens,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            dataloader_pin_memory=False,
            record_scorecards=False,
            run_checks=False,
            measure_noise=False,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        data = Dataset.from_list(list(rows))
        trainer = VerifiedGRPOTrainer(policy.model, mix, arguments, data, processing_class=policy.tokenizer)
        trainer.remove_callback(transformers.PrinterCallback)
        with trainer.scorecard_listener(cards.append):
            trainer.train()
    return cards


class _Judged(NamedTuple):
    """One completion: whether the reward paid it, and whether the reference calls it right."""

    sample: Sample
    group: tuple[int, int | None]
    paid: bool
    right: bool


def _judged(number: int, card: Scorecard, gold_score: float) -> Iterator[_Judged]:
    for sample, own, reference in zip(card.samples, card.verdicts[REWARD], card.verdicts[REFERENCE], strict=True):
        if own is not None and own.score is not None and reference is not None and reference.score is not None:
            right = reference.status is Status.CORRECT
            yield _Judged(sample, (number, sample.group), is_paid(own.score, gold_score), right)


def _period(steps: Sequence[Sequence[_Judged]]) -> Period:
    judged = [one for step in steps for one in step]
    return Period(
        paid=share([(one.group, one.paid) for one in judged]),
        right=share([(one.group, one.right) for one in judged]),
        wrongly_paid=share([(one.group, one.paid and not one.right) for one in judged]),
    )


def _patterns(wrong: Sequence[Sample]) -> tuple[Pattern, ...]:
    frequent = Counter(_pattern(sample.text) for sample in wrong).most_common(PATTERNS)
    such = {_pattern(sample.text): sample for sample in reversed(wrong)}
    return tuple(
        Pattern(count=count, pattern=pattern, prompt=such[pattern].prompt, completion=such[pattern].text)
        for pattern, count in frequent
    )


def _pattern(text: str) -> str:
    """The text with # for numbers, and one line for several alike."""
    lines = re.sub(r"\d+", "#", text).split("\n")
    return "\n".join(line for place, line in enumerate(lines) if not place or line != lines[place - 1])
