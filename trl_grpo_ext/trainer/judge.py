"""The run's judge: on every rank it scores generated completions, and decides which rows TRL may train on."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Any

import torch
from accelerate.utils import gather, gather_object

from trl_grpo_ext.figures.logged import SHARE_OF_STEP
from trl_grpo_ext.mix.reward_mix import RewardMix, UnscoredError
from trl_grpo_ext.mix.reward_plan import RewardPlan
from trl_grpo_ext.sample import Completion, Sample
from trl_grpo_ext.scorecard import Mode, Scorecard
from trl_grpo_ext.support.budget import BUDGET_SPENT, judging_budget
from trl_grpo_ext.support.text import Once
from trl_grpo_ext.trainer.ranks import Whereabouts, on_this_gpu
from trl_grpo_ext.verdict import Verdict, as_verdict
from trl_grpo_ext.workers.processes import close_shared

logger = logging.getLogger(__name__)

JUDGING_SECONDS = "verified/grader/judging_seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A batch's mode, optimizer step, training progress and group size."""

    mode: Mode
    # The number of finished optimizer steps.
    step: int
    # The finished share of training, in [0, 1]; 0 if unknown.
    progress: float
    group_size: int


# The result of scoring this rank's samples.
Scored = Scorecard | UnscoredError


class Judge:
    """A judge of batches by the run's rewards.

    Args:
        plan: The rewards.
        accelerator: The trainer's accelerator.
        weights: (f,) TRL's weights, one per reward function; schedules change the mix's entries in place.
        budget: The seconds that a rank may judge a batch; None is no limit.

    Attributes:
        whereabouts: The reward that each rank computes now.
        others: The names of rewards beside the mix, which TRL computes itself.
    """

    def __init__(
        self,
        plan: RewardPlan,
        accelerator: Any,
        weights: torch.Tensor,
        *,
        budget: float | None = None,
    ) -> None:
        self.weights = weights
        self.whereabouts = Whereabouts(accelerator)
        self._budget = budget
        self._accelerator = accelerator
        self._positions = plan.positions
        self._functions_by_none = plan.functions_by_none
        self._all_names = plan.names
        # Without the rewards of environments.
        self._names = self._all_names[: len(plan.weights)]
        self.others = " or ".join(
            name for name in self._names if name not in self._positions
        )
        self._once = Once()

    def score(self, mix: RewardMix, samples: Sequence[Sample], moment: Moment) -> Scored:
        """Score this rank's samples with the weights now in force; other ranks are needed only for split groups.

        An UnscoredError is returned, not raised, so that all ranks can end together (see `agreed`).
        """
        try:
            with judging_budget(self._budget):
                card = mix.score(
                    samples,
                    moment.progress,
                    step=moment.step,
                    mode=moment.mode,
                    alone=len(self.weights) == len(self._positions),
                    gather=lambda items: self._gather_groups(items, moment.group_size),
                    entering=self.whereabouts.enter,
                )
        except UnscoredError as error:
            return error
        self.whereabouts.enter("")
        if self._budget is not None:
            self._warn_of_unfinished(card)
        return card

    def _warn_of_unfinished(self, card: Scorecard) -> None:
        told = "judging_budget (%g s) is spent at step %s without %d of %d verdicts of %r; such rows are void."
        for name, verdicts in card.verdicts.items():
            late = sum(
                verdict is not None and verdict.reason == BUDGET_SPENT
                for verdict in verdicts
            )
            if late:
                key = (BUDGET_SPENT, name)
                self._once.warn(
                    logger, key, told, self._budget, card.step, late, len(verdicts), name
                )

    def agreed(self, mix: RewardMix, scored: Scored) -> Scorecard:
        """Return the scored card if no rank has an UnscoredError; put its weights into TRL's weights.

        Raises:
            UnscoredError: on every rank, if a term with `on_unscored="raise"` could not judge a sample on any rank.
        """
        problem = str(scored) if isinstance(scored, UnscoredError) else ""
        may_raise = any(term.on_unscored == "raise" for term in mix.terms)
        if may_raise and self._accelerator.num_processes > 1:
            # A rank that raises alone would leave the others waiting for it.
            problems = filter(None, gather_object([problem]))
            problem = next(problems, "")
        if problem or isinstance(scored, UnscoredError):
            raise UnscoredError(problem)
        for name, weight in scored.weights.items():
            self.weights[self._positions[name]] = weight
        return scored

    def shares_no_group(self, samples: int, group_size: int) -> bool:
        """Return whether each group lies on a single rank, if every rank has `samples` samples."""
        if self._accelerator.num_processes == 1:
            return True
        return samples % group_size == 0

    def _gather_groups(self, items: list[Any], group_size: int) -> tuple[list[Any], int]:
        """Gather all ranks' items if groups may be split between ranks; return them and this rank's offset.

        Every rank has equally many items.
        """
        if self.shares_no_group(len(items), group_size):
            return items, 0
        offset = int(self._accelerator.process_index) * len(items)
        return gather_object(items), offset

    def settle(
        self,
        card: Scorecard,
        rewards: torch.Tensor,
        failed: Sequence[bool] = (),
        seconds: Mapping[str, float] | None = None,
    ) -> Scorecard:
        """Set void rows of TRL's rewards, (n, f) of all ranks, to NaN in place; return the card with all rewards.

        The card gets a term for each reward function beside the mix, also for those of environments. `failed` are n
        flags, True if the rollout has failed in its environment; empty without environments. `seconds` are the times
        of plain functions, by name. Without this step TRL would count a None beside a number as 0, and a row as 0 if
        only rewards of weight 0 have scored it.
        """
        failing = rewards.isinf()
        void = self._not_finite(rewards)
        card = self._with_functions(card, rewards, failing, seconds or {})
        if failed:
            void |= torch.tensor(failed, dtype=torch.bool, device=rewards.device)
        rewards[void] = torch.nan
        card = card.with_failed(void.tolist())
        is_void = torch.tensor(card.void, dtype=torch.bool, device=rewards.device)
        rewards[is_void] = torch.nan
        if self._positions:
            self._tell_of_none(rewards[~is_void])
        return card

    def _with_functions(
        self,
        card: Scorecard,
        rewards: torch.Tensor,
        failing: torch.Tensor,
        seconds: Mapping[str, float],
    ) -> Scorecard:
        """Add a term for each reward function beside the mix to the card, by TRL's rewards and failures, each (n, f).

        As in TRL, NaN among the rewards says that a function does not apply to the row.
        """
        weights: dict[str, float] = {}
        verdicts = dict(card.verdicts)
        values = dict(card.values)
        gated = dict(card.gated)
        # In the user's order: the first term with weight is the primary one, a function or not.
        for column, name in enumerate(self._all_names):
            if name in self._positions:
                weights[name] = card.weights[name]
                continue
            given = zip(
                rewards[:, column].tolist(), failing[:, column].tolist(), strict=True
            )
            # This rank's time, over its own completions.
            share = seconds.get(name, 0.0) * self._accelerator.num_processes / len(card)
            judged = [
                _verdict_of_reward(reward, has_failed=has_failed, seconds=share)
                for reward, has_failed in given
            ]
            weights[name] = float(self.weights[column])
            verdicts[name] = tuple(judged)
            values[name] = tuple(
                None if verdict is None else verdict.score for verdict in judged
            )
            gated[name] = (False,) * len(judged)
        return replace(
            card,
            weights=weights,
            verdicts=verdicts,
            values=values,
            gated=gated,
            others=None,
        )

    def _has_weight(self, rewards: torch.Tensor) -> torch.Tensor:
        """Return (f,) flags of reward functions whose weight is not 0, on the device of the rewards."""
        return self.weights.to(rewards.device) != 0

    def _not_finite(self, rewards: torch.Tensor) -> torch.Tensor:
        """Replace infinite rewards by NaN; return (n,) flags of rows with an infinite reward in force.

        `wrapped_functions` has made infinity of NaN. TRL would spread NaN or infinity to the whole group, and 0 would
        be wrong.
        """
        told = (
            "The reward %r was NaN or infinite for %d of %d completions. No one knows what they are worth, so "
            "where the reward has a weight their rows are void: they are left out of training. For a reward that "
            "does not apply to a row, return None."
        )
        is_infinite = rewards.isinf()
        counts = is_infinite.sum(dim=0).tolist()
        for column, count in enumerate(counts):
            if count:
                name = (
                    self._names[column]
                    if column < len(self._names)
                    else "of an environment"
                )
                self._once.warn(logger, name, told, name, count, len(rewards))
        rewards[is_infinite] = torch.nan
        in_force = is_infinite[:, self._has_weight(rewards)]
        return in_force.any(dim=1)

    def _tell_of_none(self, rewards: torch.Tensor) -> None:
        """Warn once per plain function that its None means "does not apply", unlike a verifier's None."""
        for column, name in enumerate(self._names):
            missing = int(rewards[:, column].isnan().sum())
            if missing and name in self._functions_by_none:
                told = (
                    "The reward %r gave None for %d of %d completions. As in TRL, that says that the reward "
                    "does not apply: the other rewards alone train the row, as if this one were 0. If a completion "
                    "could not be judged, return NaN, or make it a verifier (@verifier), whose None leaves "
                    "the row out of training."
                )
                self._once.warn(logger, ("None", name), told, name, missing, len(rewards))


