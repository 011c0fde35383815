"""Checks of answers before reasoning-gym's scorers run, which close loopholes of the scorers in version 0.1.25.

A check returns a reason code, or "" to let the scorer run. Two kinds of loophole are closed: scorers that evaluate
the answer as Python, by `eval` or sympy's parser, and scorers that give full score to answers that miss the question.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

Check = Callable[[str, Mapping[str, Any]], str]

MAX_FORMULA_CHARS = 1_000
_FUNCTIONS = (
    *(
        "sin",
        "cos",
        "tan",
        "sec",
        "csc",
        "cot",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
    ),
    *("exp", "log", "ln", "sqrt", "Abs", "pi"),
)
# Single letters, known functions, numbers and operators only: no attribute, subscript, string or evaluating function.
_FORMULA = re.compile(
    rf"(?:[-+*/^(),\s]|[0-9]++(?:\.[0-9]++)?|(?<!\w)(?:(?:{'|'.join(_FUNCTIONS)})(?!\w)|[A-Za-z](?!\w|\s*\()))*+"
)
_ARITHMETIC = re.compile(r"[-+*/()\s0-9]*")
_OPERATORS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_WORDS = re.compile(r"[\w\s]*")
# 1,234.5
_NUMBER = re.compile(r"-?[0-9][0-9,]*(?:\.[0-9]+)?")
# 0.25, .25, 2.5e-3 or 1/4, with so few digits that reading takes no time.
_PROBABILITY = re.compile(
    r"(?:[0-9]{1,30}\.?|[0-9]{0,30}\.[0-9]{1,30})(?:e-[0-9]{1,2})?|[0-9]{1,30}/[1-9][0-9]{0,29}"
)
_LOCK = re.compile(r"[A-Ca-c\s,→>\[\]\"'-]*")
# 3/4 or \frac{3}{4}, also between dollars.
_FRACTION = re.compile(
    r"\s*\$*\s*(?:\\d?frac\s*\{\s*[0-9]+\s*\}\s*\{\s*[0-9]+\s*\}|[0-9]+\s*/\s*[0-9]+)\s*\$*\s*",
    re.IGNORECASE,
)
_DAYS = re.compile(r"\s*[0-9]+(?:\s+days?)?\s*")
# 2 days, 3:45:10
_DURATION = re.compile(
    r"\s*(?:[0-9]+\s+days?,\s*)?[0-9]+:[0-9]+(?::[0-9]+(?:\.[0-9]+)?)?\s*"
)
_BITS = re.compile(r"[01\s,;|\[\]]*")
_TABLE = re.compile(r"[-0-9\s|]*")
# F2 R' U
_CUBE_MOVES = re.compile(r"\s*+(?:[^\d\s]{1,4}[0-9]{0,2}(?:\s++|\Z))*")
_NO_SOLUTION = re.compile(
    r"(?:there (?:are|is) )?(?:no|none|empty(?: set| string)?|∅|\[\]|\{\})(?: real)?"
    r"(?: (?:values?|solutions?|roots?))?(?: exists?)?",
    re.IGNORECASE,
)


def finds_only(form: re.Pattern[str], otherwise: str) -> Check:
    """Make a check that accepts answers that match `form` in full, and refuses others with the reason `otherwise`."""

    def check(answer: str, entry: Mapping[str, Any]) -> str:
        if form.fullmatch(answer):
            return ""
        return otherwise

    return check


def finds_formula(answer: str, entry: Mapping[str, Any]) -> str:
    """Refuse any answer except a plain formula of limited length.

    Sympy's parser runs its text as Python, and `Integral(...)` or `expand(...)` would leave the work to sympy.
    """
    if len(answer) > MAX_FORMULA_CHARS or not _FORMULA.fullmatch(answer):
        return "not_a_formula"
    return ""


def finds_literal(answer: str, entry: Mapping[str, Any]) -> str:
    """Refuse an answer that is neither a Python literal nor plain words, since the scorer calls `eval`."""
    if _WORDS.fullmatch(answer):
        return ""
    try:
        ast.literal_eval(answer)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return "not_a_literal"
    return ""


def finds_arithmetic(answer: str, entry: Mapping[str, Any]) -> str:
    """Refuse an answer that is no formula, uses other numbers, or misses the target value.

    The scorers of `countdown` and `puzzle24` evaluate any text, and `puzzle24` accepts any four numbers, and 24.9 for
    24.
    """
    if len(answer) > MAX_FORMULA_CHARS or not _ARITHMETIC.fullmatch(answer):
        return "not_a_formula"
    used = sorted(int(number) for number in re.findall(r"[0-9]{1,9}", answer))
    if used != sorted(entry["metadata"]["numbers"]):
        return "other_numbers"
    value = _value(answer)
    if value is None:
        return "not_a_formula"
    # Entries of `puzzle24` have no target.
    target = entry["metadata"].get("target", 24)
    if value != target:
        return "other_value"
    return ""


def _value(formula: str) -> Fraction | None:
    """Compute the exact value of a formula of integers and + - * /; None for an invalid formula."""
    # Python refuses an indented formula, or a formula on several lines.
    one_line = " ".join(formula.split())
    try:
        tree = ast.parse(one_line, mode="eval")
        return _evaluated(tree.body)
    except (ValueError, SyntaxError, ZeroDivisionError, MemoryError, RecursionError):
        return None


def _evaluated(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int(number)):
            return Fraction(number)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _evaluated(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluated(operand)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            operate = _OPERATORS[type(sign)]
            return operate(_evaluated(left), _evaluated(right))
    raise ValueError("neither an integer nor a sum, difference, product or quotient")


def finds_finite_number(answer: str, entry: Mapping[str, Any]) -> str:
    """Refuse `nan` and `inf`: `complex_arithmetic` gives `nan` full score, since every comparison with NaN fails."""
    if re.search(r"nan|inf", answer, re.IGNORECASE):
        return "not_a_number"
    return ""


def finds_probability(answer: str, entry: Mapping[str, Any]) -> str:
    """Refuse any answer except a probability close to the gold.

    `coin_flip` compares leading digits, and so accepts 0 for 0.003; 1e999999999 hangs it.
    """
    if not _PROBABILITY.fullmatch(answer.strip()):
        return "not_a_number"
    given = Fraction(answer.strip())
    wanted = Fraction(str(entry["answer"]))
    # A share of a small gold: within 1/10,000 of 0.00005, 0 would be right.
    tolerance = min(Fraction(1, 10_000), wanted / 20)
    if abs(given - wanted) > tolerance:
        return "other_value"
    return ""


def finds_one_number(answer: str, entry: Mapping[str, Any]) -> str:
    """Refuse an answer with several numbers or none: `gsm_symbolic` accepts any text whose first number is right."""
    count = len(_NUMBER.findall(answer))
    if count == 0:
        return "not_a_number"
    if count > 1:
        return "several_numbers"
    return ""


def finds_gold(answer: str, entry: Mapping[str, Any]) -> str:
    """Refuse an answer other than the gold: `game_of_life_halting` reads any text as `True` or `False`."""
    gold = str(entry["answer"])
    if answer.strip().casefold() != gold.casefold():
        return "not_equal"
    return ""


def finds_same_numbers(answer: str, entry: Mapping[str, Any]) -> str:
    """Refuse numbers other than the gold's: `number_sorting` accepts numbers off by 1."""
    wanted = [float(number) for number in entry["metadata"]["sorted_numbers"]]
    try:
        given = [float(number) for number in ast.literal_eval(answer)]
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, OverflowError):
        return "not_a_literal"
    if len(given) != len(wanted):
        return "other_numbers"
    pairs = zip(given, wanted, strict=True)
    if not all(math.isclose(one, other, abs_tol=1e-6) for one, other in pairs):
        return "other_numbers"
    return ""


