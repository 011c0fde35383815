"""The live audit: train a tiny policy against a reward, and report completions that are paid and wrong.

Before the training, the reward scores the policy's own completions, variants of them, and probes. The policy first
learns to imitate the paid ones (supervised), then trains by GRPO with this reward only. A strict reference judges the
same completions; its scores do not enter the training.
"""

from __future__ import annotations

import copy
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import datasets
import torch
import transformers
from datasets import Dataset, load_dataset

from trl_grpo_ext.answers.golds import GOLD_COLUMNS
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.commands.audit.attacked import (
    REFERENCE,
    REWARD,
    Attack,
    Judged,
    attack_of,
    judged,
)
from trl_grpo_ext.commands.audit.attacker import ARENAS, Pair, Policy
from trl_grpo_ext.commands.audit.probes import FORMS, MARK, PROBES, WORK, Said
from trl_grpo_ext.commands.audit.static import TRIED, NotAuditedError, Paid, paid_gold
from trl_grpo_ext.commands.audit.task import Kind, Task, read_tasks
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards import MathVerifier, UnitTestVerifier
from trl_grpo_ext.rewards.restyled import is_surely
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.progress_bar import Progress
from trl_grpo_ext.trainer.config import VerifiedGRPOConfig
from trl_grpo_ext.trainer.console import keep_quiet
from trl_grpo_ext.trainer.verified_grpo import VerifiedGRPOTrainer
from trl_grpo_ext.verdict import Status, Verdict

# Tasks to try, unpaid probes tried on each task, and prompt-completion pairs for the supervised phase.
TASKS, PROBES_EACH, SHOWN = 600, 4, 6000
OWN, OWN_SHARE = "own", 0.4
STEPS, BATCH, GROUP, RATE = 32, 64, 8, 3e-4
BOX = re.compile(r"\\boxed\{([^{}]*)\}")


class StrictReference(Verifier):
    """A verifier stricter than `MathVerifier`: right answers repeat the gold literally, up to spaces and LaTeX sizes.

    `MathVerifier` already refuses hedges ("3 or 4") and echoes of the prompt.
    """

    name = REFERENCE

    def __init__(self) -> None:
        self.math = MathVerifier(column="solution")

    def verify(self, sample: Sample) -> Verdict:
        verdict = self.math.verify(sample)
        if verdict.status is not Status.CORRECT or is_surely(
            verdict.answer or "", sample.row["solution"]
        ):
            return verdict
        return Verdict(
            status=Status.INCORRECT, score=0.0, answer=verdict.answer, reason="not_literal"
        )


def attack_reward(
    reward: Verifier,
    kind: Kind,
    *,
    seed: int = 0,
    gold_columns: Sequence[str] = GOLD_COLUMNS,
) -> list[Attack]:
    """Train the bundled policy against a reward.

    Each arena has one or more completion lengths. The shortest comes first; the next is tried if the policy learned no
    hole.

    Raises:
        NotAuditedError: if the reward cannot judge the bundled data, or does not pay its right answers.
    """
    # More threads than this slow down so small a model: they spend their time waiting for each other.
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    arena = ARENAS[kind]
    rows = [
        _renamed(row, gold_columns)
        for row in load_dataset(resolve(arena.data))["train"].to_list()
    ]
    tasks = read_tasks(rows[:TASKS])
    paid = _check_can_be_attacked(reward, tasks[:TRIED], arena.data)
    transformers.set_seed(seed)
    policy = Policy(arena, seed)
    rng = random.Random(seed)
    tries = _tries(reward, policy, tasks, paid, rng)
    policy.learn(_shown(tries, rng))
    terms = _terms(reward, kind)
    variants = _judged_variants(tries, terms, paid.gold)
    begun = copy.deepcopy(policy.model.state_dict())
    attacks = []
    for tokens in arena.tokens:
        policy.model.load_state_dict(begun)
        heard = _Heard(tokens, paid.gold)
        _train(policy, RewardMix(terms), rows, tokens, heard)
        attacks.append(
            attack_of(heard.cards, variants, arena.data, paid.gold, tokens, seed)
        )
        if attacks[-1].learned_a_hole:
            break
    return attacks


def _terms(reward: Verifier, kind: Kind) -> list[RewardTerm]:
    """Return two terms: the audited reward, and a strict reference judge with weight 0."""
    reference = StrictReference() if kind == "answer" else UnitTestVerifier(timeout=2.0)
    return [
        RewardTerm(name=REWARD, verifier=reward),
        RewardTerm(name=REFERENCE, verifier=reference, weight=0.0),
    ]


def _check_can_be_attacked(reward: Verifier, tasks: Sequence[Task], data: str) -> Paid:
    """Return the reward's scores on bundled data; raise a NotAuditedError if the reward cannot train a policy there."""
    try:
        reward.check_columns(list(tasks[0].row))
        paid = paid_gold(reward, tasks, data)
        paid.check(reward.__name__, data)
    except ValueError as error:
        raise NotAuditedError(
            f"{str(error).rstrip('.')}. The attack always trains on {data}, whatever --data and --config say, so it "
            f"cannot try a reward for other answers. Leave --attack out: the probes audit it on your data."
        ) from None
    return paid


