"""Find yes or no in a completion: the word itself, or a statement affirming or denying the question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from trl_grpo_ext.answers.find.asked import question_of
from trl_grpo_ext.answers.find.final_answer import FinalAnswer
from trl_grpo_ext.answers.find.last_sentence import answer_of, ending, last_sentence
from trl_grpo_ext.answers.read.answer import MAX_CHARS
from trl_grpo_ext.answers.read.signal_words import (
    CONDITION,
    CONTRAST,
    DENIAL,
    DOUBT,
    GUESS,
    OPPOSITES,
    THEREFORE,
    TURN,
    WRONG,
    any_of,
)

YES_AND_NO = ("yes", "no", "true", "false")
# Characters before a yes or no that are searched for a supposition.
REACH = 200
# Contrasts after a yes or no that are read; more leave the answer open.
MAX_CONTRASTS = 8
_MARKUP = re.compile(r"[*_`]+")
_ENDS = r"(?=\W*(?:[.,:;!\n–—]|$)|\s+[-(]|\s+(?:because|since|as)\b)"
# The word alone at the start of a text, a sentence or a clause: "No - it is even", "..., so yes, she can".
_YES_OR_NO = re.compile(
    rf"(?:\A\s*|[.!?:;\n–—-]\s+|,\s+(?:and\s+|so\s+)?|\b(?:{THEREFORE}|but|would say|['’]d say)\s+)"
    rf"(yes|no|true|false)\b{_ENDS}",
    re.IGNORECASE,
)
_TRUE_OR_FALSE = re.compile(r"\btrue\W*(?:or|/)\W*false\b", re.IGNORECASE)
_SO = rf"(?:{THEREFORE}|which means(?: that)?)"
_CLAIM = r"(?:statement|claim|sentence|proposition|assertion)s?"
# A sentence or its conclusion: "The statement is false.", "..., so it is not a true statement."
_VERDICT = re.compile(
    rf"(\A\s*|[.!?:\n]\s{{1,9}}|,\s{{1,9}}(?={_SO}\b))(?:{_SO},?\s+)?"
    rf"(?:(?:the|this|that|these)\s+(?:(?:following|given|above|first)\s+)?{_CLAIM}|it|this|that|they)"
    r"(?:(?:\s+(?:is|are)|['’]s)(\s+not|n['’]t)?)(?:\s+(?:an?|indeed|therefore|actually))?"
    rf"\s+(true|false)(?:\s+{_CLAIM})?\b{_ENDS}",
    re.IGNORECASE,
)
# Words after the last yes or no that may change it.
_TURNED = re.compile(
    rf"(?:^|[.!?;,:\n]\s*)(?:yes|no(?! doubt)|true|false|or|{TURN}|{DOUBT})\b"
    r"|\b(?:answer|yes|or no)\b|\?",
    re.IGNORECASE,
)
# ", but it is often cooked", "; however, they swim"
_CONTRASTED = re.compile(rf"(?:^|[.!?;,:\n]\s*)(?:{CONTRAST})\b([^.!?;\n]*)", re.IGNORECASE)
# Words by which a clause of contrast takes back or limits the answer before it.
_TAKES_BACK = re.compile(
    rf"\b(?:{GUESS}|{TURN}|{WRONG}|maybe|perhaps|possibly|probably|yes|no\W*$|true|or|either|depend\w*|opposite|contrary"
    r"|reverse|otherwise|mistaken|(?:un)?sure|(?:un)?certain|doubt\w*|unclear|knows?|believe|think|say|argue|disagree"
    r"|second|answers?|myth|joking|kidding|right|correct|I|my|me|we|not always|sometimes|rarely|then again)\b"
    r"|^\W*(?:not|only|if)\b(?! all\b| every\b)",
    re.IGNORECASE,
)
# 4, Yes, 7
_AMONG_OTHERS = re.compile(
    r"[\w.]\s*,\s*(?:yes|no|true|false)\s*,\s*\S{1,8}(?:,|$)", re.IGNORECASE
)
# A line of numbers and the word: "4, 54, No"
_WITH_NUMBERS = re.compile(
    r"^\s*(?:(?:\d[\d./]*\s*,\s*)+(?:yes|no|true|false)|(?:yes|no|true|false)(?:\s*,\s*\d[\d./]*)+)[\s.]*$",
    re.IGNORECASE | re.MULTILINE,
)
_LEADS = re.compile(r"(?:\\text\s*\{)?\s*(yes|no|true|false)\b\s*[,;:.(–—]", re.IGNORECASE)
# A supposition in the word's sentence: "If it were even, yes."
_UNREAL = re.compile(r"\b(?:if|suppose|assuming)\b[^.!?\n]*\Z", re.IGNORECASE)
_AUXILIARY = r"is|are|was|were|does|do|did|can|could|will|would|has|have|had|should"
_ASKS = re.compile(rf"^\W*(?:so\s+|then\s+)?(?:{_AUXILIARY})\b", re.IGNORECASE)
_STATES = re.compile(
    rf"\b(?:{_AUXILIARY})(?:n['’]t)?\b|\bwon['’]t\b|\bcan(?:not|['’]t)\b", re.IGNORECASE
)
_WORD = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?|\d[\d.,/]*")
_SILENT = frozenset(
    """a an the of is are was were be been does do did can could will would has have had should he she it they we i this
    that these those there his her their its both indeed all two so thus hence therefore then number to for in on at
    really exactly also everyone everybody enough's actually clearly them make such""".split()  # noqa: SIM905
)
_NEGATIVE = re.compile(rf"{DENIAL}|impossible")
_MODALS = frozenset(("may", "might"))
_ENDING = re.compile(r"(?<=[a-z]{3})(?:(?<!s)s|es|ed|ing|(?<=[a-z]{4})e)$")
# The comma of a point: "(3, 7)"
_IN_POINT = re.compile(r"(?<=\d),\s(?=[-−]?\d[\d.]*\))")
_LESS_THAN = re.compile(r"\s?<\s?(?=\d)")
_MORE_THAN = re.compile(r"\s?>\s?(?=\d)")
# Verbs as statements have them, by the verb that a question begins with.
_INFLECTED = {"does": "s", "did": "ed"}
_ORDERS = re.compile(r"\b(?:before|after)\b")
_RELATION = re.compile("[=<>]")
_OF_FORMULA = frozenset(("equation", "inequality", "system"))
_LEFT_OPEN = any_of(CONDITION, DOUBT, "or|unclear|only")
_BECAUSE = re.compile(r",?\s+(?:because|since|as)\s")
_STATEMENT = re.compile(
    rf"[,;:]\s+|\band\s+(?=(?:{_AUXILIARY}|cannot)\b)|\b(?:{THEREFORE}|but|which means)\b"
)
# "He did not.", "No such triangle exists.", "That is impossible.": statements that need no word of the question.
_SHORT = re.compile(
    rf"\W*(?:(?:[Ii]ndeed|[Ss]o|[Tt]hus|[Tt]herefore|[Hh]ence|[Tt]hat means(?: that)?|[Bb]y [^,]{{1,40}}?),?\s+)?"
    r"(?:(?:[Hh]e|[Ss]he|[Ii]t|[Tt]hey|[Ww]e|[Yy]ou|[Tt]his|[Tt]hat)"
    rf"\s+(?:(?:{_AUXILIARY})(?:n['’]t)?|won['’]t|can['’]t|cannot)"
    r"(?:\s+(?:not|do (?:so|it|that)|be done|work|make it|impossible|possible|enough))*"
    r"|(?i:no) such\s+\w+\s+(?:exists?|is possible))\W*"
)
_PRONOUN = re.compile(r"\b(?:he|she|they|it)\b")
_LETTERS = re.compile(r"[a-z]{2}")
_SUFFICES = re.compile(r"\b(?:enough|sufficient|suffices?)\b", re.IGNORECASE)
_FALLS_SHORT = re.compile(
    r"\b(?:falls?|comes?|is|are)\s+(?:\S+\s+){0,3}short\b|\btoo (?:few|little)\b",
    re.IGNORECASE,
)
_ASKS_FOR_ENOUGH = re.compile(
    r"\b(?:enough|afford|buy|pay|cover|last|carry|fit|fill|reach|feed|finish|complete)\b",
    re.IGNORECASE,
)


