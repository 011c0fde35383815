"""Build a question from a completion and its golds, and answer it: `same_answer` is the public entry point."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from trl_grpo_ext.answers.acceptance import echo
from trl_grpo_ext.answers.asked.expression import value_of_expression
from trl_grpo_ext.answers.asked.name import value_of_asked_name
from trl_grpo_ext.answers.asked.side import with_asked_side
from trl_grpo_ext.answers.asked.thing import with_asked_thing
from trl_grpo_ext.answers.asked.words import with_asked_words
from trl_grpo_ext.answers.compare.directions import with_direction_behind
from trl_grpo_ext.answers.compare.forms import (
    is_region,
    says_infinitely_many,
    set_in_words,
)
from trl_grpo_ext.answers.compare.repeated_roots import with_roots_once
from trl_grpo_ext.answers.compare.sides import by_amounts
from trl_grpo_ext.answers.counted_things import without_counted_things
from trl_grpo_ext.answers.dimensions import with_dimensions
from trl_grpo_ext.answers.divisions import as_division, with_divisions
from trl_grpo_ext.answers.find.asked import (
    as_asked,
    in_asked_scale,
    in_sterling,
    is_same_pair,
    question_of,
    task_of,
    with_order_listed,
    with_question,
    without_asked_rate,
)
from trl_grpo_ext.answers.find.asked_values import without_purpose
from trl_grpo_ext.answers.find.conclusions import FINITE
from trl_grpo_ext.answers.find.final_answer import HEDGES, FinalAnswer, until_next_question
from trl_grpo_ext.answers.find.hedges import only_supposes
from trl_grpo_ext.answers.find.known_golds import with_known_golds, with_surroundings
from trl_grpo_ext.answers.find.last_sentence import MAX_SAID, last_sentence
from trl_grpo_ext.answers.find.math_answer import Mode, math_answer
from trl_grpo_ext.answers.find.named_values import in_gold_order, in_order, with_letters
from trl_grpo_ext.answers.find.names import with_amount_apart
from trl_grpo_ext.answers.find.options import (
    SizedThings,
    option_said,
    sized_things,
    with_capital_letters,
    with_quadrants,
)
from trl_grpo_ext.answers.find.phrases import without_count
from trl_grpo_ext.answers.find.sentences import (
    ASKS_COUNT,
    is_sentence,
    is_value,
    marked_sentence,
)
from trl_grpo_ext.answers.golds import (
    NOT_TEXT,
    gold_values,
    is_not_text,
    with_plain_thousands,
)
from trl_grpo_ext.answers.intercepts import with_intercepts
from trl_grpo_ext.answers.pairs import Pair, judge_pairs
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.outcomes import outcome_of
from trl_grpo_ext.answers.read.regions import in_intervals
from trl_grpo_ext.answers.read.spelling import restored
from trl_grpo_ext.answers.read.tree import Collection
from trl_grpo_ext.answers.read.unit_letters import with_unit_apart
from trl_grpo_ext.answers.told_twice import without_approximation
from trl_grpo_ext.answers.verdicts import agreed, unreadable, wrong
from trl_grpo_ext.verdict import Status, Verdict, skipped

# Seconds after which the comparison of an answer is killed.
TIMEOUT = 5.0
DECIMALS = 6
_ONE_TEXT = re.compile(r"\\text\s*\{([^{}\\]*)\}")
# A sentence with a verb, not words that belong to a value: "the reciprocal of 4".
_STATEMENT = re.compile(
    rf"(?=[A-Z\d])[^\\]*\b(?:{FINITE}|be|can|must|won|ends?|lasts?|turns?)\b[^\\]*\Z"
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings for finding and comparing answers.

    Attributes:
        mode: The rule that finds the answer.
        accepted: Switches of `policy` that allow an otherwise refused kind of answer, such as `accept_unevaluated`.
        decimals: Decimal places to which numbers must agree.
    """

    mode: Mode = "auto"
    accepted: tuple[str, ...] = ()
    decimals: int = DECIMALS


