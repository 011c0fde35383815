"""Choose between values of things that a prompt contrasts: chickens and cows, Ann and Ben, length and width."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from trl_grpo_ext.answers.find.asked import numbers, question_of, task_of
from trl_grpo_ext.answers.find.asked_values import stems
from trl_grpo_ext.answers.find.final_answer import FinalAnswer
from trl_grpo_ext.answers.find.hedges import is_hedged
from trl_grpo_ext.answers.find.last_sentence import answer_of, ending, last_sentence
from trl_grpo_ext.answers.find.named_values import Part, is_same, spelling, told_values
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.signal_words import OPPOSITES
from trl_grpo_ext.answers.read.tree import Number, Quantity

# Characters at the end of a prompt in which contrasts are looked up.
MAX_PROMPT = 2_000
# Characters at the end of a completion that may tell the things' values.
MAX_END = 1_000
# Words of two phrases that are compared, and words between a phrase and the joint.
MAX_PHRASE = 7
MAX_GAP = 2
# A longer sentence does more than tell two counts.
MAX_COUNTS = 200
# Phrases with a gap, or with a comma or a full stop between them, are at least as long.
MIN_PHRASE = 3

_TOKEN = re.compile(r"[^\W\d_][\w'’-]*|[$€£]?\d[\d.,:/]*(?<![.,:])%?|[.,;]")
_SENTENCE = re.compile(r"(?<=[?!])\s|\n")
_STOPS = frozenset((",", ";", "."))
_JOINTS = _STOPS | frozenset(("and", "or", "than", "as", "to", "for", "but", "while"))
_ARTICLES = frozenset(
    "a an the each every one some his her its their my our another".split()  # noqa: SIM905
)
# Words that are no things; most stand after "and" without a contrast.
_NO_THINGS = _ARTICLES | frozenset(
    """of in on at to for from by with than as and or but so if when how what which who that this there it he she they
    we i you not is are was were be has have had does do did will can would more less fewer many much times twice half
    all both per up off out then now only also them him us left total old age ages tall
    high heavy far fast good two three four five six seven eight nine ten
    pays gives sells buys eats gets goes spends uses takes makes keeps loses wants needs leaves reads runs walks drives
    works lives weighs costs earns saves puts finds draws picks adds shares plays wins hands reaches returns""".split()  # noqa: SIM905
)
_PLURAL = re.compile(r"[a-z]{2,}[^s\W]s|men|women|children|people|mice|geese|sheep|fish")
_DIMENSIONS = (
    "length width height depth radius diameter circumference perimeter area volume".split()  # noqa: SIM905
)
_GENDERS = (("men", "women"), ("boys", "girls"), ("males", "females"))
# Before things of a kind, in phrases that otherwise differ: "120 cups on Monday and 25% more on Tuesday".
_BEFORE_THINGS = frozenset(("on", "in", "at", "for"))
_COMPARES = re.compile(
    r"\b(?:more|less|fewer|differ\w*|than|how much (?!(?:wat|pap|butt|silv|copp)er)\w+er)\b",
    re.IGNORECASE,
)
# A question without its conditions: "If Ben has 8, how many does Ann have?" asks about Ann alone.
_ASKING = re.compile(
    r"\b(?:how|what|which|who)\b.*?(?=\s(?:if|when|since|given)\s|\?|\Z)",
    re.IGNORECASE | re.DOTALL,
)
# A last sentence that is bold as a whole.
_BOLD_END = re.compile(r"(?:\A|\n|[.!]\s)\*\*[^*\n]{8,}\*\*\s*\Z")
_UNMARKED = ((), ("whole_text",), ("text",), ("last_expression",))
_SEVERAL = re.compile(r",\s|\sand\s")
_BOXED = re.compile(r"\$?\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}\$?")
_COUNT = r"[$€£]?\d[\d.,]*(?<![.,])%?"
# Two counts with a word for each: "She gets 34 right and 6 wrong", "90 are sold, 30 remain", "width = 5, length = 8".
_TWO_COUNTS = re.compile(
    rf"(?:\W*(?:[Oo]ut )?[Oo]f \D{{0,20}}{_COUNT}[^\d,]{{0,30}},)?"
    rf"(?P<lead>[^\d,;]{{0,60}}?)(?<![\w.]){_COUNT}(?P<one>[^\d=]{{0,60}}?)"
    rf"(?:[,;]\s(?:(?:and|but|while|with)\s)?|\.?\s(?:and|but|while)\s)(?P<mid>[^\d,;]{{0,40}})(?<![\w.]){_COUNT}(?P<two>[^\d=]{{0,60}})"
)
_COUNTED = re.compile(r"\bhow many\s+([a-z]{3,})", re.IGNORECASE)
# A name of one letter: "How old is A?"
_LETTER_NAME = re.compile(r"\b[B-HJ-Z]\b|\bA\b(?=\s(?:is|has|gets?|costs?|=)|\W*\Z)")
_CONTENT = re.compile(r"[a-z]{3,}|\b[A-Z]\b", re.IGNORECASE)
# Words that say the same of a count, by the word that stands for all.
_SAME = {
    word: words[0]
    for words in (
        "left leav remain keep kept unsold unread uneaten".split(),  # noqa: SIM905
        "wrong incorrect incorrectly".split(),  # noqa: SIM905
        "right correct correctly".split(),  # noqa: SIM905
    )
    for word in words
}
_TASK_END = re.compile(r"\s(?:of|if|when|given|for|with)\s")
_INTRODUCES = re.compile(
    r"\W*(?:(?:so|thus|then|and)\s)?(?:after|over|in|at|with|since|for|by|from|during|if|when|because|as|to)\s",
    re.IGNORECASE,
)
# A counted thing right behind its number: "5 boxes are left".
_COUNTS_THING = re.compile(r"\s+([a-z]{2,}[^s\W]s)\b(?<!\bwas)(?<!\bhas)")
_TIMES = frozenset("second minute hour day week month year".split())  # noqa: SIM905
_STILL = re.compile(r"\bstill\b|\byet to\b", re.IGNORECASE)
# Words beside a count that tell nothing of it.
_NO_PREDICATES = frozenset(
    """now then still also only just exactly there here thus therefore hence which that total more less other each of
    the are were been being get got gets have find has had out""".split()  # noqa: SIM905
)


class Token(NamedTuple):
    """A word, number or stop of a prompt. All numbers share a kind, and so do `cow` and `cows`."""

    text: str
    kind: str


def with_asked_thing(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    """Take the asked thing's value from an end that tells values of things that the prompt contrasts.

    The value of another thing is no answer. An end that tells no other thing's value leaves the answer unchanged.

    Examples:
        >>> asked = "There are 25 chickens and cows with 66 legs. How many chickens are there?"
        >>> for text in ("There are 17 chickens and 8 cows.", "Chickens: 17\\nCows: 8", "There are 17 cows."):
        ...     found = with_asked_thing(answer_of("17"), ["17"], text, asked)
        ...     found.problem or found.answers
        ('17',)
        ('17',)
        'no_answer'
    """
    are_amounts = all(isinstance(read(gold).node, Number | Quantity) for gold in golds)
    if not prompt or not are_amounts or found.problem not in ("", "no_answer", "hedged"):
        return found
    if found.marks in _UNMARKED or _BOLD_END.search(
        completion, max(0, len(completion) - MAX_COUNTS)
    ):
        found = _of_asked_count(found, ending(completion)[-MAX_END:], prompt)
    things = contrasts(prompt)
    if not things or found.problem == "hedged":
        return found
    end = _BOXED.sub(r"\1", ending(completion)[-MAX_END:])
    for asked, others in things.items():
        parts = [Part(spelling((name,)), "", "", "") for name in (asked, *others)]
        if not any(part.name.search(end) for part in parts[1:]):
            continue
        told = told_values(", ".join(found.answers), parts) or told_values(end, parts)
        found = _of_asked(found, told)
    return found


def _of_asked_count(found: FinalAnswer, end: str, prompt: str) -> FinalAnswer:
    """Return the asked one of two counts in a last sentence: 30 of "90 are sold, 30 remain" for "How many are left?".

    The question must have the word of one count alone.
    """
    if found.problem == "hedged" and is_hedged(_without_doubt(end)):
        return found
    sentence = last_sentence(end)
    two = _TWO_COUNTS.fullmatch(sentence) if len(sentence) <= MAX_COUNTS else None
    asking = _asking(prompt)
    words = _words_of_counts(two, asking) if two else None
    if words is None:
        return found
    told = told_values(_without_doubt(sentence), list(map(_part, words)))
    # Counts of one kind are told apart by their words: "5 days" and "$40" are not.
    are_alike = len({_kind_of(value) for value in told.values()}) == 1 and len(told) > 1
    is_known = are_alike and set(numbers(told[0])) <= set(numbers(asking))
    return _of_asked(found, told) if are_alike and not is_known else found


def _kind_of(value: str) -> object:
    """Return an amount's measures; None for a number."""
    node = read(value).node
    return node.unit.measures if isinstance(node, Quantity) else None


