"""Judging pairs of a gold and an answer, each once in a process: from memory, at once, or in a worker."""

from __future__ import annotations

import re
import time
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from trl_grpo_ext.answers.compare.at_once import Algebra, UndecidedError
from trl_grpo_ext.answers.compare.comparison import Comparison
from trl_grpo_ext.answers.echo import Echo, unspaced
from trl_grpo_ext.answers.find.sentences import ELEMENTS
from trl_grpo_ext.answers.policy import SWITCHES, Judge, is_prose
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.choices import Options, letter, read_choice
from trl_grpo_ext.answers.read.numerals import is_whole
from trl_grpo_ext.answers.read.spelling import spelled, without_text_commands
from trl_grpo_ext.answers.read.tree import OF_OWN_TYPE, Number, Words
from trl_grpo_ext.support.memo import Memo
from trl_grpo_ext.verdict import Blame, Status, Verdict, skipped
from trl_grpo_ext.workers.pool import judge_in_workers

# An option with what it says: `B) A square`, `(B) 5`, `B. 5`.
_LED = re.compile(r"(?:\(?([A-J])\)|([A-J])\.)(?:\s|\\[ ,;:!]|~|\\q?quad)+(\S.*)", re.DOTALL)
_SEVERAL = re.compile(r"[A-H](?:(?:\s*(?:,|and)\s*)*[A-H])+")  # a gold such as `A, C` and `AC`
_OUT_OF = re.compile(r"^(\d+) out of (?:the )?(\d+)\b(?=\D*$)")
_MAX_ELEMENTS = 80
_LOWERED = re.compile(r"\\(?:mathrm|text|ce)\b|[\s_{}$*]")
MAX_REMEMBERED = 1 << 16
_WORK = "trl_grpo_ext.answers.work"


class Pair(NamedTuple):
    """One accepted gold and one answer, and how they are compared.

    Attributes:
        gold: As text.
        answer: As text.
        accepted: The switches of the policies that are off.
        decimals: Places that numbers are rounded to.
        echo: Whether the answer stands in the prompt, so that it may only repeat the question, as `reading.echo` says.
    """

    gold: str
    answer: str
    accepted: tuple[str, ...]
    decimals: int
    echo: Echo = ""


_memo: Memo[Hashable, Verdict] = Memo(MAX_REMEMBERED)  # of answers that were killed, too


def forget() -> None:
    """Forget every verdict that this process remembers, and every text that it has read."""
    _memo.clear()
    read.cache_clear()
    spelled.cache_clear()
    unspaced.cache_clear()


def _remember(key: Hashable, verdict: Verdict) -> None:
    """Remember a verdict, unless it is the grader's fault: it may work the next time."""
    if verdict.blame is not Blame.GRADER:
        _memo.put(key, verdict)


def judge_pairs(pairs: Iterable[Pair], timeout: float) -> dict[Pair, Verdict]:
    """The verdict on each distinct pair; one that needs mathematics is killed after `timeout` seconds."""
    known = {pair: _memo.get((pair, timeout)) or _try_at_once(_unlabelled(pair)) for pair in pairs}
    slow = [pair for pair, verdict in known.items() if verdict is None]
    for pair, verdict in zip(slow, in_workers(list(map(_unlabelled, slow)), timeout), strict=True):
        if verdict.status is Status.TIMEOUT:
            verdict = _whose_timeout(pair, verdict, timeout)  # noqa: PLW2901
        _remember((pair, timeout), replace(verdict, seconds=0.0))  # which is what it takes from now on
        known[pair] = verdict
    return {pair: verdict for pair, verdict in known.items() if verdict is not None}


def judge_golds(golds: Sequence[str], timeout: float) -> dict[str, Verdict]:
    """The verdict on each distinct gold against itself, where that needs mathematics."""
    known = {gold: _memo.get(("itself", gold, timeout)) for gold in golds if not _is_plain(gold)}
    new = [gold for gold, verdict in known.items() if verdict is None]
    judged = judge_in_workers(f"{_WORK}:check_gold", [(gold,) for gold in new], timeout=timeout)
    for gold, verdict in zip(new, judged, strict=True):
        _remember(("itself", gold, timeout), verdict)
        known[gold] = verdict
    return {gold: verdict for gold, verdict in known.items() if verdict is not None}


def _is_plain(gold: str) -> bool:
    """Whether a gold is words, a choice or a number, which equals itself."""
    said = read(gold)
    return _choice(gold) is not None or (isinstance(said.node, (Number, Words, *OF_OWN_TYPE)) and not is_prose(said))


def _try_at_once(pair: Pair) -> Verdict | None:
    started = time.perf_counter()
    try:
        verdict = _judge_at_once(pair)
    except Exception:  # such as a number with more digits than Python reads; the worker may know better
        return None
    return verdict and replace(verdict, seconds=time.perf_counter() - started)


