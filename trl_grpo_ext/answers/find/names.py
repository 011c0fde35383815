"""Find golds in words: names in the last sentence, as its conclusion or its subject."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

from trl_grpo_ext.answers.find.asked import (
    NO_NAMES,
    asks_for_order,
    is_agreed,
    is_opposed,
    question_of,
)
from trl_grpo_ext.answers.find.asked_values import stems
from trl_grpo_ext.answers.find.final_answer import FinalAnswer, final_answer
from trl_grpo_ext.answers.find.hedges import is_hedged
from trl_grpo_ext.answers.find.last_sentence import answer_of, ending, last_sentence
from trl_grpo_ext.answers.find.named_values import (
    GOES_ON,
    amount_size,
    is_same,
    named_parts,
)
from trl_grpo_ext.answers.find.phrases import (
    concluding_list,
    described_items,
    formal,
    informal,
    is_open_list,
)
from trl_grpo_ext.answers.find.values import last_value
from trl_grpo_ext.answers.find.yes_no import YES_AND_NO
from trl_grpo_ext.answers.read.answer import MAX_CHARS, read
from trl_grpo_ext.answers.read.moments import PERIOD, WHEN, WITHIN
from trl_grpo_ext.answers.read.number_words import in_digits
from trl_grpo_ext.answers.read.signal_words import CONDITION, DENIAL, DOUBT, any_of
from trl_grpo_ext.answers.read.spelling import without_text_commands
from trl_grpo_ext.answers.read.tree import Date, Time, Words
from trl_grpo_ext.answers.read.units import is_unit

# Names in a gold that lists several.
MAX_LISTED = 4
# Two words may answer two questions in turn: "Who is the tallest, and who the shortest?"
_PAIR = 2
_BETWEEN_WORDS = str.maketrans("", "", " .,-'&")
# Golds of a name with an amount: `Tom, 5`, `B by $0.45`.
_WITH_AMOUNT = re.compile(r"(.+?)(?:,? by|,|:| -)\s+([^\w\s]?\d(?!.*,\s)\S*(?:\s.*)?)")
# "Tom (5)", "Tom with 5", "Tom, by 5 points"
_BESIDE_NAME = re.compile(
    r"(?:,?\s(?:by|with|at)|[,:]|\s[-–—]|(?=\s\())\s\(?(?P<amount>[^\w\s]{0,2}\d[^\s()]*(?:\s[A-Za-z°/]+){0,3}"
    r"(?:\s\d+\s[a-z]+)?)\)?[\s.!]*"
)
_SIZE = re.compile(r"([^\w\s()]?\d[\d,.:/]*(?<![.,:])%?)(?:\s?([A-Za-z°]+))?")
_ASKS_NAME = re.compile(r"\b(?:who|whose|which|what)\b", re.IGNORECASE)
# Bus 2, room 14; M2, Q3; 7B
_NUMBERED = re.compile(r"[A-Z][a-z]+ \d{1,3}|[A-Z]{1,2}\d{1,3}|\d{1,2}[A-Z]")
# Store B, Bus 2
_LABELLED = re.compile(r"([A-Z])([a-z]+ )([A-Z]|\d{1,3})")
# The figure that tells why: "Shop B ($1.20 per can)", "Bob - 13.8 s".
_FIGURE = re.compile(
    r"(?<=[\w*])(?:\s*\(|\*{0,2}\s+[-–—]\s+|\*{0,2}:\*{0,2}\s+)[^\w\s()]{0,2}\d(?![^()\n]{0,40}(?:=|\b(?:or|not)\b|[A-Z][a-z]))"
    r"[^()\n]{0,40}\)?[\s.!;*•-]*\Z"
)
# "Shop B ($3) is cheaper than shop A ($4)"
_FIGURES_COMPARED = re.compile(
    r"(?<=\w)\s\([^\w\s()]{0,2}\d[^()]{0,40}\)(?=[^()]*\bthan\b|[\s.!*]*\Z)"
)
_DENIED = any_of(DENIAL, DOUBT, CONDITION, "or|would|nobody|except")
# Words before a letter that are no noun: "not B" is not "shop B".
_NO_NOUN = rf"(?i:{DENIAL}|{DOUBT}|{CONDITION}|or|except|is|are|was|be|than|but|and)\b"
# Words after the letter A; before other words it is an article.
_AFTER_LETTER = (
    r"(?:is|was|has|had|wins?|won|costs?|gives?|gets?|and|or|because|since|as|by)\b"
)
_ARTICLE = re.compile(r"^(?:an?|the)\s+", re.IGNORECASE)
_AND = re.compile(r",\s*(?:and\s+)?|\s+(?:and|&)\s+")
# What joins the names of a list, which may be in order.
_NEXT = r"(?:,\s*(?:and\s+)?(?:then\s+)?|\s+(?:and then|and|&|then)\s+|,?\s+followed by\s+)"
_BULLET = re.compile(r"^\s*(?:[-*•‣]|\(?\d{1,2}[.)])\s+")
_BESIDE_LIST = re.compile(r"(?:with|who|which|that|because|since|as|by|at|for|in|of|so)\b")
# "Boxes B and C"
_PLURAL = re.compile(
    r"(?P<noun>[A-Z][a-z]{2,20}s)\s(?P<labels>[A-Z](?:(?:,\s|,?\s(?:and|&)\s)[A-Z]){1,9})"
)
# Signs around an item: `["red", "green"]`, `**red**.`
_AROUND_ITEM = " .*_`$\\[]{}\"'“”"
# Boundaries of clauses: the last clause with the name concludes. "And" is no boundary: "Tom has 3 and Ann has 5".
_CLAUSE = re.compile(r"[,;:]\s+|\s(?=(?:so|because|since|as|while|if|but|which)\s)")
_LEAD = re.compile(
    r"\W*(?:(?:so|but|thus|therefore|hence|finally|then|clearly|this|that|which|it|means?|meaning|shows?|follows|we|can"
    r"|see|know|find|conclude|in the end|only)\b,?\s+)*$",
    re.IGNORECASE,
)
# Words before and after a name that a clause concludes with.
_TELLS = re.compile(
    r"(?:\b(?:is|are|was|were|be|been|becomes?|became|remains?|came|comes|on|to|called|named"
    r"|choose|chose|chooses|picks?|buy|take|answer|has|have|had|holds?|gets?|got|uses?|wears?|ends up with|found|saw"
    r"|(?:leaves?|leaving|left)(?:\s+(?:us|me|only))?(?:\s+with)?|won by)|['’]s|=)\s+"
    r"(?:only\s+|therefore\s+|indeed\s+)?$",
    re.IGNORECASE,
)
# A month or a season, as a gold's name and in a sentence: "It rained the most in July, with 80 mm."
_PERIOD = re.compile(PERIOD)
_PERIODS = re.compile(rf"(?<![A-Za-z-]){PERIOD}(?![A-Za-z-])")
_IN_PERIOD = re.compile(r"\b(?:in|during)\s+(?:the\s+)?$", re.IGNORECASE)
_END = r"(?:\W*$|,\s|\s+(?:who|that|which|with|because|since|by|at|for|of|in|as)\b)"
_ENDS = re.compile(_END)
_ENDS_WITH_NOUN = re.compile(rf"(?:\s+\w+)?{_END}")
_VERB = re.compile(
    r"\s+(?!(?:and|or|nor|than|to|of|from|for|with|by|in|on|at|as|but|not|never|alone)\b)[a-z]+\b(?!['’]t\b)"
    r"(?!\s+(?:not|never|no)\b)"
)
_IS = re.compile(
    r"\s+(?:is|are|was|were|has|have|had|will|wins?|won)\b(?!\s+(?:not|never|no)\b)"
)
# A position beside another name tells neither the first nor the last.
_BESIDE = re.compile(
    r"\b(?:before|after|behind|ahead of|in front of|next to|left of|right of|above|below)\s+(?:the\s+)?[A-Z]"
)
# The names after the first in an order: "Carla is the tallest, followed by Ann and then Ben."
_FOLLOWED = re.compile(
    r",?\s+(?:(?:closely\s+)?followed\s+(?:closely\s+)?by|(?:and\s+)?then)\s+"
    r"(?:the\s+[a-z]+\W*|(?:the\s+)?[A-Z].*)$",
    re.DOTALL,
)
# Words that tie a name at a sentence's end to another: "He sat beside Tom".
_TIED = re.compile(
    r"\b(?:before|after|behind|ahead of|beside|next to|from|over|beats?|avoid\w*|above|below|with|without|against|and"
    r"|of|for|like|followed (?:closely )?by)\s+$",
    re.IGNORECASE,
)
# Another name that a sentence's end denies: "Canberra, not Sydney", "Canberra (not Sydney)".
_NOT_OTHER = re.compile(
    r"(?:,\s+|\s\()(?:and\s+)?not\s+(?:the\s+)?[A-Z][^,;:()]{0,40}\)?[\s.!]*$"
)
# When it was, at a sentence's end: "by William Shakespeare around 1600".
_DATED = re.compile(rf"(?<!\s),?\s+{WHEN}[\s.!*_]*$", re.IGNORECASE)
_THAN = re.compile(r"\bthan\s+(?:\S+\s+){0,2}$")
_REASONED = re.compile(r"(?<!and)(?<!,),?\s+(?:because|since)\s|,\s+as\s")
# "Ann is taller, wait, no: Ben is."
_TURNED_BEHIND = re.compile(
    r"[,;:…—–-]\s*(?:no(?=[,:]|\s+wait)|wait|oops|sorry|actually|hmm+|hold on)\b",
    re.IGNORECASE,
)
# "so it is the faster one": what is concluded of the name before it.
_PRONOUN_CLAUSE = re.compile(
    r",?\s+(?:so|thus|hence|therefore|which means|meaning)\s+(?:that\s+)?"
    r"(?:it|he|she|this|that)(?:['’]s|\s+(?:is|was|has|had|wins?|won))\s"
    r"(?:[^\W\d]+(?:\s+|(?=[.!]?$))){1,6}[.!]?$",
    re.IGNORECASE,
)
_LABELS = re.compile(r"\b[A-Z][A-Za-z]*")
# A place in an order, which an item's description may tell.
_PLACE = re.compile(r"\b(?:first|second|third|fourth|fifth|last|\d+(?:st|nd|rd|th))\b")
_ASKED_NOUN = re.compile(r"\b[Ww]hich\s+(?!is\b|was\b|one\b|of\b)([a-z]{3,})\b")
_SUPERLATIVE = re.compile(r"\b(?:[a-z]{3,}est|most|least)\b")
_LEAST = re.compile(r"\b(?:least|fewest|lowest|smallest)\b")
_RANKED = re.compile(
    r"\b(?:second|third|fourth|2nd|3rd|4th|next)[\s-](?:[a-z]+est|most|least)\b"
)
_REASON = re.compile(
    r"\W*(?:and\s+)?(?:since|because|as|if|when|given|while|although|though|after|before|unlike|whereas)\b",
    re.IGNORECASE,
)
_OPEN = any_of(CONDITION, DOUBT, "would")
# What follows a name alone: a reason, or an apposition: "Bob, who is 15", "Shop B, at 75 cents a pen".
_FRAGMENT = re.compile(
    r",?\s+(?:since|because|as|by|with)\b|,\s+(?:who\s|at\s[^\w\s]?\d)(?!.*(?:\b(?:or|not|never)\b|n['’]t))"
)
# Another subject beside the name: "Tom has 3 and Ann has 5".
_ANOTHER = re.compile(
    r"\b(?:and|but|while|whereas)\s+(?:the\s+)?(?:[A-Z]\w+|the other|he|she|they)\s+"
    r"(?:is|was|has|had|[a-z]+s|[a-z]+ed)\b"
)


def with_name(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str = ""
) -> FinalAnswer:
    """Take a gold in words that the last sentence concludes with, or has as its subject: `Tom`, `2 or 3`, `Tom, 5`.

    A gold of name and amount takes the amount from the found answer.

    Examples:
        >>> with_name(FinalAnswer(problem="no_answer"), ["Maria"], "So Maria is taller than Tom.").answers
        ('Maria',)
        >>> with_name(answer_of("5"), ["Tom, 5"], "Tom has 5 more than Ann.").answers
        ('Tom, 5',)
    """
    for gold in golds:
        split = _name_and_amount(gold)
        name = split[1] if split else _period_alone(gold)
        if (
            (found.marks == ("emphasised",) and not split)
            or named_parts(gold)
            or not _is_in_words(name, prompt)
            or _is_other_list(name, completion)
        ):
            continue
        sentence = _conclusion(found, ending(completion), name)
        if names(sentence, name, prompt):
            if split is None:
                return answer_of(gold)
            return _with_amount(found, sentence, split)
    return found


def with_listed_words(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str = ""
) -> FinalAnswer:
    r"""Take a gold that lists words if the answer lists the same words, in whatever form.

    The order of three and more words counts only if the question asks for one. Items with a description are read
    without it, too.

    Examples:
        >>> with_listed_words(answer_of("red"), ["red, blue"], "Answer: red and blue").answers
        ('red, blue',)
        >>> with_listed_words(answer_of("2"), ["red, blue"], "1. **red**\n2. **blue**").answers
        ('red, blue',)
        >>> with_listed_words(answer_of("red"), ["red, blue"], "The colours are red, blue and pink.").answers
        ('red',)
    """
    lists = [gold for gold in golds if len(_wanted_words(gold)) > 1]
    if not lists or found.problem == "hedged":
        return found
    text = _concluding_text(completion)
    for gold in lists:
        wanted = _wanted_words(gold)
        has_order = (
            len(wanted) <= _PAIR
            or asks_for_order(prompt)
            or not set(YES_AND_NO).isdisjoint(wanted)
        )
        readings = [
            _listed_words(text),
            _described_words(text, prompt, has_order),
            _measured_words(text),
            _words_of_one_noun(text, wanted),
        ]
        if not has_order:
            wanted = sorted(wanted)
            readings = [sorted(items) for items in readings]
        if wanted in readings:
            return replace(answer_of(gold), marks=found.marks or ("last_expression",))
    return found


def _described_words(text: str, prompt: str, has_order: bool) -> list[str]:
    """Return the items of a list with descriptions.

    Where the order counts, the list is empty if the descriptions tell places or differ in the question's words: they
    may say which item answers which part of the question.
    """
    items = described_items(text)
    if has_order:
        asked = stems(question_of(prompt))
        told = {frozenset(stems(one) & asked) for _, one in items}
        if len(told) > 1 or any(_PLACE.search(one) for _, one in items):
            return []
    return _listed_words("\n".join(item for item, _ in items))


def _measured_words(text: str) -> list[str]:
    """Return the items of a list without their figures, if each item has one: "Tara (12.9 s), Sven (13.2 s)"."""
    items = []
    for part in re.split(rf"{_NEXT}|\n", text):
        item = _FIGURE.sub("", part)
        if item == part and part.strip():
            return []
        items.append(item)
    return _listed_words("\n".join(items))


def _words_of_one_noun(text: str, wanted: Sequence[str]) -> list[str]:
    """Return the names that share a noun, `box b` and `box c` of "Boxes B and C", if all wanted names have the noun."""
    nouns = {item.partition(" ")[0] for item in wanted}
    told = _PLURAL.fullmatch(text.strip(_AROUND_ITEM)) if len(nouns) == 1 else None
    noun = nouns.pop()
    if told is None or told["noun"].casefold() not in (noun + "s", noun + "es"):
        return []
    return [f"{noun} {label.casefold()}" for label in re.split(_NEXT, told["labels"])]


def _concluding_text(completion: str) -> str:
    """Return a completion's marked answer, or the end of its text, without a list's introduction."""
    marked = final_answer(completion)
    if len(marked.answers) != 1:
        return ""
    answer = without_text_commands(marked.answers[0])
    if marked.marks == ("text",):
        answer = ending(completion)
    # Bold letters may mark the last item only.
    introduced = ending(completion) if marked.marks == ("emphasised",) else answer
    return concluding_list(introduced) or answer


def _is_other_list(gold: str, completion: str) -> bool:
    """Check whether a completion ends in a list of other words than a gold's, or denies the list before a colon."""
    wanted = _wanted_words(gold)
    if len(wanted) < 2:
        return False
    before_list = last_sentence(ending(completion)).rpartition(":")[0]
    if is_open_list(before_list):
        return True
    items = []
    for item in _listed_words(_concluding_text(completion)):
        # "Vera and Uli, with six trees each"
        if _BESIDE_LIST.match(item):
            break
        items.append(item)
    return len(items) > 1 and sorted(items) != sorted(wanted)


