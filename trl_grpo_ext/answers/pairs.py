"""Judge pairs of gold and answer: remembered verdicts first, easy pairs in this process, hard pairs in workers.

A pair that needs a worker is judged only once per process, unless the grader fails: its verdict is remembered.
"""

from __future__ import annotations

import re
import time
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from trl_grpo_ext.answers.acceptance import SWITCHES, Echo, Judge, is_prose, unspaced
from trl_grpo_ext.answers.compare.amounts import Algebra, UndecidedError
from trl_grpo_ext.answers.compare.comparison import Comparison
from trl_grpo_ext.answers.find.named_values import in_order
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.choices import (
    Labelled,
    Options,
    letter,
    read_choice,
    split_label,
)
from trl_grpo_ext.answers.read.numerals import is_whole
from trl_grpo_ext.answers.read.spelling import spelled, without_text_commands
from trl_grpo_ext.answers.read.tree import OF_OWN_TYPE, Node, Number, Quantity, Words
from trl_grpo_ext.support.memo import Memo
from trl_grpo_ext.verdict import Blame, Status, Verdict, skipped
from trl_grpo_ext.workers.pool import judge_in_workers

# Several option letters: `A, C`, `AC`.
_SEVERAL = re.compile(r"[A-H](?:(?:\s*(?:,|and)\s*)*[A-H])+")
# "3 out of 10" is the count 3, or the share 3/10.
OUT_OF = re.compile(r"^(\d[\d,]*) (?:out of|in) (?:the )?(\d[\d,]*)\b(?=\D*$)")
MAX_REMEMBERED = 1 << 16
_WORK = "trl_grpo_ext.answers.work"


class Pair(NamedTuple):
    """A gold with an answer and comparison settings.

    Attributes:
        gold: The accepted gold, as text.
        answer: The completion's answer, as text.
        accepted: Switches of `policy` that allow an otherwise refused kind of answer.
        decimals: Decimal places to which numbers must agree.
        echo: How much of the prompt's formula the answer copies; see `echo.echo`.
    """

    gold: str
    answer: str
    accepted: tuple[str, ...]
    decimals: int
    echo: Echo = ""


# Verdicts of earlier pairs, timeouts included.
_memo: Memo[Hashable, Verdict] = Memo(MAX_REMEMBERED)


def forget() -> None:
    """Clear this process's memory of verdicts, and the caches of parsed and spelled texts."""
    _memo.clear()
    read.cache_clear()
    spelled.cache_clear()
    unspaced.cache_clear()


def _remember(key: Hashable, verdict: Verdict) -> None:
    """Store a verdict, except for a grader's error, which may not recur."""
    if verdict.blame is not Blame.GRADER:
        _memo.put(key, verdict)


def judge_pairs(pairs: Iterable[Pair], timeout: float) -> dict[Pair, Verdict]:
    """Judge each distinct pair; a worker that needs more than `timeout` seconds for a pair is killed."""
    known = {
        pair: _memo.get((pair, timeout)) or _try_at_once(_unlabelled(pair))
        for pair in pairs
    }
    slow = [pair for pair, verdict in known.items() if verdict is None]
    for pair, verdict in zip(
        slow, in_workers(list(map(_unlabelled, slow)), timeout), strict=True
    ):
        if verdict.status is Status.TIMEOUT:
            verdict = _whose_timeout(pair, verdict, timeout)  # noqa: PLW2901
        # A verdict from memory takes no time.
        _remember((pair, timeout), replace(verdict, seconds=0.0))
        known[pair] = verdict
    return {pair: verdict for pair, verdict in known.items() if verdict is not None}


def judge_golds(golds: Sequence[str], timeout: float) -> dict[str, Verdict]:
    """Compare each distinct gold with itself in a worker; skip golds that are plain values and need no check."""
    known = {
        gold: _memo.get(("itself", gold, timeout)) for gold in golds if not _is_plain(gold)
    }
    new = [gold for gold, verdict in known.items() if verdict is None]
    judged = judge_in_workers(
        f"{_WORK}:check_gold", [(in_order(gold, gold),) for gold in new], timeout=timeout
    )
    for gold, verdict in zip(new, judged, strict=True):
        _remember(("itself", gold, timeout), verdict)
        known[gold] = verdict
    return {gold: verdict for gold, verdict in known.items() if verdict is not None}


def _is_plain(gold: str) -> bool:
    """Check whether a gold is a word, a choice, a number, a time, date, range or remainder, and so equals itself."""
    if _choice(gold) is not None:
        return True
    answer = read(gold)
    return isinstance(answer.node, (Number, Words, *OF_OWN_TYPE)) and not is_prose(answer)


def _try_at_once(pair: Pair) -> Verdict | None:
    started = time.perf_counter()
    try:
        verdict = _judge_at_once(pair)
    # Python refuses numbers with thousands of digits, for example; the worker may succeed.
    except Exception:
        return None
    return verdict and replace(verdict, seconds=time.perf_counter() - started)


