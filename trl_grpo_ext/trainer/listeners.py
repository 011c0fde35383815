"""Who listens to a run, as its configuration asks: a recorder, a watch, a report."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.watch import Watch
from trl_grpo_ext.runs.log_recorder import LogRecorder
from trl_grpo_ext.runs.recorder import Recorder
from trl_grpo_ext.runs.settings import write_settings
from trl_grpo_ext.support.names import did_you_mean
from trl_grpo_ext.trainer.report_listener import ReportListener
from trl_grpo_ext.trainer.run_callback import RunCallback

logger = logging.getLogger(__name__)


def check_halt_on(codes: Sequence[str]) -> None:
    """Raise a ValueError for what is no code of a finding.

    Example:
        >>> check_halt_on(["bad_dat"])
        Traceback (most recent call last):
            ...
        ValueError: halt_on names the finding 'bad_dat', which does not exist. Did you mean `bad_data`?
    """
    if isinstance(codes, str):
        raise ValueError(f"halt_on is a list of codes, got {codes!r}; write [{codes!r}].")
    for code in codes:
        if code not in CHECKS:
            known = did_you_mean(str(code), CHECKS)
            raise ValueError(f"halt_on names the finding {code!r}, which does not exist. {known}")


def add_listeners(
    callback: RunCallback, args: Any, settings: Mapping[str, Any], *, has_verdicts: bool
) -> Recorder | None:
    """Add the listeners that the configuration asks for; returns the recorder, if there is one.

    Args:
        callback: The run's callback.
        args: A `VerifiedGRPOConfig`; of a plain `GRPOConfig`, the defaults count.
        settings: The run's, as `run_settings` gives them.
        has_verdicts: Whether there are verifiers among the rewards.
    """
    recorder = None
    if getattr(args, "record_scorecards", True):
        recorder = Recorder(args.output_dir, keep_every=getattr(args, "keep_scorecards_every", 1))
        callback.listeners += [recorder, LogRecorder(args.output_dir)]
        if callback.is_main:
            write_settings(args.output_dir, settings)
    if getattr(args, "run_checks", True):
        halt_on = getattr(args, "halt_on", ())
        if halt_on and not has_verdicts:
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
    return recorder
