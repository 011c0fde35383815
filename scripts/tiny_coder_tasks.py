"""Python tasks in HumanEval's format: functions of two steps, to train and test the tiny coder."""

from __future__ import annotations

import json
import random
import string
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ASSERTS = 6
# Random inputs per function, from which the asserts are chosen.
TRIED_INPUTS = 300
# Extra asserts stop at this number of equal results.
MOST_ALIKE = 3

NUMBER, TEXT, LIST, BOOL = "number", "text", "list", "bool"
ARGUMENT_NAMES = {
    NUMBER: (
        "price",
        "count",
        "score",
        "width",
        "height",
        "age",
        "size",
        "level",
        "speed",
        "weight",
        "limit",
        "rank",
    ),
    TEXT: ("word", "name", "line", "title", "label", "city"),
    LIST: ("numbers", "prices", "scores", "values", "sizes", "ages"),
}

# ---------------------------------------------------------------------------------------------
# Functions
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A step of a function: input and output types, name, English words and Python code.

    In `says` and `code`, `{a}`, `{b}` and `{c}` stand for the arguments, and `{k}` for a constant.
    """

    takes: tuple[str, ...]
    gives: str
    name: str
    says: str
    code: str


FIRST_STEPS = (
    Step((NUMBER,), NUMBER, "added", "{a} plus {k}", "{a} + {k}"),
    Step((NUMBER,), NUMBER, "difference", "{a} minus {k}", "{a} - {k}"),
    Step((NUMBER,), NUMBER, "product", "{a} times {k}", "{a} * {k}"),
    Step(
        (NUMBER,), NUMBER, "remainder", "the remainder of {a} divided by {k}", "{a} % {k}"
    ),
    Step((NUMBER,), NUMBER, "square", "the square of {a}", "{a} ** 2"),
    Step((NUMBER,), NUMBER, "magnitude", "{a} without its sign", "abs({a})"),
    Step((NUMBER, NUMBER), NUMBER, "added", "the sum of {a} and {b}", "{a} + {b}"),
    Step((NUMBER, NUMBER), NUMBER, "difference", "{a} minus {b}", "{a} - {b}"),
    Step((NUMBER, NUMBER), NUMBER, "product", "{a} times {b}", "{a} * {b}"),
    Step((NUMBER, NUMBER), NUMBER, "larger", "the larger of {a} and {b}", "max({a}, {b})"),
    Step(
        (NUMBER, NUMBER), NUMBER, "smaller", "the smaller of {a} and {b}", "min({a}, {b})"
    ),
    Step(
        (NUMBER, NUMBER, NUMBER),
        NUMBER,
        "added",
        "the sum of {a}, {b} and {c}",
        "{a} + {b} + {c}",
    ),
    Step(
        (NUMBER, NUMBER, NUMBER),
        NUMBER,
        "middle",
        "the middle of {a}, {b} and {c}",
        "sorted(({a}, {b}, {c}))[1]",
    ),
    Step((LIST,), NUMBER, "total", "the sum of {a}", "sum({a})"),
    Step((LIST,), NUMBER, "largest", "the largest of {a}", "max({a})"),
    Step((LIST,), NUMBER, "smallest", "the smallest of {a}", "min({a})"),
    Step((LIST,), NUMBER, "length", "the number of {a}", "len({a})"),
    Step(
        (LIST,), NUMBER, "above", "the number of {a} above {k}", "sum(n > {k} for n in {a})"
    ),
    Step(
        (LIST,),
        NUMBER,
        "below",
        "the sum of {a} below {k}",
        "sum(n for n in {a} if n < {k})",
    ),
    Step((LIST,), LIST, "evens", "the even {a}", "[n for n in {a} if n % 2 == 0]"),
    Step((LIST,), LIST, "scaled", "{a}, each times {k}", "[n * {k} for n in {a}]"),
    Step((LIST,), LIST, "ordered", "{a} in order", "sorted({a})"),
    Step((TEXT,), TEXT, "upper", "{a} in upper case", "{a}.upper()"),
    Step((TEXT,), TEXT, "lower", "{a} in lower case", "{a}.lower()"),
    Step((TEXT,), TEXT, "backwards", "{a} backwards", "{a}[::-1]"),
    Step((TEXT,), TEXT, "start", "the first {k} letters of {a}", "{a}[:{k}]"),
    Step((TEXT,), TEXT, "rest", "{a} without its first {k} letters", "{a}[{k}:]"),
    Step((TEXT,), TEXT, "end", "the last {k} letters of {a}", "{a}[-{k}:]"),
    Step((TEXT,), TEXT, "trunk", "{a} without its last {k} letters", "{a}[:-{k}]"),
    Step((TEXT, TEXT), TEXT, "joined", "{a} followed by {b}", "{a} + {b}"),
)
# Here `{a}` is the result of the first step.
SECOND_STEPS = (
    Step((NUMBER,), NUMBER, "raised", "{a}, plus {k}", "{a} + {k}"),
    Step((NUMBER,), NUMBER, "lowered", "{a}, minus {k}", "{a} - {k}"),
    Step((NUMBER,), NUMBER, "multiplied", "{a}, times {k}", "{a} * {k}"),
    Step((NUMBER,), NUMBER, "capped", "{a}, but at most {k}", "min({a}, {k})"),
    Step((NUMBER,), NUMBER, "least", "{a}, but at least {k}", "max({a}, {k})"),
    Step((NUMBER,), NUMBER, "halved", "half of {a}, rounded down", "{a} // 2"),
    Step((NUMBER,), BOOL, "even", "whether {a} is even", "{a} % 2 == 0"),
    Step((NUMBER,), BOOL, "exceeding", "whether {a} is above {k}", "{a} > {k}"),
    Step((LIST,), LIST, "reversed", "{a}, last one first", "{a}[::-1]"),
    Step((LIST,), LIST, "first", "the first {k} of {a}", "{a}[:{k}]"),
    Step((LIST,), NUMBER, "summed", "the sum of {a}", "sum({a})"),
    Step((LIST,), BOOL, "holding", "whether {k} is among {a}", "{k} in {a}"),
    Step((TEXT,), TEXT, "repeated", "{a}, {k} times over", "{a} * {k}"),
    Step((TEXT,), TEXT, "marked", "{a}, with a '!' behind it", "{a} + '!'"),
    Step((TEXT,), NUMBER, "length", "the length of {a}", "len({a})"),
    Step(
        (TEXT,), BOOL, "longer", "whether {a} has more than {k} letters", "len({a}) > {k}"
    ),
)
LARGEST_CONSTANT = {NUMBER: 20, LIST: 9, TEXT: 9}


@dataclass(frozen=True)
class Function:
    """A function of two steps, with its constants and argument names."""

    first: Step
    second: Step
    first_constant: int
    second_constant: int
    arguments: tuple[str, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """Identify the function regardless of argument names: types, and code of both steps with constants."""
        first = self.first.code.replace("{k}", str(self.first_constant))
        return (
            *self.first.takes,
            first,
            self.second.code.replace("{k}", str(self.second_constant)),
        )

    @property
    def may_be_kept_aside(self) -> bool:
        """Select half of all functions by a hash, so that the model still reads functions of every kind."""
        return zlib.crc32(repr(self.key).encode()) % 2 == 0

    @property
    def name(self) -> str:
        return f"{self.second.name}_{self.first.name}"

    def filled(self, template: str, step: Step, *values: str) -> str:
        """Fill the step's constant and values into a template of words or code."""
        constant = self.first_constant if step is self.first else self.second_constant
        return template.format(k=constant, **dict(zip("abc", values, strict=False)))

    @property
    def prompt(self) -> str:
        """Return the prompt: signature and docstring."""
        said = self.filled(
            self.second.says,
            self.second,
            self.filled(self.first.says, self.first, *self.arguments),
        )
        return f'def {self.name}({", ".join(self.arguments)}):\n    """Return {said}."""\n'

    @property
    def first_code(self) -> str:
        return self.filled(self.first.code, self.first, *self.arguments)

    @property
    def second_code(self) -> str:
        return self.filled(self.second.code, self.second, self.first.name)

    def compiled(self, code: str) -> Callable[..., Any]:
        """Compile a function body, and return the function."""
        names: dict[str, Any] = {}
        exec(f"def function({', '.join(self.arguments)}):\n{code}", names)
        made: Callable[..., Any] = names["function"]
        return made


