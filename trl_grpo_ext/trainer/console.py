"""What people see of a run: a progress bar, a line a logging step, and the figures that trackers get."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tqdm import tqdm
from transformers import PrinterCallback, ProgressCallback, TrainerCallback
from transformers.trainer_utils import has_length

from trl_grpo_ext.support.progress import Progress

# Name, metric, and what it is a share of; shown if it is not 0.
SHARES = (("bad data", "verified/blame/data", "verdicts"), ("void", "verified/void", "completions"))


class _ConsoleCallback(TrainerCallback):  # type: ignore[misc]  # transformers' callbacks are untyped here
    """Shows how far the run is and what its rewards are. Plain lines, without bars, when not on a terminal."""

    def __init__(self, terms: Sequence[str]) -> None:
        self.terms = tuple(terms)
        self._told = 0  # the step of the line before
        self._bar: tqdm[Any] | None = None
        self._bar_is_evaluations = False
        self._lines: Progress | None = None  # of an evaluation, where stderr is no terminal
        self._evaluated = 0  # batches

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._told = state.global_step
        self._open(args, state, state.max_steps, "training")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._bar is None:
            self._bar_is_evaluations = True
            batches: Any = kwargs.get("eval_dataloader")
            total = len(batches) if has_length(batches) else None  # a stream's loader has a length that fails
            has_bar = self._open(args, state, total, "evaluation")
            if total is not None and not has_bar and not args.disable_tqdm:
                self._lines, self._evaluated = Progress("evaluation", total, "batches"), 0
        if self._bar is not None and self._bar_is_evaluations:
            self._bar.update(1)
            self._evaluated += 1
            if self._lines is not None:
                self._lines.show(self._evaluated)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._bar_is_evaluations:  # not that of the training that it interrupts
            self._close()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._close()

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        first = min(self._told + 1, state.global_step)
        line = log_line(logs or {}, self.terms, step=state.global_step, steps=state.max_steps, first=first)
        if line and state.is_world_process_zero:
            self._told = state.global_step
            tqdm.write(line, file=sys.stderr)

    def _open(self, args: Any, state: Any, total: int | None, what: str) -> bool:
        """Begin a bar on the main process; whether it shows."""
        if not state.is_world_process_zero:
            return False
        # None: no bar if stderr is not a terminal.
        hidden = True if getattr(args, "disable_tqdm", False) else None
        self._bar = tqdm(total=total, desc=what, dynamic_ncols=True, leave=False, disable=hidden)
        return not self._bar.disable

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar, self._bar_is_evaluations, self._lines = None, False, None


MOST_GROUPS = 0.5  # of the groups: what so many are is told


def log_line(logs: Mapping[str, Any], terms: Sequence[str], *, step: int, steps: int, first: int | None = None) -> str:
    """One line for what TRL logs at a training step; empty for logs of another kind.

    TRL's figures are means over the steps since it logged before: those from `first` on, by default the last alone.
    Where a term has judged but every total is void, so that TRL has no mean, its mean score stands in brackets. A
    grader's failures are those of the one term that has all of them, or the share among all verdicts.

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
    parts = [f"step {step}/{steps}" if first in (None, step) else f"steps {first}-{step}/{steps}"]
    parts += [f"reward {_shown(logs['reward'])}"]
    parts += [f"{term} {_value(logs, term)}" for term in terms]
    if logs.get("verified/groups/live") is not None:
        parts.append(f"live {logs['verified/groups/live']:.0%}{_most_others(logs)}")
    if terms and logs.get(f"verified/{terms[0]}/unparseable"):
        parts.append(f"unparsed {_percent(logs[f'verified/{terms[0]}/unparseable'])}")
    if logs.get("verified/blame/grader"):
        parts.append(f"grader failed {_grader(logs, terms)}")
    parts += [f"{name} {_percent(logs[key])} of {whole}" for name, key, whole in SHARES if logs.get(key)]
    if logs.get("completions/mean_length") is not None:
        parts.append(f"tokens {logs['completions/mean_length']:.1f}")
    if logs.get("entropy") is not None:
        parts.append(f"H {logs['entropy']:z.2f}")
    return " | ".join(parts)


def _most_others(logs: Mapping[str, Any]) -> str:
    """Whether half of the groups or more are all right, or all wrong; empty otherwise."""
    shares = {kind: logs.get(f"verified/groups/{kind}") or 0.0 for kind in ("all_right", "all_wrong")}
    kind = max(shares, key=shares.__getitem__)
    return f", {shares[kind]:.0%} {kind.replace('_', ' ')}" if shares[kind] >= MOST_GROUPS else ""


