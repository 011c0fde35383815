"""The judge of a run: on every rank, it judges what TRL generated, and settles which rows TRL may train on."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather, gather_object

from trl_grpo_ext.figures.logged import SHARE_OF_STEP
from trl_grpo_ext.group_outcome import GroupOutcome, group_outcomes
from trl_grpo_ext.mix.reward_mix import RewardMix, UnscoredError
from trl_grpo_ext.mix.reward_plan import RewardPlan
from trl_grpo_ext.sample import Completion, Sample
from trl_grpo_ext.scorecard import Mode, Scorecard
from trl_grpo_ext.support.budget import BUDGET_SPENT, judging_budget
from trl_grpo_ext.support.text import Once
from trl_grpo_ext.trainer.ranks import Whereabouts, on_this_gpu
from trl_grpo_ext.workers.processes import close_shared

logger = logging.getLogger(__name__)

JUDGING_SECONDS = "verified/grader/judging_seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When a batch is judged."""

    mode: Mode
    step: int  # the optimizer steps that are done
    progress: float  # the share of training that is done, in [0, 1]; 0 if it is unknown
    group_size: int


Scored = Scorecard | UnscoredError  # what scoring this rank's samples came to


class Judge:
    """Judges batches by a run's rewards.

    Schedules move the mix's own entries of TRL's weights, (f,), one a reward function. A rank may judge a batch for
    `budget` seconds; None is no limit.

    Attributes:
        whereabouts: Which reward each rank is in.
        others: The names of the rewards that TRL computes itself, beside the mix.
    """

    def __init__(
        self, plan: RewardPlan, accelerator: Any, weights: torch.Tensor, *, budget: float | None = None
    ) -> None:
        self.weights = weights
        self.whereabouts = Whereabouts(accelerator)
        self._budget = budget
        self._accelerator = accelerator
        self._positions = plan.positions
        self._names = plan.names[: len(plan.weights)]  # without those of environments
        self.others = " or ".join(name for name in self._names if name not in self._positions)
        self._once = Once()

    def score(self, mix: RewardMix, samples: Sequence[Sample], moment: Moment) -> Scored:
        """The scorecard of this rank's samples, with the weights now in force; ranks meet only in groups they share."""
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
        for name, verdicts in card.verdicts.items():
            late = sum(verdict is not None and verdict.reason == BUDGET_SPENT for verdict in verdicts)
            if late:
                told = "judging_budget (%g s) is spent at step %s without %d of %d verdicts of %r; such rows are void."
                self._once.warn(logger, (BUDGET_SPENT, name), told, self._budget, card.step, late, len(verdicts), name)

    def agreed(self, mix: RewardMix, scored: Scored) -> Scorecard:
        """The card that was scored, if no rank has a problem; TRL gets the weights in force.

        Raises:
            UnscoredError: on every rank, if a term whose `on_unscored` is `"raise"` could not judge a sample on one.
        """
        problem = str(scored) if isinstance(scored, UnscoredError) else ""
        if self._accelerator.num_processes > 1 and any(term.on_unscored == "raise" for term in mix.terms):
            # One rank that raises alone would leave the others waiting for it.
            problem = next(filter(None, gather_object([problem])), "")
        if problem or isinstance(scored, UnscoredError):
            raise UnscoredError(problem)
        for name, weight in scored.weights.items():
            self.weights[self._positions[name]] = weight
        return scored

    def shares_no_group(self, samples: int, group_size: int) -> bool:
        """Whether every group of a batch with that many samples on each rank is whole on one of them."""
        return bool(self._accelerator.num_processes == 1 or samples % group_size == 0)

    def _gather_groups(self, items: list[Any], group_size: int) -> tuple[list[Any], int]:
        """Every rank's items where a group may be split between ranks; every rank has as many."""
        if self.shares_no_group(len(items), group_size):
            return items, 0
        return gather_object(items), int(self._accelerator.process_index) * len(items)

    def settle(self, card: Scorecard | None, rewards: torch.Tensor, failed: Sequence[bool] = ()) -> Scorecard | None:
        """Take the void rows out of TRL's rewards, (n, f) of all ranks, in place; returns the card with all rewards.

        `failed` are n flags, True if the rollout has failed in its environment; or none. TRL would count what only
        rewards without weight have scored as a 0, and a None beside a number too.
        """
        void = self._not_finite(rewards)
        if failed:
            void |= torch.tensor(failed, dtype=torch.bool, device=rewards.device)
        rewards[void] = torch.nan
        if card is None:
            rewards[rewards[:, self.weights.to(rewards.device) != 0].isnan().all(dim=1)] = torch.nan
            return None
        self._tell_of_none(rewards[~void])
        if card.others is not None:
            card = self._with_others(card, rewards)
        card = card.with_failed(void.tolist())
        rewards[torch.tensor(card.void, dtype=torch.bool, device=rewards.device)] = torch.nan
        return card

    def _not_finite(self, rewards: torch.Tensor) -> torch.Tensor:
        """Return (n,) flags of the rows to which a reward in force has given NaN or infinity; makes NaN of both.

        Both come as infinity (`with_nan_apart`). Either would be the reward of its whole group, and neither is a 0.
        """
        is_infinite = rewards.isinf()
        for column in is_infinite.any(dim=0).nonzero().flatten().tolist():
            name = self._names[column] if column < len(self._names) else "of an environment"
            told = (
                "The reward %r was NaN or infinite for %d of %d completions. No one knows what they are worth, so "
                "where the reward has a weight their rows are void: they are left out of training. For a reward that "
                "does not apply to a row, return None."
            )
            self._once.warn(logger, name, told, name, int(is_infinite[:, column].sum()), len(rewards))
        rewards[is_infinite] = torch.nan
        return is_infinite[:, self.weights.to(rewards.device) != 0].any(dim=1)

    def _tell_of_none(self, rewards: torch.Tensor) -> None:
        """Say once what a plain function's None means, where a verifier's means something else."""
        for column, name in enumerate(self._names):
            missing = int(rewards[:, column].isnan().sum())
            if missing and name not in self._positions:
                told = (
                    "The reward %r gave None for %d of %d completions. As in TRL, that says that the reward "
                    "does not apply: the other rewards alone train the row, as if this one were 0. If a completion "
                    "could not be judged, return NaN, or make it a verifier (@verifier), whose None leaves "
                    "the row out of training."
                )
                self._once.warn(logger, ("None", name), told, name, missing, len(rewards))

    def _with_others(self, card: Scorecard, rewards: torch.Tensor) -> Scorecard:
        """The card with what functions beside the mix, and environments, have given."""
        beside = [index for index in range(rewards.shape[1]) if index not in self._positions.values()]
        weights = self.weights[beside].cpu().double()
        given = rewards[:, beside].cpu().double()
        scored = (~given.isnan() & (weights != 0)).any(dim=1)
        sums = (given * weights).nansum(dim=1)
        return card.with_others([one if known else None for one, known in zip(sums.tolist(), scored, strict=True)])

    def outcomes(self, rewards: torch.Tensor, group_size: int) -> tuple[GroupOutcome, ...]:
        """What each group has to teach where no mix has judged; it is unknown whether a dead group is right."""
        groups = np.arange(len(rewards)).reshape(-1, group_size)
        columns, weights = rewards.float().cpu().numpy(), self.weights.cpu().numpy()
        return group_outcomes(columns, weights, [None] * len(rewards), list(groups))