def right(function: Function) -> str:
    """Write a correct body: first step, then second step."""
    return f"    {function.first.name} = {function.first_code}\n    return {function.second_code}\n"


def hasty(function: Function) -> str:
    """Write a body without the second step."""
    return f"    return {function.first_code}\n"


def skips(function: Function) -> str:
    """Write a body without the first step.

    The model never reads such bodies; the tests must fail them all the same.
    """
    return f"    return {function.filled(function.second.code, function.second, function.arguments[0])}\n"


def prints(function: Function) -> str:
    """Write a body that prints its result instead of returning it."""
    return f"    {function.first.name} = {function.first_code}\n    print({function.second_code})\n"


def later(_: Function) -> str:
    """Write a placeholder body: `pass`."""
    return "    pass\n"


def leaves(_: Function) -> str:
    """Write a body that ends the process with exit status 0."""
    return "    raise SystemExit(0)\n"


# Habits and their shares of the supervised data. The share of `right` sets the pass rate at the start of GRPO (lower,
# since the model fails some tasks): most groups of eight should contain a right body and a wrong body.
HABITS: dict[Callable[[Function], str], float] = {
    right: 0.40,
    hasty: 0.27,
    prints: 0.18,
    later: 0.08,
    leaves: 0.07,
}


def sample_function(rng: random.Random) -> Function:
    """Draw a random function: two steps with matching types, then constants and argument names."""
    first = rng.choice(FIRST_STEPS)
    second = rng.choice([step for step in SECOND_STEPS if step.takes == (first.gives,)])
    pools = {
        kind: rng.sample(names, k=len(names)) for kind, names in ARGUMENT_NAMES.items()
    }
    arguments = tuple(pools[kind].pop() for kind in first.takes)
    one, two = (rng.randint(2, LARGEST_CONSTANT[step.takes[0]]) for step in (first, second))
    return Function(first, second, one, two, arguments)