def with_yes_or_no(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str = ""
) -> FinalAnswer:
    """Find the answer to a yes-or-no question; golds other than yes and no leave the found answer unchanged.

    Without the word, compare the last sentence with the question's words.

    Examples:
        >>> with_yes_or_no(answer_of("21"), ["no"], "It costs $21, so no, he can't.").answers
        ('no',)
        >>> with_yes_or_no(answer_of("97"), ["yes"], "Yes. No, 97 is.").problem
        'hedged'
    """
    words = {gold.casefold().rstrip(".") for gold in golds}
    if not words or not words.issubset(YES_AND_NO):
        return found
    text = _MARKUP.sub("", ending(completion)).strip()
    asks_for_truth = _asks_for_truth(prompt)
    if asks_for_truth:
        text = _VERDICT.sub(_in_a_word, text)
    told = []
    for word in _YES_OR_NO.finditer(text):
        begin = max(word.start() - REACH, 0)
        if not _UNREAL.search(text, begin, word.start(1)):
            told.append(word)
    if not told:
        answer = says_yes_or_no(last_sentence(text), prompt)
        return answer_of(answer) if answer else found
    last = told[-1]
    is_item = _AMONG_OTHERS.search(text, max(last.start() - 1, 0)) or _WITH_NUMBERS.search(
        text
    )
    has_both = len({word[1].casefold() for word in told}) > 1
    if is_item or has_both or _is_turned(last[1], text[last.end() :], prompt):
        return FinalAnswer(problem="hedged")
    return answer_of(last[1])