def same_answer(
    completion: str, gold: object, prompt: str | None = None, *, timeout: float = TIMEOUT
) -> Verdict:
    r"""Judge whether a completion's final answer is the gold.

    Args:
        completion: The whole text of the completion.
        gold: A number, LaTeX, words, a solution that ends in a box, GSM8K's `#### 42`, or a list of accepted golds.
        prompt: The question. An answer that only repeats its formula is refused.
        timeout: Seconds after which the comparison of an answer is killed.

    | completion | gold | verdict | reason |
    |---|---|---|---|
    | `It takes two and a half hours.` | `2.5` | CORRECT, 1 | |
    | `So he ate three quarters of the pie.` | `3` | INCORRECT, 0 | `not_equal` |
    | `The pool loses 13 litres over 30 days.` | `30` | UNPARSEABLE, 0 | `no_answer` |
    | anything | nothing | SKIPPED, none | `gold_empty` |

    Examples:
        >>> same_answer(r"So it is \boxed{\frac{1}{2}}.", "0.5").score
        1.0
        >>> same_answer("It ends at half past two.", "14:30").score
        1.0
        >>> same_answer("The answer is 7 remainder 2.", "2").reason
        'not_equal'
    """
    if is_not_text(gold):
        return skipped(NOT_TEXT)
    golds = gold_values(gold)
    if not golds:
        return skipped("gold_empty")
    asked = ask(completion, golds, prompt or "")
    return (
        asked
        if isinstance(asked, Verdict)
        else asked.verdict(judge_pairs(asked.pairs, timeout))
    )


@dataclass(frozen=True, slots=True)
class Question:
    """A sample to judge: golds, answers found in the completion, and all pairs of gold and answer."""

    golds: tuple[str, ...]
    found: FinalAnswer
    pairs: list[Pair]
    seconds: float = 0.0

    def verdict(self, known: dict[Pair, Verdict]) -> Verdict:
        """Combine the pairs' verdicts: correct if every answer equals a gold, `ambiguous` if only some answers do."""
        where = {"rule": self.found.rule, "gold": " | ".join(self.golds)}
        seconds = math.fsum((self.seconds, *(known[pair].seconds for pair in self.pairs)))
        verdicts = []
        for answer in self.found.answers:
            best = _best([known[pair] for pair in self.pairs if pair.answer == answer])
            details = {**where, **best.details}
            verdicts.append(replace(best, details=details, seconds=seconds))
        return agreed(verdicts)


def ask(
    completion: str,
    golds: tuple[str, ...],
    prompt: str = "",
    *,
    prefill: str | None = None,
    settings: Settings = Settings(),
) -> Question | Verdict:
    """Find a completion's answers and pair them with the golds; return a verdict if no answer is found."""
    # "vs." and "Rs." end no sentence.
    completion = restored(completion)
    things = sized_things(golds, prompt)
    if things.measure:
        named = tuple(map(things.named, golds))
        before = None if prefill is None else things.named(prefill)
        asked = _asked(
            things.named(completion), named, things.named(prompt), before, settings
        )
        return asked if isinstance(asked, Verdict) else _in_sizes(asked, things)
    return _asked(completion, golds, prompt, prefill, settings)


def _in_sizes(asked: Question, things: SizedThings) -> Question:
    """Return a question with the names of sized things written as their sizes."""
    golds = tuple(map(things.restored, asked.golds))
    answers = tuple(map(things.restored, asked.found.answers))
    pairs = [
        pair._replace(gold=things.restored(pair.gold), answer=things.restored(pair.answer))
        for pair in asked.pairs
    ]
    return replace(
        asked, golds=golds, found=replace(asked.found, answers=answers), pairs=pairs
    )