def _words_of_counts(two: re.Match[str], asking: str) -> tuple[str, str] | None:
    """Return a word of the asked count and a word of the other count; None if the question fits both or no count."""
    if not asking or _COMPARES.search(asking) or _INTRODUCES.match(two["lead"]):
        return None
    is_shared = not _CONTENT.search(two["mid"])
    one = _predicates(two["one"] if is_shared else two["lead"] + two["one"])
    other = _predicates(two["mid"] + two["two"])
    noun = _COUNTED.search(asking)
    thing = _predicates(noun[1]) if noun else {}
    # "How many muffins are left?" asks for muffins only if no count is told as left.
    for wanted in (_predicates(asking).keys() - thing.keys(), set(thing)):
        in_one = wanted & (one.keys() - other.keys())
        in_other = wanted & (other.keys() - one.keys())
        if in_one or in_other:
            break
    held, rest = (one, other) if in_one else (other, one)
    rivals = rest.keys() - thing.keys() - wanted - _NO_PREDICATES
    if wanted == thing.keys():
        # Of "40 people came and 10 stayed", both count people.
        rivals = {stem for stem in rivals if _PLURAL.fullmatch(rest[stem])}
    if bool(in_one) == bool(in_other) or not rivals:
        return None
    counted = _COUNTS_THING.match(two["one"] if in_one else two["two"])
    # "8 bags and 6 apples" counts the asked apples elsewhere.
    is_of_thing = not counted or _predicates(counted[1]).keys() & thing.keys()
    if not is_of_thing and rest.keys() & thing.keys():
        return None
    return held[min(in_one or in_other)], rest[max(rivals)]


