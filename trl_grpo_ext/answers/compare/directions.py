"""Give amounts the asked direction: "a loss of $15" is -$15 of profit, and "fell by 15%" is a change of -15%."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.signal_words import has_words
from trl_grpo_ext.answers.read.spelling import without_text_commands
from trl_grpo_ext.answers.read.tree import Apply, Date, Number, Quantity, Time

# Words of signed amounts, by their noun.
WORDS = {
    "profit": r"profit|gain|gained|earned",
    "loss": r"loss|lost|lose[sd]?",
    "increase": (
        r"increase[sd]?|raised?|rises?|rose|risen|grows?|grew|growth|gain(?:s|ed)?|climb(?:s|ed)?"
        r"|jump(?:s|ed)?|goes up|went up|gone up"
        r"|(?:up|higher)(?=\s(?:by\s)?[^\w\s]{0,2}\d)"
    ),
    "decrease": (
        r"decrease[sd]?|drop(?:s|ped)?|declined?|falls?|fell|fallen|reduced|reduction|lower(?:s|ed)|discount"
        r"|shrank|shrinks?|slid|sank|goes down|went down|gone down"
        r"|(?:down|lower)(?=\s(?:by\s)?[^\w\s]{0,2}\d)"
    ),
}
# Nouns of a positive and a negative amount
NOUNS = (("profit", "loss"), ("increase", "decrease"))
_SIGNED = tuple((WORDS[gain], WORDS[loss]) for gain, loss in NOUNS)
_DIRECTIONS = (
    *_SIGNED,
    (r"ends?|ended|over|finish(?:es|ed)?", r"starts?|started|begins?|began"),
    (r"arrives?|arrived", r"leaves?|left|departs?|departed"),
)


_GAIN_OR_LOSS = tuple("|".join(sides) for sides in zip(*_SIGNED, strict=True))


def _any(pairs: Sequence[tuple[str, str]]) -> str:
    return "|".join(side for pair in pairs for side in pair)


_DIRECTION = re.compile(rf"\b(?:{_any(_DIRECTIONS)})\b", re.IGNORECASE)
_AMOUNT = r"[^\w\s]{0,2}\d[^\s()]*(?:\s(?!of\b|by\b)[a-z]+){0,2}?"
# "a loss of $15", "loss, $15", "decreased by 15%", "a 15% decrease"
_DIRECTED = re.compile(
    rf"(?:an?\s+)?(?:(?P<before>{_any(_SIGNED)})(?:[:,]|\s+(?:of|by))?\s+(?P<of>{_AMOUNT})"
    rf"|(?P<amount>{_AMOUNT})\s+(?P<behind>{_any(_SIGNED)}))",
    re.IGNORECASE,
)
# "-15% (a decrease of 15%)", "-15%, i.e., a 15% decrease"
_GLOSSED = re.compile(
    r"(?P<signed>[^\w\s]{0,3}\d[^\s(),]*)"
    r"(?:\s*\((?P<bracket>[^()]{1,60})\)"
    r"|,?\s+(?:i\.e\.,?|which\s+is|that\s+is,?|meaning|or)\s+(?P<words>.{1,60}))",
    re.IGNORECASE,
)
_MAX_CHARS = 120
# A change has a sign, if a gold has one.
_CHANGE = re.compile(r"\bchanged?\b", re.IGNORECASE)
_SIGN = re.compile(r"\\?\$?[-−+]\s?\\?\$?\d")
# "not a profit": the direction that was asked for
_DENIED = re.compile(r"\bnot an?\s+(\w+)")


def with_direction_behind(text: str) -> str:
    r"""Write a gold's or answer's direction as a noun behind its amount.

    Examples:
        >>> with_direction_behind("A loss of $15"), with_direction_behind("fell by 15%")
        ('$15 loss', '15% decrease')
        >>> with_direction_behind("-15% (a decrease of 15%)"), with_direction_behind("15% (a loss of 5%)")
        ('15% decrease', '15% (a loss of 5%)')
    """
    if len(text) > _MAX_CHARS or not _tells_direction(text):
        return text
    told = without_text_commands(text).strip(" .")
    found = _DIRECTED.fullmatch(told)
    if found:
        word = found["before"] or found["behind"]
        return f"{found['of'] or found['amount']} {_noun(word)}"
    glossed = _GLOSSED.fullmatch(told)
    if glossed is None:
        return text
    gloss = with_direction_behind(glossed["bracket"] or glossed["words"])
    size = glossed["signed"].lstrip("-−")
    is_same = gloss in [f"{size} {noun}" for noun in WORDS]
    is_gain = gloss.endswith(tuple(gain for gain, _ in NOUNS))
    is_contradicted = is_gain and size != glossed["signed"]
    return gloss if is_same and not is_contradicted else text


def with_asked_direction(
    answer: str, golds: Sequence[str], sentence: str, question: str
) -> str:
    """Write an amount with the sign of the asked direction.

    Args:
        answer: The answer.
        golds: Golds. A direction in a gold counts before the question, and then stays a word, as does the answer's.
        sentence: The completion's last sentence, which may tell the answer's direction.
        question: The question. Without a question, the words "not a profit" in the sentence tell the asked direction.

    Examples:
        >>> with_asked_direction("decreased by 15%", ["-15%"], "", "By what percent did it change?")
        '-15%'
        >>> with_asked_direction("15% decrease", ["15%"], "", "By what percent did it decrease?")
        '15%'
    """
    answer = with_direction_behind(answer)
    # The sides of such golds are compared with them.
    if any(map(_DIRECTED.fullmatch, golds)):
        return answer
    directed = _DIRECTED.fullmatch(answer)
    amount = directed["amount"] if directed else answer
    if _is_opposite(answer, golds, sentence, question):
        return f"-{amount}"
    return answer if any(map(_tells_direction, golds)) else amount


# Golds and questions recur.
@lru_cache(maxsize=1024)
def _tells_direction(text: str) -> bool:
    """Check whether a text contains a direction word, such as `profit`, `fell` or `arrives`."""
    return _DIRECTION.search(text) is not None


def _noun(word: str) -> str:
    """Return the noun of a word's direction: `decrease` for `fell`."""
    # Some words are of a direction only before an amount.
    told = f"{word} 1"
    return next(
        noun
        for noun, words in WORDS.items()
        if re.match(rf"(?:{words})\b", told, re.IGNORECASE)
    )


