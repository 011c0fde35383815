"""Read the option that an answer to a multiple-choice question chooses, if it chooses exactly one.

All functions take time linear in the length of the answer, and at most a few milliseconds.
"""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.signal_words import (
    CONDITION,
    CONTRAST,
    DENIAL,
    DOUBT,
    GUESS,
    SEVERAL,
    TURN,
    WRONG,
    any_of,
)
from trl_grpo_ext.answers.read.spelling import (
    strip_delimiters,
    without_invisible,
    without_text_commands,
)
from trl_grpo_ext.answers.read.tree import Opaque, Words

# Longer answers are refused: no honest choice needs more, its option's text included.
MAX_CHARS = 2_000
# Longer texts are not compared as values.
MAX_VALUE = 80
# Lines of an explanation below the choice.
MAX_LINES = 200
LETTERS = tuple(string.ascii_uppercase)


_OPENER = re.compile(r"(?:so|thus|hence|therefore|in conclusion)\b,?\s+", re.I)
_OPTION = re.compile(
    r"(?:(?:the|my)\s+)?(?:(?:final|correct|best|right)\s+)?(?:option|choice|answer|ans|letter)\s*(?:[:=]|is\b)?\s*"
    r"(?=\W*\w{1,2}\b)"
    r"|(?:I(?:\s+would|['’]d)?\s+(?:choose|pick|select)|it['’]s|it\s+is)\s+(?:option\s+)?(?=\W*\w{1,2}\b)",
    re.I,
)
ALONE = re.compile(r"[(\[{<]?\s*([A-Za-z]|[0-9]{1,2})\s*[)\]}>]?\s*[.:,]?")
# A label with its text: `(B) Paris`, `B) Paris`, `B. Paris`, `B - Paris`, `B (Paris)`.
LED = re.compile(
    r"(?:[(\[]([A-Za-z]|[0-9]{1,2})[)\]][.:]?|([A-Za-z]|[0-9]{1,2})\)|([A-Z])[.:!]|([A-Z])\s+(?:[-–—](?=\s)|(?=\()))\s*(.+)"
)
# An option's label, A to J, with the option's text, in LaTeX or plain: `B) A square`, `(B) 5`, `B. 5`.
_WITH_TEXT = re.compile(r"\(?([A-J])[).:](?:\s|\\[ ,;:!]|~|\\q?quad)+(\S.*)", re.DOTALL)
_REASONED = re.compile(
    r"[(\[]?([A-Z])[)\]]?,?\s+(?:because|since|as|is\s+(?:the\s+)?(?:correct|right|best|answer))\b(.*)"
)
# A choice with its confirmation: `Paris is the correct answer`, with or without a reason.
_UPHELD = re.compile(
    r"(.+?)\s+is\s+(?:the\s+)?(?:(?:correct|right|best)(?:\s+(?:answer|option|choice|one))?|answer)\b(?:[.,;!]?\s+(.*))?"
)
# `2 + 2 = 4, so B`, `4, option B`: working or the option's text, then the choice.
_CONCLUDED = re.compile(
    r"(.+),\s+(?:(?:and\s+)?(?:so|thus|hence|therefore)\s+"
    r"|(?=(?:(?:I(?:\s+would|['’]d)?\s+(?:choose|pick|select)|it\s+is|option|choice|(?:the\s+)?(?:answer|letter))\b|it['’]s\s)))(.+)",
    re.I,
)
# Words with which a sentence does not choose the option that it mentions.
UNSURE = any_of(
    DENIAL,
    WRONG,
    DOUBT,
    CONDITION,
    SEVERAL,
    TURN,
    CONTRAST,
    r"would|than|except|besides|unlike|too|also|doubt\w*|unlikely|impossible|hardly|worst|excluded?|eliminate\w*|ruled?s?",
    r"guess|unsure",
)
# Words of a working that leave its conclusion open.
_OPEN = any_of(DOUBT, CONDITION, SEVERAL, "neither|alternatively|guess|unsure")
# `B, Paris`
_NAMED = re.compile(r"[(\[]?([A-Z])[)\]]?,\s+(.+)")
_LONE_CAPITAL = re.compile(r"(?<!['\w])[A-Z](?!['\w])")
# `B, not A`
_NOT = re.compile(r"(.+?),?\s+(?:not|rather\s+than|instead\s+of)\s+(.+)")
_TRAILED = re.compile(r"(.+?)\s*[(\[](?:option\s+)?([A-Z]|[0-9]{1,2})[)\]]")
# A label before the text of its option, with any sign between: `2. Paris`, `b, Paris`, `B Paris`.
_OWN = re.compile(r"([A-Za-z]|[0-9]{1,2})[.:,]?\s+(.+)")
_TAKEN_BACK = re.compile(
    rf"\W*(?:(?:is|was|are)\s+)?(?:{DENIAL}|{WRONG}|{DOUBT}|{GUESS}|or)\b", re.I
)
_OTHER = re.compile(
    r"(?<![\w'])[(\[]?([A-Z])[)\].:!](?!\w)|(?:\b(?:or|and)|[,;/|&])\s*[(\[]?([A-Z])(?!['\w])"
)
_CLAIMED = re.compile(
    r"\bor\s+(?:option\s+)?[(\[]?([A-Z])(?!['\w])"
    r"|(?<![\w'])([A-Z])[)\].]?,?\s+(?:(?:is|are|was|seems|looks|could\s+be|might\s+be|may\s+be|would\s+be)\s+"
    r"(?:also|just|equally|as|actually|really|the|a|likewise|,|\s)*(?:correct|right|best|answer|possible|plausible|true)\b"
    r"|too\b|as\s+well\b)"
    r"|(?:\b(?:choose|pick|mean|meant|say|go\s+with|it's|it\s+is|also)|(?<!not )(?<!n't )\bbe)\s+"
    r"(?:option\s+)?[(\[]?([A-Z])(?!['\w])"
)
_RECONSIDERED = re.compile(
    rf"\W*(?:and|{DENIAL}|{DOUBT}|{SEVERAL}|{TURN}|{CONTRAST})\b", re.I
)
_SPACE = re.compile(r"(?<=[^\w\s])\s+|\s+(?=[^\w\s])|(?<=\d)\s+(?=[^\W\d])")
# Spellings of an amount, and signs of a formula: `\$36`, `$36.00`, `36 dollars`, `$36$`.
_DOLLARS = re.compile(r"\\?\$|(?<=\d)\.00(?!\.?\d)|(?<=\d)\s+dollars?\b", re.I)
# `cm²` is `cm^2`, `90^\circ` is 90°.
_RAISED = re.compile("[²³]+")
_DEGREES = re.compile(r"\^\s?(?:\\circ|\{\s?\\circ\s?\})")
_LATEX_SPACE = re.compile(r"\\[,;:! ]|~")
# `\frac{1}{8}` and `\frac18` are 1/8; `1{,}236` and 1,236 are 1236.
_FRACTION = re.compile(r"\\[dt]?frac\s?(?:\{(\d+)\}\{(\d+)\}|(\d)(\d))")
_THOUSANDS = re.compile(r"(?<=\d)(?:\{,\}|,)(?=\d{3}(?!\d))")
_FENCE = re.compile(r"```\w*\s*(.*?)\s*```", re.DOTALL)
_ANSWER_KEYS = frozenset(("answer", "final_answer", "correct_answer", "choice", "option"))
_OTHER_KEYS = frozenset(
    (
        "explanation",
        "reasoning",
        "reason",
        "rationale",
        "justification",
        "thought",
        "confidence",
    )
)
_ENDED = re.compile(r"\W*(?:$|[,;.()]|(?:or|and)\b)")


