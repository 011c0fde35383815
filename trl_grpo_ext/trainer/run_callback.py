"""The one callback of a run: it tells the listeners what happens, and ends the run where a finding asks for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.finding import MERGED, Finding
from trl_grpo_ext.diagnostics.watch import Watch
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.runs.listener import SUMMARY, RunListener
from trl_grpo_ext.runs.recorder import LogRecorder, Recorder
from trl_grpo_ext.runs.settings import write_settings
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.files import set_aside
from trl_grpo_ext.support.text import Once, did_you_mean
from trl_grpo_ext.trainer.noise_meter import NoiseMeter
from trl_grpo_ext.trainer.ranks import leave_at_exit
from trl_grpo_ext.trainer.report_listener import ReportListener
from trl_grpo_ext.trainer.reward_card import RewardCard

logger = logging.getLogger(__name__)

ScorecardListener = Callable[[Scorecard], None]
AskMain = Callable[[Callable[[], int]], int]


class RunCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """Tells every listener of batches, logs, evaluations, the beginning and the end, on the main process.

    `ask_main` gives on every rank what its argument answers on the main process: a rank that stopped alone would leave
    the others waiting.

    Attributes:
        listeners: Those that are told, in order.
        has_halted: Whether a finding of `halt_on` has ended the latest training; the same on every rank.
    """

    def __init__(self, *, is_main: bool, ask_main: AskMain) -> None:
        self.listeners: list[RunListener] = []
        self.has_halted = False
        self.is_main = is_main
        self._ask_main = ask_main
        self._watch: Watch | None = None
        self._halts = False
        self._once = Once()

    def watch(self, watch: Watch, *, halts: bool) -> None:
        """Add a watch; where it halts, training ends after the step in which it has found what it should halt on."""
        self.listeners.append(watch)
        self._watch, self._halts = watch, halts

    @property
    def halted_by(self) -> Finding | None:
        """The finding that has ended the latest training; None on other ranks than the main one."""
        return self._watch.halted_by if self._watch is not None and self.has_halted else None

    @property
    def found_to_halt(self) -> Finding | None:
        """The finding that the watch should halt on, as soon as it is there."""
        return self._watch.halted_by if self._watch is not None and self._halts else None

    @contextmanager
    def also_telling(self, listener: RunListener) -> Iterator[None]:
        """Tell one more listener for as long as the `with` block lasts."""
        self.listeners.append(listener)
        try:
            yield
        finally:
            self.listeners.remove(listener)

    def tell(self, hear: Callable[[RunListener], None]) -> None:
        """Tell every listener. If one fails, for example on a full disk, the run goes on.

        The trainer calls this for what is no event of transformers, such as a batch that has been judged.
        """
        for listener in self.listeners if self.is_main else ():
            try:
                hear(listener)
            except Exception as error:
                self._once.warn(logger, id(listener), "%r failed; the run goes on.", listener, error=error)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.has_halted = False
        if self.is_main and not state.global_step:  # not a run that goes on, whose figures these are
            set_aside(Path(args.output_dir) / SUMMARY)
        self.tell(lambda listener: listener.on_train_begin(quiet=bool(args.disable_tqdm)))

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        if logs:
            self.tell(lambda listener: listener.on_log(state.global_step, logs))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        watch = self._watch
        if watch is None or not self._halts or not self._ask_main(lambda: int(watch.halted_by is not None)):
            return
        self.has_halted = control.should_save = control.should_training_stop = True
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
    """Hands the scorecard of every batch to a function."""

    def __init__(self, function: ScorecardListener) -> None:
        self.function = function

    def on_batch(self, card: Scorecard, figures: BatchFigures | None) -> None:
        self.function(card)

    def __repr__(self) -> str:
        return repr(self.function)


def check_halt_on(codes: Sequence[str]) -> None:
    """Raise a ValueError for an unknown code of a finding, or for one that goes by another code now.

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
            raise ValueError(f"halt_on names the finding {code!r}, which is a part of `{MERGED[code]}` now.")
        if code not in CHECKS:
            known = did_you_mean(str(code), CHECKS)
            raise ValueError(f"halt_on names the finding {code!r}, which does not exist. {known}")


def add_listeners(
    callback: RunCallback, args: Any, settings: Mapping[str, Any], mix: RewardMix | None
) -> tuple[Recorder | None, NoiseMeter | None]:
    """Add the listeners that the configuration asks for; returns the recorder and the noise meter, if there are any.

    Of a plain `GRPOConfig`, the defaults count.
    """
    recorder = noise = None
    if getattr(args, "record_scorecards", True):
        recorder = Recorder(args.output_dir, keep_every=getattr(args, "keep_scorecards_every", 1))
        callback.listeners += [recorder, LogRecorder(args.output_dir)]
        if callback.is_main:
            write_settings(args.output_dir, settings)
    if getattr(args, "run_checks", True):
        halt_on = getattr(args, "halt_on", ())
        if halt_on and mix is None:
            logger.warning("halt_on needs verdicts, and plain reward functions have none: nothing will halt this run.")
        watch = Watch(
            args.output_dir,
            settings,
            cite=None if recorder is None else recorder.cite,
            halt_on=halt_on,
            log_level=args.get_process_log_level(),
        )
        callback.watch(watch, halts=bool(halt_on))
    if recorder is not None and getattr(args, "write_report", True):
        callback.listeners.append(ReportListener(args.output_dir))
    if mix is not None and getattr(args, "measure_noise", True):
        noise = NoiseMeter(mix, args.output_dir)
        callback.listeners.append(noise)
    # After those that record what it says.
    has_log, has_checks = recorder is not None, getattr(args, "run_checks", True)
    callback.listeners.append(RewardCard(args.output_dir, settings, mix, has_log=has_log, has_checks=has_checks))
    return recorder, noise
