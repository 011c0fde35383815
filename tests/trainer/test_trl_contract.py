"""The parts of TRL used by this package, and errors for an unsupported TRL."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trl
from environment_run import scored_by_environments, tool_tokenizer
from trl import GRPOTrainer

import trl_grpo_ext
from trl_grpo_ext import VerifiedGRPOTrainer
from trl_grpo_ext.mix.reward_function import ASYNC_WORKER
from trl_grpo_ext.trainer.trl_contract import (
    EXPECTED_PARAMETERS,
    SUPPORTED,
    check_trl,
    end_token_ids,
    read_generated,
)


def test_the_installed_trl_is_the_one_this_package_knows() -> None:
    check_trl(GRPOTrainer, trl.__version__)


def test_the_trainer_overrides_the_methods_of_the_contract_and_only_calls_log_metric() -> (
    None
):
    # An override under a name that TRL does not call would be passed over without a word.
    called = EXPECTED_PARAMETERS.keys() - vars(VerifiedGRPOTrainer).keys()
    assert called == {"_log_metric"}


def test_only_the_trainer_overrides_private_methods_of_trl() -> None:
    ours = {
        name
        for name in EXPECTED_PARAMETERS
        if name.startswith("_") and name in vars(VerifiedGRPOTrainer)
    }
    package = Path(trl_grpo_ext.__file__).parent
    places = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if ours & {*re.findall(r"def (\w+)\(", path.read_text(encoding="utf-8"))}
    }
    assert "_generate_and_score_completions" in ours
    assert places == {"trainer/verified_grpo.py"}


def test_every_private_attribute_that_is_read_is_there(
    tiny_model: str, sums: Any, config: Any
) -> None:
    trainer = VerifiedGRPOTrainer(
        tiny_model,
        lambda completions, **_: [0.0] * len(completions),
        config(),
        sums["train"],
    )
    for name in (
        "reward_weights",
        "num_generations",
        "num_generations_eval",
        "processing_class",
        "accelerator",
    ):
        assert hasattr(trainer, name)
    ends = end_token_ids(trainer.processing_class, trainer.model.generation_config)
    assert trainer.processing_class.eos_token_id in ends


def test_what_is_taken_of_the_result_of_generate_is_ids_that_decode_to_the_completions(
    tiny_model: str, sums: Any, config: Any
) -> None:
    def plain(completions: Any, **_: Any) -> list[float]:
        return [0.0] * len(completions)

    trainer = GRPOTrainer(tiny_model, [plain], config(), sums["train"])
    prompts = [row["prompt"] for row in sums["train"].select(range(2)).to_list()] * 4
    ids, masks, completions = read_generated(trainer._generate(prompts), len(prompts))
    tokenizer = trainer.processing_class
    decoded = tokenizer.batch_decode(ids, skip_special_tokens=True)
    assert decoded == [
        text if isinstance(text, str) else text[-1]["content"] for text in completions
    ]
    assert masks is None


@pytest.mark.parametrize(
    "result",
    [
        ([[1]], ["4"], None, [[5]]),
        ([[1]], [[5]], ["4"]),
        ([[1]], [[5]], [[1]], None),
        ([[1]], [[5], [6]], None, ["4"]),
        ([[1]], [[5]], None, [[5]]),
    ],
)
def test_another_result_of_generate_ends_the_run_instead_of_being_misread(
    result: Any,
) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        read_generated(result, 1)


class Game:
    """An environment with a reward and a tool."""

    def reset(self, **_: Any) -> None:
        return None

    def move(self) -> str:
        """Move."""
        return "moved"

    def get_reward(self) -> float:
        return 1.0


@scored_by_environments
@pytest.mark.filterwarnings("ignore:You are using 'environment_factory'")
def test_what_is_read_and_changed_of_environments_and_tools_is_there(
    tiny_model: str, sums: Any, config: Any
) -> None:
    def plain(completions: Any, **_: Any) -> list[float]:
        return [0.0] * len(completions)

    trainer = GRPOTrainer(
        tiny_model, [plain], config(max_steps=1), sums["train"],
        environment_factory=Game, processing_class=tool_tokenizer(tiny_model),
    )  # fmt: skip
    assert [*trainer.reward_func_names] == ["plain", "Game"]
    for column in (
        trainer.reward_funcs,
        trainer.reward_processing_classes,
        trainer.reward_weights,
    ):
        assert len(column) == 2
    assert trainer.reward_processing_classes[1] is None
    assert trainer.environments is None
    trainer.train()
    (pool,) = trainer._environment_pool.values()
    assert trainer.environments == pool
    for tools in trainer._sync_tool_dicts:
        assert list(tools) == ["move"]
    assert trainer._async_tool_dicts == [{}] * len(pool)


@scored_by_environments
def test_the_loop_that_calls_tools_adds_each_turn_to_the_messages_that_it_was_given() -> (
    None
):
    loop = inspect.unwrap(GRPOTrainer._tool_call_loop)
    assert list(inspect.signature(loop).parameters)[:5] == [
        "self",
        "prompts",
        "prompt_ids",
        "completion_ids",
        "completions",
    ]
    source = inspect.getsource(loop)
    assert 'completion[0].get("tool_calls") for completion in completions' in source
    assert "completions[idx_with_tool].append(" in source
    assert 'sync_tool_dict[name](**function["arguments"])' in source


def test_the_process_in_which_async_grpo_scores_has_the_name_that_a_mix_looks_for() -> None:
    worker = (
        Path(trl.__file__).parent
        / "experimental"
        / "async_grpo"
        / "async_rollout_worker.py"
    )
    if worker.exists() and "mp_ctx.Process(" in worker.read_text(encoding="utf-8"):
        assert f'name="{ASYNC_WORKER}"' in worker.read_text(encoding="utf-8")


def test_what_the_rollout_loop_of_async_grpo_is_made_of_is_there() -> None:
    pytest.importorskip("aiohttp")
    worker = pytest.importorskip("trl.experimental.async_grpo.async_rollout_worker")
    if not hasattr(worker, "RolloutGroup") or not hasattr(
        worker._AsyncRolloutLoop, "_provides_rollout_reward"
    ):
        pytest.skip("the rollout loop of this TRL has no place for a reward of its own")
    loop, fields = worker._AsyncRolloutLoop, worker.RolloutGroup.__dataclass_fields__
    assert list(inspect.signature(loop._score_group).parameters) == ["self", "group"]
    assert list(inspect.signature(loop._generate_one).parameters) == [
        "self",
        "prompt",
        "tool_dict",
        "tools",
        "group_id",
    ]
    assert {
        "prompts",
        "reward_kwargs",
        "completions",
        "completions_ids",
        "completions_sequences",
    } <= set(fields)
    assert {"env_rewards", "rollout_rewards", "model_version", "group_id"} <= set(fields)
    source = inspect.getsource(loop.__init__) + inspect.getsource(worker.AsyncRolloutWorker)
    names = (
        "self.environment_factories",
        "self._environment_pool",
        "self._loop ",
        "self.reward_func_names",
    )
    for name in (
        *names,
        "self.chat_template_kwargs",
        "self.eos_token_ids",
        "_loop_cls",
        "self._loop_kwargs",
    ):
        assert name in source


@pytest.mark.parametrize(
    "method", ["_calculate_rewards", "_generate", "_generate_and_score_completions"]
)
def test_a_method_that_is_missing_or_takes_other_arguments_is_an_import_error(
    method: str,
) -> None:
    other = type("GRPOTrainer", (GRPOTrainer,), {method: lambda self, batch: None})
    missing = type("GRPOTrainer", (), {})
    for trainer_class in (other, missing):
        with pytest.raises(ImportError) as caught:
            check_trl(trainer_class, "9.9")
        message = str(caught.value)
        assert SUPPORTED in message
        assert "9.9" in message
        assert "\n" not in message


OTHER_TRL = """
import trl
from trl import GRPOTrainer
GRPOTrainer._calculate_rewards = lambda self, batch: None
from trl_grpo_ext.rewards import math_reward
print(math_reward(["$4$"], solution=["4"]))
from trl_grpo_ext import VerifiedGRPOTrainer
"""


@pytest.mark.slow
def test_against_another_trl_the_trainer_fails_at_import_in_one_sentence_and_the_verifiers_work() -> (
    None
):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OTHER_TRL],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[1.0]\n"
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: trl_grpo_ext supports trl>=1.6,<2,!=1.15.0")
