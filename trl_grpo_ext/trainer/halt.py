"""Halting: a finding that the user has named ends the run, cleanly and with a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.support.names import did_you_mean

if TYPE_CHECKING:
    from trl_grpo_ext.diagnostics.watch import Watch

logger = logging.getLogger(__name__)


def check_halt_on(codes: Sequence[str]) -> None:
    """Raise a ValueError for what is no code of a finding.

    Example:
        >>> check_halt_on(["bad_dat"])
        Traceback (most recent call last):
            ...
        ValueError: halt_on names the finding 'bad_dat', which there is not. Did you mean `bad_data`?
    """
    if isinstance(codes, str):
        raise ValueError(f"halt_on is a list of codes, got {codes!r}; write [{codes!r}].")
    for code in codes:
        if code not in CHECKS:
            known = did_you_mean(str(code), CHECKS)
            raise ValueError(f"halt_on names the finding {code!r}, which there is not. {known}")


class HaltCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """Ends training after the step in which a watch has found what it should halt on.

    Args:
        watch: The watch; only that of the main process sees anything.
        from_main_process: What its argument answers on the main process, on every rank: a rank that stopped alone would
            leave the others waiting.

    Attributes:
        has_halted: Whether it has ended the latest training; the same on every rank.
    """

    def __init__(self, watch: Watch, from_main_process: Callable[[Callable[[], int]], int]) -> None:
        self.watch = watch
        self.has_halted = False
        self._from_main_process = from_main_process

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.has_halted = False

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if not self._from_main_process(lambda: int(self.watch.halted_by is not None)):
            return
        self.has_halted = control.should_save = control.should_training_stop = True
        if self.watch.halted_by is not None:
            logger.error(
                "Halted after step %d by the finding %s (halt_on); a checkpoint is in %s.",
                state.global_step,
                self.watch.halted_by.code,
                args.output_dir,
            )


def find_halt(trainer: Any) -> HaltCallback | None:
    """What has ended a trainer's training on every rank; None if nothing has. Its finding is the main process's."""
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, HaltCallback) and callback.has_halted:
            return callback
    return None
