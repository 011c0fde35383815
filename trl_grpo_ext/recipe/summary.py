"""A run's summary: time, evaluations before and after, `summary.json`, and the final table."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from transformers import TrainerCallback

from trl_grpo_ext.diagnostics.diagnosis import Diagnosis
from trl_grpo_ext.diagnostics.finding import Finding
from trl_grpo_ext.figures.batch_totals import BatchTotals
from trl_grpo_ext.figures.reduction import BatchFigures, reduce_card
from trl_grpo_ext.recipe.recipe import Recipe
from trl_grpo_ext.runs.listener import RunListener
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Interval
from trl_grpo_ext.support.printer import WholeTable, print_lines
from trl_grpo_ext.support.version import versions


class Stopwatch:
    """A counter of wall time in seconds by name, in order of first use.

    Examples:
        >>> stopwatch = Stopwatch({})
        >>> with stopwatch.part("training"):
        ...     pass
        >>> list(stopwatch.seconds)
        ['training']
    """

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the time spent inside the block to `name`; time of nested parts counts only there."""
        started = time.perf_counter()
        counted = sum(self.seconds.values())
        try:
            yield
        finally:
            of_nested_parts = sum(self.seconds.values()) - counted
            own = time.perf_counter() - started - of_nested_parts
            self.seconds[name] = self.seconds.get(name, 0.0) + own


def evaluate(trainer: Any) -> BatchTotals:
    """Run TRL's `trainer.evaluate()` and summarize its batches; call it on every rank.

    Ranks other than the main rank see no scorecards, and return an empty evaluation.
    """
    passed = _Pass()
    with trainer.run_callback.also_telling(passed):
        trainer.evaluate()
    return BatchTotals(passed.batches)


def evaluation_size(trainer: Any) -> str:
    """Describe the number of completions, prompts and batches; an evaluation may print nothing else for minutes."""
    if not hasattr(trainer.eval_dataset, "__len__"):
        return ""
    prompts = len(trainer.eval_dataset)
    completions = prompts * int(trainer.num_generations_eval)
    at_once = trainer.args.per_device_eval_batch_size * trainer.args.world_size
    batches = math.ceil(completions / at_once)
    plural = "es" if batches > 1 else ""
    return f": {completions:,} completions of {prompts:,} prompts, in {batches:,} batch{plural}"