def in_workers(pairs: Sequence[Pair], timeout: float) -> list[Verdict]:
    """The verdicts of workers on pairs; with the answer, which a worker that was killed could not say."""
    verdicts = judge_in_workers(f"{_WORK}:compare", [tuple(pair) for pair in pairs], timeout=timeout)
    return [
        replace(verdict, answer=pair.answer) if verdict.answer is None else verdict
        for verdict, pair in zip(verdicts, pairs, strict=True)
    ]


def _whose_timeout(pair: Pair, verdict: Verdict, timeout: float) -> Verdict:
    """The verdict on a pair that timed out: the data's fault if its gold does so against the simplest of answers.

    While that is unknown, because the grader fails, it is the grader's.
    """
    key = ("slow", pair.gold, timeout)
    simplest = _memo.get(key)
    if simplest is None:
        (simplest,) = in_workers([Pair(pair.gold, "1", SWITCHES, pair.decimals)], timeout)
        _remember(key, simplest)
    if simplest.status is Status.TIMEOUT:
        return replace(skipped("gold_timeout", answer=pair.answer), seconds=verdict.seconds)
    return replace(simplest, answer=pair.answer) if simplest.blame is Blame.GRADER else verdict


def _judge_at_once(pair: Pair) -> Verdict | None:
    """The verdict where the types decide, and the worker would say the same; else None."""
    gold, answer = pair.gold, pair.answer
    if gold.rstrip(". ").split() == answer.rstrip(". ").split() or (len(gold) == 1 and answer.strip("(). ") == gold):
        return _compared("", answer, "text")
    if (elements := _elements(gold)) and elements == _elements(answer):
        return _compared("", answer, "text")
    label = _choice(gold)
    if label:
        return _compared("" if _says_option(answer, label, _led(gold)) else "not_equal", answer, "choice")
    if _SEVERAL.fullmatch(gold) and _letters(gold) == _letters(answer):
        return _compared("", answer, "choice")
    asked = read(gold)
    if is_prose(asked):  # which can be said in many ways
        return skipped("gold_prose", answer=answer)
    try:
        reason = Judge(Comparison(Algebra(), pair.decimals), pair.accepted, pair.echo).problem(asked, read(answer))
    except UndecidedError:
        return None
    return _compared(reason, answer, "words" if isinstance(asked.node, Words) else "number")


def _elements(text: str) -> str:
    """A chemical formula without what lowers its numbers, `H2SO4`; empty for any other text."""
    plain = _LOWERED.sub("", spelled(text)) if len(text) <= _MAX_ELEMENTS else ""
    return plain if ELEMENTS.fullmatch(plain) else ""


def _letters(text: str) -> list[str]:
    """The letters of a text such as `C and A`, as they are written and in order; none for any other text."""
    plain = without_text_commands(text)
    return sorted(filter(str.isalpha, plain.replace("and", ""))) if _SEVERAL.fullmatch(plain) else []


def _led(text: str) -> tuple[str, str] | None:
    """The label of an option and what it says; None for what is no option with its text."""
    if ")" not in text and ". " not in text:
        return None
    found = _LED.fullmatch(without_text_commands(text).strip())
    return (found[1] or found[2], found[3]) if found else None


def _unlabelled(pair: Pair) -> Pair:
    """The pair without the label of an option before its answer, unless its gold is one: `(C) 9/2` for 9/2.

    `3 out of 8` is 3 where the gold is an integer, and else a fraction.
    """
    led = _led(pair.answer)
    if led and not _choice(pair.gold):
        return pair._replace(answer=led[1])
    if _OUT_OF.search(pair.answer):
        return pair._replace(answer=_OUT_OF.sub(r"\1" if is_whole(read(pair.gold).node) else r"\1/\2", pair.answer))
    return pair


def _choice(text: str) -> str | None:
    """The capital letter, A to J, that a multiple choice gold is; None if it is none."""
    led = _led(text)
    label = led[0] if led else letter(text)
    return label if label and "A" <= label <= "J" else None


def _says_option(answer: str, label: str, gold: tuple[str, str] | None) -> bool:
    """Whether an answer chooses this letter, or says the text that a gold has beside it, and no other number.

    A letter is chosen as it is written, or small in brackets.
    """
    is_written = label in answer or f"({label.lower()})" in answer
    chooses = is_written and read_choice(answer, Options()).labels == {label}
    if gold is None:
        return chooses
    text, led = read(gold[1]), _led(answer)
    if led and isinstance(text.node, Number) and isinstance(read(led[1]).node, Number):
        return led[0] == label and read(led[1]) == text
    return chooses or read(answer) == text


def _compared(reason: str, answer: str, compared: str) -> Verdict:
    return Verdict(
        status=Status.INCORRECT if reason else Status.CORRECT,
        score=0.0 if reason else 1.0,
        answer=answer,
        reason=reason,
        details={"compared": f"as {compared}"},
    )
