"""Find a question's listed options, and an answer's chosen option by letter or text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from trl_grpo_ext.answers.find.asked import question_of, task_of
from trl_grpo_ext.answers.find.conclusions import Span, conclusion
from trl_grpo_ext.answers.find.final_answer import FinalAnswer
from trl_grpo_ext.answers.find.last_sentence import answer_of, ending
from trl_grpo_ext.answers.find.names import names
from trl_grpo_ext.answers.read.choices import (
    DIFFER,
    UNSURE,
    Choice,
    Options,
    letter,
    option_text,
    plain_text,
    read_choice,
    split_label,
)
from trl_grpo_ext.answers.read.spelling import without_text_commands
from trl_grpo_ext.answers.read.units import is_unit, unit

# Labels of options that a question may list.
LABELS = "ABCDEFGHIJ"
# Characters of an option's text.
MAX_OPTION = 200
# An option's label in a question: `(A)`, `A.`, `\textbf{(A)}`.
_LABEL = re.compile(
    r"(?:(?:(?<=[\s$~])|^)|\\(?:textbf|text|mathrm|mathbf)\{\s*)\(?([A-J])[).:](?:\s*\})?(?=[\s\\~$])"
)
# The same with a small letter, `(a) dog`, and where a line begins: `a. dog`, `- **A.** dog`, `[A] dog`, `A - dog`.
_SMALL = re.compile(r"(?:(?<=[\s$~])|^)(?:\(([a-j])\)|([a-j])\))(?=\s)")
_AT_LINE = re.compile(
    r"^[ \t>]*(?:[-*•][ \t]+)?(?:\*\*|__)?[(\[]?(?:([A-Ja-j])(?:[)\].:]{1,2}(?:\*\*|__)?|(?:\*\*|__)[).:])"
    r"|([A-J])(?=[ \t]+[-–—][ \t]))[ \t]+(?:[-–—][ \t]+)?(?=\S)",
    re.MULTILINE,
)
# `A)21 B)22`, as AQuA has them, also in quotes: only a run of such labels lists options.
_TIGHT = re.compile(r"(?:(?<=[\s,'\"\[])|^)\(?([A-J])\)(?!\))")
# `A square` on a line of its own: only a run of such lines lists options.
_BARE = re.compile(r"^[ \t]*([A-J])[ \t]+(?=\S)", re.MULTILINE)
_MIN_BARE = 3
# `1. Sky` or `(2) Blood` on a line of its own.
_NUMBERED = re.compile(r"^[ \t]*\(?([1-9]\d?)[).:][ \t]+(\S[^\n]{0,200})$", re.MULTILINE)
_OPTION_END = re.compile(
    r"['\"](?:,\s*['\"]?|\s*\])\s*$|(?:\s|\$|~|\\(?:q?quad|hspace\{[^{}]*\}|[ ,;:!\\]))+$|\n\s*\n.*",
    re.DOTALL,
)
_LETTER_GOLD = re.compile(r"\(?([A-Ja-j])[).]?")
_SMALL_LABEL = re.compile(
    r"(?<![\w\\])\([a-j]\)(?!\w)|(?<![\w\\(])[a-j]\)(?=\s|$)|(?<=\bis )[a-j](?=\W*$)"
    r"|(?:(?<=[Oo]ption )|(?<=[Cc]hoice )|(?<=answer ))[b-j]\b"
    # **b. Ann**
    r"|(?<=\*\*)[a-j](?=[.:]\s)"
    # "is b because ..."
    r"|(?<=\bis )[a-j](?=,\s|\s+(?:because|since)\b)"
    # \boxed{b}, \boxed{\text{b}}, <answer>b</answer>, **b**, #### b, Answer: b
    r"|(?:(?<=boxed\{)|(?<=boxed\{\\text\{)|(?<=boxed\{\\textbf\{)"
    r"|(?<=<answer>)|(?<=\*\*)|(?<=#### )|(?<=: )|(?<=:\*\* ))[a-j]"
    r"(?=[).]?(?:\}|</answer>|\*\*|\.?[ \t]*$))",
    re.MULTILINE,
)
# 20-pack, 3-year loan, 400 g jar: a thing named by its size.
_SIZED = re.compile(
    r"(?:[Tt]he\s+)?(\d[\d,]*(?:\.\d+)?)(?:-([A-Za-z]{2,})|\s?([A-Za-z]+)(?=[\s-][a-z]))(?:[\s-]([a-z]+(?:\s[a-z]+)?))?"
)
_NUMBER_ALONE = r"(?<![\w.,$€£-])(\d[\d,]*(?:\.\d+)?)"
_ASKS_THING = re.compile(r"\b(?:which|what|or)\b", re.IGNORECASE)
_ASKS_AMOUNT = re.compile(r"\bhow\s+(?:many|much|long|far|old)\b", re.IGNORECASE)
# `20\\text{-pack}`
_TEXT_BEHIND = re.compile(r"(?<=\d)\\text\s*\{([^{}\\]{1,40})\}")
_DIGITS_AS_LETTERS = str.maketrans("0123456789.", "abcdefghijp", ",")
_SENTENCE = re.compile(r"\n|(?<=[.!?])\s+")
# A letter that stands for an option, in a sentence. A capital A is an article, unless a word makes it a letter.
_MENTIONED = re.compile(
    r"\b(?:[Oo]ption|[Cc]hoice|[Aa]nswer|[Ll]etter)\s+\(?([A-J])\b|\(([A-J])\)"
    r"|(?<![\w'’\"-])(?:([B-HJ])(?![\w'’\"-])|(A)(?=[.,;:)]|\s*$|\s+(?:is|and|or)\b))"
)
# A letter that a sentence only guesses; "C is the most likely outcome" may be sure.
_LIKELY = re.compile(
    r"(?<!more )(?<!less )(?<!equally )(?<!as )\b[Ll]ikely\s+\W{0,3}(?:(?:option|choice)\s+)?(?:[A-J]\b(?!['’-])|\d)"
    r"|\b[A-J]\b\W{0,3},\s+(?:most\s+)?likely\b"
    r"|\b[A-J]\b\W{0,3}\s+is\s+(?:most\s+|very\s+)?likely\s+(?:the\s+)?(?:correct|right|best|answer)\b"
)
# "It is Lima, not Rome or Bern"
_NOT = re.compile(r"(.+?),\s+(?:and\s+)?(?:not|rather than|instead of)\s+(.+)")
# "It is not Rome but Lima"
_DENIES = re.compile(r"\bnot\s+|n['’]t\s+", re.IGNORECASE)
_INSTEAD = re.compile(r"(?:rather|instead)\s+")
_JOINT = re.compile(r",?\s+(?:or|and|nor)\s+|,\s+")
# An option's text may be a number or a phrase; a name in its place lets `names` read the sentence.
_STAND_IN = "Option"


def option(label: str, prompt: str) -> str:
    """Return the question's option text for a letter, A to J; empty if the question lists no such option."""
    return _texts(prompt).get(label, "")


