"""Code in a fence: the score table, other languages, and programs made to exhaust the compiler."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext import Sample, Status
from trl_grpo_ext.rewards.formats.code_format import (
    MAX_CHARS,
    CodeFormatVerifier,
    code_format_reward,
)


def fenced(code: str, tag: str = "python") -> str:
    return f"```{tag}\n{code}\n```"


GOOD = fenced("print(1)")
TABLE = [
    (GOOD, 1, ""),
    (f"<think>{fenced('x = (')}</think>Here:\n{GOOD}\nIt prints 1.", 1, ""),
    (fenced("print(1)", "py") + "\n" + fenced("1", ""), 1, ""),
    ("1. So:\n   ```python\n   def f():\n       return 1\n   ```", 1, ""),
    ("print(1)", 0, "no_code_block"),
    (fenced("print(1)", ""), 0, "no_code_block"),
    (fenced("print(1)", "java"), 0, "no_code_block"),
    (GOOD + "\n" + GOOD, 0, "several_code_blocks"),
    ("```python\nprint(1)", 0, "unclosed_fence"),
    (fenced(" \n"), 0, "empty_code"),
    (fenced("print(1"), 0, "does_not_compile"),
    (fenced("return 1"), 0, "does_not_compile"),
    (fenced("\x00 = 1"), 0, "does_not_compile"),
    (fenced("x = '\ud800'"), 0, "does_not_compile"),
    (f"<think>{GOOD}", 0, "unclosed_think"),
    (f"<think>{GOOD}</think>", 0, "no_answer"),
    (f"<think>{GOOD}</think>As above.", 0, "no_code_block"),
    (fenced("x = 1\n" * MAX_CHARS), 0, "code_too_long"),
]


@pytest.mark.parametrize(("text", "score", "reason"), TABLE)
def test_one_block_that_compiles_and_does_something_scores_1(
    text: str, score: float, reason: str
) -> None:
    (verdict,) = code_format_reward.judge([text])
    assert (verdict.score, verdict.reason) == (score, reason)


@pytest.mark.parametrize(
    "code",
    [
        "# so",
        "pass",
        "...",
        "'''so'''",
        "x",
        "1 + 1",
        "import os",
        "def f():\n    '''Do it.'''\n    pass",
        "def f():\n    return None",
        "def f():\n    raise NotImplementedError('so')",
        "class A:\n    def f(self):\n        ...",
        "if True:\n    pass\nelse:\n    '''so'''",
    ],
)
def test_code_that_does_nothing_scores_0(code: str) -> None:
    (verdict,) = code_format_reward.judge([fenced(code)])
    assert (verdict.score, verdict.reason) == (0.0, "trivial_code")


@pytest.mark.parametrize(
    "code",
    [
        "x = 1",
        "def f():\n    return 1",
        "class A:\n    x: int",
        "raise ValueError",
        "f()",
        "def f():\n    yield",
        "'\\d'; f()",
    ],
)
def test_code_that_does_anything_scores_1(code: str) -> None:
    assert code_format_reward([fenced(code)]) == [1.0]


def test_several_blocks_may_be_allowed_of_which_each_must_do() -> None:
    verifier = CodeFormatVerifier(blocks="any")
    assert verifier([GOOD + "\n" + GOOD, GOOD + "\n" + fenced("x ="), "print(1)"]) == [
        1.0,
        0.0,
        0.0,
    ]


@pytest.mark.parametrize(
    ("language", "tag"),
    [("javascript", "js"), ("cpp", "C++"), ("sql", "sql"), ("sh", "bash")],
)
def test_of_other_languages_a_block_must_only_be_there(language: str, tag: str) -> None:
    verifier = CodeFormatVerifier(language=language)
    assert verifier([fenced("anything (", tag), fenced(" ", tag), GOOD]) == [1.0, 0.0, 0.0]


def test_python_need_not_compile_if_so_asked() -> None:
    assert CodeFormatVerifier(compiles=False)([fenced("print(1")]) == [1.0]


@pytest.mark.parametrize(
    "code",
    [
        "-" * 45_000 + "1",
        "(" * 45_000,
        "a" + ".b" * 22_000,
        "a" + "()" * 22_000,
        "x = " + "[0] + " * 8_000 + "[0]",
        "if 1: x = 1\n" + "elif 1: x = 1\n" * 3_000,
        "9" * 45_000,
    ],
    ids=["unary", "parentheses", "attributes", "calls", "sum", "elif", "digits"],
)
def test_code_that_exhausts_the_compiler_is_the_policys_fault(code: str) -> None:
    (verdict,) = code_format_reward.judge([fenced(code)])
    # Compilers since 3.12 cope with some of them.
    if sys.version_info >= (3, 12) and verdict.score == 1.0:
        assert code.startswith(("x = ", "if "))
        return
    assert (verdict.status, verdict.score, verdict.reason) == (
        Status.INCORRECT,
        0.0,
        "does_not_compile",
    )


@pytest.mark.slow
def test_code_on_which_the_compiler_takes_too_long_is_a_timeout() -> None:
    slow = fenced("import " + "a." * 24_000 + "b")
    hostile, fine = CodeFormatVerifier(timeout=0.3).judge([slow, GOOD])
    # Or, on a machine so busy that the worker gets no CPU, the grader's fault; test_regex.py holds out for TIMEOUT.
    assert (hostile.reason, hostile.score) in [("timeout", 0.0), ("worker_starved", None)]
    assert fine.score == 1.0


def test_nothing_of_the_code_is_run() -> None:
    assert code_format_reward(
        [fenced("raise SystemExit"), fenced("while True:\n    x = 1")]
    ) == [1.0, 1.0]


def test_thinking_that_the_prompt_opened_does_not_count() -> None:
    assert (
        code_format_reward.verify(Sample(text=GOOD, prefill="<think>")).reason
        == "unclosed_think"
    )


@settings(max_examples=50)
@given(
    st.lists(
        st.text()
        | st.text("`~pyton\n =()'\\\x00\ud800", max_size=30).map(lambda code: fenced(code)),
        max_size=3,
    )
)
def test_any_texts_get_a_score_each(texts: list[str]) -> None:
    assert [score in (0.0, 1.0) for score in code_format_reward(texts)] == [True] * len(
        texts
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"language": ""}, "lower case"),
        ({"language": "Python"}, "lower case"),
        ({"blocks": "on"}, "Did you mean `one`"),
        ({"timeout": -1}, "above 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        CodeFormatVerifier(**arguments)
