"""The run's callback: it notifies the listeners of events, and ends the run if a finding demands it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.checks.zero_updates import (
    BUILD_IT_LATER,
    holds_few,
    told_held,
)
from trl_grpo_ext.diagnostics.finding import MERGED, Finding
from trl_grpo_ext.diagnostics.levels import OPENING_BATCHES, RECENT_BATCHES
from trl_grpo_ext.diagnostics.watch import Watch
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.runs.listener import SUMMARY, RunListener
from trl_grpo_ext.runs.recorder import LogRecorder, Recorder
from trl_grpo_ext.runs.resumed import Changes, describe_changes, record_start, write_start
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.files import set_aside
from trl_grpo_ext.support.text import Once, did_you_mean, sentence
from trl_grpo_ext.trainer.meters.noise_meter import NoiseMeter
from trl_grpo_ext.trainer.meters.weight_meter import held_parameters
from trl_grpo_ext.trainer.ranks import leave_at_exit
from trl_grpo_ext.trainer.report_listener import ReportListener
from trl_grpo_ext.trainer.reward_card import RewardCard

logger = logging.getLogger(__name__)

ScorecardListener = Callable[[Scorecard], None]
AskMain = Callable[[Callable[[], int]], int]


class RunCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """A callback that notifies every listener of batches, logs, evaluations, start and end, on the main process.

    `ask_main` calls its argument on the main process and returns the result on every rank: a rank that stopped alone
    would leave the others waiting. With `splits_weights`, as of FSDP and DeepSpeed, an optimizer holds parts or copies
    of the parameters, and whether they are the model's stays unknown.

    Attributes:
        listeners: The listeners, in the order of notification.
        has_halted: Whether a finding of `halt_on` has ended the latest training; equal on all ranks.
        write_start: Writes the settings when the run begins, and returns how they differ from those that the folder has
            on record; None if the run is not recorded, or has begun.
        changes: The differences; None before the run begins, and if it is not recorded.
    """

    def __init__(
        self, *, is_main: bool, ask_main: AskMain, splits_weights: bool = False
    ) -> None:
        self.listeners: list[RunListener] = []
        self.has_halted = False
        self.is_main = is_main
        self.write_start: Callable[[], Changes] | None = None
        self.changes: Changes | None = None
        self._ask_main = ask_main
        self._splits_weights = splits_weights
        self._watch: Watch | None = None
        self._halts = False
        self._once = Once()

    def watch(self, watch: Watch, *, halts: bool) -> None:
        """Add a watch; with `halts`, training ends after the step with a finding of `halt_on`."""
        self.listeners.append(watch)
        self._watch = watch
        self._halts = halts

    @property
    def halted_by(self) -> Finding | None:
        """The finding that ended the latest training; None on ranks other than the main rank."""
        if self._watch is None or not self.has_halted:
            return None
        return self._watch.halted_by

    @property
    def found_to_halt(self) -> Finding | None:
        """The finding that will end training; None before."""
        if self._watch is None or not self._halts:
            return None
        return self._watch.halted_by

    @contextmanager
    def also_telling(self, listener: RunListener) -> Iterator[None]:
        """Notify one more listener during the `with` block."""
        self.listeners.append(listener)
        try:
            yield
        finally:
            self.listeners.remove(listener)

    def tell(self, hear: Callable[[RunListener], None]) -> None:
        """Notify every listener; a listener that fails, for example on a full disk, does not end the run.

        The trainer calls this for events that transformers lacks, such as a judged batch.
        """
        if not self.is_main:
            return
        self._begin()
        for listener in self.listeners:
            try:
                hear(listener)
            except Exception as error:
                self._once.warn(
                    logger,
                    id(listener),
                    "%r failed; the run goes on.",
                    listener,
                    error=error,
                )

    def _begin(self) -> None:
        """Write the settings before the first event, so that a resume that fails changes no record."""
        if self.write_start is None:
            return
        write_start, self.write_start = self.write_start, None
        try:
            self.changes = write_start()
        # A full disk ends no run.
        except OSError as error:
            self._warn_of_settings(error)

    def _warn_of_settings(self, error: OSError) -> None:
        told = "The settings could not be recorded; the run goes on."
        self._once.warn(logger, told, told, error=error)

    def on_train_begin(
        self,
        args: Any,
        state: Any,
        control: Any,
        model: Any = None,
        optimizer: Any = None,
        **_: Any,
    ) -> None:
        self.has_halted = False
        # A resumed run keeps its summary.
        if self.is_main and not state.global_step:
            set_aside(Path(args.output_dir) / SUMMARY)
        held = {} if self._splits_weights else held_parameters(model, optimizer)
        self._record_start(args.output_dir, state.global_step, held)
        if self.is_main and holds_few(held):
            logger.warning("%s. %s", sentence(told_held(held)), BUILD_IT_LATER)
        if self._watch is not None:
            self._watch.learn(held)
        self.tell(lambda listener: listener.on_train_begin(quiet=bool(args.disable_tqdm)))

    def _record_start(
        self, run_folder: str, step: int, known_now: Mapping[str, Any]
    ) -> None:
        """Record what is known since training started, and record and tell other settings of a resumed run."""
        self._begin()
        if self.changes is None:
            return
        if step and self.changes:
            logger.warning(
                "The run goes on with other settings than it has had, %s.",
                describe_changes(step, self.changes),
            )
        try:
            record_start(run_folder, step, self.changes, known_now)
        except OSError as error:
            self._warn_of_settings(error)
        # A later training of this process has the same settings.
        self.changes = {}

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        if logs:
            self.tell(lambda listener: listener.on_log(state.global_step, logs))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        watch = self._watch
        if watch is None or not self._halts:
            return
        if not self._ask_main(lambda: int(watch.halted_by is not None)):
            return
        self.has_halted = True
        control.should_save = True
        control.should_training_stop = True
        if watch.halted_by is not None:
            logger.error(
                "Halted after step %d by the finding %s (halt_on); a checkpoint is in %s.",
                state.global_step,
                watch.halted_by.code,
                args.output_dir,
            )

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.tell(lambda listener: listener.on_evaluate())

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.tell(lambda listener: listener.on_train_end())
        leave_at_exit()


class CardListener(RunListener):
    """A listener that passes every batch's scorecard to a function."""

    def __init__(self, function: ScorecardListener) -> None:
        self.function = function

    def on_batch(self, card: Scorecard, figures: BatchFigures | None) -> None:
        self.function(card)

    def __repr__(self) -> str:
        return repr(self.function)


