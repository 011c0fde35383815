"""Functions of two steps, as HumanEval's tasks: what the tiny coder is trained and tested on."""

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
TRIED_INPUTS = 300  # of which the asserts are chosen
MOST_ALIKE = 3  # asserts of the same result, beyond those that are needed

NUMBER, TEXT, LIST, BOOL = "number", "text", "list", "bool"
ARGUMENT_NAMES = {
    NUMBER: ("price", "count", "score", "width", "height", "age", "size", "level", "speed", "weight", "limit", "rank"),
    TEXT: ("word", "name", "line", "title", "label", "city"),
    LIST: ("numbers", "prices", "scores", "values", "sizes", "ages"),
}

# ---------------------------------------------------------------------------------------------
# Functions
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One step of a function: what it takes and gives, its name, and how it is said and written.

    In `says` and `code`, `{a}`, `{b}` and `{c}` stand for its arguments, and `{k}` for a constant.
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
    Step((NUMBER,), NUMBER, "remainder", "the remainder of {a} divided by {k}", "{a} % {k}"),
    Step((NUMBER,), NUMBER, "square", "the square of {a}", "{a} ** 2"),
    Step((NUMBER,), NUMBER, "magnitude", "{a} without its sign", "abs({a})"),
    Step((NUMBER, NUMBER), NUMBER, "added", "the sum of {a} and {b}", "{a} + {b}"),
    Step((NUMBER, NUMBER), NUMBER, "difference", "{a} minus {b}", "{a} - {b}"),
    Step((NUMBER, NUMBER), NUMBER, "product", "{a} times {b}", "{a} * {b}"),
    Step((NUMBER, NUMBER), NUMBER, "larger", "the larger of {a} and {b}", "max({a}, {b})"),
    Step((NUMBER, NUMBER), NUMBER, "smaller", "the smaller of {a} and {b}", "min({a}, {b})"),
    Step((NUMBER, NUMBER, NUMBER), NUMBER, "added", "the sum of {a}, {b} and {c}", "{a} + {b} + {c}"),
    Step((NUMBER, NUMBER, NUMBER), NUMBER, "middle", "the middle of {a}, {b} and {c}", "sorted(({a}, {b}, {c}))[1]"),
    Step((LIST,), NUMBER, "total", "the sum of {a}", "sum({a})"),
    Step((LIST,), NUMBER, "largest", "the largest of {a}", "max({a})"),
    Step((LIST,), NUMBER, "smallest", "the smallest of {a}", "min({a})"),
    Step((LIST,), NUMBER, "length", "the number of {a}", "len({a})"),
    Step((LIST,), NUMBER, "above", "the number of {a} above {k}", "sum(n > {k} for n in {a})"),
    Step((LIST,), NUMBER, "below", "the sum of {a} below {k}", "sum(n for n in {a} if n < {k})"),
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
# Here `{a}` is what the first step gives.
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
    Step((TEXT,), BOOL, "longer", "whether {a} has more than {k} letters", "len({a}) > {k}"),
)
LARGEST_CONSTANT = {NUMBER: 20, LIST: 9, TEXT: 9}


