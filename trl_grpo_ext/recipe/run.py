"""Run a recipe: load data, build the trainer, evaluate, train, evaluate again, save and summarize."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
import trl
from accelerate.utils import set_seed
from huggingface_hub.errors import HFValidationError
from trl import get_peft_config

from trl_grpo_ext.diagnostics.diagnosis import Diagnosis, diagnose
from trl_grpo_ext.diagnostics.finding import FILE as FINDINGS
from trl_grpo_ext.diagnostics.printed import print_diagnosis
from trl_grpo_ext.figures.batch_totals import BatchTotals
from trl_grpo_ext.mix.data_check import (
    EnvironmentCheck,
    FileLines,
    RowCheck,
    VerifierFailure,
    check_rows,
    describe,
    try_verifiers,
)
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.outcome import Outcome
from trl_grpo_ext.recipe.data import load_data
from trl_grpo_ext.recipe.file_lines import file_lines
from trl_grpo_ext.recipe.hub import check_hub_takes_models
from trl_grpo_ext.recipe.model import model_arguments, model_error, set_model_arguments
from trl_grpo_ext.recipe.recipe import Recipe
from trl_grpo_ext.recipe.summary import (
    Opening,
    Stopwatch,
    TrainingTally,
    evaluate,
    evaluation_size,
    is_sharded,
    print_summary,
    recorded_evaluation,
    summarise_run,
)
from trl_grpo_ext.runs.listener import SUMMARY
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.support.files import claim, set_aside, write_json
from trl_grpo_ext.trainer.config import VerifiedGRPOConfig
from trl_grpo_ext.trainer.guarded import environment_rows, untouched_outcomes
from trl_grpo_ext.trainer.preflight import check_writable
from trl_grpo_ext.trainer.ranks import ask_main
from trl_grpo_ext.trainer.report_listener import one_last_report
from trl_grpo_ext.trainer.verified_grpo import VerifiedGRPOTrainer

logger = logging.getLogger(__name__)

# Time limit in seconds for checking a split before training; `trl-grpo-ext check-data` takes longer.
CHECK_SECONDS = 20.0
_CHECKPOINT = re.compile(r"checkpoint-\d+")
# Files that `save_model` writes: weights, and all that belongs to them.
_WEIGHTS = ("adapter_*", "model*.safetensors*", "pytorch_model*.bin*")
_BESIDE_WEIGHTS = (
    "config.json",
    "generation_config.json",
    "training_args.bin",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "chat_template*",
    "*processor_config.json",
)
# Rows of the training split whose reference solutions are tried too.
TRIED_ROWS = 8


def make_trainer(recipe: Recipe) -> RecipeTrainer:
    """Load a recipe's data and model, build its trainer, and check the data.

    Raises:
        ValueError, OSError: for unusable data, columns, folders or models, or a verifier that fails on all tried rows.
    """
    # Settings first: they are checked in no time, and data and model may take minutes to load.
    _check_is_unfinished(recipe.training)
    check_hub_takes_models(recipe.training.push_to_hub)
    set_up(recipe)
    splits = load_data(recipe.data)
    test = splits.get(recipe.data.dataset_test_split)
    wants_test = (
        recipe.data.evaluate_before_and_after or recipe.training.eval_strategy != "no"
    )
    if wants_test and test is None:
        raise ValueError(
            f"The dataset {recipe.data.dataset_name!r} has no split {recipe.data.dataset_test_split!r} to evaluate on; "
            f"set dataset_test_split, or evaluate_before_and_after: false."
        )
    _check_size(recipe.training, splits[recipe.data.dataset_train_split])
    trainer = build_trainer(
        recipe,
        train_dataset=splits[recipe.data.dataset_train_split],
        eval_dataset=test if wants_test else None,
        peft_config=get_peft_config(recipe.model),
        check_data=partial(_check_data, recipe),
    )
    # With records, `_listen` has set the earlier run aside before the recorder opened its files.
    if not recipe.training.record_scorecards:
        _set_earlier_run_aside(recipe.training, trainer.model)
    return trainer


def _check_is_unfinished(training: VerifiedGRPOConfig) -> None:
    """Refuse to resume a run from its last step: transformers would train one step more."""
    checkpoint = training.resume_from_checkpoint
    state = Path(checkpoint or "") / "trainer_state.json"
    if checkpoint is None or training.max_steps < 1 or not state.is_file():
        return
    step = json.loads(state.read_text(encoding="utf-8")).get("global_step", 0)
    if step >= training.max_steps:
        raise ValueError(
            f"The checkpoint {checkpoint!r} is at step {step} of {training.max_steps}, so nothing is left to train. "
            f"For more steps, set max_steps higher. To measure it: trl-grpo-ext eval --model {checkpoint} --config ..."
        )


def _check_size(training: VerifiedGRPOConfig, rows: Any) -> None:
    """Refuse training data with fewer rows than a generation batch has prompts: TRL drops incomplete batches."""
    # Both counts are of completions: those of a batch, and those of a prompt.
    prompts = training.generation_batch_size // training.num_generations
    if hasattr(rows, "__len__") and len(rows) < prompts:
        raise ValueError(
            f"The data has {len(rows)} rows to train on, and TRL generates for {prompts} prompts at a time, so not one "
            f"step would be trained. Make the batch smaller: per_device_train_batch_size, gradient_accumulation_steps."
        )


def set_up(recipe: Recipe) -> None:
    """Prepare process settings and model arguments; raise an OSError if the output folder cannot be written."""
    # In a log file, each update of a progress bar would become a line.
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
        transformers.logging.disable_progress_bar()
    on_cpu = recipe.training.use_cpu or not torch.cuda.is_available()
    _set_threads(recipe.data.torch_threads, on_cpu=on_cpu)
    check_writable(recipe.training.output_dir)
    set_model_arguments(recipe)


def _set_threads(threads: int | None, *, on_cpu: bool) -> None:
    if threads is not None:
        torch.set_num_threads(threads)
    elif on_cpu and torch.get_num_threads() > 1:
        logger.warning(
            "The model runs on the CPU, in %d threads. Where other programs use it too, they wait for each other, and "
            "a step can take many times as long: torch_threads: 1 avoids that.",
            torch.get_num_threads(),
        )


def build_trainer(
    recipe: Recipe,
    kind: type[RecipeTrainer] | None = None,
    **arguments: Any,
) -> RecipeTrainer:
    """Build a trainer with a recipe's rewards and settings, after `set_up`.

    `arguments` are further arguments of the trainer, such as `train_dataset`. A `kind` other than the default only
    evaluates, so adapters are loaded without gradients.

    Raises:
        ValueError, OSError: for unusable data, columns or models.
    """
    made = kind or RecipeTrainer
    try:
        arguments |= model_arguments(recipe, trains=kind is None)
        arguments |= recipe.agent
        trainer = made(reward_funcs=recipe.mix, args=recipe.training, **arguments)
    # For a name such as `my model`, no folder and no valid name on the Hub, HFValidationError is raised.
    except (OSError, HFValidationError) as error:
        raise model_error(
            str(recipe.model.model_name_or_path), error, "model_name_or_path"
        ) from error
    # TRL 1.6 raises this for streamed data, for example.
    except NotImplementedError as error:
        raise ValueError(f"TRL {trl.__version__} says: {error}") from error
    return trainer


def run_recipe(
    recipe: Recipe, trainer: RecipeTrainer, loading: float, *, keeps: bool = True
) -> dict[str, Any]:
    """Evaluate, train, evaluate again and save; return the content of `summary.json`.

    `loading` is the time in seconds spent on `make_trainer`, which has checked the data too. `keeps` is False for a dry
    run, whose files are deleted. A run ended by `halt_on` is not evaluated again: its policy may be unable to generate.
    """
    checking = trainer.checking_seconds
    stopwatch = Stopwatch({"loading": loading - checking, "checking data": checking})
    facts = _facts(recipe.mix)
    _announce_facts(trainer, facts)
    opening = Opening(partial(_measure, recipe, trainer, stopwatch, "before training"))
    opening.begin(trainer, resumes=bool(recipe.training.resume_from_checkpoint))
    with one_last_report(trainer):
        tally = _train(recipe, trainer, stopwatch)
        after = None
        if not trainer.run_callback.has_halted:
            after = _measure(recipe, trainer, stopwatch, "after training")
    with stopwatch.part("saving"):
        unsaved = _save(recipe, trainer)
    diagnosis = _diagnosis(recipe) if trainer.accelerator.is_main_process else None
    summary = summarise_run(
        recipe,
        steps=trainer.state.global_step,
        seconds=stopwatch.seconds,
        before=opening.found,
        after=after,
        facts=facts,
        halted_by=trainer.run_callback.halted_by,
        nothing_learned=tally.nothing_learned,
        diagnosis=diagnosis,
    )
    if trainer.accelerator.is_main_process:
        _conclude(recipe, summary, diagnosis, keeps=keeps)
        trainer.run_callback.tell(lambda listener: listener.on_summary(summary))
    _close(recipe, trainer)
    if unsaved is not None:
        raise RuntimeError(
            f"The model could not be saved to {recipe.training.output_dir}: {unsaved}"
        ) from unsaved
    return summary


def _facts(mix: RewardMix) -> dict[str, Mapping[str, str]]:
    """Collect facts about verifiers, such as the isolation of programs, by term."""
    facts: dict[str, Mapping[str, str]] = {}
    for term, verifier in mix.verifiers:
        found = verifier.facts()
        if found:
            facts[term.name] = found
    return facts


def _announce_facts(
    trainer: VerifiedGRPOTrainer, facts: Mapping[str, Mapping[str, str]]
) -> None:
    for term, found in facts.items():
        told = ", ".join(f"{name} {fact}" for name, fact in found.items())
        announce(trainer, f"{term}: {told}")


def _save(recipe: Recipe, trainer: VerifiedGRPOTrainer) -> Exception | None:
    """Save the model; return the exception if saving fails, so that the summary is written first."""
    # With sharded checkpoints, transformers would save no whole model at the end.
    if trainer.is_fsdp_enabled:
        trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
    try:
        trainer.save_model(recipe.training.output_dir)
    # On a full disk, safetensors raises an exception of its own.
    except Exception as error:
        return error
    return None


class RecipeTrainer(VerifiedGRPOTrainer):
    """A trainer that renames an earlier run's files after all loading and checks: a failed start changes nothing.

    Args:
        check_data: A check of the loaded rows, or None; an error that it raises ends the start.

    Attributes:
        checking_seconds: Time in seconds spent in `check_data`.
    """

    def __init__(
        self,
        *args: Any,
        check_data: Callable[[VerifiedGRPOTrainer], None] | None = None,
        **kwargs: Any,
    ) -> None:
        self._check_data = check_data
        self.checking_seconds = 0.0
        super().__init__(*args, **kwargs)

    def _listen(self, args: Any) -> None:
        if self._check_data is not None:
            began = time.perf_counter()
            self._check_data(self)
            self.checking_seconds = time.perf_counter() - began
        if args.record_scorecards:
            _set_earlier_run_aside(args, self.model)
        super()._listen(args)

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Warn of missing weights as transformers does, except of tied weights: a checkpoint stores these only once."""
        tied = getattr(self.model, "all_tied_weights_keys", ())
        missing = [key for key in load_result.missing_keys if key not in tied]
        super()._issue_warnings_after_load(load_result._replace(missing_keys=missing))


