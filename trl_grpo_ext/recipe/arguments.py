"""Dataclasses filled by a recipe: TRL's and ours, from the file's keys and command-line flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from transformers.trainer_utils import get_last_checkpoint
from trl import ModelConfig, ScriptArguments, TrlParser

from trl_grpo_ext.assets import resolve
from trl_grpo_ext.recipe.file import FILE_ONLY_KEYS, RecipeFile
from trl_grpo_ext.recipe.rates import check_rate
from trl_grpo_ext.support.prompt_template import PromptTemplate
from trl_grpo_ext.trainer.config import VerifiedGRPOConfig, with_help


@with_help
@dataclass
class RecipeArguments(ScriptArguments):  # type: ignore[misc]  # TRL ships no types
    """Settings of a recipe besides model and trainer: data, prompts, and evaluation before and after training.

    Attributes:
        prompt_column: The column to make prompts of, as user messages; without it, the data has `prompt`.
        prompt_template: Text with places for columns, such as `{text}`, to make prompts of instead.
        system_prompt: Put before every prompt.
        plain_prompts: Make prompts that are text instead of conversations, for models without a chat template.
        evaluate_before_and_after: Evaluate on the test split before and after training, and report the gain.
        torch_threads: Threads for torch on the CPU; None leaves torch's own choice.
        rows: At most so many rows of each split, drawn by `rows_seed`.
        test_rows: So many rows of the split to train on become the split to test on, drawn by `rows_seed`.
        rows_seed: Of the two.
        when: Columns and the values that they must have; other rows are left out.
        rate: Two bounds in [0, 1]: training rows whose success rate, by `rows_from`, is outside are left out.
        few_shot: Worked examples before every prompt; see `map_prompts`.
        datasets: Several datasets instead of one; see `mix_data`.
    """

    prompt_column: str | None = None
    prompt_template: str | None = None
    system_prompt: str | None = None
    plain_prompts: bool = False
    evaluate_before_and_after: bool = False
    torch_threads: int | None = None
    rows: int | None = None
    test_rows: int | None = None
    rows_seed: int = 0
    # Nested values, set in the file only: there are no flags for them.
    when: Mapping[str, Any] | None = field(default=None, init=False)
    rate: Sequence[float] | None = field(default=None, init=False)
    few_shot: Sequence[Mapping[str, str]] = field(default=(), init=False)
    datasets: Sequence[Mapping[str, Any]] = field(default=(), init=False)
    # The run's `rows_from`.
    rates_from: str | None = field(default=None, init=False)


def parse_arguments(
    file: RecipeFile,
    flags: Sequence[str],
) -> tuple[RecipeArguments, VerifiedGRPOConfig, ModelConfig]:
    """Fill the dataclasses from a checked recipe file; flags override keys of the file.

    Raises:
        ValueError: for values of a wrong type or range.
    """
    # argparse would take `--rows_s` for `--rows_seed`, and a later field could make that ambiguous.
    parser = _Parser((RecipeArguments, VerifiedGRPOConfig, ModelConfig), allow_abbrev=False)
    defaults = {key: value for key, value in file.keys.items() if key not in FILE_ONLY_KEYS}
    # As defaults, the file's values yield to flags.
    parser.set_defaults_with_config(**defaults)
    try:
        data, training, model, rest = parser.parse_args_into_dataclasses(
            args=list(flags),
            # transformers would read flags from a file beside the program that ends in `.args`.
            look_for_args_file=False,
            return_remaining_strings=True,
        )
    # argparse does not check the types of values from the file.
    except TypeError as error:
        raise ValueError(
            f"A value in the recipe {file.path} has the wrong type: {error}"
        ) from None
    if rest:
        raise ValueError(
            f"Unexpected argument {rest[0]!r}: a flag is written `--name value`."
        )
    # The parser knows no nested values.
    data.when = file.keys.get("when")
    data.rate = file.keys.get("rate")
    data.rates_from = training.rows_from
    data.few_shot = file.keys.get("few_shot") or ()
    data.datasets = file.keys.get("datasets") or ()
    # The name in summaries and model cards.
    if data.datasets:
        data.dataset_name = " + ".join(part["dataset_name"] for part in data.datasets)
    _check_values(data)
    training.resume_from_checkpoint = _checkpoint(training)
    model.model_name_or_path = resolve(model.model_name_or_path)
    return data, training, model


def _check_values(data: RecipeArguments) -> None:
    for name in ("dataset_name", "prompt_column", "prompt_template", "system_prompt"):
        value = getattr(data, name)
        if value is not None and not isinstance(value, str):
            raise ValueError(f"`{name}` must be text, got {value!r}.")
    check_rate(data.rate, data.rates_from)
    if data.prompt_template is not None:
        if data.prompt_column is not None:
            raise ValueError(
                f"Set `prompt_column` or `prompt_template`, not both; a template has the column at "
                f"`{{{data.prompt_column}}}`."
            )
        PromptTemplate.parse(data.prompt_template)
    if data.torch_threads is not None and data.torch_threads < 1:
        raise ValueError(f"`torch_threads` must be 1 or more, got {data.torch_threads}.")


def _checkpoint(training: VerifiedGRPOConfig) -> str | None:
    """Resolve `resume_from_checkpoint` to a folder; `true` means the last checkpoint in `output_dir`."""
    wanted = training.resume_from_checkpoint
    # A flag gives a text, and a YAML file a truth value.
    said = str(wanted).lower()
    if wanted is None or said == "false":
        return None
    if said != "true":
        if not Path(wanted).is_dir():
            raise ValueError(
                f"There is no checkpoint {wanted!r} to resume from (resume_from_checkpoint)."
            )
        _check_is_whole(Path(wanted))
        return str(wanted)
    last = None
    if Path(training.output_dir).is_dir():
        last = get_last_checkpoint(training.output_dir)
    if last is None:
        raise ValueError(
            f"There is no checkpoint in {training.output_dir!r} to resume from; leave the flag out."
        )
    _check_is_whole(Path(last))
    return str(last)


# The file that transformers writes last into a checkpoint.
_LAST_FILE = "trainer_state.json"


def _check_is_whole(checkpoint: Path) -> None:
    """Refuse a checkpoint that a run had not finished saving when it was killed."""
    if (checkpoint / _LAST_FILE).is_file():
        return
    whole = [file.parent for file in checkpoint.parent.glob(f"checkpoint-*/{_LAST_FILE}")]
    newest = max(whole, key=lambda folder: folder.stat().st_mtime, default=None)
    instead = f", or resume from {str(newest)!r}, which is whole" if newest else ""
    raise ValueError(
        f"The checkpoint {str(checkpoint)!r} has no {_LAST_FILE}, as after a kill while it was saved, so no run can "
        f"resume from it. Remove it{instead}."
    )


class _Parser(TrlParser):  # type: ignore[misc]  # TRL ships no types
    """TRL's parser with one-line exceptions in place of its two hundred lines of usage."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)
