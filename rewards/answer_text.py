"""Finding answers in text, and comparing them as text: what needs no mathematics and takes no time.

Every function here is linear in the length of its input, so it may run in the trainer's process on hostile text.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

MAX_CHARS = 50_000  # of a completion, from its end
MAX_UNBOXED_CHARS = 1_000  # of what follows the reasoning, from its end, where there is no box
MAX_ANSWER_CHARS = 2_000  # no honest final answer is longer

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACES = re.compile(_BOX.pattern + r"|\\[{}\\]|[{}]")
_MATH_WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_TEXT_COMMAND = re.compile(r"\\(?:text|mathrm|textbf|mbox)\s*\{([^{}]*)\}")
_SIZE = re.compile(r"\\(?:left|right)(?![A-Za-z])")
_FRACTION = re.compile(r"\\[dt]frac(?![A-Za-z])")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_WORD = re.compile(r"[A-Za-z][A-Za-z '-]*")
_PROSE = re.compile(r"[A-Za-z]{2,}\s+[A-Za-z]{2,}")
_MATH_NAMES = frozenset({"e", "i", "pi", "inf", "infty", "infinity"})


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """What a completion says at its end.

    Attributes:
        text: The content of the last box, or the end of what follows the reasoning.
        boxed: Whether it stood in a box.
        problem: Why there is no answer, as a reason code; empty if there is one.
    """

    text: str = ""
    boxed: bool = False
    problem: str = ""


def final_answer(completion: str, *, prefill: str | None = None) -> FinalAnswer:
    r"""The final answer of a completion, looked for after its reasoning.

    Args:
        completion: Its text.
        prefill: What the prompt put before it, such as `<think>`, if that is known.

    Example:
        >>> final_answer(r"<think>\boxed{1}?</think>It is \boxed{\frac{1}{2}}.").text
        '\\frac{1}{2}'
        >>> final_answer(r"<think>perhaps \boxed{1}").problem
        'unclosed_think'
    """
    spoken = after_thinking((prefill or "") + completion)
    if spoken is None:
        return FinalAnswer(problem="unclosed_think")
    spoken = spoken[-MAX_CHARS:]
    box = last_box(spoken)
    if box is None:
        tail = spoken[-MAX_UNBOXED_CHARS:].strip()
        return FinalAnswer(text=tail) if tail else FinalAnswer(problem="no_answer")
    if not box.strip():
        return FinalAnswer(problem="empty_box")
    if len(box) > MAX_ANSWER_CHARS:
        return FinalAnswer(problem="answer_too_long")
    return FinalAnswer(text=box.strip(), boxed=True)


def after_thinking(text: str) -> str | None:
    """What follows the last think block; all of the text if there is none; None if the block is not closed."""
    opened, closed = text.rfind("<think>"), text.rfind("</think>")
    if opened > closed:
        return None
    return text[closed + len("</think>") :] if closed >= 0 else text


def last_box(text: str) -> str | None:
    r"""The content of the last outermost `\boxed{}`, or None.

    Example:
        >>> last_box(r"\boxed{1} and then \boxed{\frac{\boxed{2}}{3}}")
        '\\frac{\\boxed{2}}{3}'
    """
    box, unclosed = _scan_boxes(text)
    if unclosed is None:
        return box
    # An unclosed box hides the later ones: look at the last alone.
    last = [match.start() for match in _BOX.finditer(text, unclosed)][-1:]
    later, _ = _scan_boxes(text[last[0] :]) if last else (None, None)
    return box if later is None else later


def _scan_boxes(text: str) -> tuple[str | None, int | None]:
    """The last closed outermost box, and where an unclosed one begins its content."""
    depth, opened_depth = 0, 0
    opened: int | None = None
    box: str | None = None
    for match in _BRACES.finditer(text):
        token = match.group()
        if token == "}":
            depth = max(depth - 1, 0)
            if opened is not None and depth == opened_depth:
                box, opened = text[opened : match.start()], None
        elif token == "{" or (token[-1] == "{" and len(token) > 2):
            if opened is None and token != "{":
                opened, opened_depth = match.end(), depth
            depth += 1
    return box, opened


def gold_text(gold: object) -> str:
    r"""A gold answer as text: the number, the last box, what follows GSM8K's `####`, or what the dollars enclose.

    Empty for what is no answer, such as NaN in a float column.

    Example:
        >>> [gold_text(gold) for gold in (42, 42.0, "5 + 5 = 10\n#### 10", r"so $\boxed{7}$", "$x^2$")]
        ['42', '42', '10', '7', 'x^2']
    """
    if isinstance(gold, bool):
        return "yes" if gold else "no"
    if isinstance(gold, float):
        if not math.isfinite(gold):
            return ""
        return str(int(gold)) if gold.is_integer() else repr(gold)
    text = str(gold).strip()
    if "####" in text:
        text = text.rpartition("####")[2].strip()
    box = last_box(text)
    return strip_dollars(text if box is None else box)


def strip_dollars(text: str) -> str:
    """The text without math delimiters that enclose all of it."""
    text = text.strip()
    for start, end in _MATH_WRAPPERS:
        inner = text[len(start) : -len(end)]
        if text.startswith(start) and text.endswith(end) and len(text) > len(start) and end not in inner:
            return inner.strip()
    return text


def same_text(gold: str, answer: str) -> bool:
    """Whether two answers are the same but for white space, LaTeX sizes, and, for words, case."""
    gold, answer = _normal(gold), _normal(answer)
    return gold == answer or (is_word(gold) and gold.casefold() == answer.casefold())


def is_word(text: str) -> bool:
    r"""Whether an answer is words, not mathematics: `yes`, `\text{Tuesday}`, `B`.

    Example:
        >>> [is_word(text) for text in ("yes", r"\text{(B)}", "pi", "x+1")]
        [True, True, False, False]
    """
    plain = _normal(text)
    return _WORD.fullmatch(plain) is not None and plain.casefold() not in _MATH_NAMES


def is_prose(text: str) -> bool:
    """Whether the text is a sentence, such as a worked solution, in which the answer still has to be found."""
    return _PROSE.search(_COMMAND.sub(" ", _TEXT_COMMAND.sub(" ", text))) is not None


def _normal(text: str) -> str:
    text = _TEXT_COMMAND.sub(r"\1", strip_dollars(text))
    text = _FRACTION.sub(r"\\frac", _SIZE.sub("", text))
    text = " ".join(text.split()).rstrip(".")
    choice = re.fullmatch(r"\(([A-Za-z])\)", text)
    return choice.group(1) if choice else text
