"""Show a run: a progress bar, a line per logging step, and the figures that trackers receive."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tqdm import tqdm
from transformers import PrinterCallback, ProgressCallback, TrainerCallback
from transformers.trainer_utils import has_length

from trl_grpo_ext.figures.logged import DRAWN_LIVE
from trl_grpo_ext.support.progress_bar import Progress


class _ConsoleCallback(TrainerCallback):  # type: ignore[misc]  # transformers' callbacks are untyped here
    """A callback that shows progress and rewards. Without a terminal it writes plain lines instead of bars."""

    def __init__(self, terms: Sequence[str]) -> None:
        self.terms = tuple(terms)
        # The step of the latest line.
        self._told = 0
        self._bar: tqdm[Any] | None = None
        self._bar_is_evaluations = False
        # The progress lines of an evaluation, if stderr is no terminal.
        self._lines: Progress | None = None
        # The number of finished evaluation batches.
        self._evaluated = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._told = state.global_step
        self._open(args, state, state.max_steps, "training")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_prediction_step(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        if self._bar is None:
            self._begin_evaluation(args, state, kwargs.get("eval_dataloader"))
        if self._bar is not None and self._bar_is_evaluations:
            self._bar.update(1)
            self._evaluated += 1
            if self._lines is not None:
                self._lines.show(self._evaluated)

    def _begin_evaluation(self, args: Any, state: Any, batches: Any) -> None:
        self._bar_is_evaluations = True
        # `len` of a stream's loader raises.
        total = len(batches) if has_length(batches) else None
        has_bar = self._open(args, state, total, "evaluation")
        if total is not None and not has_bar and not args.disable_tqdm:
            self._lines = Progress("evaluation", total, "batches")
            self._evaluated = 0

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # An evaluation during training shares the training's bar, which stays open.
        if self._bar_is_evaluations:
            self._close()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._close()

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        line = log_line(
            logs or {},
            self.terms,
            step=state.global_step,
            steps=state.max_steps,
            first=min(self._told + 1, state.global_step),
        )
        if line and state.is_world_process_zero:
            self._told = state.global_step
            tqdm.write(line, file=sys.stderr)

    def _open(self, args: Any, state: Any, total: int | None, what: str) -> bool:
        """Open a bar on the main process; return whether it is visible."""
        if not state.is_world_process_zero:
            return False
        # None: no bar if stderr is not a terminal.
        hidden = True if getattr(args, "disable_tqdm", False) else None
        self._bar = tqdm(
            total=total,
            desc=what,
            dynamic_ncols=True,
            leave=False,
            disable=hidden,
        )
        return not self._bar.disable

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None
        self._bar_is_evaluations = False
        self._lines = None


# The line reports all-right or all-wrong groups from this share on.
MOST_GROUPS = 0.5


def log_line(
    logs: Mapping[str, Any],
    terms: Sequence[str],
    *,
    step: int,
    steps: int,
    first: int | None = None,
) -> str:
    """Format TRL's log of a training step as one line; empty for other logs.

    TRL's figures are means over the steps `first` to `step`; by default over `step` alone. If every total is void, TRL
    has no mean for a term; then the term's mean score stands in brackets. Grader failures are shown as a share of one
    term's verdicts if only that term has failures, else as a share of all verdicts. Live groups of the rows that
    `learnable_rows` has drawn stand apart.

    Examples:
        >>> logs = {"reward": 0.5, "rewards/accuracy/mean": 0.5, "completions/mean_length": 12.0, "entropy": 0.82}
        >>> logs |= {"verified/groups/live": 0.25, "verified/groups/all_right": 0.625, "verified/void": 0.0}
        >>> logs |= {"verified/accuracy/unparseable": 0.12}
        >>> log_line(logs, ["accuracy"], step=10, steps=60, first=6)
        'steps 6-10/60 | reward 0.500 | accuracy 0.500 | live 25%, 62% all right | unparsed 12% | tokens 12.0 | H 0.82'
        >>> logs = {"reward": None, "verified/accuracy/score": 0.5, "verified/thinks/error": 1.0}
        >>> log_line(logs | {"verified/blame/grader": 0.5}, ["accuracy", "thinks"], step=10, steps=60)
        'step 10/60 | reward - | accuracy (0.500) | thinks - | grader failed 100% of thinks'
    """
    if "reward" not in logs:
        return ""
    parts = [_steps(first, step, steps), f"reward {_shown(logs['reward'])}"]
    for term in terms:
        parts.append(f"{term} {_value(logs, term)}")
    parts += _groups(logs)
    parts += _failures(logs, terms)
    tokens = logs.get("completions/mean_length")
    if tokens is not None:
        parts.append(f"tokens {tokens:.1f}")
    entropy = logs.get("entropy")
    if entropy is not None:
        # `z` writes -0.00, a rounded small number, as 0.00.
        parts.append(f"H {entropy:z.2f}")
    return " | ".join(parts)


def _steps(first: int | None, step: int, steps: int) -> str:
    if first in (None, step):
        return f"step {step}/{steps}"
    return f"steps {first}-{step}/{steps}"


def _value(logs: Mapping[str, Any], term: str) -> str:
    mean = logs.get(f"rewards/{term}/mean")
    score = logs.get(f"verified/{term}/score")
    if mean is None and score is not None:
        return f"({_shown(score)})"
    return _shown(mean)


def _groups(logs: Mapping[str, Any]) -> Iterator[str]:
    live = logs.get("verified/groups/live")
    if live is not None:
        yield f"live {live:.0%}{_most_others(logs)}"
    drawn_live = logs.get(DRAWN_LIVE)
    if drawn_live is not None:
        yield f"drawn rows {drawn_live:.0%}"


def _most_others(logs: Mapping[str, Any]) -> str:
    """Format the larger share of all-right or all-wrong groups, `, 62% all right`; empty below a half."""
    all_right = logs.get("verified/groups/all_right") or 0.0
    all_wrong = logs.get("verified/groups/all_wrong") or 0.0
    if max(all_right, all_wrong) < MOST_GROUPS:
        return ""
    if all_right >= all_wrong:
        return f", {all_right:.0%} all right"
    return f", {all_wrong:.0%} all wrong"


def _failures(logs: Mapping[str, Any], terms: Sequence[str]) -> Iterator[str]:
    """Yield shares of unparsed answers, grader failures, bad data and void rows, without zeros."""
    primary = terms[0] if terms else ""
    unparsed = logs.get(f"verified/{primary}/unparseable")
    if unparsed:
        yield f"unparsed {_percent(unparsed)}"
    if logs.get("verified/blame/grader"):
        yield f"grader failed {_grader(logs, terms)}"
    bad_data = logs.get("verified/blame/data")
    if bad_data:
        yield f"bad data {_percent(bad_data)} of verdicts"
    void = logs.get("verified/void")
    if void:
        yield f"void {_percent(void)} of completions"


def _grader(logs: Mapping[str, Any], terms: Sequence[str]) -> str:
    share = logs["verified/blame/grader"]
    failing = []
    for term in terms:
        is_shadow = logs.get(f"verified/{term}/weight") == 0
        if not is_shadow and logs.get(f"verified/{term}/error"):
            failing.append(term)
    if len(terms) > 1 and len(failing) == 1:
        [term] = failing
        errors = logs[f"verified/{term}/error"]
        # With fewer errors than failures, another term has failed too, with another status.
        if errors >= share:
            return f"{_percent(errors)} of {term}"
    return f"{_percent(share)} of verdicts"


def _percent(share: float) -> str:
    if share < 0.1:
        return f"{share:.1%}"
    return f"{share:.0%}"


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:z.3f}"


def keep_quiet(trainer: Any) -> None:
    """Remove all console callbacks from a trainer: transformers' and ours."""
    for console in (ProgressCallback, PrinterCallback, _ConsoleCallback):
        trainer.remove_callback(console)


