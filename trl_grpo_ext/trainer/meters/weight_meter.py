"""The weight meter: how far a sample of the trained weights moves, and how many of them an update leaves unchanged.

TRL logs the KL divergence only with beta above 0. Weights in 16 bits round small updates away: a bfloat16 weight of
0.02 moves by 6e-5 or not at all.
"""

from __future__ import annotations

import logging
import math
import statistics
from collections.abc import Callable
from typing import Any

import torch
from transformers import TrainerCallback

from trl_grpo_ext.figures.logged import WEIGHTS_CHANGED, WEIGHTS_MOVED
from trl_grpo_ext.support.text import Once

# Tensors, and values of each: 4,096 values tell a share with a standard error of 0.8 %.
TENSORS = 32
VALUES = 128

logger = logging.getLogger(__name__)


class WeightMeter(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """A callback that compares a sample of the weights around each optimizer step, on its own rank.

    The optimizer's own values are read: where it keeps copies in single precision, no update is lost.
    """

    def __init__(self) -> None:
        # By tensor, the values that this session began with, and the latest ones.
        self._first: list[torch.Tensor] = []
        self._latest: list[torch.Tensor] = []
        # Which of the values had a gradient at the last step, by tensor; empty if unknown.
        self._have_gradient: list[torch.Tensor] = []
        self._shares: list[torch.Tensor] = []
        self._once = Once()

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any
    ) -> None:
        self._measure(self._before_step, optimizer)

    def on_optimizer_step(
        self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any
    ) -> None:
        self._measure(self._after_step, optimizer)

    def _measure(self, measure: Callable[[list[Any]], None], optimizer: Any) -> None:
        # An optimizer may be of any class, and a failing figure must not end the run.
        try:
            measure(_chosen(optimizer))
        except Exception as error:
            self._once.warn(
                logger,
                "weights",
                "The change of the weights could not be measured.",
                error=error,
            )

    def _before_step(self, parameters: list[Any]) -> None:
        """Sample the weights before a step, and flag weights with a gradient."""
        self._latest = [_sample(parameter.detach()).clone() for parameter in parameters]
        if len(self._first) != len(self._latest):
            self._first = self._latest
        gradients = [parameter.grad for parameter in parameters]
        self._have_gradient = []
        # DeepSpeed keeps them elsewhere.
        if all(gradient is not None for gradient in gradients):
            self._have_gradient = [_sample(gradient) != 0 for gradient in gradients]

    def _after_step(self, parameters: list[Any]) -> None:
        """Compare the values with those from before the step. Nothing is read from the device, which would wait."""
        before = self._latest
        self._latest = [_sample(parameter.detach()).clone() for parameter in parameters]
        if not self._have_gradient or len(before) != len(self._latest):
            return
        is_changed = _joined(
            [now != old for now, old in zip(self._latest, before, strict=True)]
        )
        have_gradient = _joined(self._have_gradient)
        changed = (is_changed & have_gradient).sum()
        self._shares.append(changed / have_gradient.sum())

    def figures(self) -> dict[str, float]:
        """Return the figures since the last call, by log name; NaN where unknown, as with an optimizer of DeepSpeed."""
        shares = []
        for share in self._shares:
            # Without any gradient it is 0 of 0.
            if math.isfinite(share):
                shares.append(share.item())
        self._shares = []
        return {
            WEIGHTS_CHANGED: statistics.fmean(shares) if shares else math.nan,
            WEIGHTS_MOVED: self._moved(),
        }

    def _moved(self) -> float:
        """Median over tensors of the distance from the first values, as a part of their norm; NaN if unknown.

        Values without a gradient do not count: a policy may hold constants, such as the logits of forbidden tokens.
        Where no tensor has one, as in an optimizer of another model, it is 0 if nothing has moved.
        """
        if not self._have_gradient:
            is_still = bool(self._first) and all(
                map(torch.equal, self._first, self._latest)
            )
            return 0.0 if is_still else math.nan
        distances = []
        for all_first, all_now, counts in zip(
            self._first, self._latest, self._have_gradient, strict=True
        ):
            first = all_first[counts]
            now = all_now[counts]
            norm = first.double().norm().item()
            # Half of an adapter begins at 0.
            if norm:
                distances.append((now.double() - first.double()).norm().item() / norm)
        return statistics.median(distances) if distances else math.nan


# Names of optimizers of transformers that hold stand-ins, and update the parameters by hooks.
BY_HOOKS = ("dummy", "lomo")


def held_parameters(model: Any, optimizer: Any) -> dict[str, int]:
    """Count a model's trainable parameters, and those of them that its optimizer holds; empty if unknown.

    Examples:
        >>> model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        >>> held_parameters(model, torch.optim.SGD([*other.parameters(), model.bias]))
        {'trainable_tensors': 2, 'optimized_tensors': 1}
    """
    inner = getattr(optimizer, "optimizer", optimizer)
    is_by_hooks = any(name in type(inner).__name__.lower() for name in BY_HOOKS)
    if (
        not hasattr(model, "parameters")
        or not hasattr(inner, "param_groups")
        or is_by_hooks
    ):
        return {}
    trainable = {
        id(parameter) for parameter in model.parameters() if parameter.requires_grad
    }
    held = {id(parameter) for group in inner.param_groups for parameter in group["params"]}
    return {"trainable_tensors": len(trainable), "optimized_tensors": len(trainable & held)}


def _chosen(optimizer: Any) -> list[Any]:
    """Return evenly spread tensors that the optimizer trains and this rank holds a part of."""
    trained = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and _local(parameter).numel():
                trained.append(parameter)
    return trained[:: max(1, math.ceil(len(trained) / TENSORS))]


def _sample(tensor: Any) -> torch.Tensor:
    """Return evenly spread values of a tensor."""
    values = _local(tensor).flatten()
    # An odd stride: an even one may be of one column only.
    return values[:: math.ceil(values.numel() / VALUES) | 1]


def _local(tensor: Any) -> torch.Tensor:
    """Return this rank's part of a tensor that FSDP has split."""
    local: torch.Tensor = tensor
    if hasattr(tensor, "to_local"):
        local = tensor.to_local()
    return local


def _joined(flags: list[torch.Tensor]) -> torch.Tensor:
    """Join flags on the first one's device: a model may be split over several."""
    return torch.cat([part.to(flags[0].device) for part in flags])