def _set_earlier_run_aside(training: VerifiedGRPOConfig, model: Any) -> None:
    # The main rank alone renames: all ranks have the same folder.
    if training.process_index:
        return
    Path(training.output_dir).mkdir(parents=True, exist_ok=True)
    # A resumed run claims its folder as well: two runs in one folder would mix their records.
    claim(training.output_dir)
    if training.resume_from_checkpoint:
        return
    folder = Path(training.output_dir)
    # A later `resume_from_checkpoint: true` would take up a checkpoint of the earlier run.
    checkpoints = [
        path for path in sorted(folder.iterdir()) if _CHECKPOINT.fullmatch(path.name)
    ]
    for recorded in (folder / "scorecards", folder / FINDINGS, *checkpoints):
        set_aside(recorded)
    # An adapter of this run has to find its base model where it was loaded from.
    is_base = Path(getattr(model.config, "_name_or_path", "")).resolve() == folder.resolve()
    if not is_base:
        _set_model_aside(folder)


def _set_model_aside(folder: Path) -> None:
    """Move an earlier run's saved model into a folder `saved_model.1`, or with the next free number.

    A new model would overwrite it, or, if one of the two is an adapter, lie beside it: loaders then take the adapter.
    """
    weights = _files(folder, _WEIGHTS)
    if not weights:
        return
    model = folder / "saved_model"
    model.mkdir(exist_ok=True)
    for path in (*weights, *_files(folder, _BESIDE_WEIGHTS)):
        path.rename(model / path.name)
    set_aside(model)


