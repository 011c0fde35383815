"""What `MathVerifier` takes for the answer in what the finder has found: of a sentence the value, not its words."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, get_args

from trl_grpo_ext.rewards.answers.finder import AnswerFrom, FinalAnswer, final_answer
from trl_grpo_ext.rewards.answers.hedges import is_hedged
from trl_grpo_ext.rewards.answers.numerals import in_words
from trl_grpo_ext.rewards.answers.phrases import formal, informal
from trl_grpo_ext.rewards.answers.reader import MAX_CHARS, read
from trl_grpo_ext.rewards.answers.spelling import restored, spelled, strip_delimiters
from trl_grpo_ext.rewards.answers.tree import Number, Opaque, Quantity, Words, children
from trl_grpo_ext.rewards.answers.units import is_unit
from trl_grpo_ext.rewards.answers.verifier import gold_texts
from trl_grpo_ext.support.text import did_you_mean

Mode = Literal["auto", "boxed", "boxed_only", "answer_tag", "final_answer_phrase", "last_number"]
MODES: tuple[str, ...] = get_args(Mode)
RULES: dict[Mode, AnswerFrom] = {
    "auto": "marked",
    "boxed": "boxed",
    "boxed_only": "boxed_only",
    "answer_tag": "answer_tag",
    "final_answer_phrase": "phrase",
    "last_number": "last_number",
}
MAX_TAIL_CHARS = 1_000  # of what follows the thinking, from its end, where nothing marks the answer
MAX_WORDS = 12  # of a box or a tag; one with more of them holds sentences
MAX_QUANTITY = 40  # characters of a number with its unit
MAX_NAMES = 3  # words that may be an answer by themselves, where nothing marks it

_SENTENCE_STOP = re.compile(r"(?<=[^\s.])(?<!i\.e)\.(?:\s|$)|[!](?:\s|$)")
_CLAUSE = re.compile(
    r"(?<=\S)(?:,\s+(?!or\b|and\b|that is\b|equivalently\b|unless\b)(?=[a-z]{2,})"
    r"|\s+\(?(?=(?:because|since|which|as|so|not|rather)\b)|;\s)"
)
# A word before a number that makes it another one.
_CHANGED = re.compile(
    r"\b(?:minus|negative|twice|half|double|triple|least|most|than|but|except|of|under|over|power|times|root|not)"
    r"\s+[$(\\]*\d|\d[^\w.]*\s+(?:squared|cubed|halves|thirds|fourths|quarters|dozen|times|tenths|hundredths)\b",
    re.IGNORECASE,
)
_IS = re.compile(r"\b(?:is|are|equals|exactly when|if and only if)\b|等于|[是为]")
_LED = re.compile(r"\(?[A-J]\)\s")  # an option with its text
# What a sentence may begin or end with beside the value that it says.
_SO = re.compile(r"^(?:(?:so|thus|therefore|hence|then|finally|that is)\b|所以|因此|综上)[,:：，]?\s*", re.IGNORECASE)
_LABEL = re.compile(r"^[\W_]*[A-Z][A-Za-z ]{2,30}:[*_\s]*(?=\S)")
_WHERE = re.compile(r",?\s+(?:where|with|for (?:all|any|some|every))\b.*$", re.DOTALL)
_SIGN = re.compile(r"[\d=\\^+∈$]")  # of mathematics
_ATTACHED = re.compile(r"\d(?:[mck]?m|g|kg|ft|s|h)[²³]?$")  # a unit without a space, which would be read as letters
_BOLD = re.compile(r"(?<![\w)])\*\*|\*\*(?![\w(-])")  # not the power of `x**2`
_ANSWERS = frozenset(
    ("yes", "no", "true", "false", "even", "odd", "no solution", "no solutions", "divergent", "convergent")
)
# Before what a sentence concludes, which alone must not be left open: `it might be 10, but not 0; hence 9`.
_CONCLUSION = re.compile(r"^.*[,;]\s+(?:hence|thus|therefore|so)\b", re.IGNORECASE | re.DOTALL)
_SAID_IN_WORDS = re.compile(
    r"^\W*(?:yes|no)(?=,)|\bdo(?:es)? not exist\b|\binfinitely many\b|\ban infinite number\b", re.IGNORECASE
)  # at the end of what a text says
_UNIT_BEHIND = re.compile(r"\}\s?\$?\$?\s?\\?([A-Za-z]{4,20}\b|%)")  # of at least four letters: "in" is a word
_ASIDE = re.compile(r"\s*\((?:and|where|with|since|because|which)\b[^()]*\)\s*$")
_FORMULA = re.compile(
    r"\$\$([^$]+)\$\$|(?<!\\)\$([^$\n]+?)(?<!\\)\$|\\\(([^\n]+?)\\\)|\\\[((?:(?!\\\]).)+)\\\]"
    r"|((?:[A-Za-z]\w*\s*=\s*)?\\begin\{([a-z]?matrix|aligned|cases)\}.*?\\end\{\6\})"
    r"|(\\[dt]?frac\{[^{}]+\}\{[^{}]+\}|\\sqrt\{[^{}]+\})",
    re.DOTALL,
)
_NUMBER = re.compile(
    r"(?<!\d)\d*\s?[¼½¾⅐-⅞]|(?<![A-Za-z0-9_.^{])[-−+]?\\?\$?\d[\d,]*(?:\.\d+)?(?:\s*[/:]\s*\d+)?%?(?:\s*[€£%])?"
)
_SPACING = re.compile(r"[\s{}$]|\\[,;:! ]|\\(?:left|right)")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_LONG_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")
_JOINT = re.compile(r"\s*(?:,|,?\s*\b(?:and|or)\b)\s*")
_FENCE = re.compile(r"^```\w*\n(.*?)\n?```$", re.DOTALL)
_LEAD = re.compile(r"^(?:[A-Za-z]\s*:|=>|->|→|=)\s*")
_CALCULATION = re.compile(r"<<[^<>\n]*>>")  # which GSM8K's solutions show beside each result


def check_mode(mode: object) -> None:
    """Raise a ValueError unless this is one of `MODES`."""
    if mode not in MODES:
        raise ValueError(f"There is no mode {mode!r} to find answers by. {did_you_mean(str(mode), MODES)}")


def math_answer(completion: str, *, prefill: str | None = None, mode: Mode = "auto") -> FinalAnswer:
    r"""The final answer of a completion, its white space collapsed.

    Its marks are those of the finder, but for an answer that nothing marks: that is `whole_text` if the text is one
    value, else `last_expression`, the last formula or number of its last line.

    Args:
        completion: Its text.
        prefill: What the prompt put before it, such as `<think>`, if that is known.
        mode: The rule; `auto` is the finder's `marked`, `final_answer_phrase` its `phrase`.

    Examples:
        >>> math_answer(r"<think>\boxed{1}?</think>It is \boxed{\frac{1}{2}}.").answers
        ('\\frac{1}{2}',)
        >>> math_answer("The answer is $7$, as asked.").answers, math_answer("So I would say 7").marks
        (('7',), ('last_expression',))
    """
    found = final_answer(restored(completion), prefill=prefill, answer_from=RULES[mode])
    if found.problem:
        return found
    taken = [
        _taken(_with_unit(answer, completion) if mark == "boxed" else answer, mark)
        for answer, mark in zip(found.answers, found.marks, strict=True)
    ]
    if any(problem for _, _, problem in taken):
        return FinalAnswer(problem=next(problem for _, _, problem in taken if problem))
    read_as = {_on_one_line(answer): mark for answer, mark, _ in taken}
    if not all(map(_says_something, read_as)):
        return FinalAnswer(problem="no_answer" if "text" in found.marks else "empty_answer")
    if any(len(answer) > MAX_CHARS for answer in read_as):
        return FinalAnswer(problem="answer_too_long")
    return FinalAnswer(tuple(read_as), tuple(read_as.values()))


def _with_unit(answer: str, completion: str) -> str:
    r"""A number in a box with the unit behind the box: `\boxed{60}$ radians`."""
    at = completion.rfind(answer + "}")
    behind = _UNIT_BEHIND.match(completion, at + len(answer)) if at >= 0 else None
    if behind is None or not (is_unit(behind[1]) or behind[1] == "%"):
        return answer
    return f"{answer} {behind[1]}" if isinstance(read(answer).node, Number) else answer


def _on_one_line(answer: str) -> str:
    """The answer with single spaces; values that stand on lines of their own are a list."""
    lines = [" ".join(line.split()) for line in answer.splitlines() if line.strip()]
    return ("; " if all("=" in line for line in lines) else " ").join(lines)


def _taken(answer: str, mark: str) -> tuple[str, str, str]:
    """An answer, its mark, and the reason code why it counts for nothing."""
    if mark == "phrase" and len(answer) > MAX_CHARS:  # what follows is not linear in the length
        return "", mark, "answer_too_long"
    if mark == "phrase" and not _LED.match(answer):
        value = strip_delimiters(value_said(answer))
        return value, mark, "hedged" if is_hedged(answer) else ""
    if mark != "text" and not _is_paragraph(answer):
        return answer, mark, ""
    if mark != "text":
        answer = answer[-MAX_CHARS:]
        return _last_value(_SENTENCE_STOP.split(answer.strip())[-1] or answer), mark, ""
    return _unmarked(answer)


def _unmarked(answer: str) -> tuple[str, str, str]:
    """The same of a text in which nothing marks the answer: all of it, or what its last line says."""
    plain = _BOLD.sub("", answer[-MAX_TAIL_CHARS:]).strip()
    plain = _LEAD.sub("", _FENCE.sub(r"\1", plain)).strip()
    if _is_value(plain):
        return plain, "whole_text", ""
    line = plain.rpartition("\n")[2] if "\n" in plain and not _FORMULA.search(plain) else plain
    line = _CALCULATION.sub("", line)
    sentences = [part for part in _SENTENCE_STOP.split(line.strip()) if part.strip()]
    last = ""
    if sentences:
        ending = _SAID_IN_WORDS.search(re.split(r"[\d$]", sentences[-1])[-1])
        last = _value_that_is(sentences[-1]) or (ending[0] if ending else _last_value(line) or _in_words(sentences[-1]))
    holding = next((place for place in reversed(range(len(sentences))) if last in sentences[place]), 0)
    concluded = [_CONCLUSION.sub("", sentence) for sentence in sentences[holding:]]
    problem = "no_answer" if not last else "hedged" if any(map(is_hedged, concluded)) else ""
    return last, "last_expression", problem


def _in_words(sentence: str) -> str:
    """The number that a sentence says in a word: `four apples`."""
    numbers = [
        word for word in _LONG_WORD.findall(sentence) if word.casefold() != "one" and in_words([word.casefold()])
    ]
    return numbers[0] if len(numbers) == 1 else ""


def _value_that_is(sentence: str) -> str:
    """What a sentence says, if that is mathematics: `the form is x^2 + 1`, `Area: 5`, `so a = 1 and b = 2`."""
    sentence = _LEAD.sub("", sentence.strip().rpartition("\n")[2])
    sentence = _SO.sub("", _ASIDE.sub("", _WHERE.sub("", sentence))).strip()
    tail = _LABEL.sub("", _IS.split(sentence)[-1])
    for part in (tail, _CLAUSE.split(tail.strip(), maxsplit=1)[0], sentence):
        said = part.strip(" *_`:,。")
        if isinstance(read(said).node, Words) and said.casefold() in _ANSWERS:
            return said
        whole = _SIGN.search(said) and not _ATTACHED.search(said) and said.count("$") % 2 == 0
        if whole and _is_value(said) and not isinstance(read(said).node, Words):
            return said
    return ""


def _is_paragraph(answer: str) -> bool:
    """Whether a box or a tag holds sentences, of which the last says the answer."""
    return len(_LONG_WORD.findall(answer)) > MAX_WORDS and (
        bool(read(answer).stray) or isinstance(read(answer).node, Opaque | Words)
    )


def value_said(sentence: str) -> str:
    r"""The value that a sentence says: all of it, or what follows its "is", or its last formula or number.

    Examples:
        >>> [value_said(text) for text in ("the volume of the box is $5$ cm", "I would say 7", "Paris")]
        ['$5$ cm', '7', 'Paris']
    """
    sentence = _SENTENCE_STOP.split(sentence, maxsplit=1)[0]
    if sentence.count("=") > 1 and _is_value(sentence):  # mean = 4, variance = 2
        return sentence
    sentence = _CLAUSE.split(sentence, maxsplit=1)[0].strip(" *_`:,")
    parts = [sentence, _IS.split(sentence)[-1].strip(" *_`:,")]
    said = next((part for part in parts if part and _is_value(part)), "")
    return said or ("" if _CHANGED.search(sentence) else _last_value(sentence)) or sentence


@lru_cache(maxsize=1024)
def unspaced(text: str) -> str:
    """The text without what only spaces it; a prompt's is needed for each of its completions."""
    return _SPACING.sub("", spelled(text))


