"""Make prompts of dataset rows as a recipe describes, for training and for judging files of completions alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.support.prompt_template import PromptTemplate
from trl_grpo_ext.support.text import did_you_mean

if TYPE_CHECKING:
    from trl_grpo_ext.recipe.arguments import RecipeArguments

# The column, and the key of a mixture's entry, that names a row's dataset.
TASK = "task"
# Keys with which a recipe makes prompts.
PROMPT_KEYS = (
    "prompt_column",
    "prompt_template",
    "system_prompt",
    "few_shot",
    "plain_prompts",
)

Examples = Sequence[Mapping[str, str]]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMaker:
    """Makes a row's prompt of a column or a template, with a recipe's system prompt and examples.

    Attributes:
        column: The column to make prompts of, unless there is a template.
        template: Text with places for columns.
        system: The system prompt.
        examples: The recipe's `few_shot`.
        is_plain: Whether prompts are texts instead of conversations.
    """

    column: str = "prompt"
    template: PromptTemplate | None = None
    system: str | None = None
    examples: Examples = ()
    is_plain: bool = False

    @classmethod
    def of(cls, keys: Mapping[str, Any]) -> PromptMaker | None:
        """Read a recipe's keys; return None for a recipe that leaves the data's prompts as they are.

        Raises:
            ValueError: for a malformed template.
        """
        if not any(keys.get(key) for key in PROMPT_KEYS):
            return None
        template = keys.get("prompt_template")
        return cls(
            column=keys.get("prompt_column") or "prompt",
            template=None if template is None else PromptTemplate.parse(template),
            system=keys.get("system_prompt"),
            examples=keys.get("few_shot") or (),
            is_plain=bool(keys.get("plain_prompts")),
        )

    @property
    def sources(self) -> list[str]:
        """Columns of the template, or the prompt column."""
        if self.template is not None:
            return self.template.columns
        return [self.column]

    def check(self, columns: Collection[str]) -> None:
        """Raise a ValueError if the data lacks a column that prompts are made of."""
        if self.template is not None:
            self.template.check(columns)
        elif self.column not in columns:
            raise ValueError(_no_column(self.column, columns))

    def prompt(self, row: Row) -> str | list[dict[str, Any]]:
        """Make a row's prompt.

        Raises:
            ValueError: for a conversation with `plain_prompts`, and for a place of the template without a value.
        """
        question = row[self.column] if self.template is None else self.template.fill(row)
        return self.written(question)

    def written(self, question: Any) -> str | list[dict[str, Any]]:
        """Put a question behind the system prompt and the examples."""
        write = _plain_text if self.is_plain else _conversation
        return write(question, self.system, self.examples)


def map_prompts(rows: Any, arguments: RecipeArguments) -> Any:
    """Add or replace the `prompt` column as the recipe describes; without such settings, return the rows unchanged.

    Raises:
        ValueError: for a missing column, and for conversations with `plain_prompts`.
    """
    maker = PromptMaker.of(vars(arguments))
    if maker is None:
        return rows
    # A stream may not know its columns before its first row.
    if rows.column_names:
        maker.check(rows.column_names)
    mapped = rows.map(lambda row: {"prompt": maker.prompt(row)})
    # Keep a template's columns: verifiers may need them, such as tests and answers.
    if maker.template is not None or maker.column == "prompt":
        return mapped
    return mapped.remove_columns(maker.column)


@dataclass(frozen=True, slots=True)
class RecipePrompts:
    """The prompts of a recipe: a maker for each task of a mixture, and a maker for rows without a task.

    Examples:
        >>> prompts = RecipePrompts.of({"prompt_column": "question"})
        >>> prompts.fill({"question": "1+1?", "answer": 2})
        {'answer': 2, 'prompt': [{'role': 'user', 'content': '1+1?'}]}
    """

    own: PromptMaker | None = None
    by_task: Mapping[str, PromptMaker | None] = field(default_factory=dict)

    @classmethod
    def of(cls, keys: Mapping[str, Any]) -> RecipePrompts:
        """Read the keys of a recipe.

        Raises:
            ValueError: for a malformed template.
        """
        by_task = {}
        for part in keys.get("datasets") or ():
            # An entry's own keys win over the recipe's, as in `mix_data`.
            by_task[part[TASK]] = PromptMaker.of({**keys, **part})
        own = PromptMaker.of(keys)
        # Rows without the column `task` count as rows of the first dataset.
        if own is None and by_task:
            own = next(iter(by_task.values()))
        return cls(own, by_task)

    def fill(self, row: Row) -> dict[str, Any]:
        """Return a row with the prompt that training makes of it.

        A conversation stays, since it was made already. A text `prompt` counts as the question of a row that lacks the
        recipe's columns. A row without either gets no prompt.
        """
        maker = self.by_task.get(str(row.get(TASK)), self.own)
        filled = dict(row)
        if maker is None or isinstance(row.get("prompt"), list):
            return filled
        if all(row.get(source) is not None for source in maker.sources):
            filled["prompt"] = maker.prompt(row)
            # As in training, where the column becomes the prompt.
            if maker.template is None and maker.column != "prompt":
                del filled[maker.column]
        elif row.get("prompt") is not None:
            filled["prompt"] = maker.written(row["prompt"])
        return filled

    @property
    def sources(self) -> list[str]:
        """Columns of all prompt makers, without duplicates."""
        makers = [
            maker for maker in (self.own, *self.by_task.values()) if maker is not None
        ]
        return list(dict.fromkeys(source for maker in makers for source in maker.sources))


def check_examples(examples: object) -> None:
    """Check `few_shot`, a list of mappings with the texts `prompt` and `completion`; raise a ValueError otherwise."""
    if not isinstance(examples, Sequence) or isinstance(examples, str):
        raise ValueError(
            "`few_shot` is a list, such as `- {prompt: What is 2 + 2?, completion: It is 4.}`."
        )
    for example in examples:
        if not _is_example(example):
            raise ValueError(
                f"An example of `few_shot` has a text `prompt` and a text `completion`, got {example!r}."
            )


def _is_example(example: object) -> bool:
    if not isinstance(example, Mapping) or set(example) != {"prompt", "completion"}:
        return False
    return all(isinstance(text, str) for text in example.values())


def _no_column(source: str, columns: Collection[str]) -> str:
    have = ", ".join(f"`{name}`" for name in columns)
    advice = f"The columns are: {have}."
    near = did_you_mean(source, columns)
    if near.startswith("Did"):
        advice = f"{near} {advice}"
    return (
        f"The dataset has no column `{source}` to make prompts of (prompt_column). {advice}"
    )


def _plain_text(prompt: Any, system: str | None, examples: Examples) -> str:
    if isinstance(prompt, list):
        raise ValueError(
            f"plain_prompts makes prompts of text, and the data has the conversation {prompt!r:.80}."
        )
    parts = [system] if system else []
    for example in examples:
        parts.append(f"{example['prompt']}\n{example['completion']}")
    parts.append(_text(prompt))
    return "\n\n".join(parts)


def _text(prompt: object) -> str:
    # `str` would ask the model `None`; the check of the data reports an empty prompt.
    if prompt is None:
        return ""
    return str(prompt)


def _conversation(
    prompt: Any, system: str | None, examples: Examples
) -> list[dict[str, Any]]:
    messages = [_message("user", _text(prompt))]
    if isinstance(prompt, list):
        # A copy: the system prompt is inserted below, and the row keeps its own list.
        messages = list(prompt)
    if system:
        messages.insert(0, _message("system", system))
    shown = []
    for example in examples:
        shown.append(_message("user", example["prompt"]))
        shown.append(_message("assistant", example["completion"]))
    # Examples follow the system prompt, the recipe's or the data's own.
    has_system = messages[0]["role"] == "system"
    begin = 1 if has_system else 0
    return [*messages[:begin], *shown, *messages[begin:]]


def _message(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}