@dataclass(frozen=True, slots=True)
class Options:
    """A question's options.

    Attributes:
        labels: The options' letters or numbers.
        texts: The options' texts as `plain_text` returns them; empty if unknown.
    """

    labels: tuple[str, ...] = LETTERS
    texts: tuple[str, ...] = ()

    def saying(self, text: str) -> set[str]:
        """Return labels of options with this text."""
        # Without texts, no option has this one.
        form = plain_text(text).casefold() if self.texts else ""
        if not form:
            return set()
        equal = {label for label, option in self._pairs() if option == form}
        if equal:
            return equal
        # Two options may differ only by their spaces: then none is meant for sure.
        dense = _without_spaces(form)
        close = {
            label for label, option in self._pairs() if _without_spaces(option) == dense
        }
        if not close and _is_amount(form):
            close = {label for label, option in self._pairs() if _is_same(option, form)}
        return close if len(close) == 1 else set()

    def another(self, text: str, labels: Collection[str]) -> bool:
        """Check whether a text contains the text of an option outside `labels`."""
        own = {option for label, option in self._pairs() if label in labels}
        for option in self.texts:
            is_other = bool(option) and option not in own
            if is_other and _whole(option).search(text):
                return True
        return False

    def beginning(self, text: str) -> str:
        """Return the longest option text at the start of a text; empty if no option matches."""
        found = [option for option in self.texts if option and _whole(option).match(text)]
        return max(found, key=len, default="")

    def within(self, text: str) -> str:
        """Return the longest option text that stands anywhere in a text; empty if none does."""
        found = [option for option in self.texts if option and _whole(option).search(text)]
        return max(found, key=len, default="")

    def _pairs(self) -> Iterator[tuple[str, str]]:
        # Without texts, there are no pairs.
        return zip(self.labels, self.texts, strict=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer's chosen labels, or the reason code why it chooses none.

    Several labels mean several options with equal text.
    """

    labels: frozenset[str] = frozenset()
    problem: str = ""


DIFFER = "letter_and_text_differ"
UNREADABLE = ("no_choice", "answer_too_long")


def _of_json(answer: str) -> str:
    """Return a JSON object's answer field, if other fields only give reasons; else return the text unchanged."""
    fenced = _FENCE.fullmatch(answer)
    text = fenced[1] if fenced else answer
    if not text.startswith("{") or len(text) > MAX_CHARS:
        return answer
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return answer
    found = []
    for key, value in pairs:
        if key.casefold() in _ANSWER_KEYS:
            found.append(value)
        elif key.casefold() not in _OTHER_KEYS:
            return answer
    is_one_text = len(found) == 1 and isinstance(found[0], str)
    return found[0] if is_one_text else answer


def read_choice(answer: str, options: Options) -> Choice:
    """Read the chosen option from a whole answer or from its first line, whatever its length and content.

    Examples:
        >>> read_choice("**B**\\n\\nA is wrong.", Options()).labels, read_choice("A or B", Options()).problem
        (frozenset({'B'}), 'several_choices')
    """
    answer = _of_json(answer)
    is_short = len(answer) <= MAX_CHARS
    # An option's text may have several lines.
    if is_short and _is_option(plain_text(answer), options):
        return _read(plain_text(answer), options)
    choice = _read_first_line(answer, options)
    if choice is not None:
        return choice
    return (
        _read(plain_text(answer), options)
        if is_short
        else Choice(problem="answer_too_long")
    )


def _read_first_line(answer: str, options: Options) -> Choice | None:
    """Read the choice in the first of several lines; None if it has none."""
    first, *below = list(filter(str.strip, answer.split("\n"))) or [""]
    if not below or len(first) > MAX_CHARS or len(below) > MAX_LINES:
        return None
    choice = _read(plain_text(first), options)
    if not choice.labels:
        return None
    for line in below:
        problem = _problem_below(choice.labels, line, options)
        if problem:
            return Choice(problem=problem)
    return choice


def _is_option(plain: str, options: Options) -> bool:
    led = LED.fullmatch(plain)
    return bool(options.saying(plain) or (led and label_of(led) in options.saying(led[5])))


def _problem_below(labels: frozenset[str], line: str, options: Options) -> str:
    """Return the reason code of a line below a choice that chooses another option or takes the choice back."""
    plain = plain_text(line)
    again = _read(plain.lstrip(string.punctuation + " "), options)
    if (
        again.labels - labels
        or again.problem == "several_choices"
        or _claims_another(labels, plain, options)
    ):
        return "several_choices"
    if _RECONSIDERED.match(plain) or _TAKEN_BACK.match(plain):
        return "taken_back"
    return ""


def _read(plain: str, options: Options) -> Choice:
    """Read the chosen option from a text that `plain_text` returned."""
    firm = _NOT.fullmatch(plain)
    # `B, not A` is a firm choice, although it names another option.
    if firm:
        chosen = _read_one(firm[1], options)
        other = _read_one(firm[2], options)
        if chosen.labels and other.labels and not chosen.labels & other.labels:
            return chosen
    return _read_one(plain, options)


def _read_one(plain: str, options: Options) -> Choice:
    plain = _without_lead(plain)
    labels = options.saying(plain)
    alone = ALONE.fullmatch(plain)
    if alone and (label_of(alone) in options.labels or not labels):
        return _known(label_of(alone), options)
    if labels:
        return Choice(frozenset(labels))
    led = LED.fullmatch(plain)
    if led:
        return _followed(label_of(led), led[5], options)
    own = _OWN.fullmatch(plain)
    label = own[1].upper() if own else ""
    if own and label in options.labels and label in options.saying(own[2]):
        return Choice(frozenset([label]))
    return _read_phrase(plain, options)


def _without_lead(plain: str) -> str:
    """Remove words that only lead to a choice: `B` for `So the answer is B`."""
    for lead in (_OPENER, _OPTION):
        found = lead.match(plain)
        if found:
            plain = plain[found.end() :]
    return plain


def _read_phrase(plain: str, options: Options) -> Choice:
    reasoned = _REASONED.fullmatch(plain)
    if reasoned:
        if _claims_another({reasoned[1]}, reasoned[2], options):
            return _SEVERAL
        return _known(reasoned[1], options)
    upheld = _UPHELD.fullmatch(plain)
    labels = options.saying(upheld[1]) if upheld else set()
    if upheld and labels:
        rest = upheld[2] or ""
        if (
            UNSURE.match(rest)
            or options.another(rest, labels)
            or _claims_another(labels, rest, options)
        ):
            return _SEVERAL
        return Choice(frozenset(labels))
    concluded = _CONCLUDED.fullmatch(plain)
    if concluded:
        return _read_concluded(concluded[1], concluded[2], options)
    named = _NAMED.fullmatch(plain)
    if named and not UNSURE.search(named[2]) and not _LONE_CAPITAL.search(named[2]):
        return _followed(named[1], named[2], options)
    trailed = _TRAILED.fullmatch(plain)
    is_label = trailed is not None and trailed[2] in options.labels
    labels = options.saying(trailed[1]) if trailed and is_label else set()
    if trailed and labels:
        return (
            _known(trailed[2], options) if trailed[2] in labels else Choice(problem=DIFFER)
        )
    return _no_choice(plain, options)


def _read_concluded(working: str, conclusion: str, options: Options) -> Choice:
    """Read the choice after its working, unless the working doubts it or chooses or names another option."""
    choice = _read_one(conclusion, options)
    if not choice.labels:
        return choice
    letters = {*_LONE_CAPITAL.findall(working)} & {*options.labels}
    named = letters | options.saying(working)
    if named - choice.labels or _OPEN.search(working):
        return _SEVERAL
    return choice


def _no_choice(plain: str, options: Options) -> Choice:
    """Say why a text without a readable choice has none."""
    words = [word.upper() for word in re.findall(r"\w+", plain)]
    if len(words) < 2:
        return Choice(problem="no_choice")
    is_label = words[0] in options.labels
    if is_label and _TAKEN_BACK.match(plain[len(words[0]) :].lstrip("()[]*")):
        if not set(words[1:3]).isdisjoint(options.labels):
            return _SEVERAL
        return Choice(problem="taken_back")
    # A list of labels: `A, B and C`.
    if set(words) <= {*options.labels, "AND", "OR"}:
        return _SEVERAL
    return Choice(problem="no_choice")


_SEVERAL = Choice(problem="several_choices")


def _followed(label: str, rest: str, options: Options) -> Choice:
    """Choose a label unless the text after it contradicts the label."""
    problem = _problem_after(label, rest, options)
    if problem:
        return Choice(problem=problem)
    return _known(label, options)


def _known(label: str, options: Options) -> Choice:
    if label not in options.labels:
        return Choice(problem="no_such_choice")
    return Choice(frozenset([label]))


def _problem_after(label: str, rest: str, options: Options) -> str:
    """Return the reason code of text after a label that contradicts the label, takes it back or adds another."""
    if rest.startswith("(") and rest.endswith(")"):
        rest = rest[1:-1].strip()
    alone = ALONE.fullmatch(_without_lead(rest))
    if (
        alone
        and label_of(alone) in {*options.labels} - {label}
        and label not in options.saying(rest)
    ):
        return "several_choices"
    begun = options.beginning(rest)
    is_own = label in options.saying(begun)
    if begun and not is_own and _ENDED.match(rest, len(begun)):
        return DIFFER
    if is_own:
        rest = rest[len(begun) :]
    others = {match[1] or match[2] for match in _OTHER.finditer(rest.rstrip(".:!) "))}
    if others & set(options.labels) - {label} or _claims_another({label}, rest, options):
        return "several_choices"
    if _TAKEN_BACK.match(rest):
        return "taken_back"
    return ""


def _claims_another(labels: Collection[str], rest: str, options: Options) -> bool:
    """Check whether a text claims another letter as chosen or right: `or A`, `A is also correct`, `I mean A`."""
    claimed = {match[1] or match[2] or match[3] for match in _CLAIMED.finditer(rest)}
    return bool(claimed & set(options.labels) - set(labels))


def option_text(text: str, label: str) -> str:
    """Return an option's text without a leading label: `paris` for `B) Paris` with the label `B`."""
    plain = plain_text(text)
    led = LED.fullmatch(plain)
    if led and label_of(led) == label:
        plain = led[5]
    return plain.casefold()


class Labelled(NamedTuple):
    """An option's label and text."""

    label: str
    text: str


def split_label(text: str) -> Labelled | None:
    """Split an option into label and text, `(B) 5` into `B` and `5`; None for any other text."""
    led = _WITH_TEXT.fullmatch(without_text_commands(text).strip())
    if led is None:
        return None
    return Labelled(led[1], led[2])


def letter(text: str) -> str | None:
    """Return the letter that makes up a whole text, in its original case, with or without parentheses; else None.

    Examples:
        >>> [letter(text) for text in ("B", "(B)", "B.", "AB", "x", "2")]
        ['B', 'B', 'B', None, 'x', None]
    """
    # Most answers have a digit.
    if any(map(str.isdigit, text)):
        return None
    alone = ALONE.fullmatch(plain_text(text))
    if alone and alone[1].isalpha():
        return alone[1]
    return None


@lru_cache(maxsize=1024)
def _whole(option: str) -> re.Pattern[str]:
    """Compile a regular expression matching an option's text outside longer words and numbers."""
    # -5 is not 5
    before = r"(?<![\w.−-])" if option[:1].isdigit() else r"(?<![\w.])"
    return re.compile(rf"{before}{re.escape(option)}(?!\w|\.\w)", re.IGNORECASE)


def _is_amount(form: str) -> bool:
    """Check whether a short text has digits or formulas beside other signs, and so a value to compare."""
    has_signs = any(char.isdigit() or char == "\\" for char in form)
    return len(form) <= MAX_VALUE and has_signs and not form.isdigit()


def _is_same(option: str, form: str) -> bool:
    """Check whether an option and an answer have one value: `90°` and `90 degrees`."""
    if not _is_amount(option):
        return False
    value = read(option)
    return not isinstance(value.node, Words | Opaque) and value == read(form)


@lru_cache(maxsize=64)
def _without_spaces(text: str) -> str:
    """Remove spaces beside signs, and between digits and letters: `100°C` for `100 °C`."""
    return _SPACE.sub("", text)


def label_of(match: re.Match[str]) -> str:
    """Return the label in a regular expression's match, in capitals."""
    return next(group for group in match.groups()[:4] if group).upper()


@lru_cache(maxsize=256)
def plain_text(text: str) -> str:
    """Normalize a text: write fractions as 1/8, and remove signs that do not change it.

    These are Markdown, enclosing LaTeX, dollar signs, commas between thousands, repeated spaces, the last full stop.
    """
    text = text[:MAX_CHARS]
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _RAISED.sub(r"^\g<0>", text))
    text = without_invisible(text)
    text = without_text_commands(
        strip_delimiters(text.replace("**", "").replace("`", "").strip())
    )
    text = _DEGREES.sub("°", _LATEX_SPACE.sub(" ", text)).replace("\\%", "%")
    text = _DOLLARS.sub("", text)
    if "frac" in text:
        text = _FRACTION.sub(r"\1\3/\2\4", text)
    if "," in text:
        text = _THOUSANDS.sub("", text)
    return " ".join(text.split()).strip("\"'*_ ").rstrip(".!").strip("\"'*_ ")
