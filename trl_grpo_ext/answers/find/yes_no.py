"""Find the answer to a question for yes or no: the word itself, or a sentence that affirms or denies the question."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trl_grpo_ext.answers.find.asked import question_of
from trl_grpo_ext.answers.find.final_answer import FinalAnswer
from trl_grpo_ext.answers.find.names import YES_AND_NO, ending, last_sentence, said

# Characters before a yes or no that are searched for a supposition.
REACH = 200
_BOLD = re.compile(r"[*_`]+")
# The word alone at the start of a text, a sentence or a clause: "No - it is even", "..., so yes, she can".
_SAID = re.compile(
    r"(?:\A\s*|[.!?:;\n–—-]\s+|,\s+(?:and\s+|so\s+)?|\b(?:so|but|hence|thus|therefore)\s+)(yes|no|true|false)\b"
    r"(?=\W*(?:[.,:;!\n–—]|$)|\s+-\s|\s+(?:because|since|as)\b)",
    re.IGNORECASE,
)
# Words after the last yes or no that may change it.
_TURNED = re.compile(
    r"(?:^|[.!?;,:\n]\s*)(?:yes|no|true|false|wait|actually|hmm|or|maybe|perhaps|but|however|although)\b"
    r"|\b(?:answer|yes|or no)\b|\?",
    re.IGNORECASE,
)
# A supposition in the word's sentence: "If it were even, yes."
_UNREAL = re.compile(r"\b(?:if|suppose|assuming)\b[^.!?\n]*\Z", re.IGNORECASE)
_AUXILIARY = r"is|are|was|were|does|do|did|can|could|will|would|has|have|had|should"
_ASKS = re.compile(rf"^\W*(?:so\s+|then\s+)?(?:{_AUXILIARY})\b", re.IGNORECASE)
_STATES = re.compile(rf"\b(?:{_AUXILIARY})(?:n['’]t)?\b|\bwon['’]t\b|\bcan(?:not|['’]t)\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?|\d[\d.,/]*")
_SILENT = frozenset(
    """a an the of is are was were be been does do did can could will would has have had should he she it they we i this
    that these those there his her their its both indeed all two so thus hence therefore then number to for in on at
    really exactly also enough's actually clearly them make such""".split()  # noqa: SIM905
)
_NEGATIVE = re.compile(r"n['’]t$|^(?:not|no|never|neither|cannot|impossible)$")
_ENDING = re.compile(r"(?<=[a-z]{3})(?:s|es|ed|ing)$")
_OPEN = re.compile(r"\b(?:if|unless|might|may|maybe|perhaps|probably|whether|or|unclear|only)\b|\?", re.I)
_REASON = re.compile(r",?\s+(?:because|since|as)\s")
_CLAUSE = re.compile(r"[,;:]\s+|\b(?:so|thus|hence|therefore|but|which means|and therefore)\b")
# "He did not.", "No such triangle exists.", "That is impossible.": statements that need no word of the question.
_SHORT = re.compile(
    rf"\W*(?:[Ii]ndeed,?\s+)?(?:(?:[Hh]e|[Ss]he|[Ii]t|[Tt]hey|[Ww]e|[Yy]ou|[Tt]his|[Tt]hat)"
    rf"\s+(?:(?:{_AUXILIARY})(?:n['’]t)?|won['’]t|can['’]t|cannot)"
    r"(?:\s+(?:not|do (?:so|it|that)|make it|impossible|not possible))*"
    r"|(?i:no) such\s+\w+\s+(?:exists?|is possible))\W*"
)
_PRONOUN = re.compile(r"\b(?:he|she|they|it)\b")
_LETTERS = re.compile(r"[a-z]{2}")
_SUFFICES = re.compile(r"\b(?:enough|sufficient|suffices?)\b", re.IGNORECASE)
_FALLS_SHORT = re.compile(r"\b(?:falls?|comes?|is|are) short\b|\btoo (?:few|little)\b", re.IGNORECASE)
_ASKS_FOR_ENOUGH = re.compile(
    r"\b(?:enough|afford|buy|pay|cover|last|carry|fit|fill|reach|feed|finish|complete)\b", re.IGNORECASE
)


def with_yes_or_no(found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str = "") -> FinalAnswer:
    """Take a text's yes or no as answer if each gold is yes or no and no mark gives another answer.

    Without the word, compare the last sentence with the question's words.

    Examples:
        >>> with_yes_or_no(said("21"), ["no"], "It costs $21, so no, he can't.").answers
        ('no',)
        >>> with_yes_or_no(said("97"), ["yes"], "Yes. No, 97 is.").problem
        'hedged'
    """
    words = {gold.casefold().rstrip(".") for gold in golds}
    if not words or not words.issubset(YES_AND_NO):
        return found
    text = _BOLD.sub("", ending(completion)).strip()
    told = [
        word for word in _SAID.finditer(text) if not _UNREAL.search(text, max(word.start() - REACH, 0), word.start(1))
    ]
    if told:
        is_open = len({word[1].casefold() for word in told}) > 1 or _TURNED.search(text, told[-1].end())
        return FinalAnswer(problem="hedged") if is_open else said(told[-1][1])
    answer = says_yes_or_no(last_sentence(text), prompt)
    return said(answer) if answer else found


def says_yes_or_no(sentence: str, prompt: str) -> str:
    """Return `yes` or `no` if a sentence affirms or denies the question, mostly with its words in order; else empty.

    Examples:
        >>> asked = "He has 5 litres. Does he have enough paint?"
        >>> says_yes_or_no("So he won't have enough paint.", asked), says_yes_or_no("He has enough paint.", asked)
        ('no', 'yes')
        >>> says_yes_or_no("It costs $9, so he does not.", asked), says_yes_or_no("Tom is older.", "Is Ann older?")
        ('no', '')
    """
    question = question_of(prompt)
    if not _ASKS.match(question):
        return ""
    asked, is_denied = _content(question)
    sentence = _REASON.split(sentence, maxsplit=1)[0]
    clause = next((one for one in reversed(_CLAUSE.split(sentence)) if _LETTERS.search(one)), "")
    told, denied = _content(clause)
    if is_denied or _OPEN.search(clause):
        return ""
    if _ASKS_FOR_ENOUGH.search(question) and (_SUFFICES.search(clause) or _FALLS_SHORT.search(clause)):
        return "no" if denied or _FALLS_SHORT.search(clause) else "yes"
    if _SHORT.fullmatch(clause):
        return "no" if denied else "yes"
    if _PRONOUN.search(question):
        # A name stands for the pronoun.
        told = [word for word in told if word in asked or not re.search(rf"\b{word.capitalize()}\b", clause)]
    if not told or not _STATES.search(clause):
        return ""
    # A search in one iterator keeps the order of the words.
    rest = iter(asked)
    if not all(word in rest for word in told):
        return ""
    return "no" if denied else "yes"


def _content(text: str) -> tuple[list[str], bool]:
    """Return a text's content words, in order and stemmed, and whether the text denies them."""
    is_denied = False
    content = []
    for found in _WORD.findall(text.casefold()):
        word = found.rstrip(".,/")
        if _NEGATIVE.search(word):
            is_denied = not is_denied
        elif word not in _SILENT:
            content.append(_ENDING.sub("", word))
    return content, is_denied