def _files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """List a folder's files whose names match a pattern."""
    found: list[Path] = []
    for pattern in patterns:
        found += filter(Path.is_file, folder.glob(pattern))
    return found


def _measure(
    recipe: Recipe,
    trainer: VerifiedGRPOTrainer,
    stopwatch: Stopwatch,
    when: str,
) -> BatchTotals | None:
    """Evaluate on the test split if the recipe asks for it; a resumed run reuses its recorded opening evaluation."""
    if not recipe.data.evaluate_before_and_after:
        return None
    if when == "before training" and recipe.training.resume_from_checkpoint:
        earlier = None
        if recipe.training.record_scorecards and trainer.accelerator.is_main_process:
            earlier = recorded_evaluation(trainer)
        # All ranks evaluate, or none does: the main rank, which alone reads the records, decides for all.
        if ask_main(trainer.accelerator, lambda: int(earlier is not None)):
            return earlier
        if is_sharded(trainer):
            announce(
                trainer,
                "not evaluated before training: in shards, the model is there once its checkpoint is",
            )
            return None
        when = "before training, without the checkpoint"
    announce(trainer, f"evaluating {when}{evaluation_size(trainer)} ...")
    # Start from the trainer's seed as `trl-grpo-ext eval` does: equal inputs then give equal figures.
    set_seed(recipe.training.seed, device_specific=True)
    with stopwatch.part(f"evaluating {when.partition(' ')[0]}"):
        return evaluate(trainer)