def show_run(trainer: Any, *, full: bool) -> None:
    """Replace transformers' console by a line per log, and reduce the figures for trackers to the important ones.

    With `full`, console and trackers get all figures, and the console shows transformers' dicts.
    """
    _show_logs(trainer, full=full)
    if full:
        return
    keep_quiet(trainer)
    only_evaluated = []
    if trainer.mix is not None:
        only_evaluated = [term.name for term in trainer.mix.terms if term.only]
    trained = [name for name in trainer.reward_func_names if name not in only_evaluated]
    trainer.add_callback(_ConsoleCallback(trained))


SHOWN = ("compact", "full")
MOST = 40
# The figures of a compact log, among ours and TRL's. Figures with other names are the user's, and always shown.
OF_TERMS = r"verified/[^/]+/(unparseable|driver_share|fails_where_primary_passes)"
COMPACT = re.compile(
    OF_TERMS
    + r"|verified/(void|pass_at_1|answers/distinct|grader/share_of_step)"
    + r"|verified/blame/(grader|data)"
    + r"|verified/groups/(live|all_right|all_wrong)"
    + r"|verified/rows/(drawn_live|expected_rate|retired)"
    + r"|verified/noise/false_(rejects|accepts)"
    + r"|completions/(mean_length|clipped_ratio|tool_tokens)"
    + r"|rewards/.+/mean"
    + r"|clip_ratio/region_mean"
    + r"|sampling/sampling_logp_difference/mean"
)
DETAILED = re.compile(
    r"(verified|completions|rewards|clip_ratio|sampling)/.+|frac_reward_zero_std|total_flos"
)
# Left out of a compact log with more than MOST figures, which has many terms.
LEFT_OUT_FIRST = re.compile(OF_TERMS)