@lru_cache(maxsize=256)
def _texts(prompt: str) -> Mapping[str, str]:
    """Return the texts of a question's last list of options, by label. Each completion of a prompt needs them."""
    listed = _labels(prompt)
    if not listed:
        return {}
    ends = [*(label.start() for label in listed[1:]), len(prompt)]
    # Below options on lines of their own, the prompt may go on.
    are_lines = all(
        prompt.rfind("\n", begin.end(), after.start()) >= 0
        for begin, after in itertools.pairwise(listed)
    )
    if are_lines and len(listed) > 1:
        line_end = prompt.find("\n", listed[-1].end())
        ends[-1] = line_end if line_end >= 0 else len(prompt)
    texts = {}
    for label, end in zip(listed, ends, strict=True):
        text = _OPTION_END.sub("", prompt[label.end() : end]).lstrip(" $.;,~*\n")
        # A backslash begins a command, and ends none.
        text = text.rstrip(" $.;,~*\\\n")
        is_text = "\n" not in text and len(text) <= MAX_OPTION
        texts[_letter_of(label)] = text if is_text else ""
    return texts


@lru_cache(maxsize=256)
def _labels(prompt: str) -> Sequence[re.Match[str]]:
    """Return the labels of a question's last list of options: the longest list of all forms of labels."""
    lists = [_last_list(label, prompt) for label in (_AT_LINE, _LABEL, _SMALL)]
    tight = _last_list(_TIGHT, prompt)
    if len(tight) >= _MIN_BARE:
        lists.append(tight)
    signed = max(lists, key=len)
    return signed or _run_of_lines(_last_list(_BARE, prompt))