class Opening(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """A callback that evaluates before training and keeps the result in `found`."""

    def __init__(self, evaluation: Callable[[], BatchTotals | None]) -> None:
        self._evaluation = evaluation
        self.found: BatchTotals | None = None

    def begin(self, trainer: Any, *, resumes: bool) -> None:
        """Evaluate now; for a new run with a sharded model, evaluate when training begins."""
        # A resumed run has this evaluation on record.
        if is_sharded(trainer) and not resumes:
            trainer.add_callback(self)
        else:
            self.found = self._evaluation()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.found = self._evaluation()


def is_sharded(trainer: Any) -> bool:
    """Say whether training shards the model; FSDP2 and ZeRO 2 cannot evaluate a model before training prepares it."""
    return bool(trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled)


def recorded_evaluation(trainer: Any) -> BatchTotals | None:
    """Summarize the evaluation from before the first step, recorded by an earlier session; None if incomplete."""
    rows = trainer.eval_dataset
    # A stream does not tell whether its evaluation was complete.
    if not isinstance(rows, Sized):
        return None
    wanted = len(rows) * int(trainer.num_generations_eval)
    cards = (
        card
        for card in RecordedRun(trainer.args.output_dir).cards("eval")
        # Later evaluations, during training, have the step at which they were made.
        if card.step == 0
    )
    found = BatchTotals([reduce_card(card, {}) for card in cards])
    # An evaluation that was interrupted has fewer completions.
    return found if found.completions == wanted else None


class _Pass(RunListener):
    """A listener that collects figures of evaluation batches."""

    def __init__(self) -> None:
        self.batches: list[BatchFigures] = []

    def on_batch(self, card: Scorecard, figures: BatchFigures | None) -> None:
        if card.mode == "eval":
            self.batches.append(figures or reduce_card(card, {}))


class TrainingTally(RunListener):
    """A listener that counts training completions, void completions, and causes of missing scores of terms in force."""

    def __init__(self) -> None:
        self.completions = 0
        self.void = 0
        self._reasons: Counter[tuple[str, str, str]] = Counter()

    def on_batch(self, card: Scorecard, figures: BatchFigures | None) -> None:
        if card.mode != "train":
            return
        self.completions += len(card)
        self.void += sum(card.void)
        for term in card.in_force:
            for verdict in card.verdicts[term]:
                if verdict is not None and verdict.score is None:
                    self._reasons[term, str(verdict.blame), verdict.reason] += 1

    @property
    def nothing_learned(self) -> str | None:
        """Return a sentence with the most frequent reason if no completion could be judged; else None."""
        if not self.completions or self.void < self.completions:
            return None
        sentence = f"None of the {self.completions} completions could be judged"
        if not self._reasons:
            return f"{sentence}: no reward in force applies to any."
        [(cause, count)] = self._reasons.most_common(1)
        term, blame, reason = cause
        return f"{sentence}: mostly `{reason}` of `{term}` ({count}), the {blame}'s fault."


def summarise_run(
    recipe: Recipe,
    *,
    steps: int,
    seconds: Mapping[str, float],
    before: BatchTotals | None,
    after: BatchTotals | None,
    facts: Mapping[str, Mapping[str, str]],
    halted_by: Finding | None = None,
    nothing_learned: str | None = None,
    diagnosis: Diagnosis | None = None,
) -> dict[str, Any]:
    """Build the content of `summary.json`: plain JSON values, null for missing measurements.

    `accuracy` holds the first term with weight, `terms` all terms. Each has `before` and `after`, with `mean`, `low`
    and `high`. `facts` holds facts about a term's verifier, such as the isolation of programs. `halted_by` has `code`,
    `step` and `sentence` of the finding that ended the run; null if none did. `nothing_learned` gives the reason if no
    training completion could be judged; null otherwise. `sentence` is the diagnosis and `score` its figures; null
    without a diagnosis. `seconds` is the time of the whole run, `seconds_by_part` the time of its parts.
    """
    terms = {
        term.name: _before_after(term.name, before, after) for term in recipe.mix.terms
    }
    primary = next(term.name for term in recipe.mix.terms if not term.is_shadow)
    # Both evaluations have the same rows and the same number of completions.
    measured = after or before
    return {
        "recipe": recipe.name,
        "model": recipe.model.model_name_or_path,
        "dataset": recipe.data.dataset_name,
        "seed": recipe.training.seed,
        "steps": steps,
        "halted_by": _halt(halted_by),
        "nothing_learned": nothing_learned,
        **_diagnosed(diagnosis),
        "versions": versions(),
        "facts": dict(facts),
        "primary_term": primary,
        "accuracy": terms[primary],
        "terms": terms,
        "tokens": _pair(before and before.tokens, after and after.tokens),
        "prompts": measured.prompts if measured else None,
        "completions": measured.completions if measured else None,
        "void": _pair(before and before.void, after and after.void),
        "seconds": round(sum(seconds.values()), 2),
        "seconds_by_part": {part: round(value, 2) for part, value in seconds.items()},
    }


def _halt(finding: Finding | None) -> dict[str, Any] | None:
    if finding is None:
        return None
    return {"code": finding.code, "step": finding.step, "sentence": finding.sentence}


def _diagnosed(diagnosis: Diagnosis | None) -> dict[str, Any]:
    if diagnosis is None:
        return {"sentence": None, "score": None}
    score = {where: ends.to_record() for where, ends in diagnosis.score.items()}
    return {"sentence": diagnosis.sentence, "score": score}


def print_summary(
    summary: Mapping[str, Any],
    folder: str | os.PathLike[str] | None,
    *,
    reshaped: bool,
) -> None:
    """Print scores before and after training with intervals, completion lengths and times.

    `folder` is the output folder; None for a run that keeps no files. `reshaped` says that a term has a gate or a
    shape, so its scores differ from the values printed during training.
    """
    table = WholeTable(
        title=f"{summary['recipe']}: {summary['steps']} steps, seed {summary['seed']}",
        title_justify="left",
    )
    table.add_column("held out")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    for name, measured in summary["terms"].items():
        table.add_row(name, _shown(measured["before"]), _shown(measured["after"]))
    tokens = summary["tokens"]
    table.add_row(
        "tokens a completion", _number(tokens["before"]), _number(tokens["after"])
    )
    console = Console()
    if summary["prompts"]:
        console.print(table)
        before = "scores before gates and shapes; " if reshaped else ""
        size = f"{summary['prompts']} prompts, {summary['completions']} completions"
        print_lines(console, [f"{size}; {before}in brackets, 95 % intervals."])
    parts = ", ".join(
        f"{part} {value:.0f}" for part, value in summary["seconds_by_part"].items()
    )
    kept = (
        ""
        if folder is None
        else f" Model, scorecards, report.html and summary.json: {folder}"
    )
    print_lines(console, [f"{summary['seconds']:.0f} seconds ({parts}).{kept}"])
    halt = summary["halted_by"]
    if halt:
        by = f"by the finding {halt['code']} (halt_on)"
        print_lines(console, [f"Halted after step {summary['steps']} {by}."])


def _before_after(
    term: str, before: BatchTotals | None, after: BatchTotals | None
) -> dict[str, Any]:
    return {"before": _measured(term, before), "after": _measured(term, after)}


def _measured(term: str, evaluation: BatchTotals | None) -> dict[str, float] | None:
    interval = None if evaluation is None else evaluation.scores(term)
    return None if interval is None else interval.to_record()


def _pair(before: Any, after: Any) -> dict[str, Any]:
    return {"before": before, "after": after}


def _shown(measured: Mapping[str, float] | None) -> str:
    if measured is None:
        return "not measured"
    return str(Interval(**measured))


def _number(value: float | None) -> str:
    if value is None:
        return "not measured"
    return f"{value:.1f}"
