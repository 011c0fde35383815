"""The headline names the cause: faults of blind runs that an earlier version missed or told vaguely."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from windows import batch, diagnosis_of, window_of

from trl_grpo_ext import RewardMix, RewardTerm, Scorecard, Status, Verdict
from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.finding import Finding
from trl_grpo_ext.mix.reward_plan import plan_rewards
from trl_grpo_ext.rewards import ExactTextVerifier
from trl_grpo_ext.runs.settings import run_settings


def live(step: int) -> Scorecard:
    return batch({"answer": [0.0, 1.0] * 16}, step=step)


def told(code: str, *args: object) -> Finding:
    found = CHECKS[code](window_of(*args))  # type: ignore[arg-type]
    assert isinstance(found, Finding)
    return found


def test_programs_that_all_fail_by_one_error_are_not_beyond_the_model() -> None:
    why = "IndentationError: unexpected indent (line 1)"
    verdicts = [
        Verdict(status=Status.INCORRECT, score=0.0, answer=str(place), reason="compile_error", details={"why": why})
        for place in range(32)
    ]
    found = diagnosis_of([batch({"tests": verdicts}, step=step) for step in range(24)], {}).causes[0]
    assert found.code == "dead_groups"
    assert f"fail for one reason, `{why}`" in found.sentence
    assert "beyond" not in found.sentence
    assert "reference_fails" in found.action
    assert "entry point" in found.action


@pytest.mark.parametrize(("alpha", "does"), [(0, "Set lora_alpha"), (32, "frozen layers"), (None, "frozen layers")])
def test_an_adapter_that_is_multiplied_by_0_is_named_where_the_gradient_is_0(alpha: int | None, does: str) -> None:
    cards = [live(step) for step in range(20)]
    logs = [{"grad_norm": 0.0, "learning_rate": 1e-4}] * 20
    assert does in told("zero_updates", cards, logs, {"lora_alpha": alpha}).action


@pytest.mark.parametrize(
    ("dropout", "first", "does"),
    [
        ({"attention_dropout": 0.3}, 9.0, "Set attention_dropout to 0"),
        ({"attention_dropout": 0.3}, 0.01, "Start again with a tenth of the learning rate."),
        ({}, 9.0, "Start again with a tenth of the learning rate."),
    ],
)
def test_dropout_is_named_where_the_policy_is_far_from_the_first_log_on(
    dropout: dict[str, float], first: float, does: str
) -> None:
    cards = [live(step) for step in range(24)]
    logs = [{"kl": first}, *[{"kl": 9.0}] * 23]
    assert told("kl_blowup", cards, logs, {"dropout": dropout}).action.startswith(does)


def test_a_run_records_the_factor_of_its_adapter_and_the_dropouts_of_its_model() -> None:
    plan = plan_rewards(RewardMix([RewardTerm(name="answer", verifier=ExactTextVerifier())]))
    values = {"attention_dropout": 0.3, "resid_pdrop": 0.0, "classifier_dropout": None, "vocab_size": 9}
    model = SimpleNamespace(
        config=SimpleNamespace(to_dict=lambda: values),
        peft_config={"default": SimpleNamespace(lora_alpha=0)},
    )
    found = run_settings(SimpleNamespace(), plan, 1, model)
    assert (found["lora_alpha"], found["dropout"]) == (0, {"attention_dropout": 0.3})
    bare = run_settings(SimpleNamespace(), plan, 1)
    assert (bare["lora_alpha"], bare["dropout"]) == (None, {})
