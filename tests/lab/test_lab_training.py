"""The lab: the ten-action policy under the real trainer, against GRPO written out in numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import RLOOConfig, RLOOTrainer

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Scorecard, Status, Verdict
from trl_grpo_ext.lab import (
    ACTIONS,
    ActionVerifier,
    LabRun,
    Landscape,
    PolicyHistory,
    double_peak,
    linear,
    run_lab,
    single_peak,
)
from trl_grpo_ext.lab.policy import save_policy
from trl_grpo_ext.lab.policy_history import batches_by_update, sampled_actions
from trl_grpo_ext.lab.training import DEFAULTS
from trl_grpo_ext.runs.recorded_run import RecordedRun

Rows = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> LabRun:
    """Run 120 updates with GRPO's defaults, on a single peak at 7."""
    torch.set_num_threads(1)
    return run_lab(
        single_peak(7),
        tmp_path_factory.mktemp("lab") / "run",
        steps=120,
        write_report=False,
    )


def train_cards(run: LabRun) -> list[Scorecard]:
    return [card for card in run.cards if card.mode == "train"]


def softmax(logits: Rows) -> Rows:
    exponentials = np.exp(logits - logits.max())
    return exponentials / exponentials.sum()


def grpo_gradient(
    logits: Rows, sampled: Rows, reference: Rows, actions: Rows, advantages: Rows, args: Any
) -> Rows:
    """Compute the gradient of GRPO's loss for completions of one token: clipped ratio, and k3 estimate of KL."""
    now, old, ref = (
        np.log(softmax(values))[actions] for values in (logits, sampled, reference)
    )
    ratio = np.exp(now - old)
    clipped = np.where(advantages > 0, ratio > 1 + args.epsilon, ratio < 1 - args.epsilon)
    slope = np.where(clipped, 0.0, -ratio * advantages)
    k3 = np.exp(ref - now) - (ref - now) - 1
    kl_slope = 1 - np.exp(ref - now)
    if getattr(args, "use_bias_correction_kl", False):
        kl_slope = ratio * (kl_slope + k3)
    slope = slope + args.beta * kl_slope
    return np.mean(
        [
            weight * (np.eye(10)[action] - softmax(logits))
            for weight, action in zip(slope, actions, strict=True)
        ],
        axis=0,
    )


def group_advantages(rewards: Rows) -> Rows:
    return (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-4)


@pytest.mark.slow  # real runs
def test_a_run_is_grpo_as_written_out_in_numpy_update_by_update(run: LabRun) -> None:
    rewards = np.array(single_peak(7).rewards)
    logits, used = np.zeros(10), batches_by_update(run.cards, run.steps)
    for update, position in enumerate(used):
        assert position is not None
        actions = np.array([int(sample.text) - 1 for sample in run.cards[position].samples])
        advantages = group_advantages(rewards[actions])
        assert run.cards[position].advantages == pytest.approx(advantages, abs=1e-4)
        if update % 2 == 0:
            sampled = logits
        logits = logits - 0.5 * grpo_gradient(
            logits, sampled, np.zeros(10), actions, advantages, run.trainer.args
        )
        assert run.history.logits[update + 1] == pytest.approx(logits, abs=2e-3)


@pytest.mark.slow
def test_two_updates_a_group_and_as_many_rows_of_history_as_policies(run: LabRun) -> None:
    assert run.history.logits.shape == (121, 10)
    assert [card.step for card in run.cards] == list(range(0, 120, 2))
    assert all(len(card) == 8 and not any(card.void) for card in run.cards)
    assert not any(sample.truncated for card in run.cards for sample in card.samples)


