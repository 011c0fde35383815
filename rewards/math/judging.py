"""Judging pairs of a gold and an answer, each once in a process: from memory, at once, or in a worker."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from trl_grpo_ext.rewards.answers.choices import Options, letter, read_choice
from trl_grpo_ext.rewards.answers.latex import is_sentence, standard, without_text_commands
from trl_grpo_ext.rewards.answers.numbers import base_number, has_decimal_comma, is_date, number
from trl_grpo_ext.rewards.math.refusals import SWITCHES, UNLIKE, bare_value, kind, violation
from trl_grpo_ext.verdict import Blame, Status, Verdict, skipped

MAX_REMEMBERED = 1 << 16
_WORK = "trl_grpo_ext.rewards.math.comparison"
_WORDS = re.compile(r"[A-Za-z][A-Za-z .,'&-]*")
_MATH_NAMES = frozenset({"e", "i", "pi", "inf", "infty", "infinity", "dne", "x", "y", "z"})


class Pair(NamedTuple):
    """One accepted gold and one answer, and how they are compared.

    Attributes:
        gold: As text.
        answer: As text.
        rule: By what the answer was found.
        accepted: The switches of the policies that are off.
        decimals: Places that numbers are rounded to.
    """

    gold: str
    answer: str
    rule: str
    accepted: tuple[str, ...]
    decimals: int


class Memo:
    """Remembers verdicts, those of answers that were killed included; forgets the one unused for longest.

    What was the grader's fault is not remembered: it may work the next time.
    """

    def __init__(self, size: int = MAX_REMEMBERED) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._verdicts: OrderedDict[Hashable, Verdict] = OrderedDict()

    def get(self, key: Hashable) -> Verdict | None:
        """The verdict of this key, or None."""
        with self._lock:
            if key in self._verdicts:
                self._verdicts.move_to_end(key)
            return self._verdicts.get(key)

    def put(self, key: Hashable, verdict: Verdict) -> None:
        """Remember a verdict, unless it blames the grader."""
        if verdict.blame is Blame.GRADER:
            return
        with self._lock:
            self._verdicts[key] = verdict
            self._verdicts.move_to_end(key)
            while len(self._verdicts) > self._size:
                self._verdicts.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._verdicts.clear()


_memo = Memo()


def forget() -> None:
    """Forget every verdict that this process remembers, and every text that it has read."""
    _memo.clear()
    standard.cache_clear()


def judge_pairs(pairs: Iterable[Pair], timeout: float) -> dict[Pair, Verdict]:
    """The verdict on each distinct pair; one that needs mathematics is killed after `timeout` seconds."""
    known = {pair: _memo.get((pair, timeout)) or _try_at_once(pair) for pair in pairs}
    slow = [pair for pair, verdict in known.items() if verdict is None]
    for pair, verdict in zip(slow, in_workers(slow, timeout), strict=True):
        if verdict.status is Status.TIMEOUT and _gold_is_slow(pair, timeout):
            verdict = replace(skipped("gold_timeout", answer=pair.answer), seconds=verdict.seconds)  # noqa: PLW2901
        _memo.put((pair, timeout), replace(verdict, seconds=0.0))  # which is what it takes from now on
        known[pair] = verdict
    return {pair: verdict for pair, verdict in known.items() if verdict is not None}


def judge_golds(golds: Sequence[str], timeout: float) -> dict[str, Verdict]:
    """The verdict on each distinct gold against itself, where that needs mathematics."""
    known = {gold: _memo.get(("itself", gold, timeout)) for gold in golds if not _is_plain(gold)}
    new = [gold for gold, verdict in known.items() if verdict is None]
    for gold, verdict in zip(new, _run("check_gold", [(gold,) for gold in new], timeout), strict=True):
        _memo.put(("itself", gold, timeout), verdict)
        known[gold] = verdict
    return {gold: verdict for gold, verdict in known.items() if verdict is not None}


def _is_plain(gold: str) -> bool:
    """Whether a gold is words, a choice or a number, which equals itself."""
    return not is_sentence(gold) and (_choice(gold) or words(gold) or number(gold)) is not None


def _try_at_once(pair: Pair) -> Verdict | None:
    started = time.perf_counter()
    try:
        verdict = _judge_at_once(pair)
    except Exception:  # such as a number with more digits than Python reads; the worker may know better
        return None
    return verdict and replace(verdict, seconds=time.perf_counter() - started)


def in_workers(pairs: Sequence[Pair], timeout: float) -> list[Verdict]:
    """The verdicts of workers on pairs; with the answer, which a worker that was killed could not say."""
    verdicts = _run("compare", [tuple(pair) for pair in pairs], timeout)
    return [
        replace(verdict, answer=pair.answer) if verdict.answer is None and pair.rule != "last_expression" else verdict
        for verdict, pair in zip(verdicts, pairs, strict=True)
    ]


def _run(function: str, arguments: Sequence[tuple[Any, ...]], timeout: float) -> list[Verdict]:
    from trl_grpo_ext.workers.pool import judge_in_workers

    return judge_in_workers(f"{_WORK}:{function}", arguments, timeout=timeout)


def _gold_is_slow(pair: Pair, timeout: float) -> bool:
    """Whether a gold times out against the simplest of answers, so that no answer is to blame."""
    key = ("slow", pair.gold, timeout)
    verdict = _memo.get(key)
    if verdict is None:
        (verdict,) = in_workers([Pair(pair.gold, "1", "boxed", SWITCHES, pair.decimals)], timeout)
        _memo.put(key, verdict)
    return verdict.status is Status.TIMEOUT


def _judge_at_once(pair: Pair) -> Verdict | None:
    """The verdict where string work suffices, and the worker would say the same; else None."""
    gold, answer = pair.gold, pair.answer
    as_written = _as_written(gold, answer)
    if as_written is not None:
        return as_written
    if is_sentence(gold):
        return None
    label, said = _choice(gold), words(gold)
    if pair.rule == "last_expression":  # a text in which the answer still has to be found
        unmarked = Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_marked_answer")
        return unmarked if label or said else None
    if label:
        return _compared(_chooses(answer, label), answer, "choice")
    if said:
        return _compared(words(answer) == said, answer, "words")
    expected, given = number(gold), number(answer)
    if expected and given and (expected.value == given.value or (expected.exact and given.exact)):
        return _compared(expected.value == given.value, answer, "number")
    if not is_sentence(answer) and {kind(gold), kind(answer)} in UNLIKE:
        return _compared(False, answer, "kind")
    return _measured_alike(gold, answer, frozenset(pair.accepted))


def _as_written(gold: str, answer: str) -> Verdict | None:
    """The verdict of answers that count as they are written: the same text, base-n numbers, dates."""
    if standard(gold) == standard(answer):
        return _compared(True, answer, "text")
    if has_decimal_comma(gold, answer):
        return _compared(True, answer, "number")
    bases = base_number(gold), base_number(answer)
    if bases[0] and bases[1]:
        return _compared(bases[0] == bases[1], answer, "number")
    return _compared(False, answer, "text") if is_date(gold) else None


def words(text: str) -> str | None:
    r"""The words that an answer is, in one form; None if it is mathematics.

    Example:
        >>> [words(text) for text in ("Yes", r"\text{Tuesday}", "pi", "x+1", "forty  two.")]
        ['yes', 'tuesday', None, None, 'forty two']
    """
    plain = " ".join(without_text_commands(standard(text)).split()).rstrip(".")
    if not _WORDS.fullmatch(plain) or plain.casefold() in _MATH_NAMES or (len(plain) == 1 and plain.islower()):
        return None
    return plain.casefold()


def _choice(text: str) -> str | None:
    """The capital letter, A to J, that a multiple choice gold is; None if it is none."""
    return label if (label := letter(text)) and "A" <= label <= "J" else None


def _chooses(answer: str, label: str) -> bool:
    """Whether an answer chooses this letter, as it is written, and no other."""
    return label in answer and read_choice(answer, Options()).labels == {label}


def _measured_alike(gold: str, answer: str, accepted: frozenset[str]) -> Verdict | None:
    """CORRECT for the same number with a unit, a sign or a variable's name around it; None where that is not sure."""
    expected, given = number(bare_value(gold)), number(bare_value(answer))
    if "=" in answer or not (expected and given) or expected.value != given.value:
        return None
    reason = violation(gold, answer, accepted)
    return _compared(not reason, answer, "number", reason)


def _compared(right: bool, answer: str, compared: str, reason: str = "not_equal") -> Verdict:
    details = {"compared": f"as {compared}", "read_as": standard(answer)}
    if right:
        return Verdict(status=Status.CORRECT, score=1.0, answer=answer, details=details)
    return Verdict(status=Status.INCORRECT, score=0.0, answer=answer, reason=reason, details=details)
