"""Finding the final answer of a completion: explicit rules, each with a name.

Every function here takes time linear in the length of its input, so it may run in the trainer's process on hostile
text. Nothing is parsed as mathematics here.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from typing import Literal, get_args

from trl_grpo_ext.rewards.math_answers.notation import without_commands

Mode = Literal["auto", "boxed", "boxed_only", "answer_tag", "final_answer_phrase", "last_number"]
MODES: tuple[str, ...] = get_args(Mode)

MAX_CHARS = 50_000  # of a completion, from its end
MAX_TAIL_CHARS = 1_000  # of what follows the reasoning, from its end, where nothing marks the answer
MAX_ANSWER_CHARS = 2_000  # no honest final answer is longer
MAX_ANSWERS = 20  # nor does an honest completion give more of them
MAX_GAP_CHARS = 70  # between two boxes that are parts of one answer, as in math-verify

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s+([0-9A-Za-z]+|\\[A-Za-z]+)")
_BRACES = re.compile(_BOX.pattern + r"|\\[{}\\]|[{}]")
_PHRASE = re.compile(
    r"\b(final\s+answer|answer|correct\s+(?:option|choice))\b[*_]*\s*(?:is|are|:|=)[*_]*\s*:?\s*([^\n]{1,300})",
    re.IGNORECASE,
)
_HASHES = re.compile(r"####[ \t]*([^\n]{1,300})")
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?%?")
_JOINED = re.compile(r"^[\s$,;\\()\[\]]*$|,|;|\band\b|\bor\b")
_CORRECTED = re.compile(r"\b(?:then|no|not|wait|but|so|actually|instead|rather|sorry|correct\w*)\b", re.IGNORECASE)
_PLACEHOLDER = re.compile(
    r"[\s.…_]*|(?:\\text\s*\{\s*)?(?:your |the |final )*answer(?: here)?(?:\s*\})?", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"[.!?]\s+[A-Z]|\n\s*\n")
_SENTENCE_STOP = re.compile(r"(?<=[^\s.])\.(?:\s|$)|[!?](?:\s|$)")
_CLAUSE = re.compile(r"(?<=\S)(?:,\s+(?!or\b)(?=[a-z]{2,})|\s+\(?(?=(?:because|since|which|as|where|not|so)\b)|;\s)")
_IS = re.compile(r"\b(?:is|are)\b")
_DELIMITED = re.compile(r"[A-Za-z ]{0,20}?(\${1,2}|\\\(|\\\[)(.+?)(\1|\\\)|\\\])")
_FENCE = re.compile(r"^```\w*\n(.*?)\n?```$", re.DOTALL)
_LEAD = re.compile(r"^(?:[A-Za-z]\s*:|=>|->|→|=)\s*")
_LONG_WORD = re.compile(
    r"(?<![A-Za-z])(?!(?:sin|cos|tan|ln|log|sqrt|exp|and|or|pi|mod|gcd)(?![A-Za-z]))[^\W\d_]{2,}|[\u3040-\u9fff]"
)
_FEW_WORDS = re.compile(r"[\s$().]*(?:[^\W\d_]+\s*){1,3}[\s$().]*")


@dataclass(frozen=True, slots=True)
class Extraction:
    """What a completion gives as its answer.

    Attributes:
        answers: The distinct final answers; several if the completion contradicts itself.
        rule: The name of the rule that found them.
        problem: Why there is none, as a reason code; empty if there is one.
    """

    answers: tuple[str, ...] = ()
    rule: str = ""
    problem: str = ""


def extract(completion: str, *, prefill: str | None = None, mode: Mode = "auto") -> Extraction:
    r"""The final answer of a completion, looked for after its reasoning.

    | mode | takes |
    |---|---|
    | `boxed` | the last outermost `\boxed{}`; adjacent boxes are one answer |
    | `boxed_only` | the same, if there is exactly one |
    | `answer_tag` | what the last `<answer>` holds, or the box in it |
    | `final_answer_phrase` | what follows the last "answer is", "answer:" or `####` on its line |
    | `last_number` | the last number |
    | `auto` | boxes, tags and "final answer is", all of them: those that contradict each other are several answers |
    | | without any of these, "answer is"; without that, the last expression |

    Args:
        completion: Its text.
        prefill: What the prompt put before it, such as `<think>`, if that is known.
        mode: The rule.

    Example:
        >>> extract(r"<think>\boxed{1}?</think>It is \boxed{\frac{1}{2}}.").answers
        ('\\frac{1}{2}',)
        >>> extract(r"<think>perhaps \boxed{1}").problem
        'unclosed_think'
        >>> extract("Final answer: 7. <answer>8</answer>").answers
        ('8', '7')
    """
    spoken = after_thinking((prefill or "") + completion)
    if spoken is None:
        return Extraction(problem="unclosed_think")
    spoken = spoken[-MAX_CHARS:]
    found = _RULES[mode](spoken)
    if found.problem:
        return found
    answers = tuple(dict.fromkeys(" ".join(answer.split()) for answer in found.answers))
    if not all(answers):
        return Extraction(rule=found.rule, problem="empty_answer")
    if any(len(answer) > MAX_ANSWER_CHARS for answer in answers):
        return Extraction(rule=found.rule, problem="answer_too_long")
    if len(answers) > MAX_ANSWERS:
        return Extraction(rule=found.rule, problem="too_many_answers")
    return Extraction(answers, found.rule)


def after_thinking(text: str) -> str | None:
    """What follows the last think block; all of the text if there is none; None if the block is not closed."""
    opened, closed = text.rfind("<think>"), text.rfind("</think>")
    if opened > closed:
        return None
    return text[closed + len("</think>") :] if closed >= 0 else text


def boxes(text: str) -> list[tuple[int, int, str]]:
    r"""The outermost boxes: where each begins and ends, and its content. A box in a box counts as its content.

    Example:
        >>> [content for _, _, content in boxes(r"\boxed{1}, \boxed{\boxed{2}} and \boxed 3")]
        ['1', '2', '3']
    """
    found, unclosed = _scan_boxes(text)
    if unclosed is not None:  # it hides the later ones: look at the last alone
        last = [match.start() for match in _BOX.finditer(text, unclosed)][-1:]
        found += [(start + last[0], end + last[0], content) for start, end, content in _later(text, last)]
    taken = {start for start, _, _ in found}
    bare = [(m.start(), m.end(), m[1]) for m in _BARE_BOX.finditer(text) if m.start() not in taken]
    return sorted(found + bare) if bare else found


def _later(text: str, last: list[int]) -> list[tuple[int, int, str]]:
    return _scan_boxes(text[last[0] :])[0] if last else []


def _scan_boxes(text: str) -> tuple[list[tuple[int, int, str]], int | None]:
    """The closed outermost boxes, and where the content of an unclosed one begins."""
    depth, opened_depth = 0, 0
    start = 0
    opened: int | None = None
    found = []
    for match in _BRACES.finditer(text):
        token = match.group()
        if token == "}":
            depth = max(depth - 1, 0)
            if opened is not None and depth == opened_depth:
                found.append((start, match.end(), _unboxed(text[opened : match.start()])))
                opened = None
        elif token == "{" or len(token) > 2:
            if opened is None and token != "{":
                start, opened, opened_depth = match.start(), match.end(), depth
            depth += 1
    return found, opened


def _unboxed(content: str) -> str:
    """The content without a box around all of it."""
    for _ in range(5):
        match = _BOX.match(content.strip())
        if not match or not content.strip().endswith("}"):
            break
        content = content.strip()[match.end() : -1]
    return content


def box_runs(text: str) -> list[list[str]]:
    """Boxes in runs: those that stand close together, joined by commas or `and`, are parts of one answer."""
    runs: list[list[str]] = []
    previous_end: int | None = None
    found = boxes(text)
    meant = [box for box in found if not _PLACEHOLDER.fullmatch(box[2])]
    for start, end, content in meant or found:
        gap = text[previous_end:start] if previous_end is not None else None
        if gap is not None and _joins(gap):
            runs[-1].append(content)
        else:
            runs.append([content])
        previous_end = end
    return runs


def _joins(gap: str) -> bool:
    if len(gap) > MAX_GAP_CHARS or _SENTENCE_END.search(gap) or _CORRECTED.search(gap):
        return False
    return _JOINED.search(gap) is not None


def joined(run: list[str]) -> str:
    return ", ".join(dict.fromkeys(content.strip() for content in run))


def _boxed(text: str) -> Extraction:
    runs = box_runs(text)
    return Extraction((joined(runs[-1]),), "boxed") if runs else Extraction(problem="no_boxed")


def _boxed_only(text: str) -> Extraction:
    found = boxes(text)
    if len(found) > 1:
        return Extraction(rule="boxed_only", problem="several_boxed")
    return Extraction((found[0][2],), "boxed_only") if found else Extraction(problem="no_boxed")


# `str.lower` makes two characters of some, such as `İ`, and the places would no longer be those of the text.
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def _tags(text: str) -> list[tuple[int, int]]:
    """Where each `<answer>` that is closed begins and ends; of nested ones, the innermost."""
    lowered = text.translate(_ASCII_LOWER)
    found: list[tuple[int, int]] = []
    closed = lowered.find("</answer>")
    while closed >= 0:
        opened = lowered.rfind("<answer>", found[-1][1] if found else 0, closed)
        if opened >= 0:
            found.append((opened, closed + len("</answer>")))
        closed = lowered.find("</answer>", closed + 1)
    return found


def _answer_tag(text: str) -> Extraction:
    tags = _tags(text)
    if not tags:
        return Extraction(problem="no_answer_tag")
    start, end = tags[-1]
    held = text[start + len("<answer>") : end - len("</answer>")]
    runs = box_runs(held)
    return Extraction(tuple(joined(run) for run in reversed(runs)) or (held.strip(),), "answer_tag")


def _without_tags(text: str) -> str:
    pieces, kept_from = [], 0
    for start, end in _tags(text):
        pieces.append(text[kept_from:start])
        kept_from = end
    return " ".join([*pieces, text[kept_from:]])


def _phrases(text: str, *, final: bool) -> list[str]:
    """What follows "answer is", or, if `final`, "final answer is", or GSM8K's `####`; boxes have their own rule."""
    said = [
        _innermost(match[2]) for match in _PHRASE.finditer(text) if not final or match[1].lower().startswith("final")
    ]
    said += [match[1] for match in _HASHES.finditer(text)]
    return [_phrase_answer(answer) for answer in said if "\\boxed" not in answer and "<answer>" not in answer]