def _wanted_words(gold: str) -> list[str]:
    """Return the items of a gold that lists words; empty for another gold, such as the point `(a, b)`."""
    return [] if gold.startswith(("(", "[", "{", "\\")) else _listed_words(gold)


def _listed_words(text: str) -> list[str]:
    """Return the items of a text that lists words, without bullets and articles; empty for another text."""
    items = []
    for line in text.strip().splitlines():
        # Runs of spaces would take more than linear time.
        one_spaced = " ".join(_BULLET.sub("", line).split())
        for part in re.split(_NEXT, one_spaced):
            item = _ARTICLE.sub("", part.strip(_AROUND_ITEM))
            # A short item may be a symbol: `a` is not `A`.
            items.append(item.casefold() if len(item) > 2 else item)
    items = [item for item in items if item]
    are_words = all(item.translate(_BETWEEN_WORDS).isalpha() for item in items)
    return items if are_words else []


def _conclusion(found: FinalAnswer, text: str, name: str) -> str:
    """Return the sentence that may conclude with a name, or a phrase's answer, without the figure behind a name."""
    if found.marks == ("phrase",):
        marks = formal(text) or informal(text)
        content = marks[-1].content if marks else ""
        is_of_name = without_figure(content, name) != content
        text = content if is_of_name or ", but " in content else found.answers[0]
    sentence = _without_quotes(last_sentence(text, name), name)
    if not sentence:
        return ""
    # Several names with figures are data: "Ann (14 s), Bob (13 s)".
    before = text.replace("**", "").rpartition(sentence)[0]
    if " than " in sentence:
        sentence = _FIGURES_COMPARED.sub("", sentence)
    has_others = _FIGURE.search(before) is not None
    return sentence if has_others else without_figure(sentence, name)