def _part(word: str) -> Part:
    """Build the part of a value that a word names, as the sentence has the word."""
    return Part(re.compile(rf"\b{re.escape(_without_doubt(word))}\b"), "", "", "")


def _without_doubt(text: str) -> str:
    """Replace "wrong", which is no doubt beside a count, "6 are wrong", unlike beside an answer: "6 is wrong"."""
    return re.sub(r"(?<!\bis )\b(?:wrong|incorrect(?:ly)?)\b", "mistaken", text)


def _predicates(text: str) -> Mapping[str, str]:
    """Return the words of a text that may tell counts apart, by their stems, with the same stem for left and remain."""
    found = {}
    for word in _CONTENT.findall(text):
        for stem in stems(word) or ({word} if _LETTER_NAME.search(word) else ()):
            if stem not in _TIMES:
                found[_SAME.get(stem, stem)] = word
    return found


def _asking(prompt: str) -> str:
    """Return the words with which a prompt asks; "left" instead of "still has to read"."""
    question = question_of(prompt)
    asked = _ASKING.search(question)
    # "Find the width of a rectangle with length 8."
    task = _TASK_END.split(task_of(prompt))[0]
    asking = asked[0] if asked else question.partition("?")[0] or task
    still = _STILL.search(asking)
    return f"{asking[: still.start()]} left" if still else asking


def _of_asked(found: FinalAnswer, told: Mapping[int, str]) -> FinalAnswer:
    """Return the value told of the asked thing, with place 0, if the answer is another thing's value or several."""
    others = [value for place, value in told.items() if place]
    if not others:
        return found
    answer = ", ".join(found.answers)
    result = answer if _SEVERAL.search(answer) else answer.rpartition("=")[2]
    if isinstance(read(result).node, Number | Quantity):
        is_asked = 0 in told and is_same(result, told[0])
        if is_asked or not any(is_same(result, value) for value in others):
            return found
        return answer_of(told[0]) if 0 in told else FinalAnswer(problem="no_answer")
    return answer_of(told[0]) if 0 in told else found


@lru_cache(maxsize=256)
def contrasts(prompt: str) -> Mapping[str, Sequence[str]]:
    """Return the things that a question names, each with other things that the prompt contrasts with the thing.

    Examples:
        >>> contrasts("Pens cost $2 each and notebooks cost $5 each. How much do 3 notebooks cost?")
        {'notebooks': ['pens']}
        >>> contrasts("Ann has 4 more marbles than Ben. How many marbles does Ann have?")
        {'ann': ['ben']}
        >>> contrasts("There are red and blue balls. How many red and blue balls are there?")
        {}
    """
    question = question_of(prompt)
    asked = _ASKING.search(question)
    asking = asked[0] if asked else question.partition("?")[0]
    if not question or _COMPARES.search(asking):
        return {}
    found: dict[str, list[str]] = {}
    for group in _groups(_pairs(prompt[-MAX_PROMPT:], question)):
        held = [name for name in group if spelling((name,)).search(asking)]
        others = [name for name in group if name not in held]
        # "Ann" and "Ann's" are spellings of one thing.
        if held and others and all(spelling((held[0],)).search(name) for name in held):
            found[held[0]] = others
    return found


