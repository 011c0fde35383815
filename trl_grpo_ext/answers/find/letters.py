"""Find the option of a multiple-choice question that an answer chooses, by its letter or by its text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from trl_grpo_ext.answers.find.final_answer import FinalAnswer
from trl_grpo_ext.answers.find.names import ending, last_sentence, said
from trl_grpo_ext.answers.read.choices import letter

# Labels of options that a question may list.
LABELS = "ABCDEFGHIJ"
# The label of an option with a text.
LED = re.compile(r"\(?[A-J][).:]\s")
# An option's label in a question: `(A)`, `A.`, `\textbf{(A)}`.
_LABEL = re.compile(r"(?:(?:(?<=[\s$~])|^)|\\(?:textbf|text|mathrm|mathbf)\{\s*)\(?([A-J])[).:](?:\s*\})?(?=[\s\\~$])")
_OPTION_END = re.compile(r"(?:\s|\$|~|\\(?:q?quad|hspace\{[^{}]*\}|[ ,;:!\\]))+$|\n\s*\n.*", re.DOTALL)
# Characters of an option's text.
MAX_OPTION = 200
# A letter that stands for an option, in a sentence. A capital A is an article, unless a word makes it a letter.
_MENTIONED = re.compile(
    r"\b(?:[Oo]ption|[Cc]hoice|[Aa]nswer|[Ll]etter)\s+\(?([A-J])\b|\(([A-J])\)|(?<![\w'’-])([B-HJ])(?![\w'’-])"
    r"|(?<![\w'’-])(A)(?=[.,;:)]|\s*$|\s+(?:is|and|or)\b)"
)
# Words with which a sentence does not choose the option that it mentions.
_UNCHOSEN = re.compile(
    r"\b(?:not|never|neither|nor|except|or|than|over|wrong|false|incorrect|maybe|perhaps|probably|might|may|could|would"
    r"|if|unlike|no|excluded?|eliminate\w*|rules?|ruled|but|instead|without|too|cannot)\b|n['’]t\b|[?¬]",
    re.IGNORECASE,
)
_LETTER_GOLD = re.compile(r"\(?([A-Ja-j])[).]?")
_SMALL_LABEL = re.compile(
    r"(?<![\w\\])\([a-j]\)(?!\w)|(?<![\w\\(])[a-j]\)(?=\s|$)|(?<=\bis )[a-j](?=\W*$)"
    r"|(?:(?<=option )|(?<=choice )|(?<=answer ))[b-j]\b"
)


def with_letter(found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str = "") -> FinalAnswer:
    """Take the only option that the last sentence mentions by its letter, if each gold is a letter: "So B is right".

    A sentence that denies, doubts or compares chooses nothing, and so does a letter beside another option's text.

    Examples:
        >>> asked = "What is 7 + 8? (A) 14 (B) 15"
        >>> with_letter(FinalAnswer(problem="no_answer"), ["B"], "7 + 8 = 15, which is option B.", asked).answers
        ('B',)
        >>> with_letter(FinalAnswer(problem="no_answer"), ["B"], "So B is wrong.", asked).problem
        'no_answer'
    """
    if not golds or not all(len(gold) == 1 and option(gold, prompt) for gold in golds):
        return found
    text = ending(completion).strip()
    led = LED.match(text)
    if led and text[led.end() :].strip(" .*") == option(_label(led), prompt):
        return said(_label(led))
    sentence = last_sentence(text)
    mentioned = {next(filter(None, found)) for found in _MENTIONED.findall(sentence)}
    if len(mentioned) != 1 or _UNCHOSEN.search(sentence):
        return found
    (chosen,) = mentioned
    texts = {label: option(label, prompt) for label in LABELS}
    rest = sentence.replace(texts.pop(chosen), "")
    has_own = rest != sentence
    names_other = any(text and re.search(rf"(?<![\w.]){re.escape(text)}(?![\w.]*\w)", rest) for text in texts.values())
    return found if (names_other and not has_own) or LED.match(sentence) else said(chosen)


def with_capital_letters(golds: tuple[str, ...], completion: str, prompt: str) -> tuple[tuple[str, ...], str, str]:
    """Write golds such as `(B)` and `b` as `B` if the question has the option; return golds, completion and prompt.

    For a small letter, the labels of completion and prompt are written in capitals too.

    Examples:
        >>> with_capital_letters(("b",), "So (b) 4.", "Which is even? (a) 3 (b) 4")
        (('B',), 'So (B) 4.', 'Which is even? (A) 3 (B) 4')
    """
    letters = [_LETTER_GOLD.fullmatch(gold) for gold in golds]
    if not prompt or not golds or not all(letters):
        return golds, completion, prompt
    labels = tuple(found[1].upper() for found in letters if found)
    is_small = any(found[1].islower() for found in letters if found)
    capital = _SMALL_LABEL.sub(_capital, prompt) if is_small else prompt
    if not all(option(label, capital) for label in labels):
        return golds, completion, prompt
    if is_small:
        whole = _LETTER_GOLD.fullmatch(completion.strip())
        completion = whole[1].upper() if whole else _SMALL_LABEL.sub(_capital, completion)
    return labels, completion, capital


def _capital(label: re.Match[str]) -> str:
    return label[0].upper()


def option_said(gold: str, answer: str, prompt: str) -> str:
    r"""Return the question's option text for a gold letter; empty without option.

    The text is then accepted in place of the letter.

    Examples:
        >>> option_said("B", "2", "Which is prime? (A) 1 (B) 2 (C) 4"), option_said("B", "2", "Who wins, A or B?")
        ('2', '')
    """
    if len(gold) != 1 or LED.match(answer):
        return ""
    return option(gold, prompt)


def with_option_texts(found: FinalAnswer, golds: Sequence[str], prompt: str) -> FinalAnswer:
    r"""Replace answered letters by the question's option texts if no gold is a letter.

    A label with another option's text is ambiguous: `(B) 3` for the question `(A) 3 (B) 4`.
    """
    if any(letter(gold) or LED.match(gold) for gold in golds):
        is_mixed = any(_is_mixed_up(answer, prompt) for answer in found.answers)
        return FinalAnswer(problem="ambiguous") if is_mixed else found
    if not found.answers:
        return found
    texts = [option(letter(answer) or "", prompt) or answer for answer in found.answers]
    are_distinct = len(set(texts)) == len(texts)
    return replace(found, answers=tuple(texts)) if are_distinct else found


def _is_mixed_up(answer: str, prompt: str) -> bool:
    """Check whether an answer has an option's label and another option's text."""
    led = LED.match(answer)
    if led is None or not prompt:
        return False
    text = answer[led.end() :].strip(" .*")
    own = option(_label(led), prompt)
    return bool(own) and text != own and any(text == option(label, prompt) for label in LABELS)


def _label(led: re.Match[str]) -> str:
    return led[0].strip("( ).:")


def option(label: str, prompt: str) -> str:
    """Return the question's option text for a letter, A to J; empty if the question lists no such option."""
    return _options(prompt).get(label, "")


@lru_cache(maxsize=256)
def _options(prompt: str) -> Mapping[str, str]:
    """Return the texts of a question's last list of options, by label. Each completion of a prompt needs them."""
    labels = list(_LABEL.finditer(prompt))
    letters = "".join(found[1] for found in labels)
    first = letters.rfind("A")
    if first < 0 or not LABELS.startswith(letters[first:]):
        return {}
    listed = labels[first:]
    ends = [*(label.start() for label in listed[1:]), len(prompt)]
    texts = {}
    for label, end in zip(listed, ends, strict=True):
        text = _OPTION_END.sub("", prompt[label.end() : end]).strip(" $.;,~\\\n")
        is_text = "\n" not in text and len(text) <= MAX_OPTION
        texts[label[1]] = text if is_text else ""
    return texts