def in_workers(pairs: Sequence[Pair], timeout: float) -> list[Verdict]:
    """Judge pairs in worker processes; add the answer to a verdict whose worker was killed before it could."""
    verdicts = judge_in_workers(
        f"{_WORK}:compare", list(map(tuple, pairs)), timeout=timeout
    )
    answered = []
    for verdict, pair in zip(verdicts, pairs, strict=True):
        has_answer = verdict.answer is not None
        answered.append(verdict if has_answer else replace(verdict, answer=pair.answer))
    return answered


def _whose_timeout(pair: Pair, verdict: Verdict, timeout: float) -> Verdict:
    """Blame a pair's timeout on data, grader or policy.

    The data is to blame if the gold times out against the answer `1` too: the pair is skipped as `gold_timeout`. If the
    grader fails on that test, its error is returned. Otherwise the answer is to blame, and its timeout verdict stays.
    """
    key = ("slow", pair.gold, timeout)
    simplest = _memo.get(key)
    if simplest is None:
        # With all switches on, so that no rule refuses the `1` before it is compared.
        (simplest,) = in_workers([Pair(pair.gold, "1", SWITCHES, pair.decimals)], timeout)
        _remember(key, simplest)
    if simplest.status is Status.TIMEOUT:
        return replace(skipped("gold_timeout", answer=pair.answer), seconds=verdict.seconds)
    if simplest.blame is Blame.GRADER:
        return replace(simplest, answer=pair.answer)
    return verdict


def _judge_at_once(pair: Pair) -> Verdict | None:
    """Judge a pair in this process if types decide; None if only a worker's algebra can."""
    gold = pair.gold
    answer = pair.answer
    # Equal texts are equal answers, also if nothing can read them.
    is_same_text = gold.rstrip(". ").split() == answer.rstrip(". ").split()
    if is_same_text or (len(gold) == 1 and answer.strip("(). ") == gold):
        return _compared("", answer, "text")
    label = _choice(gold)
    if label:
        is_chosen = _says_option(answer, label, split_label(gold))
        return _compared("" if is_chosen else "not_equal", answer, "choice")
    # `C and A` is `A and C`: the letters of an answer have no order.
    if _SEVERAL.fullmatch(gold) and _letters(gold) == _letters(answer):
        return _compared("", answer, "choice")
    asked = read(gold)
    # No rule compares prose: a sentence has many paraphrases.
    if is_prose(asked):
        return skipped("gold_prose", answer=answer)
    try:
        reason = Judge(
            Comparison(Algebra(), pair.decimals), pair.accepted, pair.echo
        ).problem(asked, read(answer))
    except UndecidedError:
        return None
    return _compared(reason, answer, _kind(asked.node))


def _kind(gold: Node) -> str:
    """Name the kind of a comparison with a gold for the verdict's details: `words`, `number` or `mathematics`."""
    if isinstance(gold, Words):
        return "words"
    is_number = isinstance(gold, (Number, Quantity, *OF_OWN_TYPE))
    return "number" if is_number else "mathematics"


def _letters(text: str) -> list[str]:
    """Return the option letters of `C and A` in alphabetical order; an empty list for any other text."""
    plain = without_text_commands(text)
    if not _SEVERAL.fullmatch(plain):
        return []
    return sorted(filter(str.isalpha, plain.replace("and", "")))


def _unlabelled(pair: Pair) -> Pair:
    """Remove an option's label from a pair's answer, unless the gold is a label: `(C) 9/2` becomes `9/2`.

    `3 out of 8` becomes `3` if the gold is an integer, else `3/8`.
    """
    led = split_label(pair.answer)
    if led and not _choice(pair.gold):
        return pair._replace(answer=led.text)
    if OUT_OF.search(pair.answer):
        form = r"\1" if is_whole(read(pair.gold).node) else r"\1/\2"
        return pair._replace(answer=OUT_OF.sub(form, pair.answer))
    return pair


def _choice(text: str) -> str | None:
    """Return a multiple-choice gold's capital letter, A to J; None for any other gold."""
    led = split_label(text)
    label = led.label if led else letter(text)
    if label and "A" <= label <= "J":
        return label
    return None


def _says_option(answer: str, label: str, gold: Labelled | None) -> bool:
    """Check whether an answer chooses an option by letter, or repeats the option's text without another number.

    The answer may have the letter in capitals, or in lower case inside brackets: `B`, `(b)`.
    """
    is_written = label in answer or f"({label.lower()})" in answer
    chooses = is_written and read_choice(answer, Options()).labels == {label}
    if gold is None:
        return chooses
    text = read(gold.text)
    led = split_label(answer)
    # `(B) 5` does not say the gold `(B) 7`: of two numbers, the letter alone decides nothing.
    if led and isinstance(text.node, Number) and isinstance(read(led.text).node, Number):
        return led.label == label and read(led.text) == text
    return chooses or read(answer) == text


def _compared(reason: str, answer: str, compared: str) -> Verdict:
    return Verdict(
        status=Status.INCORRECT if reason else Status.CORRECT,
        score=0.0 if reason else 1.0,
        answer=answer,
        reason=reason,
        details={"compared": f"as {compared}"},
    )