def shown_logs(logs: Mapping[str, Any], *, full: bool) -> dict[str, Any]:
    """Select the figures of a log to show: known figures, and without `full`, important figures and the user's own.

    If more than 40 figures remain, details of terms are dropped too.

    Examples:
        >>> logs = {"loss": 0.1, "kl": None, "verified/void": 0.0, "verified/math/kappa": 0.2, "mine": 1.0}
        >>> shown_logs(logs, full=False)
        {'loss': 0.1, 'verified/void': 0.0, 'mine': 1.0}
    """
    known = {key: value for key, value in logs.items() if value is not None}
    if full:
        return known
    compact = {key: value for key, value in known.items() if _is_compact(key)}
    if len(compact) <= MOST:
        return compact
    return {key: value for key, value in compact.items() if not _is_detail_of_term(key)}


def _is_compact(key: str) -> bool:
    name = key.removeprefix("eval_")
    is_users = not DETAILED.fullmatch(name)
    return is_users or COMPACT.fullmatch(name) is not None


def _is_detail_of_term(key: str) -> bool:
    return LEFT_OUT_FIRST.fullmatch(key.removeprefix("eval_")) is not None


class _ShownLogs(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """A callback that hides figures of a log from subsequent callbacks, up to `_AllLogs`."""

    def __init__(self, *, full: bool) -> None:
        self.full = full
        self.all: dict[str, Any] = {}

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any], **_: Any
    ) -> None:
        self.all = dict(logs)
        _replace(logs, shown_logs(logs, full=self.full))


class _AllLogs(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """A callback that restores the figures that `_ShownLogs` has removed."""

    def __init__(self, shown: _ShownLogs) -> None:
        self.shown = shown

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any], **_: Any
    ) -> None:
        _replace(logs, self.shown.all)


def _replace(logs: dict[str, Any], others: Mapping[str, Any]) -> None:
    # A copy, since `others` may be `logs` itself.
    others = dict(others)
    logs.clear()
    logs.update(others)


def _show_logs(trainer: Any, *, full: bool) -> None:
    """Hide figures from the trainer's present callbacks, the console and trackers; callbacks added later get all.

    transformers passes one dict to every callback, and `evaluate` returns it, so figures hidden from some callbacks are
    put back for the others.
    """
    shown = _ShownLogs(full=full)
    # First in the list, where `add_callback` cannot put it.
    trainer.callback_handler.callbacks.insert(0, shown)
    trainer.add_callback(_AllLogs(shown))