def with_leading_yes_or_no(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    """Shorten a marked answer to its leading yes or no: "no, as 91 = 7 * 13" gives `no`; needs yes-or-no golds."""
    if len(found.answers) != 1 or not all(gold.casefold() in YES_AND_NO for gold in golds):
        return found
    answer = found.answers[0]
    leading = _LEADS.match(answer)
    if leading is None or _is_turned(leading[1], answer[leading.end() :], prompt):
        return found
    return replace(found, answers=(leading[1],))


def says_yes_or_no(sentence: str, prompt: str) -> str:
    """Return `yes` or `no` if a sentence affirms or denies the question, mostly with its words in order; else empty.

    Examples:
        >>> asked = "He has 5 litres. Does he have enough paint?"
        >>> says_yes_or_no("So he won't have enough paint.", asked), says_yes_or_no("He has enough paint.", asked)
        ('no', 'yes')
        >>> says_yes_or_no("It costs $9, so he does not.", asked), says_yes_or_no("Tom is older.", "Is Ann older?")
        ('no', '')
    """
    question = _IN_POINT.sub(",", question_of(prompt))
    if not _ASKS.match(question) or _asks_for_truth(prompt):
        return ""
    asked, is_denied = _content(question)
    clause = _concluding_clause(sentence, has_than="than" in asked)
    told, denied = _content(clause)
    answer = "no" if denied else "yes"
    if is_denied or _LEFT_OPEN.search(clause):
        return ""
    if _ASKS_FOR_ENOUGH.search(question):
        if _FALLS_SHORT.search(clause):
            return "no"
        if _SUFFICES.search(clause):
            return answer
    if _SHORT.fullmatch(clause):
        return answer
    told = _without_names(told, asked, clause, question, prompt)
    if not told or not (_STATES.search(clause) or _has_verb(clause, question)):
        return ""
    told, is_opposite = _as_compared(told, asked)
    if not _in_order(told, asked) or (is_opposite and denied):
        return ""
    return "no" if is_opposite else answer


def _concluding_clause(sentence: str, *, has_than: bool) -> str:
    """Return a sentence's last statement with words, with signs of comparison in words for a question with "than"."""
    said = _IN_POINT.sub(",", _BECAUSE.split(sentence, maxsplit=1)[0])
    if has_than:
        said = _MORE_THAN.sub(" is more than ", _LESS_THAN.sub(" is less than ", said))
    return next(filter(_LETTERS.search, reversed(_STATEMENT.split(said))), "")


def _without_names(
    told: Sequence[str], asked: Sequence[str], clause: str, question: str, prompt: str
) -> list[str]:
    """Remove names and words that the question replaces by a pronoun or a formula."""
    known: set[str] = set()
    if _PRONOUN.search(question):
        # "catch the train" for "catch it"
        known.update(_content(prompt[-MAX_CHARS:])[0])
        # A name stands for the pronoun.
        known.update(
            word for word in told if re.search(rf"\b{word.capitalize()}\b", clause)
        )
    if _RELATION.search(question):
        known.update(_OF_FORMULA)
    return [word for word in told if word in asked or word not in known]


def _has_verb(clause: str, question: str) -> bool:
    """Check whether a clause inflects the question's verb: `passes` for "Does it pass?".

    A clause that leaves out the question's "before" or "after" states less.
    """
    if set(_ORDERS.findall(question)) - set(_ORDERS.findall(clause)):
        return False
    begin = _WORD.search(question.casefold())
    ending = _INFLECTED.get(begin[0] if begin else "", "")
    asked = {word.casefold() for word in _WORD.findall(question)}
    told = [word.casefold() for word in _WORD.findall(clause)]
    stems = set(map(_stem, asked))
    return bool(ending) and any(
        word.endswith(ending) and word not in asked and _stem(word) in stems
        for word in told
    )


def _as_compared(told: list[str], asked: Sequence[str]) -> tuple[list[str], bool]:
    """Rewrite a comparison in the question's words, and tell whether its meaning is opposite: "Ben is older than Ann".

    A statement that leaves the question's comparison out is written as empty words, which no question has.
    """
    if "than" not in asked:
        return told, False
    for pair in OPPOSITES:
        sides = [
            [word for word in words if re.fullmatch("|".join(pair), word)]
            for words in (told, asked)
        ]
        if not all(sides):
            continue
        (said, *_), (word, *_) = sides
        is_opposite = bool(re.fullmatch(pair[0], said)) != bool(re.fullmatch(pair[0], word))
        place = told.index(said)
        told = [*told[:place], word, *told[place + 1 :]]
        if "than" in told[place:] and not _in_order(told, asked):
            than = told.index("than", place)
            told = [*told[than + 1 :], *told[place : than + 1], *told[:place]]
            is_opposite = not is_opposite
        return told, is_opposite
    return [""], False


def _asks_for_truth(prompt: str) -> bool:
    """Check whether a prompt asks if a statement is true or false."""
    return _TRUE_OR_FALSE.search(prompt[-MAX_CHARS:]) is not None


def _in_a_word(verdict: re.Match[str]) -> str:
    """Shorten a verdict to its word: "The statement is not true" to `False`."""
    is_true = (verdict[3].casefold() == "true") != bool(verdict[2])
    return f"{verdict[1]}{'True' if is_true else 'False'}"


def _is_turned(answer: str, rest: str, prompt: str) -> bool:
    """Check whether the text behind a yes or no revokes or limits the answer; other contrasts change nothing."""
    contrasts = [found[1] for found in _CONTRASTED.finditer(rest)]
    if _TURNED.search(rest) or len(contrasts) > MAX_CONTRASTS:
        return True
    if not contrasts:
        return False
    asked = _content(question_of(prompt))[0]
    other = "no" if answer.casefold() in ("yes", "true") else "yes"
    for contrast in contrasts:
        # "No, but it might be." and "However, ..., so it could." repeat the question.
        told = [word for word in _content(contrast)[0] if word not in _MODALS]
        concluded = _content(_STATEMENT.split(contrast)[-1])[0]
        if _in_order(told, asked) or not concluded or _TAKES_BACK.search(contrast):
            return True
    return any(
        says_yes_or_no(said_last, prompt) == other
        for said_last in (*contrasts, last_sentence(rest))
    )


def _in_order(words: Sequence[str], others: Sequence[str]) -> bool:
    """Check whether other words hold all given words in their order."""
    # A search in one iterator keeps the order.
    rest = iter(others)
    return all(word in rest for word in words)


def _content(text: str) -> tuple[list[str], bool]:
    """Return a text's content words, in order and stemmed, and whether the text denies them."""
    is_denied = False
    content = []
    for found in _WORD.findall(text.casefold()):
        word = found.rstrip(".,/")
        if _NEGATIVE.fullmatch(word):
            is_denied = not is_denied
        elif word not in _SILENT:
            content.append(_stem(word))
    return content, is_denied


def _stem(word: str) -> str:
    """Return a word without its ending: `satisfy` of satisfies, `divid` of divide and divides."""
    stem = _ENDING.sub("", word)
    is_of_y = stem != word and stem.endswith("i")
    return f"{stem[:-1]}y" if is_of_y else stem