def _verdict_of_reward(
    reward: float, *, has_failed: bool, seconds: float
) -> Verdict | None:
    """Return the verdict of a plain function's reward; None for NaN, unless the function has failed."""
    if math.isnan(reward) and not has_failed:
        return None
    return replace(as_verdict(math.nan if has_failed else reward), seconds=seconds)


def leave_dead_groups_out(output: dict[str, Any], is_live: Sequence[bool]) -> None:
    """Mask the completions of dead groups out of the loss, KL included, in place.

    TRL masks truncated completions the same way. `output` is the result of `VerifiedGRPOTrainer._batch`; `is_live`
    has a flag per completion of this rank: True if its group is live.
    """
    kept = torch.tensor(is_live, device=output["completion_mask"].device).unsqueeze(1)
    for name in ("completion_mask", "tool_mask"):
        if name in output:
            output[name] = output[name] * kept.to(output[name].dtype)
    counted = output["completion_mask"] * output.get("tool_mask", 1)
    # At least 1, since some versions of TRL would divide 0 by 0 if no token is left.
    output["num_items_in_batch"] = gather(counted.sum()).sum().clamp(min=1)


# Losses that TRL divides by the tokens of the whole batch, to which masked rows add nothing.
OF_TOKENS = ("dapo", "cispo", "vespo")


