"""Adapt answers to the question: asked unit, remainder, profit or loss, yes or no."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from trl_grpo_ext.answers.find.final_answer import FinalAnswer
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.tree import Apply, Collection, Number, Quantity, Range, Remainder, Time
from trl_grpo_ext.answers.read.units import is_unit, unit

# Characters at the end of a prompt that are searched for the question.
MAX_PROMPT = 1_000
_QUESTION = re.compile(r"(?:[^.?!\n]|\.(?=\d))*\?[^?]*\Z")
_UNIT = re.compile(
    r"\b(?:how many|(?:answer|give|express\w*|measured)\b[^.?]{0,30}\bin|,\s+in)\s+([a-z]{2,20})\b"
    r"|\bin\s+([a-z]{2,20})\s*\?",
    re.IGNORECASE,
)
OF_REST = re.compile(r"\b(?:remainder|remain\w*|left\s?over|left|extra)\b", re.IGNORECASE)
# Pairs of words for changes in opposite directions.
_DIRECTIONS = (
    (r"profit|gain|gained|earned", r"loss|lost|lose[sd]?"),
    (
        r"increase[sd]?|raised?|rises?|rose|risen|grows?|grew|growth|goes up|went up|gone up",
        r"decrease[sd]?|drop(?:s|ped)?|declined?|falls?|fell|fallen|reduced|reduction|lower(?:s|ed)|discount"
        r"|goes down|went down|gone down",
    ),
    (r"ends?|ended|over|finish(?:es|ed)?", r"starts?|started|begins?|began"),
    (r"arrives?|arrived", r"leaves?|left|departs?|departed"),
)
_DIRECTION = re.compile(rf"\b(?:{'|'.join(word for pair in _DIRECTIONS for word in pair)})\b", re.IGNORECASE)
# Pairs of words of opposite comparisons.
_OPPOSITES = (
    (
        r"more|most|larger|largest|bigger|biggest|greater|greatest|higher|highest",
        r"less|least|fewer|fewest|smaller|smallest|lower|lowest",
    ),
    (r"taller|tallest|longer|longest", r"shorter|shortest"),
    (r"farther|farthest|further|furthest", r"nearer|nearest|closer|closest"),
    (r"older|oldest|elder", r"younger|youngest"),
    (r"faster|fastest|quicker|quickest", r"slower|slowest"),
    (r"earlier|earliest", r"later|latest"),
    (r"heavier|heaviest", r"lighter|lightest"),
    (r"cheaper|cheapest", r"more expensive|most expensive|dearer|dearest"),
    (r"better|best", r"worse|worst"),
    (r"warmer|warmest|hotter|hottest", r"colder|coldest|cooler|coolest"),
    (r"wins?|won|winner", r"loses?|lost|loser"),
)
# A name inside a sentence, but no owner: "Ann" of "How old is Ann?", nothing of "How old is Ann's brother?".
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+\b(?!['’]s| [A-Z])")
_CAPITAL = re.compile(r"[A-Z][a-z]+\b")
NO_NAMES = frozenset("The So In He She It They This That There Thus Hence But And You We I A After Since How".split())  # noqa: SIM905
# "How old is Ada?" is about Ada alone; "How much did Tom give Ann?" about two.
_ABOUT_ONE = re.compile(
    r"\b(?:is|was|will|did|does|has)\s+[A-Z][a-z]+\b(?!.*\b(?:give|gave|owe|lend|pay|sell|send)\b)(?!['’])"
)
_SIDES = re.compile(r",?\s+(?:and|but|while|whereas)\s+(?=[A-Z])|[;,]\s+(?=[A-Z])")
_SUBJECT = re.compile(
    r"\W*(?:(?:so|thus|therefore|hence|then|this means|which means|that)\b,?\s+)*([A-Z][a-z]+)\s+[a-z]", re.IGNORECASE
)
_PER = re.compile(r"\b(?:per|every|each|an?)\s+(?:\d+\s+)?([a-z]+)\b")
_COUNTS = re.compile(r"\bhow many\s+[a-z]+s\b", re.IGNORECASE)
_MEASURES = {"length", "time", "mass"}
_WORD = re.compile(r"[A-Za-z]+")
_RATIO_OF = re.compile(r"\bratio of (?:the )?(?:number of )?(\w+) to (?:the )?(?:number of )?(\w+)", re.IGNORECASE)
_FOR_EVERY = re.compile(r"^(\d+(?:\s[a-z]+){1,2})\sfor every\s.*$")
_RANK = re.compile(r"\b(?:first|second|third|fourth|fifth|last)\b", re.IGNORECASE)
_ORDER = re.compile(
    r"\b(?:sort|arrange|rank|order(?! an?\b)|(?:least|smallest|lowest|shortest) to|(?:greatest|largest|highest|longest) to"
    r"|ascending|descending)\b",
    re.IGNORECASE,
)


def question_of(prompt: str) -> str:
    """Return a prompt's last question, as a sentence; empty if no question mark is found."""
    found = _QUESTION.search(prompt[-MAX_PROMPT:])
    return found[0].strip() if found else ""