@pytest.mark.slow
def test_the_figures_are_those_of_the_saved_logits_computed_another_way(
    run: LabRun,
) -> None:
    history = PolicyHistory(np.load(run.folder / "logits.npy"))
    for update in (0, 1, 57, 120):
        policy = torch.distributions.Categorical(
            logits=torch.tensor(np.load(run.folder / "logits.npy")[update])
        )
        uniform = torch.distributions.Categorical(
            logits=torch.zeros(10, dtype=torch.float64)
        )
        assert history.probabilities[update] == pytest.approx(policy.probs.numpy())
        assert history.entropy[update] == pytest.approx(policy.entropy().item())
        assert history.kl[update] == pytest.approx(
            torch.distributions.kl_divergence(policy, uniform).item(), abs=1e-12
        )
        assert history.max_probability[update] == pytest.approx(policy.probs.max().item())
        expected = sum(
            p * r
            for p, r in zip(policy.probs.tolist(), single_peak(7).rewards, strict=True)
        )
        assert history.expected_reward(single_peak(7).rewards)[update] == pytest.approx(
            expected
        )


def test_entropy_clipping_and_the_estimate_of_kl_are_those_that_trl_logs(
    run: LabRun,
) -> None:
    logs = [entry for entry in run.logs if "kl" in entry]
    assert len(logs) == 120
    clipped_somewhere = 0
    for update, (entry, position) in enumerate(
        zip(logs, batches_by_update(run.cards, 120), strict=True)
    ):
        assert position is not None
        samples = sampled_actions(run.cards[position], run.history, update)
        now = run.history.log_probabilities[update]
        distances = [
            math.log(0.1) - now[sample.action - 1] for sample in samples if sample.action
        ]
        k3 = [math.exp(distance) - distance - 1 for distance in distances]
        if getattr(run.trainer.args, "use_bias_correction_kl", False):
            k3 = [
                value * (sample.ratio or 0)
                for value, sample in zip(k3, samples, strict=True)
            ]
        assert entry["entropy"] == pytest.approx(run.history.entropy[update], abs=1e-4)
        assert entry["kl"] == pytest.approx(np.mean(k3), abs=1e-3)
        clipped = sum(sample.is_clipped(0.2, 0.2) for sample in samples)
        assert entry["clip_ratio/region_mean"] == pytest.approx(clipped / 8)
        clipped_somewhere += clipped
    assert clipped_somewhere > 0


def test_the_ratio_is_1_in_the_first_update_of_a_batch_and_not_in_the_second(
    run: LabRun,
) -> None:
    card = run.cards[0]
    first, second = (sampled_actions(card, run.history, update) for update in (0, 1))
    assert [sample.ratio for sample in first] == [1.0] * 8
    assert all(sample.ratio != 1.0 for sample in second)
    assert [sample.advantage for sample in first] == [sample.advantage for sample in second]


def test_grpo_has_found_the_peak_in_the_end(run: LabRun) -> None:
    assert run.history.probabilities[-1].argmax() + 1 == 7
    assert run.history.max_probability[-1] > 0.9


@pytest.mark.slow  # real runs
@pytest.mark.parametrize("seed", range(10))
def test_so_it_does_whatever_the_seed(seed: int, tmp_path: Path) -> None:
    run = run_lab(single_peak(4), tmp_path, seed=seed, write_report=False)
    assert run.history.probabilities[-1].argmax() + 1 == 4
    assert run.history.max_probability[-1] > 0.9
    assert run.history.expected_reward(single_peak(4).rewards)[-1] > 0.95


@pytest.mark.slow  # three real runs
def test_the_same_seed_gives_the_same_run_and_another_one_another(tmp_path: Path) -> None:
    def trained(folder: str, seed: int) -> LabRun:
        return run_lab(double_peak(), tmp_path / folder, seed=seed, steps=40)

    one, same, other = trained("one", 3), trained("same", 3), trained("other", 4)
    assert one.history.logits.tolist() == same.history.logits.tolist()
    assert [card.advantages for card in one.cards] == [
        card.advantages for card in same.cards
    ]
    assert one.history.logits.tolist() != other.history.logits.tolist()


def test_what_is_on_disk_is_the_run(run: LabRun) -> None:
    recorded = RecordedRun(run.folder)
    assert recorded.settings["num_iterations"] == 2
    cards = list(recorded.cards())
    assert [card.totals for card in cards] == [card.totals for card in run.cards]
    assert [card.advantages for card in cards] == [card.advantages for card in run.cards]