def is_echo(answer: str, prompt: str) -> bool:
    """Whether an answer stands in the prompt, however it is spaced. A number never only repeats the question.

    Examples:
        >>> is_echo("2^{10}", "What is $2^{10}$?"), is_echo("2^{10}", "How many subsets has a set of ten?")
        (True, False)
    """
    said = unspaced(answer)
    return bool(said) and said in unspaced(prompt) and not isinstance(read(answer).node, Number)


def gold_values(cell: object) -> tuple[str, ...]:
    """The golds of a cell, without the sentence around one that says it by a phrase: "The final answer is 5."."""
    return tuple(map(_gold_value, gold_texts(cell)))


def _gold_value(gold: str) -> str:
    said = formal(gold) or informal(gold)
    return value_said(said[-1].content) if said and not _is_value(gold) else gold


def _says_something(answer: str) -> bool:
    """Whether there is more to an answer than commands and signs: not in `\\frac{}{}`."""
    return any(map(str.isalnum, _COMMAND.sub("", answer))) or not isinstance(read(answer).node, Opaque)


def _is_value(text: str) -> bool:
    """Whether a text is one value, or a word or two, with no sentence around it."""
    said = read(text)
    if any(isinstance(one, Words) and len(one.text.split()) > MAX_NAMES for one in (said.node, *children(said.node))):
        return False
    if isinstance(said.node, Words):
        return not any(map(str.isdigit, text))
    return not said.stray and not isinstance(said.node, Opaque)