def _train(
    recipe: Recipe, trainer: VerifiedGRPOTrainer, stopwatch: Stopwatch
) -> TrainingTally:
    announce(trainer, "training ...")
    tally = TrainingTally()
    trainer.run_callback.listeners.append(tally)
    with stopwatch.part("training"):
        trainer.train(resume_from_checkpoint=recipe.training.resume_from_checkpoint)
    return tally


def _conclude(
    recipe: Recipe,
    summary: Mapping[str, Any],
    diagnosis: Diagnosis | None,
    *,
    keeps: bool,
) -> None:
    """Write `summary.json`, then print summary, diagnosis and the output folder."""
    folder = Path(recipe.training.output_dir)
    write_json(folder / SUMMARY, summary)
    reshaped = any(term.gate or term.shapes for term in recipe.mix.terms)
    print_summary(summary, folder if keeps else None, reshaped=reshaped)
    if diagnosis is not None:
        print_diagnosis(diagnosis, short=True)
    if summary["nothing_learned"]:
        verdicts = f" {folder / 'scorecards'} has every verdict." if keeps else ""
        logger.error("Nothing was learned. %s%s", summary["nothing_learned"], verdicts)


def _close(recipe: Recipe, trainer: VerifiedGRPOTrainer) -> None:
    recipe.mix.close()
    if recipe.training.push_to_hub:
        # A model card has room for a single dataset name.
        dataset_name = None if recipe.data.datasets else recipe.data.dataset_name
        trainer.push_to_hub(dataset_name=dataset_name)
    # A launcher ends all ranks once a rank exits with an error, and the main rank writes longest.
    trainer.accelerator.wait_for_everyone()
    # Newer versions of transformers close trackers and the process group here.
    if hasattr(trainer, "end"):
        trainer.end()


