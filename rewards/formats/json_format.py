"""Verify answers in JSON, and against a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal

from trl_grpo_ext.protocol import (
    BatchVerifier,
    DataProblem,
    check_backslashes,
    problems_of,
    required_column,
)
from trl_grpo_ext.rewards.formats.answer_part import Fence, check_fence, fenced_answer
from trl_grpo_ext.rewards.formats.json_schema import (
    ROOTS,
    BadSchemaError,
    judge_json,
    patterns_of,
    schema_problem,
    schema_text,
)
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.setting_checks import check_choice, check_seconds, check_whole
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
    """Checks that the answer is strict JSON, and valid by the JSON Schema if a schema is given.

    The whole text after the thinking must be one JSON text, bare or in one `json` fence, with nothing beside it.
    Parsing is strict: no duplicate key, no NaN or infinity, no comment, no trailing comma. Schemas need the extra
    `json`. The library `jsonschema` validates in a worker process, since a `pattern` can hang on a hostile answer; a
    `$ref` never fetches anything. Of `format`, `date`, `email`, `ipv4`, `ipv6`, `regex` and `uuid` are checked; others,
    such as `date-time`, are not.

    Args:
        schema: A JSON Schema, as a mapping or as JSON text; draft 2020-12 if `$schema` is missing.
        schema_column: The column with one schema per row, in place of `schema`.
        root: The type of the whole value: `"object"`, `"array"` or `"any"`. With None, the schema decides; without a
            schema, an object or an array is required. With None, a schema without a type is refused, since
            `{"required": ["name"]}` alone accepts `[]` and every number: add `"type": "object"`, or set `root`.
        fence: `"optional"`, `"required"` or `"forbidden"`: a code fence around the JSON.
        text_around: Allow text before and after the fence.
        max_depth: The greatest nesting depth of objects and lists, 1 to 100.
        timeout: Time limit of one validation in seconds; processor time is limited to a tenth.
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
    | `4`, `"Ann"`; `[]`, if the schema or `root` requires an object | 0 | `wrong_root` |
    | `{}` without a schema | 0 | `empty_json` |
    | `{"name": 4}`, if the schema requires a text | 0 | `schema_mismatch` |
    | a validation that exceeds the time limit | 0 | `timeout` |
    | bare, with `fence="required"` | 0 | `no_fence` |
    | a fence of another language; two of them; one that is never closed | 0 | `wrong_fence`, `several_fences`, ... |
    | `Here:` before a required fence | 0 | `text_outside` |
    | nothing after the thinking; thinking that does not end | 0 | `no_answer`, `unclosed_think` |
    | anything, if the row's schema is missing or unusable | none | `schema_missing`, `schema_bad`, ... |

    Raises:
        ValueError: for an invalid schema, a schema without a root type, an unknown setting, or a missing extra.

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
        check_seconds("timeout", self.timeout)
        if self.root is not None:
            check_choice("root", self.root, ROOTS)
        check_whole("max_depth", self.max_depth, least=1, most=100)
        if self.schema is not None and self.schema_column is not None:
            raise ValueError("Give either schema or schema_column: a row has one schema.")
        # Without a schema, neither the package nor a worker is needed.
        if self.schema is None and self.schema_column is None:
            return
        if find_spec("jsonschema") is None:
            raise ValueError(
                "JSON schemas need jsonschema: pip install 'trl-grpo-ext[json]'."
            )
        # Schemas of a column are checked by `check_rows`.
        if self.schema is not None:
            self._check_own(self.schema)

    def _check_own(self, schema: object) -> None:
        try:
            text = schema_text(schema)
            _, problem = schema_problem(text, self.root)
        except BadSchemaError as error:
            problem = str(error)
        if problem:
            raise ValueError(f"The schema cannot be used: {problem}.")
        for pattern in patterns_of(json.loads(text)):
            check_backslashes("schema's pattern", pattern)

    def check_columns(self, columns: Collection[str]) -> None:
        if self.schema_column is not None:
            required_column(columns, [self.schema_column], verifier=self)

    def check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        """List the rows whose schema is missing or unusable."""
        if self.schema_column is None:
            return []
        values = [row.get(self.schema_column) for row in rows]
        reasons = [_row_problem(schema) for schema in self._schemas(values)]
        return problems_of(reasons, values, ADVICE)

    def close(self) -> None:
        """Stop the workers of this process; the next use starts new workers."""
        if self.schema is not None or self.schema_column is not None:
            close_workers()

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        schemas = self._schemas_of(samples)
        pairs = list(zip(samples, schemas, strict=True))
        judge = partial(self._run, "judge_here")
        return self.judge_questions(pairs, self._call, judge)

    def _schemas_of(self, samples: Sequence[Sample]) -> list[str | Verdict | None]:
        """Read the schema text of each sample, as `_schemas` does; None without a schema."""
        if self.schema_column is not None:
            return self._schemas([sample.row.get(self.schema_column) for sample in samples])
        if self.schema is None:
            return [None] * len(samples)
        return [schema_text(self.schema)] * len(samples)

    def _call(self, pair: tuple[Sample, str | Verdict | None]) -> tuple[Any, ...] | Verdict:
        """Return a verdict if no validation is needed, else the arguments of `judge_here` for a worker."""
        sample, schema = pair
        if isinstance(schema, Verdict):
            return schema
        answer = fenced_answer(
            sample,
            "json",
            fence=self.fence,
            text_around=self.text_around,
        )
        if isinstance(answer, Verdict):
            return answer
        # Parsing takes linear time; only a schema needs a worker, which can be killed.
        if schema is None:
            return judge_json(answer, None, self.root, self.max_depth)
        return answer, schema, self.root, self.max_depth, self.timeout

    def _schemas(self, values: Sequence[object]) -> list[str | Verdict | None]:
        """Read the schema text of each row; a verdict that blames the data for an unusable schema.

        Workers check each distinct schema once.
        """
        read = [_row_schema(value) for value in values]
        # The samples of a group share a row, and so a schema.
        distinct = list(dict.fromkeys(schema for schema in read if isinstance(schema, str)))
        verdicts = self._run("check_here", [(schema, self.root) for schema in distinct])
        checked = dict(zip(distinct, verdicts, strict=True))
        schemas: list[str | Verdict | None] = []
        for schema in read:
            if isinstance(schema, str):
                schemas.append(_usable(schema, checked[schema]))
            else:
                schemas.append(schema)
        return schemas

    def _run(self, function: str, arguments: Sequence[tuple[Any, ...]]) -> list[Verdict]:
        return judge_in_workers(f"{_HERE}:{function}", arguments, timeout=self.timeout)


def _row_schema(value: object) -> str | Verdict:
    if value is None:
        return skipped("schema_missing")
    try:
        return schema_text(value)
    except BadSchemaError:
        return skipped("schema_bad")


def _usable(schema: str, checked: Verdict) -> str | Verdict:
    if checked.status is Status.TIMEOUT:
        return skipped("schema_timeout")
    if checked.status is not Status.CORRECT:
        return checked
    return schema


def _row_problem(schema: str | Verdict | None) -> str:
    """Return the reason code of an unusable schema, a key of `ADVICE`; empty for a usable schema."""
    if not isinstance(schema, Verdict):
        return ""
    if schema.reason in ADVICE:
        return schema.reason
    return "grader"


json_reward = JsonVerifier(name="json_reward")
"""`JsonVerifier` without a schema, ready for a list of reward functions."""