def test_the_policy_and_its_tokenizer_are_read_as_any_model_of_transformers(
    run: LabRun,
) -> None:
    policy = AutoModelForCausalLM.from_pretrained(run.folder / "policy")
    tokenizer = AutoTokenizer.from_pretrained(run.folder / "policy")
    assert policy.action_logits.tolist() == [0.0] * 10
    assert [
        tokenizer.decode(tokenizer(str(action)).input_ids) for action in ACTIONS
    ] == list(map(str, ACTIONS))
    logits = policy(torch.tensor([[10, 3]])).logits
    assert logits.shape == (1, 2, 12)
    assert logits[0, -1, 10:].tolist() == [-1e9, -1e9]


@pytest.mark.slow  # real runs
def test_reinforce_with_a_baseline_is_trls_rloo_at_a_smaller_learning_rate(
    tmp_path: Path,
) -> None:
    run = run_lab(
        single_peak(7),
        tmp_path / "ours",
        algorithm="reinforce_baseline",
        steps=30,
        learning_rate=0.3,
    )
    save_policy(tmp_path / "start")
    settings = {
        name: value
        for name, value in DEFAULTS.items()
        if name not in ("loss_type", "epsilon", "num_iterations", "beta")
    }
    trainer = RLOOTrainer(
        AutoModelForCausalLM.from_pretrained(tmp_path / "start"),
        ActionVerifier(dict(zip(ACTIONS, single_peak(7).rewards, strict=True))),
        RLOOConfig(
            output_dir=str(tmp_path / "rloo"), max_steps=30, per_device_train_batch_size=8, beta=0.0, seed=0,
            **(settings | {"learning_rate": 0.3 * 7 / 8}),
        ),
        Dataset.from_list([{"prompt": "<go>"}] * 30),
        processing_class=AutoTokenizer.from_pretrained(tmp_path / "start"),
    )  # fmt: skip
    trainer.train()
    assert run.history.logits[-1] == pytest.approx(
        trainer.model.action_logits.numpy(), abs=1e-5
    )
    assert run.history.max_probability[-1] > 0.15


@pytest.mark.slow  # a real run
def test_plain_reinforce_trains_on_the_rewards_themselves(tmp_path: Path) -> None:
    run = run_lab(linear(), tmp_path, algorithm="reinforce", steps=20, learning_rate=0.5)
    logits = np.zeros(10)
    for update, card in enumerate(run.cards):
        actions = np.array([int(sample.text) - 1 for sample in card.samples])
        rewards = (actions + 1) / 10
        assert card.advantages == pytest.approx(rewards)
        chosen = np.eye(10)[actions] - softmax(logits)
        logits = logits + 0.5 * np.mean(rewards[:, None] * chosen, axis=0)
        assert run.history.logits[update + 1] == pytest.approx(logits, abs=1e-4)


@pytest.mark.slow  # three real runs
def test_void_rows_have_no_advantage_in_any_algorithm(tmp_path: Path) -> None:
    def broken() -> RewardMix:
        lost = Verdict(
            status=Status.ERROR, score=None, blame=Blame.GRADER, reason="planted"
        )
        return RewardMix(
            [
                RewardTerm(
                    name="answer",
                    verifier=ActionVerifier({1: lost, 2: lost, 3: lost, 7: 1.0}),
                )
            ]
        )

    for algorithm in ("grpo", "reinforce_baseline", "reinforce"):
        run = run_lab(
            broken(), tmp_path / algorithm, algorithm=algorithm, steps=6, num_iterations=1
        )
        assert run.rewards is None
        rows = [
            row
            for card in run.cards
            for row in zip(card.samples, card.void, card.advantages or (), strict=True)
        ]
        assert {sample.text in {"1", "2", "3"} for sample, void, _ in rows if void} == {
            True
        }
        assert {advantage for _, void, advantage in rows if void} == {0.0}