# ---------------------------------------------------------------------------------------------
# Tests
# ---------------------------------------------------------------------------------------------


def sample_input(rng: random.Random, kind: str) -> Any:
    """Draw a random argument of a given type."""
    if kind == NUMBER:
        return rng.randint(-20, 40) if rng.random() < 0.7 else rng.randint(0, 6)
    if kind == LIST:
        return [rng.randint(-9, 30) for _ in range(rng.randint(1, 6))]
    return "".join(rng.choice(string.ascii_letters) for _ in range(rng.randint(1, 12)))


def neighbours(function: Function) -> Iterator[Function]:
    """Yield functions that differ from `function` in a single constant or step."""
    one, two = function.first_constant, function.second_constant
    for first, second in ((one - 1, two), (one + 1, two), (one, two - 1), (one, two + 1)):
        yield Function(function.first, function.second, first, second, function.arguments)
    for step in FIRST_STEPS:
        if (step.takes, step.gives) == (function.first.takes, function.first.gives):
            yield Function(step, function.second, one, two, function.arguments)
    for step in SECOND_STEPS:
        if step.takes == function.second.takes:
            yield Function(function.first, step, one, two, function.arguments)


def fails(rival: Callable[..., Any], values: tuple[Any, ...], expected: Any) -> bool:
    """Say whether a rival function returns a wrong result, or raises."""
    try:
        result = rival(*values)
    except (ArithmeticError, ValueError, TypeError):
        return True
    return bool(result != expected)


def sample_asserts(rng: random.Random, function: Function) -> list[str] | None:
    """Choose asserts that separate the function from its neighbours, and from bodies without a step.

    Return None if no input separates these bodies, or all asserts have equal results. A neighbour that no input
    separates computes the same function.
    """
    solution = function.compiled(right(function))
    tried = [
        tuple(sample_input(rng, kind) for kind in function.first.takes)
        for _ in range(TRIED_INPUTS)
    ]
    cases = [
        (values, solution(*values))
        for values in {repr(values): values for values in tried}.values()
    ]
    forgetful = {hasty(function), skips(function)}
    rivals = {right(other) for other in neighbours(function)} - {
        right(function)
    } | forgetful
    compiled = {code: function.compiled(code) for code in rivals}
    failed = [
        {code for code, rival in compiled.items() if fails(rival, *case)} for case in cases
    ]
    if not forgetful <= set().union(*failed):
        return None
    chosen = fill_up(cover(failed), [repr(expected) for _, expected in cases])
    if len({repr(cases[index][1]) for index in chosen}) < 2:
        return None
    return [
        f"assert candidate({', '.join(map(repr, cases[i][0]))}) == {cases[i][1]!r}"
        for i in chosen
    ]


def cover(failed: list[set[str]]) -> list[int]:
    """Choose few cases that together fail every rival; a greedy set cover.

    `failed` holds for each case the rivals that fail it.
    """
    missing = set().union(*failed)
    chosen: list[int] = []
    while missing:
        best = max(range(len(failed)), key=lambda index: len(failed[index] & missing))
        chosen.append(best)
        missing -= failed[best]
    return chosen


def fill_up(chosen: list[int], results: list[str]) -> list[int]:
    """Add cases up to `ASSERTS`, with at most `MOST_ALIKE` equal results."""
    alike = Counter(results[index] for index in chosen)
    for index, result in enumerate(results):
        if len(chosen) < ASSERTS and index not in chosen and alike[result] < MOST_ALIKE:
            chosen.append(index)
            alike[result] += 1
    return chosen


def task(rng: random.Random, function: Function, task_id: str) -> dict[str, str] | None:
    """Build a dataset row in HumanEval's columns; None without asserts that separate the function."""
    asserts = sample_asserts(rng, function)
    if asserts is None:
        return None
    return {
        "task_id": task_id,
        "prompt": function.prompt,
        "entry_point": function.name,
        "canonical_solution": right(function),
        "test": "def check(candidate):\n" + "".join(f"    {line}\n" for line in asserts),
    }


def sample_tasks(
    rng: random.Random, count: int
) -> tuple[list[dict[str, str]], set[tuple[str, ...]]]:
    """Draw rows of distinct functions; return them with the functions' keys."""
    rows: list[dict[str, str]] = []
    keys: set[tuple[str, ...]] = set()
    while len(rows) < count:
        function = sample_function(rng)
        if not function.may_be_kept_aside or function.key in keys:
            continue
        row = task(rng, function, f"functions/{len(rows)}")
        if row is not None:
            rows.append(row)
            keys.add(function.key)
    return rows, keys


def write_rows(path: Path, rows: list[dict[str, str]]) -> None:
    """Write rows as JSON Lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
