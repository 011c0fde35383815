"""Tests given as pairs of an input and an output: for programs that read and print, or for one function."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any

from trl_grpo_ext.protocol import first_value
from trl_grpo_ext.rewards.unit_tests import function_case
from trl_grpo_ext.rewards.unit_tests.bad_tests import BadTests
from trl_grpo_ext.rewards.unit_tests.source import packed
from trl_grpo_ext.sandbox.job import CallSuite, StdioCase, StdioSuite, Suite

_INPUTS = ("input", "stdin", "inputs")
_OUTPUTS = ("output", "stdout", "outputs", "expected_output")

_CALLED = ("function_call", "functional")  # kinds of cases that call a function


def suite_from_cases(cases: Sequence[Mapping[str, Any]]) -> Suite:
    """The suite of a list of dicts with an input and an output, and perhaps the function that they are for.

    Raises:
        BadTests: if a dict has no input or no output, or they are of the wrong kind.
    """
    for case in cases:
        if first_value(case, _OUTPUTS) is None:
            raise BadTests("tests_unknown_form", case)
    function = next((name for case in cases if (name := _function_name(case))), None)
    if not function and any(case.get(kind) in _CALLED for case in cases for kind in ("type", "testtype")):
        raise BadTests("tests_name_no_function", cases[0])
    inputs = [first_value(case, _INPUTS) for case in cases]
    return suite_from_pairs(inputs, [first_value(case, _OUTPUTS) for case in cases], function)


def _function_name(case: Mapping[str, Any]) -> Any:
    """The function that a case calls, wherever it is named; open-r1 and LiveCodeBench differ."""
    metadata = case.get("metadata")
    places = [case, metadata] if isinstance(metadata, Mapping) else [case]
    return next((place[key] for place in places for key in ("fn_name", "func_name") if place.get(key)), None)


def suite_from_pairs(inputs: Sequence[Any], outputs: Sequence[Any], function: object = None) -> Suite:
    """The suite of inputs and outputs that stand beside each other, for a program or for a function.

    Raises:
        BadTests: if they are not equally many, none, or of the wrong kind.
    """
    if len(inputs) != len(outputs):
        raise BadTests("tests_unequal", f"{len(inputs)} inputs, {len(outputs)} outputs")
    if not inputs:
        raise BadTests("tests_empty", inputs)
    if function:
        return _function_suite(inputs, outputs, function)
    cases = [
        StdioCase(stdin=_text(given), stdout=_text(printed)) for given, printed in zip(inputs, outputs, strict=True)
    ]
    return StdioSuite(tests=tuple(cases))


def _text(value: Any) -> str:
    """What a program reads or prints; a list is its lines. Nothing at all is a program without input."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not all(isinstance(line, str) for line in value):
            raise BadTests("tests_not_text", value)
        return "\n".join(value)
    if value is not None and not isinstance(value, str):
        raise BadTests("tests_not_text", value)
    return value or ""


def _function_suite(inputs: Sequence[Any], outputs: Sequence[Any], function: object) -> CallSuite:
    """A function's calls. The arguments and the expected results travel as JSON, which is quick to read."""
    name = str(function).rpartition(".")[2]
    if not name.isidentifier():
        raise BadTests("entry_point_invalid", function)
    results = [
        _result(output) if isinstance(given, str) else output for given, output in zip(inputs, outputs, strict=True)
    ]
    wrapped = all(isinstance(result, list) and len(result) == 1 for result in results)
    option = ", wrapped=True" if wrapped else ""
    tests = [
        f"assert Expected({_json(result)!r}{option}) == call({_json(_arguments(given))!r})"
        for given, result in zip(inputs, results, strict=True)
    ]
    setup = f"{inspect.getsource(function_case)}\ncall = SolutionCall({name!r})"
    # No names: `SolutionCall` asks the module for what it needs, and a function called `same` must not replace ours.
    return CallSuite(setup=setup, tests=tuple(tests), names=(), code=packed(setup, tests))


def _arguments(given: Any) -> list[Any]:
    """The arguments of a call: a list of them, or a line of JSON for each."""
    if isinstance(given, str):
        return [from_json(line) for line in given.split("\n") if line.strip()]
    if not isinstance(given, list):
        raise BadTests("tests_not_arguments", given)
    return given


def _result(output: Any) -> Any:
    """A result that stands beside arguments written as JSON: JSON too, else the text itself."""
    try:
        return from_json(output) if isinstance(output, str) else output
    except BadTests:
        return output


def _json(value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:  # bytes, a date, as parquet has them
        raise BadTests("tests_not_text", value) from error


def from_json(text: str) -> Any:
    """What a JSON text holds.

    Raises:
        BadTests: if it is no JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadTests("tests_not_json", text) from error