def _asked(
    completion: str,
    golds: tuple[str, ...],
    prompt: str,
    prefill: str | None,
    settings: Settings,
) -> Question | Verdict:
    """Find a completion's answers and pair them with the golds, once names are written without digits."""
    golds, completion, prompt = with_capital_letters(golds, completion, prompt)
    golds, completion = with_quadrants(golds, completion, prompt)
    completion = with_order_listed(completion, prompt)
    if settings.mode == "auto":
        completion = without_purpose(until_next_question(completion), prompt)
    completion = in_asked_scale(completion, golds, prompt)
    golds, completion = _in_one_form(golds, completion, prompt)
    found = _found(completion, golds, prompt, prefill, settings)
    if settings.mode == "auto" and (found.marks or found.problem == "hedged"):
        # A marked sentence is read as the sentence alone is.
        sentence = _marked_sentence(found, (prefill or "") + completion)
        alone = _found(sentence, golds, prompt, None, settings) if sentence else found
        # A sentence that says no value leaves the mark's own answer.
        if not alone.problem:
            found, completion = alone, sentence or completion
    found = with_surroundings(found, golds, completion, prompt)
    if found.problem:
        return _without_answer(found.problem)
    whole = (prefill or "") + completion
    golds, found = _without_sides(golds, found, whole, prompt)
    spoken = "\n".join((prompt, *golds))
    golds = _golds_as_compared(golds, found.answers, prompt)
    answers = [
        in_gold_order(_as_compared(answer, golds, whole, prompt, spoken), golds)
        for answer in found.answers
    ]
    found = FinalAnswer(tuple(answers), found.marks)
    pairs = []
    for answer, gold in itertools.product(found.answers, golds):
        pairs += _pairs(answer, gold, prompt, settings)
    return Question(golds, found, pairs)


def _without_answer(problem: str) -> Verdict:
    is_wrong = problem in (*HEDGES, "ambiguous")
    return wrong(problem) if is_wrong else unreadable(problem)


def _without_sides(
    golds: tuple[str, ...], found: FinalAnswer, whole: str, prompt: str
) -> tuple[tuple[str, ...], FinalAnswer]:
    """Write golds and answers with sides, such as `$45 more`, as amounts."""
    sentence = last_sentence(whole[-MAX_SAID:])
    question = question_of(prompt) or task_of(prompt)
    golds, answers = by_amounts(golds, found.answers, sentence, question)
    return golds, FinalAnswer(answers, found.marks)


def _golds_as_compared(
    golds: tuple[str, ...], answers: tuple[str, ...], prompt: str
) -> tuple[str, ...]:
    """Return the golds with their units as the question, or pence of an answer, tells them."""
    spoken = "\n".join((prompt, *golds))
    told = "\n".join((*golds, *answers))
    counts = [without_counted_things(gold, prompt) for gold in golds]
    return tuple(
        with_unit_apart(in_sterling(gold, prompt, told), spoken) for gold in counts
    )


def _as_compared(
    answer: str, golds: tuple[str, ...], whole: str, prompt: str, spoken: str
) -> str:
    """Return an answer's asked value, without what the question or the golds tell."""
    named = value_of_asked_name(answer, golds, whole, prompt)
    value = value_of_expression(named, golds, whole, prompt)
    count = without_counted_things(value, prompt)
    divided = as_division(count, golds, prompt)
    said = with_unit_apart(in_sterling(divided, prompt), spoken)
    return without_asked_rate(said, golds, prompt)


def _in_one_form(
    golds: tuple[str, ...], completion: str, prompt: str
) -> tuple[tuple[str, ...], str]:
    """Write roots, number sets, divisions, dimensions and intercepts in one form, as golds and question ask."""
    golds, completion = with_plain_thousands(golds, completion)
    golds = tuple(with_amount_apart(with_direction_behind(gold), prompt) for gold in golds)
    if not ASKS_COUNT.search(question_of(prompt)):
        completion = without_count(completion, golds)
    golds, completion = with_roots_once(golds, completion)
    golds, completion = with_divisions(*_in_intervals(golds, completion))
    golds, completion = with_dimensions(golds, completion, prompt)
    return with_intercepts(golds, completion, prompt)