def _without_quotes(sentence: str, name: str) -> str:
    """Remove the quotes or italics around a name, as in `The word is "went."`."""
    quoted = rf"(?<!\w)([\"'“‘*_])({re.escape(name)})([.,]?)[\"'”’*_](?!\w)"
    return re.sub(quoted, r"\2\3", sentence, flags=re.IGNORECASE)


def without_figure(text: str, name: str) -> str:
    """Remove the figure behind a name at a text's end, if a gold is a name.

    Examples:
        >>> without_figure("Shop B ($1.20 per can).", "Shop B"), without_figure("abc - 3", "abc")
        ('Shop B', 'abc - 3')
    """
    asked = read(name)
    is_name = isinstance(asked.node, Words) or bool(asked.stray)
    return _FIGURE.sub("", text) if is_name else text


def _name_and_amount(gold: str) -> re.Match[str] | None:
    """Split a gold into name and amount; None for a weekday with a date, which is a moment."""
    split = _WITH_AMOUNT.fullmatch(gold)
    return None if split and isinstance(read(gold).node, Date | Time) else split


def with_amount_apart(gold: str, prompt: str) -> str:
    """Write a gold of name and amount with a comma, `Tom, 5` for "Tom by 5", if the question asks for a name, too.

    Examples:
        >>> with_amount_apart("Tom by 5", "Who won and by how much, Tom or Ann?")
        'Tom, 5'
        >>> with_amount_apart("multiply by 5", "What is done to x?"), with_amount_apart("Total: 5", "What is it?")
        ('multiply by 5', 'Total: 5')
    """
    split = _name_and_amount(gold)
    is_name = split and (split[1][:1].isupper() or _NUMBERED.fullmatch(split[1]))
    if not split or not is_name or not _ASKS_NAME.search(question_of(prompt)):
        return gold
    return f"{split[1]}, {split[2]}" if split[1] in prompt else gold