def _run_of_lines(labels: list[re.Match[str]]) -> list[re.Match[str]]:
    """Return labels without a sign, if each begins the line behind the line of the label before; else none."""
    gaps = [
        one.string[one.end() : other.start()] for one, other in itertools.pairwise(labels)
    ]
    are_next = all(gap.count("\n") == 1 for gap in gaps)
    return labels if len(labels) >= _MIN_BARE and are_next else []


def _last_list(label: re.Pattern[str], prompt: str) -> list[re.Match[str]]:
    """Return the labels of a prompt's last list, which counts from the first letter on; empty without a list."""
    labels = list(label.finditer(prompt))
    letters = "".join(map(_letter_of, labels))
    first = letters.rfind("A")
    if first < 0 or not LABELS.startswith(letters[first:]):
        return []
    return labels[first:]


def _letter_of(label: re.Match[str]) -> str:
    return _written(label).upper()


def _written(label: re.Match[str]) -> str:
    return label[label.lastindex or 0]


@lru_cache(maxsize=256)
def listed_options(prompt: str) -> Options:
    """Return the options that a question lists by letters; options without texts if it lists none.

    Examples:
        >>> listed_options("What is the capital of Peru?\\nA) Rome\\nB) Lima").texts
        ('rome', 'lima')
    """
    texts = [option_text(option(label, prompt), label) for label in LABELS]
    while texts and not texts[-1]:
        texts.pop()
    has_two = sum(map(bool, texts)) > 1
    if not has_two:
        return Options()
    return Options(texts=tuple(texts))


@lru_cache(maxsize=256)
def numbered_options(prompt: str) -> Options:
    """Return the options that a question lists by numbers, a line each; options without texts if it lists none.

    Examples:
        >>> numbered_options("Which is red?\\n1. Sky\\n2. Blood").labels, numbered_options("1. Add 2 and 3.").texts
        (('1', '2'), ())
    """
    lines = _NUMBERED.findall(prompt)
    numbers = [number for number, _ in lines]
    # Numbered lines that do not count from 1 on list no options.
    counted = [str(number) for number in range(1, len(lines) + 1)]
    if len(lines) < 2 or numbers != counted:
        return Options()
    return Options(
        tuple(numbers), tuple(option_text(text, number) for number, text in lines)
    )


def choice_said(answer: str, options: Options) -> Choice:
    """Read an answer's chosen option from the whole answer, or from its last sentence.

    A sentence in other words than usual chooses the only option that it mentions, if it leaves no doubt. Earlier
    sentences may name others, as in "Rome is in Italy.", but not choose them.

    Examples:
        >>> peru = Options(("A", "B"), ("rome", "lima"))
        >>> [*choice_said("It lies in Peru. The capital is Lima.", peru).labels]
        ['B']
        >>> [choice_said(said, peru).problem for said in ("It's not Lima.", "It's Lima or Rome.", "Rome. It's Lima.")]
        ['no_choice', 'no_choice', 'several_choices']
    """
    may_ask = any(text.endswith("?") for text in options.texts)
    is_asked = not may_ask and answer.rstrip(" *_.)}$").endswith("?")
    if is_asked or _LIKELY.search(_SENTENCE.split(answer.strip())[-1]):
        return Choice(problem="no_choice")
    answer = _corrected(answer, options)
    whole = read_choice(answer, options)
    if whole.problem != "no_choice":
        return whole
    sentences = [
        sentence for sentence in _SENTENCE.split(answer.strip()) if sentence.strip()
    ]
    if not sentences:
        return whole
    choice = read_choice(sentences[-1], options)
    if choice.problem == "no_choice":
        choice = _mentioned(_without_denied(plain_text(sentences[-1]), options), options)
    if not choice.labels:
        return choice
    for sentence in sentences[:-1]:
        if read_choice(sentence, options).labels - choice.labels:
            return Choice(problem="several_choices")
    return choice


def _corrected(answer: str, options: Options) -> str:
    """Remove an option that its sentence replaces: `It is Lima` for `It is not Rome but Lima`."""
    before, _, after = answer.rpartition(" but ")
    near = before[-MAX_OPTION:]
    denials = list(_DENIES.finditer(near))
    if not denials:
        return answer
    meant = _INSTEAD.sub("", after, count=1)
    is_option = read_choice(meant, options).labels or options.beginning(plain_text(meant))
    is_replaced = read_choice(near[denials[-1].end() :].rstrip(", "), options).labels
    if not is_option or not is_replaced:
        return answer
    return f"{before[:-MAX_OPTION]}{near[: denials[-1].start()]} {meant}"