def _innermost(said: str) -> str:
    """What follows the last "answer is" in what follows one: "Final answer: The final answer is 7"."""
    for _ in range(3):
        inner = _PHRASE.search(said)
        if not inner:
            break
        said = inner[2]
    return said


def _phrase_answer(said: str) -> str:
    """The answer that begins a sentence: what stands in dollars, or all of it up to the sentence's end."""
    sentence = _SENTENCE_STOP.split(said.strip(" *_`"), maxsplit=1)[0]
    sentence = _CLAUSE.split(sentence, maxsplit=1)[0]
    *before, last = _IS.split(sentence)
    if before and not re.search(r"\d", "".join(before)) and len(" ".join(before).split()) > 1:
        sentence = last  # "The volume of the box is 120": what comes before names it, and is no answer itself
    sentence = sentence.strip(" *_`:,")
    math = _DELIMITED.match(sentence)
    return math[2].strip() if math else sentence


def _final_answer_phrase(text: str) -> Extraction:
    said = _phrases(text, final=True) or _phrases(text, final=False)
    return Extraction((said[-1],), "final_answer_phrase") if said else Extraction(problem="no_answer_phrase")


def _last_number(text: str) -> Extraction:
    numbers = _NUMBER.findall(text)
    return Extraction((numbers[-1].rstrip(","),), "last_number") if numbers else Extraction(problem="no_number")


