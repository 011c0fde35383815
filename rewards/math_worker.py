"""What a worker does with one pair of answers. It may take for ever, and so runs nowhere else.

math-verify's own timeouts are off: they need signals and the main thread, and miss what hangs outside of them. The
pool's deadline and SIGKILL take their place.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
from sympy import Basic, MatrixBase

from trl_grpo_ext.rewards.answer_text import is_prose
from trl_grpo_ext.verdict import Status, Verdict, skipped

# It warns once that timeouts are off; they are not.
logging.getLogger("math_verify").setLevel(logging.ERROR)

_BOXED_FIRST = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())


def compare(gold: str, answer: str, boxed: bool) -> dict[str, Any]:
    """The verdict's record for an answer, the content of a box or the text that ends with it."""
    golds = _parse_gold(gold)
    if not golds:
        return skipped("gold_unparseable").to_record()
    parsed = parse(_box(answer) if boxed else answer, _BOXED_FIRST, parsing_timeout=None)
    if not parsed:
        return Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_answer").to_record()
    extracted = answer if boxed else next((item for item in parsed if isinstance(item, str)), None)
    equal = verify(list(golds), parsed, timeout_seconds=None)
    status, score, reason = (Status.CORRECT, 1.0, "") if equal else (Status.INCORRECT, 0.0, "not_equal")
    return Verdict(status=status, score=score, answer=extracted, reason=reason).to_record()


@lru_cache(maxsize=1024)
def _parse_gold(gold: str) -> tuple[Basic | MatrixBase, ...]:
    # Raw LaTeX is misread unless it stands in a box (Math-Verify#56); a sentence is misread if it does.
    parsed = parse(gold if is_prose(gold) else _box(gold), _BOXED_FIRST, parsing_timeout=None)
    return tuple(item for item in parsed if not isinstance(item, str))


def _box(text: str) -> str:
    return rf"\boxed{{{text}}}"


def _worker_is_warm() -> None:
    """Parse once at import, outside any answer's deadline: the first parse builds tables for a tenth of a second."""
    verify(_parse_gold("1"), parse(_box("2"), _BOXED_FIRST, parsing_timeout=None), timeout_seconds=None)


_worker_is_warm()
