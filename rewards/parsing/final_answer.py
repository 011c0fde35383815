r"""What a completion gives as its final answer, as text: shared by the verifiers that compare answers.

Nothing is read as mathematics here, and white space inside an answer is kept: `rewards/math_answers/extraction.py` has
the rules for mathematics. All of it takes time linear in the length of the completion.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

from trl_grpo_ext.protocol import DataProblem, Verifier, first_value, required_column
from trl_grpo_ext.rewards.math_answers.extraction import MAX_CHARS, box_runs, joined
from trl_grpo_ext.rewards.parsing.answer_part import shown, spoken, unreadable
from trl_grpo_ext.rewards.parsing.gold_cell import NOT_TEXT, NOT_TEXT_ADVICE, holds_mapping, plain_list
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.names import did_you_mean
from trl_grpo_ext.verdict import Status, Verdict, skipped

AnswerFrom = Literal["marked", "boxed", "answer_tag", "phrase", "last_line", "text"]
ANSWER_FROM: tuple[str, ...] = get_args(AnswerFrom)
GOLD_COLUMNS = ("solution", "answer")

ADVICE = {
    "gold_missing": "Drop the row, or name the right column: column=...",
    NOT_TEXT: NOT_TEXT_ADVICE,
}

MAX_ANSWERS = 20  # no honest completion gives more of them

_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_MARKUP = r"[*_` \t]{0,8}"
_ADVERB = r"(?:[ \t]*(?:therefore|thus|hence|clearly|indeed|definitely|simply|then)\b,?)?"
# A mark that the completion sets on purpose: "Answer: B" on a line of its own, "final answer is B", GSM8K's "#### 42".
_FORMAL = re.compile(
    r"(?:^[ \t>*_#]*|(?<=[.!?;] ))(?:(?:the|my)[ \t]+)?(?:(?:final|correct|best)[ \t]+)?(?:answer|option|choice)"
    rf"{_MARKUP}(?:[:：=]|$){_MARKUP}"
    rf"|\bfinal[ \t]+answer{_MARKUP}(?:is\b|[:：=]){_ADVERB}{_MARKUP}:?"
    r"|^[ \t]*####(?!#)[ \t]*(?=[^\s#])",
    re.IGNORECASE | re.MULTILINE,
)
# A sentence that says so: "so the correct answer is B".
_INFORMAL = re.compile(
    rf"\b(?:answer|(?:correct|right|best)[ \t]+(?:option|choice))(?:[ \t]+to[ \t][^\n.?!:]{{1,100}}?)?{_MARKUP}"
    rf"(?:is\b|are\b|[:：=]|(?:should|must|would|will)[ \t]+be\b){_ADVERB}{_MARKUP}:?",
    re.IGNORECASE,
)
_AGAIN = re.compile(
    rf"(?:so,?[ \t]+)?(?:(?:the|my)[ \t]+)?(?:(?:final|correct|best)[ \t]+)?(?:{_INFORMAL.pattern})", re.IGNORECASE
)
_NEGATED = re.compile(r"(?:not|n't|neither|none)\b", re.IGNORECASE)
_STOP = re.compile(r"(?<!\.)[.!?](?=[\s*_`\"')]|$)")
_ABBREVIATIONS = frozenset(("st", "dr", "mr", "ms", "mrs", "vs", "inc", "ltd", "jr", "sr", "mt", "ft", "prof", "gen"))
_CLAUSE = re.compile(r",?(?<!\s)\s+(?:because|since)\b|,\s+(?:which|so|as)\b")
_BETWEEN = re.compile(r"[\W_]*(?:so\b[\W_]*)?(?:(?:the|my|thus|therefore)\b[\W_]*)?", re.IGNORECASE)
_INITIALS = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
_NOTHING_YET = re.compile(r"(?:[*_`\s:]|\\[\[(]|\$\$)*")  # before an answer: markup, and what begins a formula
# Two items of a list or more, each on a line of its own.
_LIST = re.compile(r"\s*+((?:(?:[-*•‣]|\(?\d{1,3}[.)])[ \t]+[^\n]*+(?:\n\s*+|\Z)){2,})")
_PLACEHOLDER = re.compile(r"[\s.…_]*|\[?(?:your |the |final )*answer(?: here)?\]?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """What a completion gives as its answer.

    Attributes:
        answers: The distinct answers; several if the completion contradicts itself.
        rule: What they were found by.
        problem: Why there is none, as a reason code; empty if there is one.
    """

    answers: tuple[str, ...] = ()
    rule: str = ""
    problem: str = ""


def final_answer(completion: str, *, prefill: str | None = None, answer_from: AnswerFrom = "marked") -> FinalAnswer:
    r"""The final answer of a completion, looked for after its thinking.

    | `answer_from` | takes |
    |---|---|
    | `boxed` | every `\boxed{}`; boxes close together, joined by commas or `and`, are one answer |
    | `answer_tag` | what every `<answer>` holds, or the boxes in it |
    | `phrase` | what follows "Answer:" on its line, "final answer is" or `####`; without these, the last "answer is" |
    | `last_line` | the last line that is not empty |
    | `text` | all of the text |
    | `marked` | boxes, tags and phrases; without any of them, all of the text |

    Marks that differ are several answers, which a verifier calls ambiguous unless they mean the same. Only the first
    sentence counts of what follows a phrase, or the bulleted list below it, and the last 50,000 characters of a
    completion. Phrases are English.

    Args:
        completion: Its text.
        prefill: What the prompt put before it, such as `<think>`; None if that is unknown, and then a `</think>`
            ends thinking even if none is seen to begin.
        answer_from: The rule.

    Example:
        >>> final_answer("<think>A?</think>The answer is **B**. It is the largest.").answers
        ('B',)
        >>> final_answer(r"\boxed{A} is wrong. Final answer: B").answers
        ('A', 'B')
        >>> final_answer("<think>so it is B").problem
        'unclosed_think'
    """
    said = spoken(Sample(text=completion, prefill=prefill))
    if said is None:
        return FinalAnswer(problem="unclosed_think")
    found = _RULES[answer_from](said[-MAX_CHARS:])
    if found.problem:
        return found
    distinct = {" ".join(answer.split()): answer.strip() for answer in reversed(found.answers)}
    if not distinct or not all(distinct):
        return FinalAnswer(rule=found.rule, problem="empty_answer")
    if len(distinct) > MAX_ANSWERS:
        return FinalAnswer(rule=found.rule, problem="too_many_answers")
    return FinalAnswer(tuple(reversed(distinct.values())), found.rule)


def check_answer_from(answer_from: object) -> None:
    """Raise a ValueError unless this is a rule of `final_answer`."""
    if answer_from not in ANSWER_FROM:
        raise ValueError(
            f"There is no rule {answer_from!r} to find answers by. {did_you_mean(str(answer_from), ANSWER_FROM)}"
        )


def _boxed(text: str) -> FinalAnswer:
    answers = tuple(joined(run) for run in box_runs(text))
    return FinalAnswer(answers, "boxed") if answers else FinalAnswer(problem="no_boxed")


def _tags(text: str) -> list[tuple[int, int, int, int]]:
    """Each closed `<answer>`, of nested ones the innermost: where it begins, its content begins and ends, it ends."""
    found, opened = [], None
    for tag in _TAG.finditer(text):
        if not tag[1]:
            opened = tag
        elif opened is not None:
            found.append((opened.start(), opened.end(), tag.start(), tag.end()))
            opened = None
    return found


def _answer_tag(text: str) -> FinalAnswer:
    held = [text[start:end] for _, start, end, _ in _tags(text)]
    held = [content for content in held if not _PLACEHOLDER.fullmatch(content)] or held[-1:]
    answers = tuple(answer for content in held for answer in _inside(content))
    return FinalAnswer(answers, "answer_tag") if held else FinalAnswer(problem="no_answer_tag")


def _inside(content: str) -> Sequence[str]:
    """The answers that a tag holds: its boxes, or what follows an "Answer:" that it begins with, or all of it."""
    runs = box_runs(content)
    if runs:
        return [joined(run) for run in runs]
    mark = _AGAIN.match(content.strip())
    return [_said(mark, len(mark.string))] if mark else [content]


def _phrase(text: str) -> FinalAnswer:
    answers = _formal(text) or _informal(text)
    return FinalAnswer(tuple(answers), "phrase") if answers else FinalAnswer(problem="no_answer_phrase")


def _formal(text: str) -> list[str]:
    return _spoken(_FORMAL.finditer(text))


def _informal(text: str) -> list[str]:
    """The last one alone: a completion that reasons aloud may correct itself."""
    return [said for said in _spoken(_INFORMAL.finditer(text)) if not _NEGATED.match(said)][-1:]


def _spoken(marks: Iterable[re.Match[str]]) -> list[str]:
    """What follows each mark, up to the next; boxes and tags have rules of their own."""
    found = list(marks)
    ends = [mark.start() for mark in found[1:]] + [len(found[-1].string)] if found else []
    said = [
        _said(mark, end)
        for mark, end in zip(found, ends, strict=True)
        # "Final answer: The final answer is B" has two marks of one answer.
        if end == len(mark.string) or not _BETWEEN.fullmatch(mark.string, mark.end(), end)
    ]
    return [answer for answer in said if "\\boxed" not in answer and "<answer" not in answer.lower()]


def _said(mark: re.Match[str], end: int) -> str:
    """The first sentence after a mark, on its line or, if nothing follows there, on the next that is not empty.

    If a list begins there, it is all of the list.
    """
    text = mark.string
    line = text[mark.end() : min(end, _line_end(text, mark.end()))]
    if _NOTHING_YET.fullmatch(line):
        listed = _LIST.match(text, _line_end(text, mark.end()), end) if mark.end() + len(line) < end else None
        if listed:
            return listed[1].strip().rstrip(".")
        start = _NOTHING_YET.match(text, mark.end(), end).end()  # type: ignore[union-attr]  # it matches nothing as well
        line = text[start : min(end, _line_end(text, start))]
    line = line.strip("*_` \t\r:")
    again = _AGAIN.match(line)  # "Final answer: The answer is B"
    return _first_sentence(line[again.end() :] if again else line)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return end if end >= 0 else len(text)


def _first_sentence(line: str) -> str:
    line = _CLAUSE.split(line.strip(), maxsplit=1)[0]
    for stop in _STOP.finditer(line):
        if _ends_sentence(line[max(0, stop.start() - 40) : stop.start()]):
            line = line[: stop.start()]
            break
    return _unmarked(line)


def _ends_sentence(before: str) -> bool:
    """Whether a full stop after this ends a sentence, and belongs to no abbreviation or initial: `St.`, `J.`, `U.S.`.

    An option's letter counts as an initial: its text follows.
    """
    word = before.rpartition(" ")[2].lstrip("*_`(\"'")
    if word.casefold() in _ABBREVIATIONS or (len(word) == 1 and word.isalpha()):
        return False
    return bool(word) and not _INITIALS.fullmatch(word)


def _unmarked(line: str) -> str:
    """The text without the Markdown that encloses it and without a full stop at its end."""
    line = line.strip().rstrip(".").strip()
    for mark in ("**", "__", "`", "*"):
        if len(line) > 2 * len(mark) and line.startswith(mark) and line.endswith(mark):
            line = line[len(mark) : -len(mark)].strip()
        elif line.count(mark) == 1:  # its other half stands before the phrase, or after the sentence
            line = line.removeprefix(mark).removesuffix(mark).strip()
    return line.rstrip(".").strip()


def _marked(text: str) -> FinalAnswer:
    tags = _tags(text)
    outside = _without(text, tags)
    found = {
        "answer_tag": _answer_tag(text).answers if tags else (),
        "boxed": _boxed(outside).answers,
        "phrase": tuple(_formal(outside)),
    }
    answers = tuple(answer for kind in found.values() for answer in kind)
    if answers:
        return FinalAnswer(answers, "+".join(rule for rule, kind in found.items() if kind))
    said = _informal(text)
    return FinalAnswer(tuple(said), "phrase") if said else _text(text)


def _without(text: str, tags: Sequence[tuple[int, int, int, int]]) -> str:
    pieces, kept_from = [], 0
    for start, _, _, end in tags:
        pieces.append(text[kept_from:start])
        kept_from = end
    return "\n".join([*pieces, text[kept_from:]])


def _last_line(text: str) -> FinalAnswer:
    line = text.rstrip().rpartition("\n")[2]
    return FinalAnswer((_unmarked(line),), "last_line") if line.strip() else FinalAnswer(problem="no_answer")


def _text(text: str) -> FinalAnswer:
    whole = text.strip()
    return FinalAnswer((_unmarked(whole) if "\n" not in whole else whole,), "text") if whole else _NOTHING


_NOTHING = FinalAnswer(problem="no_answer")
_RULES: dict[str, Callable[[str], FinalAnswer]] = {
    "marked": _marked,
    "boxed": _boxed,
    "answer_tag": _answer_tag,
    "phrase": _phrase,
    "last_line": _last_line,
    "text": _text,
}


def alternatives(gold: object) -> list[Any]:
    """The golds that a cell holds: of a list, tuple or array each of its items, else the cell itself; no None, no NaN.

    Example:
        >>> alternatives(["a", None, ["b"]]), alternatives("a"), alternatives(float("nan"))
        (['a', 'b'], ['a'], [])
    """
    gold = plain_list(gold)
    if isinstance(gold, list | tuple):
        return [one for item in gold for one in alternatives(item)]
    missing = gold is None or gold != gold  # NaN, which pandas has for a cell that is missing
    return [] if missing else [gold]


G = TypeVar("G")


class AnswerVerifier(Verifier, Generic[G]):
    """What the verifiers of final answers share. Subclasses say how a row's golds are read, and how one is compared.

    A completion is correct if every answer that it gives is; if only some are, it is `ambiguous` and scores 0.
    """

    column: str | None
    answer_from: AnswerFrom
    advice: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def read_gold(self, row: Mapping[str, Any]) -> G | str:
        """What the answers of this row are compared with, or the reason code why there is nothing."""

    @abstractmethod
    def judge_answer(self, answer: str, gold: G) -> Verdict:
        """The verdict on one answer, of any length and content."""

    @property
    def gold_columns(self) -> tuple[str, ...]:
        """The columns that a gold is looked for in."""
        return (self.column,) if self.column else GOLD_COLUMNS

    def golds(self, row: Mapping[str, Any]) -> list[Any]:
        """The golds of a row, any of which will do."""
        return alternatives(first_value(row, self.gold_columns))

    def check_columns(self, columns: Collection[str]) -> None:
        required_column(columns, self.gold_columns, verifier=self.__name__)

    def check_rows(self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False) -> list[DataProblem]:
        """The rows whose gold is missing or cannot be read."""
        problems = []
        for position, row in enumerate(rows):
            gold = self._gold_of(row)
            if isinstance(gold, str):
                value = str(first_value(row, self.gold_columns))
                advice = ADVICE.get(gold) or self.advice.get(gold, ADVICE["gold_missing"])
                problems.append(DataProblem(row=position, reason=gold, value=value, advice=advice))
        return problems

    def verify(self, sample: Sample) -> Verdict:
        gold = self._gold_of(sample.row)
        if isinstance(gold, str):
            return skipped(gold)
        found = final_answer(sample.text, prefill=sample.prefill, answer_from=self.answer_from)
        if found.problem:
            return unreadable(found.problem)
        verdict = agreed([self.judge_answer(answer, gold) for answer in found.answers])
        answer = verdict.answer if verdict.answer is not None else found.answers[0]
        return replace(verdict, answer=shown(answer), details={"rule": found.rule, **verdict.details})

    def _gold_of(self, row: Mapping[str, Any]) -> G | str:
        return NOT_TEXT if holds_mapping(first_value(row, self.gold_columns)) else self.read_gold(row)


def agreed(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict on a completion that gives several answers: theirs if they score alike, else `ambiguous`.

    Example:
        >>> right = Verdict(status=Status.CORRECT, score=1.0)
        >>> agreed([right, Verdict(status=Status.INCORRECT, score=0.0)]).reason
        'ambiguous'
    """
    unscored = next((verdict for verdict in verdicts if verdict.score is None), None)
    if unscored is not None:
        return unscored
    if len({verdict.score for verdict in verdicts}) == 1:
        return verdicts[0]
    return replace(verdicts[0], status=Status.INCORRECT, score=0.0, reason="ambiguous")
