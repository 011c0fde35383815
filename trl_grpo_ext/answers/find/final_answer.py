r"""Find a completion's final answer, as text: the answer that the completion concludes with.

Nothing is read as mathematics here, and white space inside an answer is kept. All of it takes time linear in the length
of the completion, so it may run in the trainer's process on hostile text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from trl_grpo_ext.answers.find.hedges import (
    REACH,
    correction,
    doubted_before,
    is_refused,
    is_withdrawn,
    settled,
    taken_back,
    turned_from,
)
from trl_grpo_ext.answers.find.marks import Mark, box_answers, boxes, concluding, tags
from trl_grpo_ext.answers.find.phrases import (
    emphasised,
    formal,
    informal,
    unmarked,
    without_mark,
)
from trl_grpo_ext.answers.find.rejections import without_rejections
from trl_grpo_ext.answers.find.remarks import without_check
from trl_grpo_ext.answers.read.numerals import POWER
from trl_grpo_ext.answers.read.signal_words import THEREFORE, last_word
from trl_grpo_ext.support.setting_checks import check_choice

AnswerFrom = Literal[
    "marked",
    "boxed",
    "boxed_only",
    "answer_tag",
    "phrase",
    "last_number",
    "last_line",
    "text",
]
ANSWER_FROM: tuple[str, ...] = get_args(AnswerFrom)

# Problems of a completion that gives an answer but leaves it open.
HEDGES = ("hedged", "taken_back")
# Rules that take words as they stand.
_VERBATIM = ("last_line", "text")
# Characters at the end of a completion that are searched.
MAX_CHARS = 32_000
# Characters at the end of a completion that are searched for closing courtesies.
MAX_COURTESY = 250
# Courtesies at the end of a text: "I hope this helps! Let me know if you have questions."
MAX_COURTESIES = 3
# Characters after an answer that are searched for a sentence that corrects it.
MAX_TURN = 1_000
# More answers are refused: no honest completion gives as many.
MAX_ANSWERS = 20

_SENTENCE_BEGIN = re.compile(r"(?<=[.!?:])\s|\n")
_QUESTION = re.compile(
    r"\n[ \t]*(?:(?:#+[ \t]*|\*\*)?(?:Q|Question|Problem|Human|User|Instruction)(?:[ \t]*\d+)?(?:\*\*)?[ \t]*:"
    r"|<\|im_start\|>user\b)"
)
# A line that gives an answer without a mark: a number alone, "= 40", "so it is 9"
_ANSWERS = re.compile(
    rf"\A\W*\d[\d,./]*\W*\Z|=\W*\d|\b(?:{THEREFORE})\b[^?]*\d[^?:]*\Z", re.IGNORECASE
)
# Endings of chats and proofs without content: "Would you like me to explain?", a black square.
_COURTESY = re.compile(
    # No courtesy begins with a digit or one of these letters.
    r"([\s.$])(?![\da-fi-km-su-z])"
    r"(?:(?:(?:Please )?[Ll]et me know|Would you like|Do you|Shall (?:I|we)|Feel free|Is there anything"
    r"|Does (?:this|that|it) (?:make sense|help)"
    r"|If (?:you|any\w*|some\w*|there)\b(?![^\n]*\b(?:mean|meant|intend|interpret|assum|instead))[^\n#\\=\d]*"
    r"\b(?:let me know|(?:just|please|feel free to|can) ask|tell me|reach out|happy to)"
    r")\b[^\n#\\=]*"
    r"|(?:(?:I )?[Hh]ope (?:this|that|it) (?:helps|helped|answers|clarifies|makes sense"
    r"|is (?:clear|helpful|useful|what you))"
    r"|(?:I['’]m |I am )?(?:[Gg]lad|[Hh]appy) (?:I could|to) help|[Hh]ave an? [a-z]+ day|[Gg]ood luck"
    r")\b[^\n#\\=.,;!?\d]*[^\w\n#\\=]*"
    r"|(?<=\n)(?:Thank(?:s| you)|Done|Cheers|The [Ee]nd|Q\.?E\.?D|(?:And )?[Tt]hat['’]s (?:it|all|our final answer)"
    r"|Keep up the|(?:Great|Good|Nice|Well) (?:job|work|done|question)|I['’]m happy to)\b[^\n#\\=?\d]*"
    # a rule or a symbol on a line of its own
    r"|(?<=\n)(?:[-*_]{3,}|[✅🎉😊👍✨🚀]+)[ \t]*"
    r"|\$?\\(?:blacksquare|square|qed|Box)\$?|[■□∎])\s*\Z"
)
# Signs that end a proof.
_QED = (r"\blacksquare", r"\square", r"\qed", r"\Box", "■", "□", "∎")
_VALUE = re.compile(r"\W{0,4}\d\S{0,20}(?: [a-z]+)?")
_NUMBER = re.compile(rf"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:{POWER})?%?")


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """A completion's final answers, or the reason for their absence.

    Attributes:
        answers: The distinct answers, the last first; several if the conclusion offers several.
        marks: The mark of each answer: `boxed`, `answer_tag`, `phrase`, `emphasised`, `last_number`, `last_line` or
            `text`.
        problem: Reason code if there is no answer; else empty.
    """

    answers: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    problem: str = ""

    @property
    def rule(self) -> str:
        """The kinds of marks that gave the answers, joined: `answer_tag+boxed`."""
        return "+".join(dict.fromkeys(self.marks))


# Answers with their marks; of several answers inside a mark, the last comes first.
Found = list[tuple[str, str]]


def final_answer(
    completion: str, *, prefill: str | None = None, answer_from: AnswerFrom = "marked"
) -> FinalAnswer:
    r"""Find a completion's final answer, searching after its thinking.

    | `answer_from` | takes |
    |---|---|
    | `boxed` | the last `\boxed{}`; boxes close together, joined by commas or `and`, are one answer |
    | `boxed_only` | the same, if there is exactly one |
    | `answer_tag` | what the last `<answer>` holds, or the last box in it; a tag beside it counts as well |
    | `phrase` | what follows the last "Answer:" on its line, "final answer is" or `####`; a phrase beside it counts |
    | | as well; without these, the last "answer is" |
    | `last_number` | the last number |
    | `last_line` | the last line that is not empty |
    | `text` | all of the text |
    | `marked` | the last tag, box or phrase, and those beside it; without these the last "answer is", or what ends |
    | | the last line in bold letters; without any mark all of the text |

    The last mark wins, and text before it is working. Marks stand beside each other if no word but "and" or "or" is
    between them; their answers are ambiguous unless a verifier scores them alike. Words around the conclusion that
    leave it open or take it back ("maybe", "is not", "or 6", "is wrong") void the answer, as does a last sentence such
    as "Oops, I made a mistake", or a later one that gives another value, "Actually, she has 7 left"; of "63, no wait,
    54" the 54 counts. Text before `</think>` is thinking, even without an opening tag. After a phrase, only the first
    sentence or the bulleted list below it counts. Only the last 32,000 characters of a completion are searched. Phrases
    are English.

    Args:
        completion: The completion's text.
        prefill: Text that the prompt put before the completion, such as `<think>`; None if unknown.
        answer_from: The rule.

    Examples:
        >>> final_answer("<think>A?</think>The answer is **B**. It is the largest.").answers
        ('B',)
        >>> final_answer("<answer>A</answer> No, it is <answer>B</answer>").answers
        ('B',)
        >>> final_answer("<answer>A</answer> or <answer>B</answer>").answers
        ('B', 'A')
        >>> final_answer(r"It is not \boxed{A}").problem, final_answer(r"\boxed{A} is wrong").problem
        ('hedged', 'taken_back')
        >>> final_answer("<think>so it is B").problem
        'unclosed_think'
    """
    said = after_thinking((prefill or "") + completion)
    if said is None:
        return FinalAnswer(problem="unclosed_think")
    text = until_next_question(said[-MAX_CHARS:])
    if answer_from in _VERBATIM:
        text = without_courtesy(text)
    else:
        text = upheld(text)
        if is_withdrawn(text):
            return FinalAnswer(problem="taken_back")
    found = _RULES[answer_from](text)
    if isinstance(found, str):
        return FinalAnswer(problem=found)
    # Up to spaces: one answer in a tag and in a box is one answer.
    distinct = {" ".join(answer.split()): (answer.strip(), mark) for answer, mark in found}
    if not all(distinct):
        return FinalAnswer(problem="empty_answer")
    if len(distinct) > MAX_ANSWERS:
        return FinalAnswer(problem="too_many_answers")
    answers, marks = zip(*distinct.values(), strict=True)
    return FinalAnswer(answers, marks)


def after_thinking(text: str) -> str | None:
    """Return the text after the last think block; the whole text without a block; None for an unclosed block.

    Examples:
        >>> after_thinking("<think>2+2</think> 4"), after_thinking("2+2</think> 4"), after_thinking("<think>2+2")
        (' 4', ' 4', None)
    """
    opened, closed = text.rfind("<think>"), text.rfind("</think>")
    if opened > closed:
        return None
    return text[closed + len("</think>") :] if closed >= 0 else text


def without_courtesy(text: str) -> str:
    """Remove the courtesies at the end of a text.

    Examples:
        >>> without_courtesy("There are 54 books. Does that make sense?").strip()
        'There are 54 books.'
        >>> without_courtesy("It is B. I hope that helps! Have a nice day!").strip()
        'It is B.'
    """
    for _ in range(MAX_COURTESIES):
        # Most completions end with a formula, and no courtesy does.
        if _ends_with_formula(text):
            break
        # A courtesy takes one line.
        line = text.rfind("\n", 0, len(text.rstrip()))
        courtesy = _COURTESY.search(text, max(line, len(text) - MAX_COURTESY, 0))
        if courtesy is None:
            break
        text = text[: courtesy.start()] + courtesy[1]
    return text


# Cached, since several rules read the same end.
@lru_cache(maxsize=64)
def upheld(text: str) -> str:
    """Remove replaced values, rejected candidates and closing courtesies from a text's end.

    Examples:
        >>> upheld("So x = 5. x = -2 is not a solution. I hope it helps!"), upheld("It is 63, no wait, 54.")
        ('So x = 5', 'It is 54.')
    """
    return without_rejections(settled(without_courtesy(text)))


def _ends_with_formula(text: str) -> bool:
    """Check whether a text's last word has a command, and no sign that ends a proof."""
    last = last_word(text[-MAX_COURTESY:])
    return "\\" in last and not any(map(last.__contains__, _QED))