def check_halt_on(codes: Sequence[str]) -> None:
    """Raise a ValueError for an unknown finding code, or an old code now merged into another.

    Examples:
        >>> check_halt_on(["bad_dat"])
        Traceback (most recent call last):
            ...
        ValueError: halt_on names the finding 'bad_dat', which does not exist. Did you mean `bad_data`?
    """
    if isinstance(codes, str):
        raise ValueError(f"halt_on is a list of codes, got {codes!r}; write [{codes!r}].")
    for code in codes:
        if code in MERGED:
            raise ValueError(
                f"halt_on names the finding {code!r}, which is a part of `{MERGED[code]}` now."
            )
        if code not in CHECKS:
            known = did_you_mean(str(code), CHECKS)
            raise ValueError(
                f"halt_on names the finding {code!r}, which does not exist. {known}"
            )


def add_listeners(
    callback: RunCallback,
    args: Any,
    settings: Mapping[str, Any],
    mix: RewardMix | None,
) -> tuple[Recorder | None, NoiseMeter | None]:
    """Add the listeners that the configuration enables; return the recorder and the noise meter, None if disabled.

    For a plain `GRPOConfig`, the defaults of `VerifiedGRPOConfig` apply.
    """
    recorder = None
    noise = None
    has_checks = getattr(args, "run_checks", True)
    if getattr(args, "record_scorecards", True):
        recorder = Recorder(
            args.output_dir,
            keep_every=getattr(args, "keep_scorecards_every", 1),
            opening=OPENING_BATCHES,
            cited=RECENT_BATCHES,
        )
        callback.listeners += [recorder, LogRecorder(args.output_dir)]
        if callback.is_main:
            callback.write_start = partial(write_start, args.output_dir, settings)
    if has_checks:
        _add_watch(callback, args, settings, recorder)
    if recorder is not None and getattr(args, "write_report", True):
        callback.listeners.append(ReportListener(args.output_dir))
    if mix is not None and getattr(args, "measure_noise", True):
        noise = NoiseMeter(mix, args.output_dir)
        callback.listeners.append(noise)
    # Last, since the reward card reads the records of the other listeners.
    reward_card = RewardCard(
        args.output_dir,
        settings,
        mix,
        has_log=recorder is not None,
        has_checks=has_checks,
    )
    callback.listeners.append(reward_card)
    return recorder, noise


def _add_watch(
    callback: RunCallback,
    args: Any,
    settings: Mapping[str, Any],
    recorder: Recorder | None,
) -> None:
    halt_on = getattr(args, "halt_on", ())
    watch = Watch(
        args.output_dir,
        settings,
        cite=None if recorder is None else recorder.cite,
        halt_on=halt_on,
        log_level=args.get_process_log_level(),
    )
    callback.watch(watch, halts=bool(halt_on))