def is_opposed(question: str, clause: str) -> bool:
    """Check whether a clause has the opposite of a word of the question, and not the word: `shorter` for `taller`."""
    for pair in _OPPOSITES:
        for one, other in (pair, pair[::-1]):
            if _has(question, one) and not _has(question, other) and _has(clause, other) and not _has(clause, one):
                return True
    ranks = {rank.casefold() for rank in _RANK.findall(question)}
    told = {rank.casefold() for rank in _RANK.findall(clause)}
    return bool(ranks and told) and not ranks & told


def asks_for_order(prompt: str) -> bool:
    """Check whether a question asks to put things in order."""
    return _ORDER.search(prompt[-MAX_PROMPT:]) is not None


def about_asked(sentence: str, prompt: str) -> str:
    """Return the part of a sentence that is about the name that the question asks about.

    The part is empty if the sentence is about another name alone.

    Examples:
        >>> asked = "Anna and Ben share $56. How much does Anna get?"
        >>> about_asked("So Anna gets $16 while Ben gets $40", asked), about_asked("So Ben gets $40", asked)
        ('So Anna gets $16', '')
        >>> about_asked("So she gets $16", asked)
        'So she gets $16'
    """
    prompt = prompt[-MAX_PROMPT:]
    asked = _NAME.search(question_of(prompt))
    if asked is None:
        return sentence
    others = set(_CAPITAL.findall(prompt)) - {asked[0]} - NO_NAMES
    about, beside = [], []
    for part in _SIDES.split(sentence):
        capitals = set(_CAPITAL.findall(part))
        if asked[0] in capitals:
            about.append(part)
        if others & capitals:
            beside.append(part)
    if len(about) == 1 and beside and about[0] not in beside:
        return about[0]
    subject = _SUBJECT.match(sentence)
    is_of_other = subject and subject[1] in others and not subject[1].endswith("s")
    return "" if not about and is_of_other and _ABOUT_ONE.search(question_of(prompt)) else sentence


def as_asked(gold: str, answer: str, prompt: str) -> str:
    """Adapt a gold to the question: its unit, the order of its list, its bounds.

    Examples:
        >>> [as_asked("12", said, "How many dollars is that?") for said in ("12 cents", "12", "12 pens")]
        ['12 dollars', '12', '12']
        >>> as_asked("1, 2", "2, 1", "Sort 2 and 1 from smallest to largest.")
        '(1, 2)'
        >>> as_asked("5 and 6", "between 5 and 6", "Between which two numbers is it?")
        'between 5 and 6'
    """
    asked, given = read(gold).node, read(answer).node
    if isinstance(asked, Collection) and asked.kind == "list":
        if isinstance(given, Range) and len(asked.items) == 2 and "between" in prompt.casefold():
            return f"between {gold}"
        return f"({gold})" if asks_for_order(prompt) else gold
    if isinstance(given, Quantity) and isinstance(asked, Number):
        return with_asked_unit(gold, given, prompt)
    return gold


def with_asked_unit(gold: str, given: Quantity, prompt: str) -> str:
    """Append the question's unit to a unitless gold if the answer uses another unit of equal measure."""
    for asked in _UNIT.finditer(question_of(prompt)):
        word = asked[1] or asked[2]
        if not is_unit(word):
            continue
        wanted = unit(word)
        if wanted.measures == given.unit.measures and wanted != given.unit:
            return f"{gold} {word}"
    return gold


def with_question(found: FinalAnswer, golds: Sequence[str], sentence: str, prompt: str) -> FinalAnswer:
    """Adapt an answer to what the question asks: a direction, a measure, a remainder."""
    found = with_asked_direction(found, golds, sentence, prompt)
    return with_asked_part(with_asked_measure(found, sentence, prompt), golds, prompt)