def until_next_question(completion: str) -> str:
    r"""Cut a completion before the next question, which base models often generate, if an answer stands before it.

    Examples:
        >>> until_next_question("So it is 8.\nQuestion: What is 2 + 2?\nAnswer: 4")
        'So it is 8.'
        >>> until_next_question("There are 2 parts.\nQuestion 1: What is 2 + 2?") == "There are 2 parts."
        False
    """
    start = completion.rfind("</think>") + 1
    question = _QUESTION.search(completion, start)
    if question is None:
        return completion
    before = completion[start : question.start()]
    last_line = before.rstrip().rpartition("\n")[2]
    has_answer = (
        box_answers(before)
        or tags(before)
        or formal(before)
        or informal(before)
        or _ANSWERS.search(last_line)
    )
    return completion[: question.start()] if has_answer else completion


def check_answer_from(answer_from: object, rules: Collection[str] = ANSWER_FROM) -> None:
    """Raise a ValueError unless `answer_from` is in `rules`."""
    check_choice("answer_from", answer_from, rules)


def _boxed_only(text: str) -> Found | str:
    found = boxes(text)
    if len(found) > 1:
        return "several_boxed"
    return _concluded(text, _of("boxed", found)) or "no_boxed"


def _last_number(text: str) -> Found | str:
    return [
        (number.rstrip(","), "last_number") for number in _NUMBER.findall(text)[-1:]
    ] or "no_number"