def with_name_and_amount(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    """Take a name with an amount behind it if a gold is both: "Tom, by 5 points" for `Tom, 5`."""
    splits = [
        split
        for split in filter(None, map(_name_and_amount, golds))
        if _is_in_words(split[1], prompt)
    ]
    if not splits or found.problem == "hedged":
        return found
    end = ending(completion)
    texts = list(found.answers) if len(found.answers) == 1 else []
    if found.marks == ("phrase",):
        texts += [mark.content for mark in (formal(end) or informal(end))[-1:]]
    elif not {*found.marks} & {"boxed", "answer_tag"}:
        sentence = last_sentence(end)
        before = end.replace("**", "").rpartition(sentence)[0]
        # Several names with figures are data: "Ann (14 s), Bob (13 s)".
        texts += [] if _FIGURE.search(before) else [sentence]
    for split in splits:
        for amount in filter(
            None, (_amount_beside(text, split[1], prompt) for text in texts)
        ):
            marks = found.marks or ("last_expression",)
            return replace(_named(split, amount), marks=marks)
    return found


def _amount_beside(text: str, name: str, prompt: str) -> str:
    """Return the amount of a text that consists of a name and an amount behind it; empty for other texts."""
    plain = without_text_commands(text[:MAX_CHARS]).replace("**", "").replace(r"\$", "$")
    plain = in_digits(" ".join(plain.split()))
    labelled = _LABELLED.fullmatch(name)
    written = f"{_one(name, prompt)}|{labelled[3]}" if labelled else _one(name, prompt)
    told = re.match(written, plain)
    beside = _BESIDE_NAME.fullmatch(plain, told.end()) if told else None
    return beside["amount"] if beside and not is_hedged(plain) else ""


def _with_amount(found: FinalAnswer, sentence: str, gold: re.Match[str]) -> FinalAnswer:
    """Join a gold's name to the found amount, else to the sentence's last value; without amount, return `found`."""
    amount = found.answers[-1] if found.answers else last_value(in_digits(sentence))
    return _named(gold, amount) if _SIZE.search(amount) else found


def _named(gold: re.Match[str], amount: str) -> FinalAnswer:
    """Join a gold's name to an amount; the gold itself, if the amounts are equal."""
    name, asked = gold.groups()
    is_equal = amount_size(amount) == amount_size(asked) or is_same(
        _sized(asked), _sized(amount)
    )
    return answer_of(gold[0] if is_equal else f"{name}, {amount}")


def _sized(amount: str) -> str:
    """Return an amount's number with its unit, `15` of "15 more tickets", `9 cm` of "9 cm taller"; else the whole."""
    found = _SIZE.search(amount)
    if found is None or _SIZE.search(amount, found.end()):
        return amount
    return found[0] if found[2] and is_unit(found[2]) else found[1]


def _is_in_words(gold: str, prompt: str) -> bool:
    """Check whether a gold consists of words, for example a name.

    Yes and no are excluded, and a letter unless the question has a noun before it: `shop B`.
    """
    letters = gold.translate(_BETWEEN_WORDS)
    if len(letters) == 1:
        asks_for_letter = (
            re.search(rf"[a-z] {letters}\b|\b[Ww]h(?:ich|at) letter\b", prompt) is not None
        )
        return letters.isupper() and asks_for_letter
    is_numbered = _NUMBERED.fullmatch(gold) is not None and gold in prompt
    return (letters.isalpha() or is_numbered) and gold.casefold() not in YES_AND_NO


def names(sentence: str, name: str, prompt: str = "") -> bool:
    """Check whether a sentence concludes with a name, or makes a statement about that name alone.

    A statement with the opposite of the question's word names the other: "Who is taller? Tom is shorter than Ann."

    Examples:
        >>> [names(said, "red") for said in ("The likeliest is red.", "It is red or blue.", "It is not red.")]
        [True, False, False]
        >>> [names(said, "Ann") for said in ("Ann read more than Tom.", "Tom read more than Ann.", "That leaves Ann.")]
        [True, False, True]
        >>> [names("Tom is shorter than Ann.", one, "Who is taller, Tom or Ann?") for one in ("Ann", "Tom")]
        [True, False]
        >>> names("Those were Sam and Ann.", "Ann and Sam"), names("The last car is the red one.", "the red car")
        (True, True)
    """
    written = re.compile(
        _written(name.replace(".", ""), prompt, in_order=asks_for_order(prompt))
    )
    sentence = _without_rest(_without_pronoun(sentence, name, prompt), written)
    found = list(written.finditer(sentence))
    if not found or is_hedged(written.sub("it", sentence)):
        return False
    last = found[-1]
    start = max(
        (joint.end() for joint in _CLAUSE.finditer(sentence, 0, last.start())), default=0
    )
    first = written.search(sentence, start) or last
    before = sentence[start : last.start()]
    behind = sentence[last.end() :]
    after = sentence[first.end() :]
    question = question_of(prompt)
    if _DENIED.search(before) or _REASON.match(before) or GOES_ON.search(behind):
        return False
    if _is_taken_back(behind, name, prompt):
        return False
    is_compared = _THAN.search(before) is not None
    if is_opposed(question, sentence[start:]):
        return is_compared and not _SUPERLATIVE.search(question)
    is_other_rank = _RANKED.search(sentence, start) and not _RANKED.search(question)
    if is_compared or is_other_rank:
        return False
    is_name = name[:1].isupper()
    end = _ENDS if is_name else _ENDS_WITH_NOUN
    if _TELLS.search(before) and end.match(behind):
        return True
    if _concludes_with(sentence, before, behind, name, prompt):
        return True
    if _FRAGMENT.match(after) and not sentence[: first.start()].strip():
        return True
    if not _LEAD.match(sentence[start : first.start()]):
        return False
    return _is_alone(sentence[:start], before, behind) or _is_subject(
        after, is_name, question
    )


def _without_rest(sentence: str, name: re.Pattern[str]) -> str:
    """Remove what follows a sentence's name: the time, the next names of an order, a denied name, and the reason."""
    for beginning in (_DATED, _FOLLOWED, _REASONED, _NOT_OTHER):
        rest = beginning.search(sentence)
        if not rest or not name.search(sentence, 0, rest.start()):
            continue
        if beginning is _DATED and _DENIED.search(rest[0].replace("May", "")):
            continue
        if beginning is not _NOT_OTHER or not name.search(rest[0]):
            sentence = sentence[: rest.start()]
    return sentence


def _without_pronoun(sentence: str, name: str, prompt: str) -> str:
    """Remove a closing pronoun clause about a sentence's single name: ", so it is the faster one"."""
    concluded = _PRONOUN_CLAUSE.search(sentence)
    if concluded is None:
        return sentence
    clause = concluded[0]
    if name in clause or _DENIED.search(clause) or is_opposed(question_of(prompt), clause):
        return sentence
    before = sentence[: concluded.start()]
    if _has_other_name(before, name, prompt):
        return sentence
    return before


def _has_other_name(text: str, name: str, prompt: str) -> bool:
    """Check whether a text contains a prompt's capitalized word outside the given name."""
    known = set(_LABELS.findall(prompt[-MAX_CHARS:]))
    others = known - set(_LABELS.findall(name)) - NO_NAMES
    return not others.isdisjoint(_LABELS.findall(text))


def _is_taken_back(behind: str, name: str, prompt: str) -> bool:
    """Check whether the text behind a name turns to another name: ", wait, no: Ben is"."""
    turn = _TURNED_BEHIND.search(behind)
    return turn is not None and _has_other_name(behind[turn.end() :], name, prompt)


def _is_alone(earlier: str, before: str, behind: str) -> bool:
    """Check whether a sentence, or text after its colon, consists solely of a name."""
    is_first = earlier.strip(" ")[-1:] in ("", ":")
    return (
        is_first and _LEAD.match(before) is not None and not any(map(str.isalnum, behind))
    )


def _is_subject(after: str, is_name: bool, question: str) -> bool:
    """Check whether the text after a name makes a statement about the name alone.

    The verb after a word that is no name is "is", "has" or a verb of the question, or the statement has the question's
    comparison: "Which runs out first?", "Brand B costs less."
    """
    if _ANOTHER.search(after) or _OPEN.search(after):
        return False
    is_asked = _VERB.match(after) is not None and is_agreed(question, after)
    if _BESIDE.search(after.partition(",")[0]) and not is_asked:
        return False
    if is_name:
        return _VERB.match(after) is not None
    if _IS.match(after) or is_asked:
        return True
    verb = re.match(r"\s+([a-z]{3,})", after)
    if verb is None:
        return False
    stem = verb[1].rstrip("s")
    return re.search(rf"\b{stem}", question) is not None


def _period_alone(gold: str) -> str:
    """Write a month or season without "in", a season in small letters: `autumn` for "In the Autumn"."""
    name = WITHIN.sub("", gold)
    return name.casefold() if _PERIOD.fullmatch(name.casefold()) else name


def _concludes_with(
    sentence: str, before: str, behind: str, name: str, prompt: str
) -> bool:
    """Check whether a clause ends with a name, or tells a month or season before its figure: "in July, with 80 mm"."""
    if not _PERIOD.fullmatch(name):
        return name[:1].isupper() and _ends_alone(before, behind, name, prompt)
    # The figures of two months are data: "March had 410, against 340 in May".
    if {one.casefold() for one in _PERIODS.findall(sentence)} != {name.casefold()}:
        return False
    is_within = _IN_PERIOD.search(before) and _ENDS.match(behind)
    is_least = _LEAST.search(sentence) and not _LEAST.search(question_of(prompt))
    return bool(is_within and not is_least) or _ends_alone(before, behind, name, prompt)


def _ends_alone(before: str, behind: str, name: str, prompt: str) -> bool:
    """Check whether a name ends a clause without another name of the question: "You pay less at Shop B"."""
    if not prompt or any(map(str.isalnum, behind)) or _TIED.search(before):
        return False
    return len(before.split()) > 1 and not _has_other_name(before, name, prompt)


def _written(name: str, prompt: str = "", *, in_order: bool = False) -> str:
    """Build a regular expression for a name's spellings: with or without article, `the red one` for `the red car`."""
    items = _AND.split(name)
    if 1 < len(items) <= MAX_LISTED and all(items):
        orders = [tuple(items)] if in_order else permutations(items)
        return "|".join(_NEXT.join(map(_one, order)) for order in orders)
    return _one(name, prompt)


def _one(name: str, prompt: str = "") -> str:
    core = _ARTICLE.sub("", name)
    is_capital = core[:1].isupper()
    first, _, noun = core.rpartition(" ")
    words = re.escape(core)
    if first and noun[:1].islower():
        asked = _ASKED_NOUN.search(prompt, max(0, len(prompt) - MAX_CHARS))
        # "the green box" for the green one of "Which box is heavier?"
        nouns = {noun, "one", asked[1] if asked and noun == "one" else "one"}
        words = rf"{re.escape(first)}\s+(?:{'|'.join(sorted(map(re.escape, nouns)))})"
    elif core.islower() and len(core) > 1:
        # "the red one" and "the red rope" for red, if the prompt has a red rope
        nouns = {"one", *re.findall(rf"\b{words}\s+([a-z]{{3,}})", prompt[-MAX_CHARS:])}
        words = rf"{words}(?:\s+(?:{'|'.join(sorted(nouns))})\b)?"
    # "Team Red" for Red, if the prompt has a team Red
    of_kind = (
        re.search(rf"\b([A-Z][a-z]+\s+){words}\b", prompt[-MAX_CHARS:])
        if is_capital
        else None
    )
    if of_kind and of_kind[1].strip() not in NO_NAMES:
        words = rf"(?:{re.escape(of_kind[1])})?{words}"
    if len(core) == 1 or re.fullmatch(r"\d{1,2}[A-Z]", core):
        # shop B, class 7B
        noun = rf"(?:[Tt]he\s+)?(?!{_NO_NOUN})[A-Za-z]+\s+"
        article = rf"|\s+(?!{_AFTER_LETTER})[a-z]" if core == "A" else ""
        return rf"(?<![\w-])(?:{noun}{core}(?![\w-]|['’]s)|{core}(?![\w-]|['’]s{article}))"
    labelled = _LABELLED.fullmatch(core)
    if labelled:
        # "store B" inside a sentence
        words = rf"[{labelled[1]}{labelled[1].lower()}]{labelled[2]}{labelled[3]}"
    if is_capital:
        family = r"(?:an?\s+|[Tt]he\s+(?:[A-Z][a-z]+\s+)?)?"
        return rf"(?<![\w-]){family}{words}(?![\w-]|['’]s)"
    return rf"(?<![\w-])(?i:(?:an?\s+|the\s+)?{words})(?![\w-]|['’]s)"
