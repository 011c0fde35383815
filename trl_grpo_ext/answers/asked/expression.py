"""Take the value of an equation that states an expression: `9` of `x + 4 = 9` to "Find $x + 4$".

An equation such as `3x = 24` is usually a step that is left to solve. It is an answer if the question asks for its
expression. To a question without letters it is an answer if the completion says whose value the expression is, or has
solved the letter before: "The larger number is x + 5 = 17", "x = 12, so x + 5 = 17".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from trl_grpo_ext.answers.compare.amounts import DECIMALS, apart, measured
from trl_grpo_ext.answers.compare.forms import assigned, is_equation, named
from trl_grpo_ext.answers.find.asked import known_numbers, numbers
from trl_grpo_ext.answers.find.last_sentence import MAX_SAID
from trl_grpo_ext.answers.find.values import FORMULA
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.signal_words import (
    CONDITION,
    DENIAL,
    DOUBT,
    WRONG,
    any_of,
)
from trl_grpo_ext.answers.read.spelling import strip_delimiters
from trl_grpo_ext.answers.read.tree import (
    Node,
    Number,
    Words,
    symbols,
    walk,
    with_values,
)

# Longer answers state no single expression.
MAX_CHARS = 200
# Characters at the end of a prompt that are searched.
MAX_PROMPT = 1_000
# Characters before an equation that are searched.
MAX_BEFORE = 80
# Words before an asked expression.
_ASKS = re.compile(
    r"\b(?:find|what(?:\s+is|['’]s)|compute|evaluate|calculate|determine|value\s+of)\s+"
    r"(?:(?:the|an?|exact|numerical|positive|value|expression|quantity|sum|of)\s+){0,4}(?=\S)",
    re.IGNORECASE,
)
# A formula in plain text, up to a stop or a word.
_PLAIN = re.compile(r"[^\n?!;:,\"$]{1,80}?(?=\s+[A-Za-z]{2,}\b|[?!.;:,](?:\s|$)|\s*$)")
_SOLVES = re.compile(r"\bsolve\b|\bequation\b|\bfor [a-z]\b", re.IGNORECASE)
_PARTS = re.compile(r"[,;]\s+(?:and\s+)?|\s+and\s+")
_TOLD = re.compile(
    r"(?<![\w^+*/)\\-])(?<![\d+*/)-] )([A-Za-z])\s*=\s*\\?\$?(-?\d{1,12}(?:\.\d{1,9})?)(?![\w.,]*\d|\s*[-+*/^=(])"
)
# A mark, or words that say whose value an expression is: "Jill has 2x = 24 marbles", not "we have 2x = 24".
_SAYS = re.compile(
    r"(?<!\bwe\s)(?<!\bi\s)(?<!\byou\s)(?<!\bthis\s)(?<!\bthat\s)(?<!\bwhich\s)(?<!\bit\s)"
    r"(?:\b(?:is|are|was|has|had|have|costs?|equals?|gets?|earns?|pays?|weighs?|makes?|sells?|sold)\s|[:=]\s?|\\boxed|<answer>|\*\*)"
    r"[\s$*({\\]*$",
    re.IGNORECASE,
)
_OF_STEP = re.compile(
    r"\b(?:equation|step|solv\w+|giv\w+|simplif\w+|when|so that)\b", re.IGNORECASE
)
_OPEN = any_of(DENIAL, DOUBT, CONDITION, WRONG)


def value_of_expression(
    answer: str, golds: Sequence[str], completion: str, prompt: str
) -> str:
    """Return the value of an answer that states an expression's value; any other answer unchanged.

    Examples:
        >>> asked = "If 2x = 10, find the value of x + 4."
        >>> [value_of_expression(said, ["9"], said, asked) for said in ("x + 4 = 9", "2x = 9")]
        ['9', '2x = 9']
        >>> said = "The larger number is x + 5 = 17."
        >>> value_of_expression("x + 5 = 17", ["17"], said, "Two numbers differ by 5. What is the larger number?")
        '17'
    """
    if "=" not in answer or not prompt or len(answer) > MAX_CHARS:
        return answer
    if any("=" in gold for gold in golds):
        return answer
    bare = strip_delimiters(answer.strip(" .")).strip(" .")
    *earlier, equation = _PARTS.split(bare)
    node = read(equation).node
    if not is_equation(node) or not all(assigned(read(part).node) for part in earlier):
        return answer
    sides = [strip_delimiters(side.strip()) for side in equation.split("=")]
    (expression, value), text = node.sides, sides[-1]
    if symbols(value):
        expression, value, text = value, expression, sides[0]
    is_stated = (
        isinstance(measured(value)[0], Number)
        and _has_letters(expression)
        and not named(expression)
    )
    given = assigned(node)
    # The comparison reads a value behind a name, a + b = 7, by itself.
    is_label = given is not None and given[0] != Words("")
    if not is_stated or (is_label and not earlier):
        return answer
    said = completion[-MAX_SAID:]
    clause = _PARTS.split(text_before(equation, said))[-1]
    if _OPEN.search(clause) or _is_false(expression, value, said):
        return answer
    is_meant = expression in asked_expressions(prompt) or _is_named(
        equation, said, prompt, text
    )
    return text if is_meant else answer


def text_before(equation: str, said: str) -> str:
    """Return the text before an equation, in the equation's sentence."""
    line = said.rpartition(equation)[0].rpartition("\n")[2]
    return line.rpartition(". ")[2][-MAX_BEFORE:]


@lru_cache(maxsize=256)
def asked_expressions(prompt: str) -> tuple[Node, ...]:
    """Return the formulas behind the words by which a prompt asks; cached: each completion looks them up."""
    found = []
    tail = prompt[-MAX_PROMPT:]
    for asks in _ASKS.finditer(tail):
        formula = FORMULA.match(tail, asks.end()) or _PLAIN.match(tail, asks.end())
        if formula:
            text = next(filter(None, formula.groups()), formula[0])
            found.append(read(text).node)
    return tuple(filter(_has_letters, found))


def _has_letters(node: Node) -> bool:
    """Check whether an expression contains a letter, `x + 4`, or a function's value, `f(3) + 2`."""
    return any(named(one) and not isinstance(one, Words) for one in walk(node))


def _is_named(equation: str, said: str, prompt: str, value: str) -> bool:
    """Check whether a question in words is answered by an expression that is named, or whose letter is solved.

    An equation with a number of the prompt may only retell the prompt.
    """
    asks_for_letters = bool(asked_expressions(prompt)) or _SOLVES.search(
        prompt[-MAX_PROMPT:]
    )
    if asks_for_letters or known_numbers(prompt).issuperset(numbers(value)):
        return False
    beginning = text_before(equation, said)
    if _SAYS.search(beginning) and not _OF_STEP.search(beginning):
        return True
    earlier = said.rpartition(equation)[0]
    letters = symbols(read(equation).node)
    return bool(letters) and letters <= _told(earlier).keys()


def _is_false(expression: Node, value: Node, said: str) -> bool:
    """Check whether an expression clearly has another value for the letters' values that a completion tells."""
    told = _told(said)
    if not symbols(expression) <= told.keys():
        return False
    return apart(measured(value)[0], with_values(expression, told), DECIMALS)


def _told(said: str) -> Mapping[str, Node]:
    """Return the last value that a text tells for each letter: `x = 12`."""
    return {letter: read(value).node for letter, value in _TOLD.findall(said)}
