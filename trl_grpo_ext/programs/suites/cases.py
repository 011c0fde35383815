"""Build suites from pairs of input and output, for a program's stdin and stdout or for a function."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trl_grpo_ext.programs.sandbox.job import CallSuite, StdioCase, StdioSuite, Suite
from trl_grpo_ext.programs.suites.bad_tests import BadTests
from trl_grpo_ext.programs.suites.in_judge import function_case
from trl_grpo_ext.programs.suites.source import packed
from trl_grpo_ext.protocol import first_value

# Keys under which datasets hold what a program reads, and what it prints.
INPUTS = ("input", "stdin", "inputs")
OUTPUTS = ("output", "stdout", "outputs", "expected_output")

# Values of `type` or `testtype` for cases that call a function.
_CALLED = ("function_call", "functional")
_CALLER = "SolutionCall"
_CALL = re.compile(rf"result_of = {_CALLER}\('(\w+)'\)")


def contest_function(suite: Suite) -> str | None:
    """Return the name of the one function that a suite calls with JSON arguments, as contests do; None for others."""
    if not isinstance(suite, CallSuite):
        return None
    called = _CALL.fullmatch(suite.setup.rpartition("\n")[2])
    return None if called is None else called[1]


def suite_from_cases(cases: Sequence[Mapping[str, Any]]) -> Suite:
    """Build a suite from dicts with input, output and, optionally, the function to call.

    Raises:
        BadTests: if a dict lacks its output, has values of a wrong type, or needs a function without naming it.
    """
    inputs = []
    outputs = []
    function = None
    needs_function = False
    for case in cases:
        output = first_value(case, OUTPUTS)
        if output is None:
            raise BadTests("tests_unknown_form", case)
        inputs.append(first_value(case, INPUTS))
        outputs.append(output)
        function = function or _function_name(case)
        needs_function |= case.get("type") in _CALLED or case.get("testtype") in _CALLED
    if needs_function and not function:
        raise BadTests("tests_name_no_function", cases[0])
    return suite_from_pairs(inputs, outputs, function)


def _function_name(case: Mapping[str, Any]) -> Any:
    """Return the name of the case's function, from the case or its metadata: open-r1 and LiveCodeBench differ."""
    places = [case]
    metadata = case.get("metadata")
    if isinstance(metadata, Mapping):
        places.append(metadata)
    for place in places:
        for key in ("fn_name", "func_name"):
            if place.get(key):
                return place[key]
    return None


def suite_from_pairs(
    inputs: Sequence[Any], outputs: Sequence[Any], function: object = None
) -> Suite:
    """Build a suite from parallel lists of inputs and outputs, for a program or, if given, a function.

    Raises:
        BadTests: if the lists differ in length, are empty, or hold values of a wrong type.
    """
    if len(inputs) != len(outputs):
        raise BadTests("tests_unequal", f"{len(inputs)} inputs, {len(outputs)} outputs")
    if not inputs:
        raise BadTests("tests_empty", inputs)
    if function:
        return _function_suite(inputs, outputs, function)
    cases = [
        StdioCase(stdin=_text(given), stdout=_text(printed))
        for given, printed in zip(inputs, outputs, strict=True)
    ]
    return StdioSuite(tests=tuple(cases))


def _text(value: Any) -> str:
    """Convert a case's input or output to text: join a list of lines, and turn None into an empty text."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not all(isinstance(line, str) for line in value):
            raise BadTests("tests_not_text", value)
        return "\n".join(value)
    if value is not None and not isinstance(value, str):
        raise BadTests("tests_not_text", value)
    return value or ""


def _function_suite(
    inputs: Sequence[Any], outputs: Sequence[Any], function: object
) -> CallSuite:
    """Build a suite of function calls; arguments and expected results go to the judge as JSON, which parses fast."""
    name = str(function).rpartition(".")[2]
    if not name.isidentifier():
        raise BadTests("entry_point_invalid", function)
    results = []
    for given, output in zip(inputs, outputs, strict=True):
        # Beside arguments in JSON, the result is JSON too.
        results.append(_result(output) if isinstance(given, str) else output)
    wrapped = all(isinstance(result, list) and len(result) == 1 for result in results)
    option = ", wrapped=True" if wrapped else ""
    tests = []
    for given, result in zip(inputs, results, strict=True):
        arguments = _json(_arguments(given))
        # `expected` stands on the left, so that its `==` is asked first, and not one of the program's result.
        tests.append(
            f"assert expected({_json(result)!r}{option}) == result_of({arguments!r})"
        )
    setup = f"{inspect.getsource(function_case)}\nresult_of = {_CALLER}({name!r})"
    # `names` stays empty: `SolutionCall` finds the function by importing `solution`, and a solution's function called
    # `same` must not replace the helper `same`.
    return CallSuite(
        setup=setup,
        tests=tuple(tests),
        names=(),
        code=packed(setup, tests),
    )


def _arguments(given: Any) -> list[Any]:
    """Read call arguments: a list, or a text with one JSON value per line."""
    if isinstance(given, str):
        return [from_json(line) for line in given.split("\n") if line.strip()]
    if not isinstance(given, list):
        raise BadTests("tests_not_arguments", given)
    return given


def _result(output: Any) -> Any:
    """Parse an expected result beside JSON arguments as JSON; text that is no JSON stays text."""
    if not isinstance(output, str):
        return output
    try:
        return from_json(output)
    except BadTests:
        return output


def _json(value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        # Parquet files may hold bytes and dates.
        raise BadTests("tests_not_text", value) from error


def from_json(text: str) -> Any:
    """Parse a JSON text.

    Raises:
        BadTests: if the text is no JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadTests("tests_not_json", text) from error