def _groups(pairs: Iterator[tuple[str, str]]) -> list[list[str]]:
    """Join pairs with a common word: June and July, July and August are a group of three."""
    groups: list[list[str]] = []
    for pair in pairs:
        joined = list(pair)
        for group in [one for one in groups if not set(one).isdisjoint(pair)]:
            groups.remove(group)
            joined = group + joined
        groups.append(list(dict.fromkeys(joined)))
    return groups


def _pairs(prompt: str, question: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of contrasted words of a prompt: of parallel phrases, of comparisons, dimensions and opposites."""
    for sentence in _SENTENCE.split(prompt):
        tokens = [Token(token, _kind(token)) for token in _TOKEN.findall(sentence)]
        for place, (token, _) in enumerate(tokens):
            if token in _JOINTS:
                yield from _parallel(tokens, place)
            if token == "than" or (token == "as" and tokens[place] in tokens[:place]):
                yield from _compared(tokens, place)
    yield from _GENDERS
    named = [name for name in _DIMENSIONS if name in prompt]
    for name in named:
        yield from ((name, other) for other in named if other != name)
    for one, other in OPPOSITES:
        for name in re.findall(rf"(?<!to )\bthe ({one}|{other})\b", question):
            rivals = other if re.fullmatch(one, name) else one
            yield from ((name, rival) for rival in rivals.split("|") if rival.isalpha())


def _parallel(tokens: Sequence[Token], joint: int) -> Iterator[tuple[str, str]]:
    """Yield the two different words of the longest parallel phrases around a joint: "12 red and 5 blue marbles"."""
    is_stop = tokens[joint].text in _STOPS
    right = tokens[joint + 1 : joint + 2 + MAX_PHRASE]
    if is_stop and right and right[0].text in _JOINTS:
        right = right[1:]
    # 3 dogs for every 4 cats
    if tokens[joint].text == "for":
        right = right[1:] if right and right[0].text in ("every", "each") else []
    for size in range(min(len(right), MAX_PHRASE), MIN_PHRASE - 1 if is_stop else 0, -1):
        for gap in range(MAX_GAP + 1 if size >= MIN_PHRASE else 1):
            end = joint - gap
            pair = (
                _difference(tokens[end - size : end], right[:size]) if end >= size else None
            )
            if pair and (size > 1 or _are_alike(*pair, right[1:2])):
                yield pair[0].casefold(), pair[1].casefold()
                return
    for shift, word in enumerate(right[:-1]):
        if word.text in _BEFORE_THINGS and joint >= 2 and word == tokens[joint - 2]:
            pair = _difference(tokens[joint - 2 : joint], right[shift : shift + 2])
            if pair:
                yield pair[0].casefold(), pair[1].casefold()


def _difference(one: Sequence[Token], other: Sequence[Token]) -> tuple[str, str] | None:
    """Return the only two words in which phrases differ; None if the phrases differ otherwise."""
    different: tuple[str, ...] = ()
    for here, there in zip(one, other, strict=True):
        if here.kind != there.kind:
            if different:
                return None
            different = (here.text, there.text)
    if not different or any(
        not word[0].isalpha() or word.casefold() in _NO_THINGS for word in different
    ):
        return None
    # A capital letter may begin a sentence: "Pens cost $2 and notebooks cost $5".
    is_mixed = different[0][0].isupper() != different[1][0].isupper()
    return None if is_mixed and len(one) < MIN_PHRASE else (different[0], different[1])


def _kind(token: str) -> str:
    """Return a token's kind: `1` for a number, `a` for an article, else the singular of a word."""
    if not token[0].isalpha() and token not in _STOPS:
        return "1"
    plain = token.casefold()
    return "a" if plain in _ARTICLES else plain.removesuffix("s")


def _are_alike(one: str, other: str, after: Sequence[Token]) -> bool:
    """Check whether two words alone are contrasted: names, plurals, or words before a common plural."""
    follower = after[0] if after else Token(".", ".")
    if one[0].isupper():
        return True
    is_object_behind = follower.kind in ("1", "a") or follower.text in ("it", "them")
    if _PLURAL.fullmatch(one.casefold()) and _PLURAL.fullmatch(other):
        return not is_object_behind
    return not _PLURAL.fullmatch(one) and _PLURAL.fullmatch(follower.text) is not None


def _compared(tokens: Sequence[Token], joint: int) -> Iterator[tuple[str, str]]:
    """Yield the subject of a comparison and the word compared with: "A coffee costs $1 more than a tea"."""
    start = max(
        (place + 1 for place in range(joint) if tokens[place].text in _STOPS), default=0
    )
    sides = []
    for side in (tokens[start:joint], tokens[joint + 1 :]):
        first = next((word.text for word in side if word.kind != "a"), ".")
        if first[0].isalpha() and first.casefold() not in _NO_THINGS:
            sides.append(first.casefold())
    if len(sides) == 2:
        yield sides[0], sides[1]