def _value(logs: Mapping[str, Any], term: str) -> str:
    mean, score = logs.get(f"rewards/{term}/mean"), logs.get(f"verified/{term}/score")
    return f"({_shown(score)})" if mean is None and score is not None else _shown(mean)


def _grader(logs: Mapping[str, Any], terms: Sequence[str]) -> str:
    share = logs["verified/blame/grader"]
    in_force = (term for term in terms if logs.get(f"verified/{term}/weight") != 0)
    failing = {term: errors for term in in_force if (errors := logs.get(f"verified/{term}/error"))}
    if len(terms) > 1 and len(failing) == 1:
        ((term, errors),) = failing.items()
        if errors >= share:  # otherwise another term has failed too, in another way
            return f"{_percent(errors)} of {term}"
    return f"{_percent(share)} of verdicts"


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:z.3f}"


def keep_quiet(trainer: Any) -> None:
    """Take the console from a trainer, transformers' or ours."""
    for console in (ProgressCallback, PrinterCallback, _ConsoleCallback):
        trainer.remove_callback(console)


def show_run(trainer: Any, *, full: bool) -> None:
    """Show a run: trackers get the figures to look at, and the console a line in the place of transformers' dicts.

    With `full`, both get all figures, the console in dicts.
    """
    _show_logs(trainer, full=full)
    if full:
        return
    keep_quiet(trainer)
    only_evaluated = [term.name for term in trainer.mix.terms if term.only] if trainer.mix else []
    trainer.add_callback(_ConsoleCallback([name for name in trainer.reward_func_names if name not in only_evaluated]))


SHOWN = ("compact", "full")
MOST = 40
# Of our figures and TRL's, those that a compact log has; figures by other names are the user's, and always shown.
OF_TERMS = r"verified/[^/]+/(unparseable|driver_share|fails_where_primary_passes)"
COMPACT = re.compile(
    OF_TERMS
    + r"|verified/(void|pass_at_1|answers/distinct|grader/share_of_step)"
    + r"|verified/blame/(grader|data)"
    + r"|verified/groups/(live|all_right|all_wrong)"
    + r"|verified/noise/false_(rejects|accepts)"
    + r"|completions/(mean_length|clipped_ratio|tool_tokens)"
    + r"|rewards/.+/mean"
    + r"|clip_ratio/region_mean"
    + r"|sampling/sampling_logp_difference/mean"
)
DETAILED = re.compile(r"(verified|completions|rewards|clip_ratio|sampling)/.+|frac_reward_zero_std|total_flos")
LEFT_OUT_FIRST = re.compile(OF_TERMS)  # of many terms


def shown_logs(logs: Mapping[str, Any], *, full: bool) -> dict[str, Any]:
    """Return the known figures of a log; of a compact one, those to look at, 40 if there are no more by other names.

    Examples:
        >>> logs = {"loss": 0.1, "kl": None, "verified/void": 0.0, "verified/math/kappa": 0.2, "mine": 1.0}
        >>> shown_logs(logs, full=False)
        {'loss': 0.1, 'verified/void': 0.0, 'mine': 1.0}
    """
    known = {key: value for key, value in logs.items() if value is not None}
    if full:
        return known
    compact = {key: value for key, value in known.items() if _is_compact(key.removeprefix("eval_"))}
    if len(compact) <= MOST:
        return compact
    return {key: value for key, value in compact.items() if not LEFT_OUT_FIRST.fullmatch(key.removeprefix("eval_"))}


def _is_compact(key: str) -> bool:
    return bool(COMPACT.fullmatch(key)) or not DETAILED.fullmatch(key)


class _ShownLogs(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """Takes what is not shown out of a log, for the callbacks after it, up to `_AllLogs`."""

    def __init__(self, *, full: bool) -> None:
        self.full = full
        self.all: dict[str, Any] = {}

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **_: Any) -> None:
        self.all = dict(logs)
        _replace(logs, shown_logs(logs, full=self.full))


class _AllLogs(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """Puts back what `_ShownLogs` has taken out."""

    def __init__(self, shown: _ShownLogs) -> None:
        self.shown = shown

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **_: Any) -> None:
        _replace(logs, self.shown.all)


def _replace(logs: dict[str, Any], others: Mapping[str, Any]) -> None:
    others = dict(others)
    logs.clear()
    logs.update(others)


def _show_logs(trainer: Any, *, full: bool) -> None:
    """Have the callbacks that a trainer has so far, its console and its trackers, get what is shown.

    Checks, recorder and callbacks that are added later get all. transformers hands every callback the same dict, which
    `evaluate` returns, so what is taken out of it for some callbacks is put back for the others.
    """
    shown = _ShownLogs(full=full)
    trainer.callback_handler.callbacks.insert(0, shown)  # `add_callback` puts one last
    trainer.add_callback(_AllLogs(shown))