def _without_denied(sentence: str, options: Options) -> str:
    """Remove other options that a sentence denies at its end: `It is Lima` for `It is Lima, not Rome or Bern`."""
    firm = _NOT.fullmatch(sentence)
    if firm is None:
        return sentence
    denied = [options.saying(text) for text in _JOINT.split(firm[2])]
    chosen = options.saying(options.within(firm[1]))
    return firm[1] if all(labels - chosen for labels in denied) else sentence


def _mentioned(sentence: str, options: Options) -> Choice:
    """Choose the single option mentioned in a firm sentence, by letter or whole text."""
    none = Choice(problem="no_choice")
    if not options.texts or UNSURE.search(sentence):
        return none
    letters = {found[found.lastindex or 0] for found in _MENTIONED.finditer(sentence)} & {
        *options.labels
    }
    if len(letters) > 1:
        return none
    text = options.within(sentence)
    labels = frozenset(options.saying(text))
    if letters:
        # "7 + 8 = 15, which is option B": the text of B may stand beside texts of others.
        is_of_text = not text or letters & labels
        return Choice(frozenset(letters)) if is_of_text else none
    if not labels:
        return none
    # The option's letter may stand behind its text: "The capital of France is Paris (B)."
    written = rf"(?<!\w){re.escape(text)}(?!\w)(?:\s*\((?:option\s+)?[A-Z]\))?"
    stated = re.sub(written, _STAND_IN, sentence, flags=re.IGNORECASE)
    if options.another(stated, labels) or not (
        names(stated, _STAND_IN) or _concludes(sentence, text)
    ):
        return none
    return Choice(labels)


def _concludes(sentence: str, text: str) -> bool:
    """Check whether a sentence's last clause concludes with an option's amount, and has no other number."""
    clause = sentence.rpartition(", ")[2]
    start = clause.casefold().find(text)
    if start < 0 or not any(map(str.isdigit, text)):
        return False
    end = start + len(text)
    has_other = any(map(str.isdigit, clause[:start] + clause[end:]))
    return not has_other and not conclusion(clause, [Span(start, end)]).problem


def with_letter(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str = ""
) -> FinalAnswer:
    """Take the completion's chosen option if each gold names a letter among the question's options.

    Examples:
        >>> asked = "What is 7 + 8? (A) 14 (B) 15"
        >>> with_letter(FinalAnswer(problem="no_answer"), ["B"], "7 + 8 = 15, which is option B.", asked).answers
        ('B',)
        >>> with_letter(FinalAnswer(problem="no_answer"), ["B"], "So B is wrong.", asked).problem
        'no_answer'
    """
    if not golds or not all(len(gold) == 1 and option(gold, prompt) for gold in golds):
        return found
    options = listed_options(prompt)
    # "A) 9" beside the option B) 9
    end = ending(completion).strip()
    if read_choice(end.rpartition("\n")[2], options).problem == DIFFER:
        return FinalAnswer(problem="ambiguous")
    chosen = choice_said(end, options).labels
    return answer_of(min(chosen)) if len(chosen) == 1 else found


# The names of a quadrant's number, in order.
_QUADRANTS = (
    ("i", "1", "one", "first", "1st"),
    ("ii", "2", "two", "second", "2nd"),
    ("iii", "3", "three", "third", "3rd"),
    ("iv", "4", "four", "fourth", "4th"),
)
_ASKS_QUADRANT = re.compile(r"\b(?:which|what|the)\squadrant\b", re.IGNORECASE)
_PLACE = "first|second|third|fourth|1st|2nd|3rd|4th"
_QUADRANT_NUMBER = r"(i{1,3}|iv|[1-4]|one|two|three|four)"
# "Quadrant II", "the second quadrant", "QII"; in LaTeX "Quadrant~II"
_QUADRANT = re.compile(
    rf"\b(?:the\s+)?({_PLACE})\s+quadrant\b|\bquadrant(?:\s+(?:number\s+)?|~){_QUADRANT_NUMBER}\b"
    r"|\bQ(i{1,3}|iv)\b",
    re.IGNORECASE,
)
_QUADRANT_GOLD = re.compile(
    rf"(?:{_QUADRANT.pattern}|({_PLACE})|{_QUADRANT_NUMBER})", re.IGNORECASE
)
# The number alone, in a box or bold letters, behind "Answer:", or as the whole text.
_BARE_QUADRANT = re.compile(
    rf"(?:(?<=\\boxed\{{)|(?<=\\text\{{)|(?<=\*\*)|(?<=answer: )|(?<=answer is )|\A){_QUADRANT_NUMBER}"
    r"(?=\}|\*\*|\.?\s*\Z|\.\s)",
    re.IGNORECASE,
)