def _last_line(text: str) -> Found | str:
    line = text.rstrip().rpartition("\n")[2]
    return [(unmarked(line), "last_line")] if line.strip() else "no_answer"


def _text(text: str) -> Found | str:
    whole = text.strip()
    if not whole:
        return "no_answer"
    return [(whole if "\n" in whole else unmarked(whole), "text")]


def _marked(text: str) -> Found | str:
    tagged = tags(text)
    outside = _outside(tagged, box_answers(text))
    said = _outside(tagged, formal(text))
    found = [*_of("answer_tag", tagged), *_of("boxed", outside), *_of("phrase", said)]
    if found:
        found += _said_again(text, max(mark.end for mark, _ in found))
    return (
        # By place, since the last mark decides, of whatever kind it is.
        _concluded(text, sorted(found))
        or _concluded(text, _of("phrase", informal(without_check(text))))
        or _concluded(text, _of("emphasised", emphasised(text)))
        or _text(text)
    )


def _outside(tagged: list[Mark], marks: list[Mark]) -> list[Mark]:
    """Leave out the marks that begin inside a tag: the tag's own answer has them."""
    outside = []
    for mark in marks:
        if not any(tag.start <= mark.start < tag.end for tag in tagged):
            outside.append(mark)
    return outside


def _said_again(text: str, end: int) -> list[tuple[Mark, str]]:
    """Return the value that a later sentence states as the answer: "... So the answer is 5" below `Answer: 4`."""
    again = []
    for mark in informal(text, end + 1):
        if _VALUE.fullmatch(mark.content):
            again.append(mark)
    return _of("phrase", again)