def without_dead_rows(
    output: dict[str, Any],
    is_live: Sequence[bool],
    *,
    parts: int,
    most: int,
) -> dict[str, Any]:
    """Take masked rows out of a batch, so that forward and backward pass cost nothing for them.

    TRL gathers figures by row, so every rank keeps equally many rows: `most` is the largest number of live rows of a
    rank. TRL splits them into `parts` equal parts of a row or more. So some dead rows may stay. A batch with pictures
    stays as it is, since pictures are not arranged by row. Masks must be set by `leave_dead_groups_out` before.
    """
    if not all(
        _is_scalar(value) or _is_column(value, len(is_live)) for value in output.values()
    ):
        return output
    # Live rows first, in order.
    rows = sorted(range(len(is_live)), key=lambda row: not is_live[row])
    rows_a_part = max(1, math.ceil(most / parts))
    kept = sorted(rows[: rows_a_part * parts])
    shorter = dict(output)
    for name, value in output.items():
        if not _is_scalar(value):
            shorter[name] = value[kept]
    return shorter


def _is_scalar(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.ndim == 0


def _is_column(value: Any, size: int) -> bool:
    return isinstance(value, torch.Tensor) and len(value) == size


def add_share_of_judging(
    metrics: dict[str, list[float]], logs: Mapping[str, float]
) -> None:
    """Add judging's share of the time that TRL logs next, for training steps or an evaluation.

    `metrics` are TRL's, and get the share; `logs` are transformers' logs, with the runtime of an evaluation.
    """
    if JUDGING_SECONDS not in metrics:
        return
    runtimes = [value for name, value in logs.items() if name.endswith("_runtime")]
    seconds = sum(metrics.get("step_time") or runtimes)
    share = math.nan
    if seconds:
        share = sum(metrics[JUDGING_SECONDS]) / seconds
    metrics[SHARE_OF_STEP] = [share]


# The time to wait for a verifier that cannot be ended.
PATIENCE_SECONDS = 5.0
_LOOK_SECONDS = 0.1


class EarlyJudging:
    """Judging on a thread, from the moment completions exist, while TRL computes log-probabilities on the GPU.

    TRL asks for rewards after these passes. Verifiers mostly wait for processes, sandboxes and the network, so this
    hides most of their time. Early judging never waits for other ranks. The list of completions identifies the batch.
    """

    def __init__(
        self, judge: Callable[[], Scored], completions: Sequence[Completion]
    ) -> None:
        self.completions = completions
        self._judged: Future[Scored] = Future()
        thread = threading.Thread(
            target=self._run,
            args=(on_this_gpu(judge),),
            name="judge",
            # The interpreter must not wait at exit for a verifier that hangs.
            daemon=True,
        )
        thread.start()

    def result(self) -> Scored:
        """Wait for the judging; return its result or raise its exception."""
        try:
            return self._judged.result()
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """End running verifiers, term after term, since the result is not needed."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not self._judged.done() and time.monotonic() < until:
            close_shared()
            wait([self._judged], timeout=_LOOK_SECONDS)

    def _run(self, judge: Callable[[], Scored]) -> None:
        try:
            self._judged.set_result(judge())
        except BaseException as error:
            self._judged.set_exception(error)