def with_capital_letters(
    golds: tuple[str, ...], completion: str, prompt: str
) -> tuple[tuple[str, ...], str, str]:
    """Write golds such as `(B)` and `b` as `B` if the question has the option; return golds, completion and prompt.

    Small letters of options in the completion, and in the prompt if golds or labels are small, become capitals too.

    Examples:
        >>> with_capital_letters(("b",), "So (b) 4.", "Which is even? (a) 3 (b) 4")
        (('B',), 'So (B) 4.', 'Which is even? (A) 3 (B) 4')
    """
    letters = [_LETTER_GOLD.fullmatch(gold) for gold in golds]
    if not prompt or not golds or not all(letters):
        return golds, completion, prompt
    labels = tuple(found[1].upper() for found in letters if found)
    if not all(option(label, prompt) for label in labels):
        return golds, completion, prompt
    is_small = any(_written(label).islower() for label in _labels(prompt))
    is_small = is_small or any(found[1].islower() for found in letters if found)
    # An option's text may be a letter itself: "A) b".
    if not is_small and any(
        len(text) == 1 and text.islower() for text in _texts(prompt).values()
    ):
        return labels, completion, prompt
    capital = _SMALL_LABEL.sub(_capital, prompt) if is_small else prompt
    whole = _LETTER_GOLD.fullmatch(completion.strip())
    if whole:
        return labels, whole[1].upper(), capital
    return labels, _SMALL_LABEL.sub(_capital, completion), capital


def with_quadrants(
    golds: tuple[str, ...], completion: str, prompt: str
) -> tuple[tuple[str, ...], str]:
    r"""Write quadrants as `Quadrant 2` if each gold is one, by the prompt or its own word; return golds and completion.

    Examples:
        >>> with_quadrants(("II",), "It is in the second quadrant.", "In which quadrant is (-3, 5)?")
        (('Quadrant 2',), 'It is in Quadrant 2.')
        >>> with_quadrants(("quadrant II",), r"\boxed{II}", "")
        (('Quadrant 2',), '\\boxed{Quadrant 2}')
    """
    if not any("quadrant" in text.casefold() for text in (prompt, *golds)):
        return golds, completion
    told = [_QUADRANT_GOLD.fullmatch(gold) for gold in golds]
    has_word = _ASKS_QUADRANT.search(question_of(prompt) or task_of(prompt)) is not None
    if not all(told) or not (has_word or all("uadrant" in gold for gold in golds)):
        return golds, completion
    written = tuple(_quadrant(found) for found in told if found)
    completion = _QUADRANT.sub(_quadrant, completion)
    return written, _BARE_QUADRANT.sub(_quadrant, completion)


def _quadrant(found: re.Match[str]) -> str:
    """Return a quadrant's name with its number in digits."""
    name = next(filter(None, found.groups())).casefold()
    place = next(place for place, names in enumerate(_QUADRANTS, 1) if name in names)
    return f"Quadrant {place}"


def _capital(label: re.Match[str]) -> str:
    return label[0].upper()


@dataclass(frozen=True, slots=True)
class SizedThings:
    """Sized things of a question, such as a 12-pack and a 20-pack, and their names without digits.

    Attributes:
        measure: The unit or noun behind the number: `pack`, `g`.
        noun: The noun behind the unit: `jar`; empty for a `20-pack`.
        content: What the prompt says the things hold: `soda`, if it has a "12-pack of soda".
        written: The text of each name, as the prompt writes it.
    """

    measure: str = ""
    noun: str = ""
    content: str = ""
    written: Mapping[str, str] = field(default_factory=dict)

    def named(self, text: str) -> str:
        """Write each size of such a thing as a name: `Sizeca` for 20-pack."""
        if not self.measure:
            return text
        noun = rf"(?:[\s-]((?:{re.escape(self.noun)}|one)s?)\b)?" if self.noun else "()"
        content = rf"(\s+of\s+{re.escape(self.content)}\b)?" if self.content else "()"
        sized = rf"{_NUMBER_ALONE}([-\s]?)([A-Za-z]+)(?![\w'’]){noun}{content}"
        return re.sub(sized, self._name, _TEXT_BEHIND.sub(r"\1", text))

    def _name(self, found: re.Match[str]) -> str:
        number, joint, measure, noun, content = found.groups()
        name = _name_of(number)
        is_whole = bool(noun or content) or (joint == "-" and measure == self.measure)
        # Without its noun, a size is a name if the prompt has it: "the 400 g".
        is_known = is_whole or name in self.written
        return name if is_known and self._is_measure(measure, is_whole) else found[0]

    def _is_measure(self, word: str, is_whole: bool) -> bool:
        if word == self.measure:
            return True
        # "12 months" is an amount, "12-month" names a pass.
        is_name = is_whole or not word.endswith("s")
        are_units = is_name and is_unit(word) and is_unit(self.measure)
        return are_units and unit(word) == unit(self.measure)

    def restored(self, text: str) -> str:
        """Replace the names in a text by the sized things: `12-pack` for `Sizebc`."""
        plain = without_text_commands(text).strip(" .") if self.written else ""
        name = re.sub(r"^(?:an?|the)\s+", "", plain, flags=re.IGNORECASE)
        if name in self.written:
            return self.written[name]
        for name in sorted(self.written, key=len, reverse=True):
            text = text.replace(name, self.written[name])
        return text