def _of(kind: str, marks: list[Mark]) -> list[tuple[Mark, str]]:
    return [(mark, kind) for mark in marks]


def _concluded(text: str, found: list[tuple[Mark, str]]) -> Found | str:
    """Return the answers of the last mark and its neighbours, or their correction.

    A reason code says that surrounding words take the answers back.
    """
    kinds = dict(found)
    last = concluding(text, list(kinds))
    if not last:
        return []
    before = _SENTENCE_BEGIN.split(text[max(0, last[-1].start - REACH) : last[-1].start])[
        -1
    ]
    if doubted_before(before):
        return "hedged"
    rest = text[last[0].end :]
    after = rest[:REACH]
    corrected = correction(after)
    if corrected:
        return [(corrected, "phrase")]
    if taken_back(after):
        return "taken_back"
    contents = " ".join(mark.content for mark in reversed(last))
    if turned_from(contents[-REACH:], rest[:MAX_TURN]) or is_refused(contents, rest):
        return "taken_back"
    answers = []
    for mark in last:
        kind = kinds[mark]
        answers += [(answer, kind) for answer in _answers(mark, kind)]
    return answers


def _answers(mark: Mark, kind: str) -> list[str]:
    """Return a mark's answer; of a tag, its last box, else its content without an opening phrase."""
    if kind != "answer_tag":
        return [mark.content]
    return [box.content for box in box_answers(mark.content)][::-1][:1] or [
        without_mark(mark.content)
    ]


_RULES: dict[str, Callable[[str], Found | str]] = {
    "marked": _marked,
    "boxed": lambda text: (
        _concluded(text, _of("boxed", box_answers(text))[-1:]) or "no_boxed"
    ),
    "boxed_only": _boxed_only,
    "answer_tag": lambda text: (
        _concluded(text, _of("answer_tag", tags(text))) or "no_answer_tag"
    ),
    "phrase": lambda text: (
        _concluded(text, _of("phrase", formal(text) or informal(text)))
        or "no_answer_phrase"
    ),
    "last_number": _last_number,
    "last_line": _last_line,
    "text": _text,
}