def _diagnosis(recipe: Recipe) -> Diagnosis | None:
    """Diagnose the finished run; return None, never raise, if it has no record or the diagnosis fails."""
    if not recipe.training.record_scorecards:
        return None
    try:
        return diagnose(RecordedRun(recipe.training.output_dir), most_examples=0)
    # The run is trained and saved by now: a failed diagnosis must not end it with an error.
    except Exception:
        logger.warning("The run could not be diagnosed.", exc_info=True)
        return None


def announce(trainer: VerifiedGRPOTrainer, what: str) -> None:
    """Print the next step to stderr, on the main process."""
    if trainer.accelerator.is_main_process:
        print(what, file=sys.stderr, flush=True)


def _check_data(recipe: Recipe, trainer: VerifiedGRPOTrainer) -> None:
    """Warn of rows that verifiers cannot judge: they cost generation time and teach nothing.

    Raises:
        ValueError: if a verifier with a weight fails on everything that was tried.
    """
    # A stream gives no row by its number, and checks ask for rows by number.
    if not trainer.accelerator.is_main_process or recipe.data.dataset_streaming:
        return
    _check_split(
        recipe,
        recipe.data.dataset_train_split,
        trainer.train_dataset,
        is_train=True,
    )
    if trainer.eval_dataset is not None:
        _check_split(
            recipe,
            recipe.data.dataset_test_split,
            trainer.eval_dataset,
            is_train=False,
        )


def _check_split(recipe: Recipe, where: str, dataset: Any, *, is_train: bool) -> None:
    lines = file_lines(recipe.data, where, dataset)
    factory = recipe.agent.get("environment_factory")
    outcome = untouched_outcomes(factory, dataset)[-1]
    for failure in try_verifiers(
        recipe.mix, dataset, outcome, prompt_column=recipe.data.prompt_column
    ):
        # A failure on test rows costs figures and no training, so it is only a warning.
        if is_train:
            _refuse_useless(recipe.mix, failure)
        logger.warning("%s", failure.describe(where, lines))
    environments = environment_rows(factory).check
    check = check_rows(
        recipe.mix, dataset, at_most_seconds=CHECK_SECONDS, environments=environments
    )
    if check.problems:
        logger.warning("%s", describe(check, rows=len(dataset), where=where, lines=lines))
    if is_train:
        _try_references(
            recipe.mix, dataset, check, lines, outcome=outcome, environments=environments
        )


def _refuse_useless(mix: RewardMix, failure: VerifierFailure) -> None:
    """Refuse a useless verifier: all tried rows stay without a verdict, and the term has a weight.

    Raises:
        ValueError: if the failure's term has a weight, and its verifier fails on everything that was tried.
    """
    term = next(term for term in mix.terms if term.name == failure.term)
    if failure.always and not term.is_shadow:
        raise ValueError(
            f"The verifier of {failure.term!r} fails on all that was tried (the first rows of train, each with its "
            f"gold answer and with a text that has none), so no row would have a verdict: {failure.error}. Mend the "
            "verifier, or watch it with `weight: 0`."
        )


def _try_references(
    mix: RewardMix,
    dataset: Any,
    check: RowCheck,
    lines: FileLines | None = None,
    *,
    outcome: Outcome | None = None,
    environments: EnvironmentCheck | None = None,
) -> None:
    """Warn of the first training rows whose reference solutions fail, or whose tests any program passes."""
    # A slice of a dataset is a mapping of columns, not a list of rows.
    rows = [dataset[number] for number in range(min(TRIED_ROWS, len(dataset)))]
    tried = check_rows(
        mix,
        rows,
        thorough=True,
        outcome=outcome,
        environments=environments,
        activity="trying the first rows of train with their references",
    )
    new_problems = [problem for problem in tried.problems if problem not in check.problems]
    if new_problems:
        new = tried._replace(problems=new_problems)
        first = f"the first {len(rows)} rows of train, tried with their reference solutions"
        told = describe(new, rows=len(rows), where=first, lines=lines)
        logger.warning("%s\n  `trl-grpo-ext check-data` tries all rows.", told)