def leave_dead_groups_out(output: dict[str, Any], is_live: Sequence[bool]) -> None:
    """Take the completions of groups that have nothing to teach out of the loss, KL included, in place.

    TRL masks truncated completions the same way. `output` is what `_generate_and_score_completions` returns, and
    `is_live` says of each of this rank's completions whether its group is live.
    """
    kept = torch.tensor(is_live, device=output["completion_mask"].device).unsqueeze(1)
    for name in ("completion_mask", "tool_mask"):
        if name in output:
            output[name] = output[name] * kept.to(output[name].dtype)
    counted = output["completion_mask"] * output.get("tool_mask", 1)
    # Where nothing is left, some TRL would divide 0 by it.
    output["num_items_in_batch"] = gather(counted.sum()).sum().clamp(min=1)


def add_share_of_judging(metrics: dict[str, list[float]], logs: Mapping[str, float]) -> None:
    """Add the share of judging in the time of the steps, or of the evaluation, that TRL is about to log.

    `metrics` are TRL's, of training or of evaluation, and `logs` what transformers logs with them.
    """
    if JUDGING_SECONDS in metrics:
        runtimes = [value for name, value in logs.items() if name.endswith("_runtime")]
        seconds = sum(metrics.get("step_time") or runtimes)
        metrics[SHARE_OF_STEP] = [sum(metrics[JUDGING_SECONDS]) / seconds if seconds else math.nan]


PATIENCE_SECONDS = 5.0  # until a verifier that cannot be ended is left to itself
_LOOK_SECONDS = 0.1


class EarlyJudging:
    """Judging that begins when the completions exist, on a thread, while TRL computes log-probabilities on the GPU.

    TRL calls for the rewards after these passes. Verifiers work in processes, in sandboxes and on the network, so most
    of their time costs a step nothing if it passes meanwhile. It does not wait for other ranks. A batch is recognised
    by its list of completions.
    """

    def __init__(self, judge: Callable[[], Scored], completions: Sequence[Completion]) -> None:
        self.completions = completions
        self._judged: Future[Scored] = Future()
        # A daemon, as the end of the interpreter must not wait for a verifier that does not end.
        threading.Thread(target=self._run, args=(on_this_gpu(judge),), name="judge", daemon=True).start()

    def result(self) -> Scored:
        """What judging came to, awaited; raises what it raised."""
        try:
            return self._judged.result()
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """End what verifiers have under way, term by term, as nobody will ask for the result."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not self._judged.done() and time.monotonic() < until:
            close_shared()
            wait([self._judged], timeout=_LOOK_SECONDS)

    def _run(self, judge: Callable[[], Scored]) -> None:
        try:
            self._judged.set_result(judge())
        except BaseException as error:
            self._judged.set_exception(error)