def _in_intervals(golds: tuple[str, ...], completion: str) -> tuple[tuple[str, ...], str]:
    """Write number sets told in words as intervals if a gold is a number set; shorten a gold that states an outcome."""
    written, has_set = _sets(golds)
    return written, in_intervals(completion) if has_set else completion


@lru_cache(maxsize=1024)
def _sets(golds: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """Return golds with outcomes shortened and sets as intervals, and whether a gold is a number set.

    The result is cached, because each completion of a prompt needs it.
    """
    golds = tuple(outcome_of(gold) or gold for gold in golds)
    written = tuple(map(in_intervals, golds))
    for gold in written:
        node = read(gold).node
        # "All real numbers" tells more than "infinitely many solutions".
        if says_infinitely_many(node):
            return (*golds, r"\mathbb{R}"), True
        match set_in_words(node):
            # An open interval looks like a point: (2, 5)
            case Collection("()", (_, _)):
                return written, True
            case region if is_region(region):
                return written, True
    return golds, False


def _pairs(answer: str, gold: str, prompt: str, settings: Settings) -> list[Pair]:
    """Pair an answer with a gold, and with the question's option that the gold names."""
    pairs = []
    for accepted in filter(None, (gold, option_said(gold, answer, prompt))):
        named = in_order(with_letters(accepted, answer, prompt), answer)
        asked = as_asked(named, answer, prompt)
        pair = Pair(
            answer if is_same_pair(accepted, answer) else asked,
            answer,
            settings.accepted,
            settings.decimals,
            echo(answer, accepted, prompt),
        )
        pairs.append(pair)
    return pairs


def _found(
    completion: str,
    golds: tuple[str, ...],
    prompt: str,
    prefill: str | None,
    settings: Settings,
) -> FinalAnswer:
    """Find a completion's answers, and adapt them to golds and question unless a mode tells where they stand."""
    if settings.mode == "auto":
        completion = without_approximation(completion, golds)
    found = math_answer(completion, prefill=prefill, mode=settings.mode, prompt=prompt)
    if settings.mode == "auto":
        whole = (prefill or "") + completion
        said = last_sentence(whole[-MAX_SAID:])
        if only_supposes(said) and not {*found.marks} & {"boxed", "answer_tag"}:
            return FinalAnswer(problem="hedged")
        found = with_known_golds(found, golds, whole, prompt)
        found = with_asked_thing(found, golds, whole, prompt)
        found = with_question(found, golds, said, prompt)
        found = with_asked_side(found, golds, whole, prompt)
        found = with_asked_words(found, golds, whole, prompt)
    return found


def _marked_sentence(found: FinalAnswer, whole: str) -> str:
    """Return the sentence that is a completion's marked answer; empty for another answer."""
    if {*found.marks} <= {"phrase", "answer_tag"}:
        return marked_sentence(whole)
    if found.marks not in (("boxed",), ("emphasised",)):
        return ""
    answer = found.answers[0]
    text = _ONE_TEXT.fullmatch(answer)
    content = text[1] if text else answer
    is_whole = _STATEMENT.match(content) is not None and is_sentence(content)
    return content if is_whole and not is_value(content) else ""


def _best(verdicts: Sequence[Verdict]) -> Verdict:
    """Return an answer's best verdict over the golds; a grader's error outranks `INCORRECT`, which it may hide."""
    order = (
        Status.CORRECT,
        Status.ERROR,
        Status.INCORRECT,
        Status.UNPARSEABLE,
        Status.TIMEOUT,
        Status.SKIPPED,
    )
    return min(verdicts, key=lambda verdict: order.index(verdict.status))