def _is_opposite(answer: str, golds: Sequence[str], sentence: str, question: str) -> bool:
    """Check whether an answer or its sentence gives an amount the direction opposite to the asked one."""
    asked = _asked_direction(golds, sentence, question)
    if not (_tells_direction(asked) and _tells_direction(answer + sentence)):
        return False
    if not _is_amount(answer):
        return False
    amount_told = re.escape(answer)
    behind = (
        rf"\b:?(?:\s+(?:of|by|at|is|was|about|exactly|only|a|an|total))*\s+{amount_told}"
    )
    # A gold's loss is no increase; a question for a profit may tell of a discount beside it.
    pairs = (
        (*_DIRECTIONS, _GAIN_OR_LOSS) if any(map(_tells_direction, golds)) else _DIRECTIONS
    )
    for pair in pairs:
        for one, other in (pair, pair[::-1]):
            if (
                has_words(asked, one)
                and not has_words(asked, other)
                and (
                    has_words(answer, other)
                    or has_words(sentence, f"(?:{other}){behind}")
                    or re.search(rf"{amount_told}\s+(?:{other})\b", sentence, re.IGNORECASE)
                )
            ):
                return True
    return False


def _is_amount(answer: str) -> bool:
    amount = read(answer).node
    if isinstance(amount, Quantity):
        amount = amount.amount
    if isinstance(amount, Apply) and amount.arguments:
        amount = amount.arguments[0]
    return isinstance(amount, Number | Time | Date)


def _asked_direction(golds: Sequence[str], sentence: str, question: str) -> str:
    """Return the text that tells the asked direction."""
    told = [gold for gold in golds if _tells_direction(gold)]
    if told:
        return told[0]
    if any(map(_SIGN.match, golds)):
        if _CHANGE.search(question):
            return "increase"
        # "What is the profit or loss?"
        for gain, loss in NOUNS:
            if has_words(question, WORDS[gain]) and has_words(question, WORDS[loss]):
                return gain
    if question:
        return question
    return " ".join(_DENIED.findall(sentence)) if "not a" in sentence else ""