def _auto(text: str) -> Extraction:
    tagged = _answer_tag(text)
    outside = _without_tags(text)
    boxed = [joined(run) for run in box_runs(outside)]
    final = _phrases(outside, final=True)[-1:]
    marked = [*tagged.answers, *reversed(boxed), *final]
    if marked:
        rule = "answer_tag" if tagged.answers else "boxed" if boxed else "final_answer_phrase"
        return Extraction(tuple(marked), rule)
    said = _phrases(text, final=False)
    if said:
        return Extraction((said[-1],), "final_answer_phrase")
    tail = _LEAD.sub("", _FENCE.sub(r"\1", text[-MAX_TAIL_CHARS:].replace("**", "").strip())).strip()
    if not tail:
        return Extraction(problem="no_answer")
    return Extraction((tail,), "whole_text" if is_formula(tail) else "last_expression")


def is_formula(text: str) -> bool:
    r"""Whether a text is one piece of mathematics, or a word or two, with no sentence around it.

    Example:
        >>> is_formula(r"$\frac{1}{2}$"), is_formula("$odd$"), is_formula("I would say 5")
        (True, True, False)
    """
    plain = without_commands(text)
    if len(text) > 300 or "\n" in text.strip("$ \n"):
        return False
    return not _LONG_WORD.search(plain) or _FEW_WORDS.fullmatch(plain) is not None


_RULES = {
    "auto": _auto,
    "boxed": _boxed,
    "boxed_only": _boxed_only,
    "answer_tag": _answer_tag,
    "final_answer_phrase": _final_answer_phrase,
    "last_number": _last_number,
}
