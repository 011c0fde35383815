"""An answer in JSON, and as a JSON Schema wants it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal

from trl_grpo_ext.protocol import BatchVerifier, DataProblem, check_timeout, problems_of, required_column
from trl_grpo_ext.rewards.formats.answer_part import Fence, check_fence, fenced_answer
from trl_grpo_ext.rewards.formats.json_schema import ROOTS, BadSchemaError, judge_json, schema_problem, schema_text
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.verdict import Status, Verdict, skipped
from trl_grpo_ext.workers.pool import close_workers, judge_in_workers

ADVICE = {
    "schema_missing": "Drop the row, or name the right column: schema_column=...",
    "schema_bad": "Write the schema as JSON text: a column of objects has nulls for keys that some rows lack.",
    "schema_root_unknown": "Give the schema a `type`, or say root='object', 'array' or 'any' for all rows.",
    "schema_timeout": "Simplify the schema; it takes longer than the timeout whatever the answer is.",
    "grader": "Try again: a worker failed, not the data.",
}
_HERE = "trl_grpo_ext.rewards.formats.json_schema"


@dataclass(frozen=True, kw_only=True)
class JsonVerifier(BatchVerifier):
    """Whether the answer is JSON and, if there is a schema, is valid by it.

    The answer is all that follows the thinking: one JSON text, bare or in one `json` fence, with nothing beside it. It
    is read strictly: no key twice, no NaN or infinity, no comment, no comma at the end. Schemas need the extra `json`.
    They are judged by `jsonschema` in a worker process, since a `pattern` can take for ever on a hostile answer;
    nothing is ever fetched for a `$ref`. `format` is not checked, as by the standard.

    Args:
        schema: A JSON Schema, as a mapping or as JSON text; without a `$schema`, of draft 2020-12.
        schema_column: The column with each row's own schema, instead.
        root: `"object"`, `"array"` or `"any"` for the value as a whole. None wants what the schema says or, without
            one, an object or an array. A schema that says no type is refused then: by itself, `{"required": ["name"]}`
            accepts `[]` and every number. Give it `"type": "object"`, or set `root`.
        fence: Whether the JSON stands in a fence: `"optional"`, `"required"` or `"forbidden"`.
        text_around: Whether there may be text before and after the fence.
        max_depth: The greatest number of objects and lists inside each other, 1 to 100.
        timeout: Seconds that a schema may take for one answer; of processor time, a tenth of them.
        name: The metric key.

    | completion | score | reason |
    |---|---|---|
    | `{"name": "Ann"}`, also in a `json` fence | 1 | |
    | `The answer is 4` | 0 | `not_json` |
    | `{"name": "Ann"} I hope this helps` | 0 | `text_after_json` |
    | `{"name": "Ann", "name": "Bo"}` | 0 | `duplicate_key` |
    | `{"age": NaN}`, `{"age": 1e999}` | 0 | `not_finite` |
    | a number of more than 300 digits | 0 | `number_too_long` |
    | 200 lists inside each other | 0 | `too_deep` |
    | `4`, `"Ann"`; `[]`, where the schema or `root` wants an object | 0 | `wrong_root` |
    | `{}` without a schema | 0 | `empty_json` |
    | `{"name": 4}` where the schema wants text | 0 | `schema_mismatch` |
    | an answer on which the schema takes so long | 0 | `timeout` |
    | bare, with `fence="required"` | 0 | `no_fence` |
    | a fence of another language; two of them; one that is never closed | 0 | `wrong_fence`, `several_fences`, ... |
    | `Here:` before a required fence | 0 | `text_outside` |
    | nothing after the thinking; thinking that does not end | 0 | `no_answer`, `unclosed_think` |
    | anything, where the row has no schema, or none that can be used | none | `schema_missing`, `schema_bad`, ... |

    Raises:
        ValueError: for a schema that is none or that wants no certain root, a setting that does not exist, or a
            missing extra.

    Examples:
        >>> json_reward(['{"name": "Ann"}', "{'name': 'Ann'}"])
        [1.0, 0.0]
    """

    schema: Mapping[str, Any] | str | bool | None = None
    schema_column: str | None = None
    root: Literal["object", "array", "any"] | None = None
    fence: Fence = "optional"
    text_around: bool = False
    max_depth: int = 64
    timeout: float = 5.0
    name: str | None = None

    def __post_init__(self) -> None:
        check_fence(self.fence, text_around=self.text_around, form="JSON")
        check_timeout(self.timeout)
        if self.root is not None and self.root not in ROOTS:
            raise ValueError(f"There is no root={self.root!r}. {did_you_mean(str(self.root), ROOTS)}")
        if not isinstance(self.max_depth, int) or not 1 <= self.max_depth <= 100:
            raise ValueError(f"max_depth is a whole number from 1 to 100, got {self.max_depth!r}.")
        if self.schema is not None and self.schema_column is not None:
            raise ValueError("Give either schema or schema_column: a row has one schema.")
        if self.schema is None and self.schema_column is None:
            return
        if find_spec("jsonschema") is None:
            raise ValueError("JSON schemas need jsonschema: pip install 'trl-grpo-ext[json]'.")
        if self.schema is not None:
            self._check_own(self.schema)

    def _check_own(self, schema: object) -> None:
        try:
            _, problem = schema_problem(schema_text(schema), self.root)
        except BadSchemaError as error:
            problem = str(error)
        if problem:
            raise ValueError(f"The schema cannot be used: {problem}.")

    def check_columns(self, columns: Collection[str]) -> None:
        if self.schema_column is not None:
            required_column(columns, [self.schema_column], verifier=self)

    def check_rows(self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False) -> list[DataProblem]:
        """The rows whose schema is missing or cannot be used."""
        if self.schema_column is None:
            return []
        values = [row.get(self.schema_column) for row in rows]
        problems = [found.reason if isinstance(found, Verdict) else "" for found in self._schemas(values)]
        reasons = (reason if not reason or reason in ADVICE else "grader" for reason in problems)
        return problems_of(reasons, values, ADVICE)

    def close(self) -> None:
        """End this process's workers; they are started again when they are needed."""
        if self.schema is not None or self.schema_column is not None:
            close_workers()

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        if self.schema_column is not None:
            schemas = self._schemas([sample.row.get(self.schema_column) for sample in samples])
        else:
            schemas = [None if self.schema is None else schema_text(self.schema)] * len(samples)
        return self.judge_questions([*zip(samples, schemas, strict=True)], self._call, partial(self._run, "judge_here"))

    def _call(self, pair: tuple[Sample, str | Verdict | None]) -> tuple[Any, ...] | Verdict:
        """The verdict, if it needs no schema; else the arguments of `judge_here` for a worker."""
        sample, schema = pair
        if isinstance(schema, Verdict):
            return schema
        answer = fenced_answer(sample, "json", fence=self.fence, text_around=self.text_around)
        if isinstance(answer, Verdict):
            return answer
        if schema is None:
            return judge_json(answer, None, self.root, self.max_depth)
        return answer, schema, self.root, self.max_depth, self.timeout

    def _schemas(self, values: Sequence[object]) -> list[str | Verdict | None]:
        """The schema of each row; a verdict that blames the data where it cannot be used."""
        texts = [_row_schema(value) for value in values]
        distinct = list(dict.fromkeys(text for text in texts if isinstance(text, str)))
        checked = dict(zip(distinct, self._run("check_here", [(text, self.root) for text in distinct]), strict=True))
        return [text if isinstance(text, Verdict) else _usable(text, checked[text]) for text in texts]

    def _run(self, function: str, arguments: Sequence[tuple[Any, ...]]) -> list[Verdict]:
        return judge_in_workers(f"{_HERE}:{function}", arguments, timeout=self.timeout)


def _row_schema(value: object) -> str | Verdict:
    if value is None:
        return skipped("schema_missing")
    try:
        return schema_text(value)
    except BadSchemaError:
        return skipped("schema_bad")


def _usable(text: str, checked: Verdict) -> str | Verdict:
    if checked.status is Status.TIMEOUT:
        return skipped("schema_timeout")
    return text if checked.status is Status.CORRECT else checked


json_reward = JsonVerifier(name="json_reward")
"""`JsonVerifier` without a schema, ready for a list of reward functions."""