def with_asked_part(found: FinalAnswer, golds: Sequence[str], prompt: str) -> FinalAnswer:
    """Reduce `7 remainder 2` to its remainder if the question asks for remainders, else to the quotient.

    Examples:
        >>> said = FinalAnswer(("7, with a remainder of 2",), ("last_expression",))
        >>> [with_asked_part(said, ["2"], asked).answers[0] for asked in ("How many are left over?", "How many bags?")]
        ['2', '7']
    """
    question = question_of(prompt)
    if _PER.search(question):
        found = replace(found, answers=tuple(_FOR_EVERY.sub(r"\1", answer) for answer in found.answers))
    parts = [read(answer).node for answer in found.answers]
    if not question or not any(isinstance(part, Remainder) for part in parts):
        return found
    if not all(isinstance(read(gold).node, Number | Quantity) for gold in golds):
        return found
    asks_for_rest = OF_REST.search(question) is not None
    answers = []
    for part, answer in zip(parts, found.answers, strict=True):
        if isinstance(part, Remainder):
            number = part.rest if asks_for_rest else part.quotient
            answers.append(str(number.value))
        else:
            answers.append(answer)
    return replace(found, answers=tuple(answers))


def with_asked_direction(found: FinalAnswer, golds: Sequence[str], sentence: str, prompt: str) -> FinalAnswer:
    """Negate an answer whose direction contradicts the question: a loss where a profit is asked for.

    A direction in the gold counts before the question. Without a question, the words "not a profit" in the sentence tell the asked direction.

    Examples:
        >>> said = FinalAnswer(("$20",), ("last_expression",))
        >>> with_asked_direction(said, ["20"], "That is a loss of $20.", "How much profit did he make?").answers
        ('-$20',)
        >>> with_asked_direction(said, ["20"], "That is a loss of $20.", "How much did he lose?").answers
        ('$20',)
    """
    if found.problem or len(found.answers) != 1 or not _DIRECTION.search(sentence):
        return found
    if not isinstance(_amount(found.answers[0]), Number | Time):
        return found
    told = [gold for gold in golds if _DIRECTION.search(gold)]
    asked = told[0] if told else question_of(prompt) or " ".join(re.findall(r"\bnot an?\s+(\w+)", sentence))
    for pair in _DIRECTIONS:
        for one, other in (pair, pair[::-1]):
            if not _has(asked, one) or _has(asked, other):
                continue
            said = rf"(?:{other})\b(?:\s+(?:of|by|at|is|was|about|exactly|only|a|an|total))*\s+{re.escape(found.answers[0])}"
            if _has(sentence, said):
                return replace(found, answers=("-" + found.answers[0],))
    return found


def with_asked_measure(found: FinalAnswer, sentence: str, prompt: str) -> FinalAnswer:
    """Refuse an answer per another unit than the question's, and a measure where things are asked for.

    A ratio that the sentence gives the other way is turned.

    Examples:
        >>> with_asked_measure(FinalAnswer(("8 m",), ("text",)), "Each is 8 m long.", "How many pieces is that?").problem
        'no_answer'
        >>> said = FinalAnswer(("$45",), ("last_expression",))
        >>> with_asked_measure(said, "It costs $45 per minute.", "What is the price per hour?").problem
        'no_answer'
        >>> said, asked = FinalAnswer(("2:3",), ("last_expression",)), "What is the ratio of cats to dogs?"
        >>> with_asked_measure(said, "The ratio of dogs to cats is 2:3.", asked).answers
        ('3:2',)
    """
    question = question_of(prompt)
    if found.problem or len(found.answers) != 1:
        return found
    asked, told = ({unit(word) for word in _PER.findall(text) if is_unit(word)} for text in (question, sentence))
    if asked and told and not asked & told:
        return FinalAnswer(problem="no_answer")
    pair = _RATIO_OF.search(question)
    match read(found.answers[0]).node:
        case Quantity(_, given) if _COUNTS.search(question) and {measure for measure, _ in given.measures} <= _MEASURES:
            if not any(unit(word).measures == given.measures for word in _WORD.findall(question) if is_unit(word)):
                return FinalAnswer(problem="no_answer")
        case Apply("ratio", (Number(one), Number(other))) if pair:
            clause = sentence.casefold().rpartition(", ")[2]
            first, second = (clause.find(thing.casefold()) for thing in pair.groups())
            if 0 <= second < first:
                return replace(found, answers=(f"{other}:{one}",))
    return found


def _has(text: str, words: str) -> bool:
    return re.search(rf"\b(?:{words})(?!\w)", text, re.IGNORECASE) is not None


def _amount(text: str) -> object:
    match read(text).node:
        case Quantity(amount) | Apply("%", (amount,)):
            return amount
        case node:
            return node