def _name_of(number: str) -> str:
    return f"Size{number.translate(_DIGITS_AS_LETTERS)}"


def sized_things(golds: Sequence[str], prompt: str) -> SizedThings:
    """Return the sized things of a question that asks which, if the gold is such a thing; else no things.

    Examples:
        >>> things = sized_things(("20-pack",), "Which is the better buy, a 12-pack or a 20-pack?")
        >>> things.named("The 20-pack."), things.restored("Sizebc")
        ('The Sizeca.', '12-pack')
        >>> sized_things(("20 minutes",), "How many minutes are left of 20 minutes, or none?").named("20 minutes")
        '20 minutes'
    """
    if len(golds) != 1 or not prompt:
        return SizedThings()
    gold = _SIZED.fullmatch(golds[0])
    question = question_of(prompt)
    if gold is None or not _ASKS_THING.search(question) or _ASKS_AMOUNT.search(question):
        return SizedThings()
    number, joined, apart, noun = gold.groups()
    is_thing = noun is None or not is_unit(noun)
    if not is_thing or (apart and not is_unit(apart)):
        return SizedThings()
    core = re.sub(r"^[Tt]he\s+", "", gold[0])
    # "3 m below" is an amount with a side, "a 3 m rope" is a thing.
    article = r"(?:an?|the|one)\s+" if apart else ""
    if not re.search(rf"(?<!\w){article}{re.escape(core)}(?!\w)", prompt, re.IGNORECASE):
        return SizedThings()
    rest = core.removeprefix(number)
    thing = rf"{_NUMBER_ALONE}{re.escape(rest)}(?!\w)"
    written = {_name_of(size): f"{size}{rest}" for size in re.findall(thing, prompt)}
    held = re.search(rf"{thing}\s+of\s+([a-z]+)", prompt)
    return SizedThings(joined or apart, noun or "", held[2] if held else "", written)


def option_said(gold: str, answer: str, prompt: str) -> str:
    r"""Return the question's option text for a gold letter; empty without option.

    The text is then accepted in place of the letter.

    Examples:
        >>> option_said("B", "2", "Which is prime? (A) 1 (B) 2 (C) 4"), option_said("B", "2", "Who wins, A or B?")
        ('2', '')
    """
    if len(gold) != 1 or split_label(answer):
        return ""
    return option(gold, prompt)


def with_option_texts(found: FinalAnswer, golds: Sequence[str], prompt: str) -> FinalAnswer:
    r"""Replace answered letters by the question's option texts if no gold is a letter.

    A label with another option's text is ambiguous: `(B) 3` for the question `(A) 3 (B) 4`.
    """
    if any(letter(gold) or split_label(gold) for gold in golds):
        options = listed_options(prompt)
        is_mixed = any(
            read_choice(answer, options).problem == DIFFER for answer in found.answers
        )
        return FinalAnswer(problem="ambiguous") if is_mixed else found
    if not found.answers:
        return found
    letters = [letter(answer) for answer in found.answers]
    if not any(letters):
        return found
    texts = []
    for answer, chosen in zip(found.answers, letters, strict=True):
        texts.append(option(chosen or "", prompt) or answer)
    are_distinct = len(set(texts)) == len(texts)
    return replace(found, answers=tuple(texts)) if are_distinct else found