def _renamed(row: Mapping[str, Any], gold_columns: Sequence[str]) -> dict[str, Any]:
    """Copy the gold of a `sums` row into every column name that a reward may read."""
    if "solution" not in row:
        return dict(row)
    return {**row, **dict.fromkeys((*GOLD_COLUMNS, *gold_columns), row["solution"])}


# Edits of a policy's own completion; each function gets the completion, its task and a random generator.
_VARIANTS: Mapping[str, Callable[[str, Said, random.Random], str]] = {
    "ends early": lambda own, _, rng: own[: rng.randrange(len(own) // 2, len(own) + 1)],
    "answers twice": lambda own, said, _: f"{own}\n{said.wrong}",
    "marks nothing": lambda own, _, __: (
        BOX.sub(r"\1", own).replace("<think>", "").replace("</think>", "\n")
    ),
}


class _Try(NamedTuple):
    """A tried completion with its kind ("own", a variant's name or a probe's name) and the reward's decision."""

    kind: str
    task: Task
    text: str
    paid: bool


def _tries(
    reward: Verifier, policy: Policy, tasks: Sequence[Task], pays: Paid, rng: random.Random
) -> list[_Try]:
    tried = list(_tried(policy, tasks, pays.form, rng))
    verdicts = reward.judge_samples([task.sample(text) for _, task, text in tried])
    return [
        _Try(*one, paid=pays.is_paid(verdict))
        for one, verdict in zip(tried, verdicts, strict=True)
    ]


def _judged_variants(
    tries: Sequence[_Try], terms: Sequence[RewardTerm], gold_score: float
) -> list[Judged]:
    """Judge the variants among the tries by the reward and by the reference; each is a group of its own."""
    varied = [one.task.sample(one.text) for one in tries if one.kind in _VARIANTS]
    card = RewardMix(terms).score(
        [replace(sample, group=place) for place, sample in enumerate(varied)]
    )
    return list(judged(0, card, gold_score))


def _shown(tries: Sequence[_Try], rng: random.Random) -> list[Pair]:
    """Sample pairs for the supervised phase from paid completions: `OWN_SHARE` own ones, the rest evenly by kind.

    If the reward pays no completion of the policy, its unpaid completions stand in.
    """
    paid: dict[str, list[Pair]] = {}
    for one in tries:
        if one.paid:
            paid.setdefault(one.kind, []).append((one.task.prompt or "", one.text))
    own = paid.pop(OWN, None)
    if own is None:
        own = [(one.task.prompt or "", one.text) for one in tries if one.kind == OWN]
    shown = []
    for _ in range(SHOWN):
        pairs = own
        if paid and rng.random() >= OWN_SHARE:
            pairs = rng.choice(list(paid.values()))
        shown.append(rng.choice(pairs))
    return shown


def _tried(
    policy: Policy, tasks: Sequence[Task], form: str, rng: random.Random
) -> Iterator[tuple[str, Task, str]]:
    """Yield completions to try, with their kinds: the policy's own, variants of these, and probe texts."""
    # Without the form's thinking: the policy has written its own before the box.
    short = FORMS[tasks[0].kind][form].replace(WORK, "")
    probes = [probe for probe in PROBES[tasks[0].kind] if not probe.pays]
    said_by_policy = policy.say([task.prompt or "" for task in tasks])
    for task, text in zip(tasks, said_by_policy, strict=True):
        said = Said(task, form)
        # The policy was taught to box its answers, and the reward may pay another form.
        own = BOX.sub(lambda box: short.replace(MARK, box[1]), text)
        yield OWN, task, own
        for name, vary in _VARIANTS.items():
            varied = vary(own, said, rng)
            # An edit without effect would count the completion twice.
            if varied != own:
                yield name, task, varied
        for probe in rng.sample(probes, PROBES_EACH):
            # A text that does not fit into a completion cannot be learned.
            written = [text for text in probe.write(said) if policy.can_say(text)]
            if written:
                yield probe.name, task, rng.choice(written)


class _Heard:
    """A listener: keep each training batch, and print progress and the share of paid completions to stderr."""

    def __init__(self, tokens: int, gold_score: float) -> None:
        self.cards: list[Scorecard] = []
        self._gold_score = gold_score
        self._paid = Counter[bool]()
        self._progress = Progress(f"attacking, {tokens} tokens", STEPS, "steps")

    def __call__(self, card: Scorecard) -> None:
        self.cards.append(card)
        self._paid.update(
            one.paid for one in judged(len(self.cards), card, self._gold_score)
        )
        share = self._paid[True] / max(1, self._paid.total())
        self._progress.show(len(self.cards), f", {share:.0%} paid so far")


def _train(
    policy: Policy,
    mix: RewardMix,
    rows: Sequence[Mapping[str, Any]],
    tokens: int,
    heard: Callable[[Scorecard], None],
) -> None:
    """Train the policy by GRPO with `mix` as its sole reward; pass each scorecard to `heard`."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = VerifiedGRPOConfig(
            output_dir=folder,
            seed=policy.seed,
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
        trainer = VerifiedGRPOTrainer(
            policy.model, mix, arguments, data, processing_class=policy.tokenizer
        )
        keep_quiet(trainer)
        with trainer.scorecard_listener(heard):
            trainer.train()