@pytest.mark.slow
def test_several_groups_a_batch_columns_evaluation_and_a_policy_to_start_from(
    tmp_path: Path,
) -> None:
    mix = RewardMix(
        [
            RewardTerm(
                name="answer",
                verifier=ActionVerifier({10: True, 9: 0.5}),
                when={"kind": "sum"},
            )
        ]
    )
    start = [0.0] * 8 + [2.0, 2.0]
    run = run_lab(
        mix, tmp_path, steps=4, groups=3, num_generations=4, logits=start, rows=[{"kind": "sum"}, {"kind": "none"}],
        eval_rows=[{"kind": "sum"}] * 2, eval_strategy="steps", eval_steps=2,
    )  # fmt: skip
    assert [
        (card.mode, card.step, len(card)) for card in run.cards if card.mode == "train"
    ] == [
        ("train", 0, 12),
        ("train", 2, 12),
    ]
    assert [card.step for card in run.cards if card.mode == "eval"] == [2, 2, 4, 4]
    assert run.history.logits[0].tolist() == start
    kinds = {sample.row["kind"] for card in train_cards(run) for sample in card.samples}
    assert kinds == {"sum", "none"}
    assert batches_by_update(run.cards, 4) == [0, 0, 3, 3]


@pytest.mark.slow  # a real run
def test_with_a_temperature_the_history_is_of_the_policy_that_is_sampled_from(
    tmp_path: Path,
) -> None:
    run = run_lab(linear(), tmp_path, steps=6, temperature=0.5)
    logged = [entry["entropy"] for entry in run.logs if "kl" in entry]
    assert logged == pytest.approx(run.history.entropy[:-1], abs=1e-4)
    assert logged[-1] < math.log(10) - 0.01


@pytest.mark.slow  # two real runs
def test_one_update_and_no_learning_rate_are_runs_too(tmp_path: Path) -> None:
    run = run_lab(linear(), tmp_path, steps=1, learning_rate=0.0)
    assert run.history.logits.tolist() == [[0.0] * 10] * 2
    assert run.history.kl.tolist() == [0.0, 0.0]


@pytest.mark.slow  # real runs
def test_a_learning_rate_that_is_far_too_high_gives_finite_figures_or_ends_by_a_sentence(
    tmp_path: Path,
) -> None:
    history = run_lab(
        linear(), tmp_path / "finite", steps=20, learning_rate=1e5, beta=0.0
    ).history
    for figures in (history.probabilities, history.entropy, history.kl):
        assert np.isfinite(figures).all()
    assert history.max_probability[-1] == 1.0
    with pytest.raises(FloatingPointError, match="Lower learning_rate or beta"):
        run_lab(linear(), tmp_path / "infinite", steps=20, learning_rate=1e5)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"steps": 0}, "one update or more, got 0"),
        ({"max_steps": -1}, "one update or more, got -1"),
        ({"groups": 0}, "a group or more"),
        ({"rows": []}, "a row or more"),
        ({"algorithm": "ppo"}, "grpo, reinforce_baseline, reinforce"),
        ({"logits": [0.0]}, "10 logits"),
        ({"num_generations": 1}, "num_generations|generations"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_a_sentence(
    tmp_path: Path, settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        run_lab(linear(), tmp_path, **settings)


def test_landscapes_have_ten_rewards_and_their_peaks_where_they_say() -> None:
    assert [single_peak(at).best for at in ACTIONS] == list(ACTIONS)
    assert double_peak().rewards[2] == 0.7
    assert double_peak().rewards[7] == max(double_peak().rewards) == 1.0
    assert linear().rewards == pytest.approx([action / 10 for action in ACTIONS])
    makers: list[Callable[[], object]] = [
        lambda: single_peak(11),
        lambda: Landscape(name="short", rewards=(1.0,)),
        lambda: Landscape(name="odd", rewards=(math.nan,) * 10),
        lambda: ActionVerifier({0: 1.0}),
        lambda: PolicyHistory(np.zeros((0, 10))),
        lambda: PolicyHistory(np.zeros(10)),
    ]
    for make in makers:
        with pytest.raises(ValueError):
            make()