def _last_value(line: str) -> str:
    """The last formula or number of a line, with those that are joined to it; empty if there is none."""
    numbers = [
        one for one in _NUMBER.finditer(line) if line.count("{", 0, one.start()) <= line.count("}", 0, one.start())
    ]
    found = [*_FORMULA.finditer(line), *numbers]
    found.sort(key=lambda match: match.end())
    kept = found[-1:]
    for one in reversed(found[:-1]):  # "between $12$ and $13$" says both
        if one.end() <= kept[0].start() and not _JOINT.fullmatch(line, one.end(), kept[0].start()):
            break
        kept = [one, *kept] if one.end() <= kept[0].start() else kept
    if len(kept) > 1:
        return line[kept[0].start() : kept[-1].end()]
    value = next((group for one in kept for group in (*one.groups(), one[0]) if group), "").strip().rstrip(",")
    with_unit = line[kept[0].start() :].strip(" .!*") if kept else ""
    return with_unit if value != with_unit and _has_unit(with_unit) else value


def _has_unit(text: str) -> bool:
    """Whether a text is a number with a known unit behind it: `1500 meters`."""
    if len(text) > MAX_QUANTITY:
        return False
    said = read(text)
    return (
        isinstance(said.node, Quantity) and not said.stray and not said.counted and isinstance(said.node.amount, Number)
    )
