"""JSON answers: score table, verifier schemas, row schemas, and attacks on both."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext import Blame, Sample, Status
from trl_grpo_ext.rewards.formats import json_format
from trl_grpo_ext.rewards.formats.json_format import JsonVerifier, json_reward

ANN = '{"name": "Ann"}'
NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
TREE = {
    "type": "object",
    "properties": {"child": {"$ref": "#"}},
    "additionalProperties": False,
}
TABLE = [
    (ANN, 1, ""),
    (f"```json\n{ANN}\n```", 1, ""),
    (f"<think>{{}}</think>\n{ANN}\n", 1, ""),
    ("[1]", 1, ""),
    ("The answer is 4", 0, "not_json"),
    (f"{ANN} I hope this helps", 0, "text_after_json"),
    (f"Here: {ANN}", 0, "not_json"),
    ('{"name": "Ann", "name": "Bo"}', 0, "duplicate_key"),
    ('{"age": NaN}', 0, "not_finite"),
    ('{"age": 1e999}', 0, "not_finite"),
    ('{"age": ' + "9" * 301 + "}", 0, "number_too_long"),
    ("[" * 200 + "]" * 200, 0, "too_deep"),
    ("4", 0, "wrong_root"),
    ('"Ann"', 0, "wrong_root"),
    ("null", 0, "wrong_root"),
    ("{}", 0, "empty_json"),
    ("[]", 0, "empty_json"),
    (f"```JSON\n{ANN}\n```", 1, ""),
    (f"```python\n{ANN}\n```", 0, "wrong_fence"),
    (f"```json\n{ANN}", 0, "unclosed_fence"),
    (f"```json\n{ANN}\n```\n```json\n{ANN}\n```", 0, "several_fences"),
    (f"```json\n{ANN}\n``` so", 0, "unclosed_fence"),
    (f"```json\n{ANN}\n```\nso", 0, "text_outside"),
    (f"<think>{ANN}", 0, "unclosed_think"),
    (f"<think>{ANN}</think>", 0, "no_answer"),
]


@pytest.mark.parametrize(("text", "score", "reason"), TABLE)
def test_strict_json_with_nothing_beside_it_scores_1(
    text: str, score: float, reason: str
) -> None:
    (verdict,) = json_reward.judge([text])
    assert (verdict.score, verdict.reason) == (score, reason)


@pytest.mark.parametrize("schema", [NAMED, json.dumps(NAMED)], ids=["mapping", "text"])
def test_a_schema_decides(schema: Any) -> None:
    verdicts = JsonVerifier(schema=schema).judge(
        [ANN, '{"name": 4}', "{}", "[]", "4", "Ann"]
    )
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert verdicts[1].reason == "schema_mismatch"
    assert verdicts[1].details == {"path": "$.name", "keyword": "type"}
    assert verdicts[5].status is Status.UNPARSEABLE


def test_a_format_that_every_machine_knows_is_checked_and_others_are_not() -> None:
    properties = {
        "due": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
    }
    verifier = JsonVerifier(schema={"type": "object", "properties": properties})
    texts = ['{"due": "2026-03-01"}', '{"due": "next Friday"}', '{"at": "soon"}']
    assert verifier(texts) == [1.0, 0.0, 1.0]
    verifier.close()


def test_a_schema_without_a_type_does_not_let_a_bare_number_pass() -> None:
    schema = {"required": ["name"]}
    with pytest.raises(
        ValueError, match="accepts null and true; give it a type, or say root='object'"
    ):
        JsonVerifier(schema=schema)
    assert JsonVerifier(schema=schema, root="object")(["4", "[]", ANN]) == [0.0, 0.0, 1.0]
    assert JsonVerifier(schema=schema, root="any")(["4", ANN]) == [1.0, 1.0]
    assert JsonVerifier(schema={"type": "integer"})(["4", '"4"']) == [1.0, 0.0]


FIELDS = {
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
OBJECT = {"type": "object", **FIELDS}
ITEMS = {"items": {"type": "integer"}, "minItems": 1}
ROOT_CASES: dict[str, tuple[Any, list[float]]] = {
    "a type": (OBJECT, [1, 0, 0, 0, 0]),
    "two types": ({"type": ["object", "array"], **ITEMS}, [1, 1, 0, 1, 0]),
    "a reference": ({"$ref": "#/$defs/a", "$defs": {"a": OBJECT}}, [1, 0, 0, 0, 0]),
    "a relative reference": (
        {
            "$id": "https://a.test/x/y",
            "allOf": [{"$ref": "y#/$defs/a"}],
            "$defs": {"a": OBJECT},
        },
        [1, 0, 0, 0, 0],
    ),
    "all of, one with a type": (
        {"allOf": [{"type": "object"}, {"minItems": 1}]},
        [1, 1, 0, 0, 0],
    ),
    "any of": ({"anyOf": [OBJECT, {"type": "array", "maxItems": 0}]}, [1, 0, 1, 0, 0]),
    "one of, with types": (
        {"oneOf": [{"type": "object"}, {"type": "array", "minItems": 1}]},
        [1, 1, 0, 1, 0],
    ),
    "values": ({"enum": [{"a": 1}, 4]}, [1, 0, 0, 0, 1]),
    "one value": ({"const": [1]}, [0, 0, 0, 1, 0]),
    "whole numbers among numbers": (
        {"allOf": [{"type": "number"}, {"type": "integer"}]},
        [0, 0, 0, 0, 1],
    ),
    "nothing": (False, [0, 0, 0, 0, 0]),
}


@pytest.mark.parametrize(("schema", "scores"), ROOT_CASES.values(), ids=ROOT_CASES)
def test_a_schema_tells_what_the_value_is(schema: Any, scores: list[float]) -> None:
    texts = ['{"a": 1}', "{}", "[]", "[1]", "4"]
    assert JsonVerifier(schema=schema)(texts) == scores
    assert JsonVerifier(schema_column="s")(texts, s=[json.dumps(schema)] * 5) == scores


UNKNOWN_ROOTS: dict[str, Any] = {
    "nothing": {},
    "everything": True,
    "keywords of objects": FIELDS,
    "keywords of arrays": ITEMS,
    "both kinds of keywords": {"required": ["a"], "minItems": 1},
    "keywords of texts": {"pattern": "^a"},
    "not": {"not": {"type": "array"}},
    "a branch that is open": {"anyOf": [{"type": "object"}, {"minLength": 1}]},
    "branches about different types": {"anyOf": [{"required": ["a"]}, {"type": "array"}]},
    "an open reference": {"$ref": "#/$defs/a", "$defs": {"a": {"description": "anything"}}},
}


@pytest.mark.parametrize("schema", UNKNOWN_ROOTS.values(), ids=UNKNOWN_ROOTS)
def test_a_schema_that_does_not_tell_its_root_is_refused_unless_that_is_said(
    schema: Any,
) -> None:
    with pytest.raises(ValueError, match="say root='object'"):
        JsonVerifier(schema=schema)
    JsonVerifier(schema=schema, root="object")
    row = {"s": json.dumps(schema)}
    by_row = JsonVerifier(schema_column="s")
    assert [(problem.row, problem.reason) for problem in by_row.check_rows([row])] == [
        (0, "schema_root_unknown")
    ]
    (verdict,) = by_row.judge(["[]"], s=[row["s"]])
    assert (verdict.score, verdict.blame, verdict.reason) == (
        None,
        Blame.DATA,
        "schema_root_unknown",
    )
    assert JsonVerifier(schema_column="s", root="object").check_rows([row]) == []


def test_the_root_may_be_asked_for() -> None:
    texts = [ANN, "[1]", "4"]
    assert JsonVerifier(root="object")(texts) == [1.0, 0.0, 0.0]
    assert JsonVerifier(root="array")(texts) == [0.0, 1.0, 0.0]
    assert JsonVerifier(root="any")(texts) == [1.0, 1.0, 1.0]


def test_a_fence_may_be_required_or_forbidden_and_text_around_it_allowed() -> None:
    texts = [ANN, f"```json\n{ANN}\n```", f"Here:\n```json\n{ANN}\n```\nEnjoy!"]
    assert JsonVerifier(fence="required")(texts) == [0.0, 1.0, 0.0]
    assert JsonVerifier(fence="forbidden")(texts) == [1.0, 0.0, 0.0]
    assert JsonVerifier(fence="optional", text_around=True)(texts) == [1.0, 1.0, 1.0]
    assert JsonVerifier(fence="required", text_around=True)(texts) == [0.0, 1.0, 1.0]


def test_a_row_may_have_its_own_schema() -> None:
    schemas = [
        json.dumps(NAMED),
        NAMED,
        '{"type": "array"}',
        '{"type": "objekt"}',
        "{",
        4,
        None,
        '{"$ref": "#"}',
    ]
    verdicts = JsonVerifier(schema_column="schema").judge([ANN] * 8, schema=schemas)
    assert [verdict.score for verdict in verdicts] == [
        1.0,
        1.0,
        0.0,
        None,
        None,
        None,
        None,
        None,
    ]
    assert [verdict.reason for verdict in verdicts[3:]] == [
        *["schema_bad"] * 3,
        "schema_missing",
        "schema_bad",
    ]
    assert {verdict.blame for verdict in verdicts[3:]} == {Blame.DATA}


def test_a_rows_bad_schema_is_the_datas_fault_whatever_the_answer_is() -> None:
    verifier = JsonVerifier(schema_column="schema")
    assert (
        verifier(["", "4", "<think>", "{"], schema=['{"type": "objekt"}'] * 4) == [None] * 4
    )
    with pytest.raises(ValueError, match="column `schema`"):
        verifier([ANN])


def test_rows_with_bad_schemas_are_found_before_training() -> None:
    rows = [{"schema": json.dumps(NAMED)}, {"schema": None}, {"schema": "{"}, {}]
    problems = JsonVerifier(schema_column="schema").check_rows(rows)
    assert [(problem.row, problem.reason) for problem in problems] == [
        (1, "schema_missing"),
        (2, "schema_bad"),
        (3, "schema_missing"),
    ]
    assert JsonVerifier(schema=NAMED).check_rows(rows) == []


def test_an_answer_on_which_a_pattern_takes_for_ever_is_a_timeout() -> None:
    schema = {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}
    hostile, fine = JsonVerifier(schema=schema).judge(
        [json.dumps({"a": "a" * 40 + "b"}), '{"a": "aa"}']
    )
    assert (hostile.status, hostile.reason, hostile.score) == (
        Status.TIMEOUT,
        "timeout",
        0.0,
    )
    assert fine.score == 1.0


@pytest.mark.parametrize(
    ("items", "score"),
    [
        ([{"a": number} for number in range(20_000)], 1.0),
        ([*({"a": number} for number in range(20_000)), {"a": 0}], 0.0),
        ([1, True, "1", [1], [True], {"a": 1}, {"a": True}, None, 0, False], 1.0),
        ([1, 1.0], 0.0),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], 0.0),
    ],
)
def test_unique_items_are_told_in_linear_time_as_json_schema_compares_them(
    items: list[Any], score: float
) -> None:
    assert JsonVerifier(schema={"type": "array", "uniqueItems": True})(
        [json.dumps(items)]
    ) == [score]


@pytest.mark.slow
def test_a_rows_schema_that_takes_for_ever_itself_is_the_datas_fault() -> None:
    bomb = {
        "$defs": {
            f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(30)
        },
        "$ref": "#/$defs/d0",
    }
    bomb["$defs"]["d30"] = True
    (verdict,) = JsonVerifier(schema_column="s", timeout=0.5).judge(
        [ANN], s=[json.dumps(bomb)]
    )
    assert verdict.score is None
    assert verdict.reason in ("schema_timeout", "worker_starved")


def test_a_schema_that_refers_to_itself_goes_as_deep_as_the_answer() -> None:
    verifier = JsonVerifier(schema={"$ref": "#/$defs/t", "$defs": {"t": {**TREE, "properties": {"child": {"anyOf": [{"$ref": "#/$defs/t"}]}}}}}, max_depth=100, root="object")  # fmt: skip  # noqa: E501
    deepest = '{"child":' * 99 + "{}" + "}" * 99
    assert verifier([deepest, deepest.replace("{}", "4"), '{"child":' + deepest + "}"]) == [
        1.0,
        0.0,
        0.0,
    ]


def test_a_circle_that_only_some_answers_enter_has_no_verdict_on_the_others() -> None:
    circle = {"type": "object", "dependentSchemas": {"b": {"$ref": "#"}}}
    verdicts = JsonVerifier(schema=circle).judge(['{"a": 1}', '{"b": 1}'])
    assert [(verdict.score, verdict.reason) for verdict in verdicts] == [
        (1.0, ""),
        (0.0, "too_deep"),
    ]


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(ValueError, match="nothing is fetched"):
        JsonVerifier(schema={"$ref": "https://example.com/schema.json"})
    dialect = JsonVerifier(schema={"$ref": "https://json-schema.org/draft/2020-12/schema"})
    assert dialect(['{"type": "object"}', '{"type": "objekt"}']) == [1.0, 0.0]
    assert JsonVerifier(schema_column="s")([ANN], s=['{"$ref": "file:///etc/passwd"}']) == [
        None
    ]


def test_older_dialects_are_known() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"n": NAMED},
        "$ref": "#/definitions/n",
    }
    assert JsonVerifier(schema=schema, root="any")([ANN, "{}"]) == [1.0, 0.0]


@settings(max_examples=30)
@given(st.lists(st.text() | st.text('{}[]"name:1, \\\ud800\x00', max_size=20), max_size=3))
def test_any_texts_get_a_score_each(texts: list[str]) -> None:
    for verifier in (
        json_reward,
        JsonVerifier(schema=NAMED),
        JsonVerifier(fence="required", text_around=True),
    ):
        assert [score in (0.0, 1.0) for score in verifier(texts)] == [True] * len(texts)


def test_thinking_that_the_prompt_opened_does_not_count() -> None:
    assert (
        json_reward.verify(Sample(text=ANN, prefill="<think>")).reason == "unclosed_think"
    )


def test_without_jsonschema_a_schema_is_refused_with_the_extra_that_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_format, "find_spec", lambda name: None)
    assert JsonVerifier()([ANN]) == [1.0]
    with pytest.raises(ValueError, match=r"trl-grpo-ext\[json\]"):
        JsonVerifier(schema=NAMED)


@pytest.mark.slow
def test_a_schema_that_refers_to_itself_is_refused_however_deep_the_stack_is() -> None:
    def refused_at(depth: int, count: int) -> bool:
        if depth:
            return refused_at(depth - 1, count)
        with pytest.raises(ValueError, match="refers to itself"):
            JsonVerifier(
                schema={
                    "description": f"new {count}",
                    "anyOf": [{"type": "object"}, {"$ref": "#"}],
                }
            )
        return True

    assert all(refused_at(count, count) for count in range(300))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schema": {"type": "objekt"}}, r"\$\.type"),
        ({"schema": {"properties": {"a": {"pattern": "("}}}}, "regex"),
        (
            {"schema": {"type": "object", "properties": {"a": {"pattern": "\bno"}}}},
            "put it in single quotes",
        ),
        (
            {"schema": {"type": "object", "patternProperties": {"\fa": True}}},
            "put it in single quotes",
        ),
        ({"schema": "{"}, "not JSON"),
        ({"schema": 4}, "not int"),
        ({"schema": {"default": float("nan")}}, "not JSON"),
        ({"schema": {"$ref": "#"}}, "refers to itself"),
        ({"schema": {"$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}}}, "refers to itself"),
        ({"schema": {"anyOf": [{"type": "object"}, {"$ref": "#"}]}}, "refers to itself"),
        ({"schema": {"if": {"type": "object"}, "then": {"$ref": "#"}}}, "refers to itself"),
        ({"schema": {"items": {"$ref": "#/$defs/none"}}}, "leads nowhere"),
        ({"schema": {"$schema": "http://example.com/dialect"}}, "not known"),
        ({"schema": NAMED, "schema_column": "s"}, "either"),
        ({"root": "objct"}, "Did you mean `object`"),
        ({"fence": "never"}, "fence"),
        ({"fence": "forbidden", "text_around": True}, "fence='required'"),
        ({"max_depth": 101}, "1 to 100"),
        ({"timeout": 0}, "above 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        JsonVerifier(**arguments)
