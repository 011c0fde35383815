"""The prompts of a recipe's data: a column or a template, behind a system prompt and worked examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.support.prompt_template import PromptTemplate
from trl_grpo_ext.support.text import did_you_mean

if TYPE_CHECKING:
    from trl_grpo_ext.recipe.arguments import RecipeArguments

Examples = Sequence[Mapping[str, str]]


def check_examples(examples: object) -> None:
    """Raise a ValueError if a recipe's `few_shot` is not a list of mappings of a `prompt` and a `completion`."""
    keys = {"prompt", "completion"}
    if not isinstance(examples, Sequence) or isinstance(examples, str):
        raise ValueError("`few_shot` is a list, such as `- {prompt: What is 2 + 2?, completion: It is 4.}`.")
    for example in examples:
        if not isinstance(example, Mapping) or set(example) != keys or not all(map(_is_text, example.values())):
            raise ValueError(f"An example of `few_shot` has a text `prompt` and a text `completion`, got {example!r}.")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def map_prompts(rows: Any, arguments: RecipeArguments) -> Any:
    """Rows with the `prompt` that a recipe describes, or as they are if it describes none.

    Raises:
        ValueError: for a column that is not there, and for conversations where prompts are to be text.
    """
    column, system, examples = arguments.prompt_column, arguments.system_prompt, arguments.few_shot
    written = partial(_plain_text if arguments.plain_prompts else _conversation, system=system, examples=examples)
    if arguments.prompt_template is not None:
        return _fill_prompts(rows, PromptTemplate.parse(arguments.prompt_template), written)
    if column is None and system is None and not examples and not arguments.plain_prompts:
        return rows
    source = column or "prompt"
    if rows.column_names and source not in rows.column_names:
        have = ", ".join(f"`{name}`" for name in rows.column_names)
        near = did_you_mean(source, rows.column_names)
        raise ValueError(
            f"The dataset has no column `{source}` to make prompts of (prompt_column). "
            + (f"{near} The columns are: {have}." if near.startswith("Did") else f"The columns are: {have}.")
        )
    mapped = rows.map(lambda row: {"prompt": written(row[source])})
    return mapped if source == "prompt" else mapped.remove_columns(source)


def _fill_prompts(rows: Any, template: PromptTemplate, written: Callable[[str], Any]) -> Any:
    """Prompts of a template; the columns that they are made of stay, as tests and answers are among them."""
    if rows.column_names:
        template.check(rows.column_names)
    return rows.map(lambda row: {"prompt": written(template.fill(row))})


def _plain_text(prompt: Any, system: str | None, examples: Examples) -> str:
    if isinstance(prompt, list):
        raise ValueError(f"plain_prompts makes prompts of text, and the data has the conversation {prompt!r:.80}.")
    shown = (f"{example['prompt']}\n{example['completion']}" for example in examples)
    return "\n\n".join([*([system] if system else []), *shown, str(prompt)])


def _conversation(prompt: Any, system: str | None, examples: Examples) -> list[dict[str, Any]]:
    messages = list(prompt) if isinstance(prompt, list) else [{"role": "user", "content": str(prompt)}]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    begin = int(messages[0]["role"] == "system")
    roles = (("user", "prompt"), ("assistant", "completion"))
    shown = [{"role": role, "content": example[key]} for example in examples for role, key in roles]
    return [*messages[:begin], *shown, *messages[begin:]]