def finds_duration(answer: str, entry: Mapping[str, Any]) -> str:
    """Refuse text around a duration: `time_intervals` reads only the first days, or the start of a duration."""
    form = _DAYS if entry["metadata"]["task_type"] == "date" else _DURATION
    if not form.fullmatch(answer):
        return "not_a_duration"
    return ""


def finds_solutions(answer: str, entry: Mapping[str, Any]) -> str:
    """Refuse words other than "no solution": `polynomial_equations` ignores text, and so reads any words as none."""
    bare = answer.strip(" \t\n.\"'")
    if not bare or _NO_SOLUTION.fullmatch(bare):
        return ""
    try:
        roots = [float(part) for part in answer.split(",")]
    except ValueError:
        return "not_a_number"
    if not all(map(math.isfinite, roots)):
        return "not_a_number"
    return ""


def finds_point(answer: str, entry: Mapping[str, Any]) -> str:
    """Refuse an orthocenter without exactly two coordinates: `advanced_geometry` ignores text after the second."""
    is_point = entry["metadata"]["task_type"] == "orthocenter"
    if is_point and answer.count(",") != 1:
        return "not_a_point"
    return ""


def finds_as_many_words(answer: str, entry: Mapping[str, Any]) -> str:
    """Refuse a list with another number of words: `word_sorting` ignores words after the last expected word."""
    gold = str(entry["answer"])
    if answer.count(",") != gold.count(","):
        return "other_words"
    return ""


CHECKS: Mapping[str, Check] = {
    "advanced_geometry": finds_point,
    "binary_matrix": finds_literal,
    "coin_flip": finds_probability,
    "complex_arithmetic": finds_finite_number,
    "countdown": finds_arithmetic,
    # The scorer reads a LaTeX fraction at the start of the text, and ignores the rest.
    "fraction_simplification": finds_only(_FRACTION, "not_a_fraction"),
    "game_of_life_halting": finds_gold,
    "gsm_symbolic": finds_one_number,
    "intermediate_integration": finds_formula,
    # The scorer ignores every character except 0 and 1, even inside words and numbers.
    "kakurasu": finds_only(_BITS, "stray_text"),
    "n_queens": finds_literal,
    "number_sorting": finds_same_numbers,
    "polynomial_equations": finds_solutions,
    "polynomial_multiplication": finds_formula,
    "puzzle24": finds_arithmetic,
    # The scorer ignores every character except A, B and C, even inside words.
    "quantum_lock": finds_only(_LOCK, "stray_text"),
    # The scorer expands the number after a move to a list of so many moves, even a billion.
    "rubiks_cube": finds_only(_CUBE_MOVES, "stray_text"),
    "simple_integration": finds_formula,
    "spiral_matrix": finds_literal,
    "string_insertion": finds_literal,
    # The scorer ignores every word that is not an integer.
    "survo": finds_only(_TABLE, "stray_text"),
    "time_intervals": finds_duration,
    "word_sorting": finds_as_many_words,
}


def problem_with(task: str, answer: str, entry: Mapping[str, Any]) -> str:
    """Run the task's check on an answer, and return a reason code; empty if the scorer may run."""
    check = CHECKS.get(task)
    if check is None:
        return ""
    return check(answer, entry)