@dataclass(frozen=True)
class Function:
    """A function of two steps, with its constants and the names of its arguments."""

    first: Step
    second: Step
    first_constant: int
    second_constant: int
    arguments: tuple[str, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from other functions, whatever its arguments are called."""
        first = self.first.code.replace("{k}", str(self.first_constant))
        return (*self.first.takes, first, self.second.code.replace("{k}", str(self.second_constant)))

    @property
    def may_be_kept_aside(self) -> bool:
        """Half of all functions, by a coin that always falls the same, so that the model reads some of every kind."""
        return zlib.crc32(repr(self.key).encode()) % 2 == 0

    @property
    def name(self) -> str:
        return f"{self.second.name}_{self.first.name}"

    def filled(self, template: str, step: Step, *values: str) -> str:
        """The words or code of a step with its constant and values filled in."""
        constant = self.first_constant if step is self.first else self.second_constant
        return template.format(k=constant, **dict(zip("abc", values, strict=False)))

    @property
    def prompt(self) -> str:
        """The signature and docstring, as the model is asked."""
        said = self.filled(self.second.says, self.second, self.filled(self.first.says, self.first, *self.arguments))
        return f'def {self.name}({", ".join(self.arguments)}):\n    """Return {said}."""\n'

    @property
    def first_code(self) -> str:
        return self.filled(self.first.code, self.first, *self.arguments)

    @property
    def second_code(self) -> str:
        return self.filled(self.second.code, self.second, self.first.name)

    def compiled(self, code: str) -> Callable[..., Any]:
        """The code of a body as a function of the arguments."""
        names: dict[str, Any] = {}
        exec(f"def function({', '.join(self.arguments)}):\n{code}", names)
        made: Callable[..., Any] = names["function"]
        return made


def right(function: Function) -> str:
    """Do one step after the other."""
    return f"    {function.first.name} = {function.first_code}\n    return {function.second_code}\n"


def hasty(function: Function) -> str:
    """Forget the second step."""
    return f"    return {function.first_code}\n"


def skips(function: Function) -> str:
    """Forget the first step. The model does not read this one; the tests have to fail it all the same."""
    return f"    return {function.filled(function.second.code, function.second, function.arguments[0])}\n"


def prints(function: Function) -> str:
    """Print what should be returned."""
    return f"    {function.first.name} = {function.first_code}\n    print({function.second_code})\n"


def later(_: Function) -> str:
    """Leave it for later."""
    return "    pass\n"


def leaves(_: Function) -> str:
    """End the process as if all were well."""
    return "    raise SystemExit(0)\n"


# The habits, and the shares of the bodies that the model reads. The first is the share that is right when GRPO starts,
# less what the model cannot do: most groups of eight should hold one that is right, and leave something to learn.
HABITS: dict[Callable[[Function], str], float] = {right: 0.40, hasty: 0.27, prints: 0.18, later: 0.08, leaves: 0.07}


def sample_function(rng: random.Random) -> Function:
    """Draw a function: two steps that fit, each pair of them as likely as any other, then constants and names."""
    first = rng.choice(FIRST_STEPS)
    second = rng.choice([step for step in SECOND_STEPS if step.takes == (first.gives,)])
    pools = {kind: rng.sample(names, k=len(names)) for kind, names in ARGUMENT_NAMES.items()}
    arguments = tuple(pools[kind].pop() for kind in first.takes)
    one, two = (rng.randint(2, LARGEST_CONSTANT[step.takes[0]]) for step in (first, second))
    return Function(first, second, one, two, arguments)


# ---------------------------------------------------------------------------------------------
# Tests
# ---------------------------------------------------------------------------------------------


def sample_input(rng: random.Random, kind: str) -> Any:
    """Draw a value for an argument."""
    if kind == NUMBER:
        return rng.randint(-20, 40) if rng.random() < 0.7 else rng.randint(0, 6)
    if kind == LIST:
        return [rng.randint(-9, 30) for _ in range(rng.randint(1, 6))]
    return "".join(rng.choice(string.ascii_letters) for _ in range(rng.randint(1, 12)))


def neighbours(function: Function) -> Iterator[Function]:
    """Functions that differ in one constant or one step."""
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
    """Whether a rival's result is another, or none."""
    try:
        result = rival(*values)
    except (ArithmeticError, ValueError, TypeError):
        return True
    return bool(result != expected)


def sample_asserts(rng: random.Random, function: Function) -> list[str] | None:
    """Choose inputs that tell the function from its neighbours, and from what forgets a step; None if there are none.

    Neighbours that no input tells apart are the same function.
    """
    solution = function.compiled(right(function))
    tried = [tuple(sample_input(rng, kind) for kind in function.first.takes) for _ in range(TRIED_INPUTS)]
    cases = [(values, solution(*values)) for values in {repr(values): values for values in tried}.values()]
    forgetful = {hasty(function), skips(function)}
    rivals = {right(other) for other in neighbours(function)} - {right(function)} | forgetful
    compiled = {code: function.compiled(code) for code in rivals}
    failed = [{code for code, rival in compiled.items() if fails(rival, *case)} for case in cases]
    if not forgetful <= set().union(*failed):
        return None
    chosen = fill_up(cover(failed), [repr(expected) for _, expected in cases])
    if len({repr(cases[index][1]) for index in chosen}) < 2:
        return None
    return [f"assert candidate({', '.join(map(repr, cases[i][0]))}) == {cases[i][1]!r}" for i in chosen]


def cover(failed: list[set[str]]) -> list[int]:
    """Choose few of the cases so that whatever fails any of them fails one of those."""
    missing = set().union(*failed)
    chosen: list[int] = []
    while missing:
        best = max(range(len(failed)), key=lambda index: len(failed[index] & missing))
        chosen.append(best)
        missing -= failed[best]
    return chosen


def fill_up(chosen: list[int], results: list[str]) -> list[int]:
    """Add cases, not too many of them with the same result."""
    alike = Counter(results[index] for index in chosen)
    for index, result in enumerate(results):
        if len(chosen) < ASSERTS and index not in chosen and alike[result] < MOST_ALIKE:
            chosen.append(index)
            alike[result] += 1
    return chosen


def task(rng: random.Random, function: Function, task_id: str) -> dict[str, str] | None:
    """The row of a function, in HumanEval's columns."""
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


def sample_tasks(rng: random.Random, count: int) -> tuple[list[dict[str, str]], set[tuple[str, ...]]]:
    """Draw tasks, no two of the same function, and the keys of the functions."""
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
    """Write the rows as lines of JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
