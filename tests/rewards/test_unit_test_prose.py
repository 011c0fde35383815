"""Formulas around a program, and prose and special tokens behind it, are no part of the program."""

from __future__ import annotations

import pytest

from trl_grpo_ext.programs.suites.program_text import extract_program
from trl_grpo_ext.programs.suites.prose_behind import without_prose

FENCE = "`" * 3
PROGRAM = "def f(x):\n    return x + 1\n"
BODY = "    return x + 1\n"


@pytest.mark.parametrize(
    "answer",
    [
        "\\boxed{FENCEpython\nPROGRAMFENCE}",
        "\\boxed{FENCE\nPROGRAMFENCE}",
        "\\boxed{\nFENCEpython\nPROGRAMFENCE\n}",
        "$$\\boxed{FENCEpy\nPROGRAMFENCE}$$",
        "\\[\\boxed{FENCEpython\nPROGRAMFENCE}\\]",
        "So \\(\\boxed{\\text{FENCEpython\nPROGRAMFENCE}}\\).<|im_end|>",
        "FENCEpython\nx = 1\nFENCE\nBetter: \\fbox{FENCEpython\nPROGRAMFENCE}\nIt adds one.",
    ],
)
def test_a_formula_may_hold_the_block_of_a_program(answer: str) -> None:
    text = answer.replace("FENCE", FENCE).replace("PROGRAM", PROGRAM)
    assert extract_program(text, ["f"]) == PROGRAM


def test_a_string_of_a_program_may_hold_the_end_of_a_formula() -> None:
    program = f'def f(x):\n    return f"""{{x}}{FENCE}}}$"""\n'
    assert extract_program(f"{FENCE}python\n{program}{FENCE}", ["f"]) == program


@pytest.mark.parametrize(
    "token", ["<|im_end|>", "</s>", "<end_of_turn>", "<｜end▁of▁sentence｜>"]
)
@pytest.mark.parametrize("before", ["", "\n", "<|eot_id|>\n"])
@pytest.mark.parametrize("opening", ["", f"{FENCE}python\n"])
def test_special_tokens_at_the_end_are_no_part_of_a_program(
    opening: str, before: str, token: str
) -> None:
    program = extract_program(f"{opening}{PROGRAM.rstrip()}{before}{token}\n")
    assert program is not None
    assert program.strip() == PROGRAM.strip()


def test_a_token_within_a_program_stays() -> None:
    program = "END = '<|im_end|>'\n"
    assert extract_program(program) == program


@pytest.mark.parametrize(
    "prose",
    [
        "This function works by adding one.",
        "It's simple.",
        "Explanation:\n- x is taken",
        "Done.",
        "1. The function takes x.",
        "Write a function that subtracts one.\n\ndef f(x):\n    return x - 1",
        "`f` adds one.",
        "Note: It's O(n).",
        "Complexity: Python's sum is linear\n\nExplanation: Let's see.",
        "Hint: the lists' ends",
        "Output: [2].",
        "Runtime: O(n).",
        "Caution: None!",
        "Question: How would you test this?",
        "<|im_end|>\n<|im_start|>user\nThanks",
    ],
)
@pytest.mark.parametrize("code", [BODY, PROGRAM, f"{BODY}\nassert f(1) == 2\n"])
def test_prose_behind_a_program_is_no_part_of_it(code: str, prose: str) -> None:
    assert extract_program(f"{code}\n{prose}\n") == f"{code}\n"


@pytest.mark.parametrize(
    "code",
    [
        "a, b = 1, 2",
        "x in xs and y",
        "if'a' in x: pass\nelse:\n    pass",
        "rb'a b c'",
        "name: u'It' = 1",
        "name: not'a' in x",
        "name: Literal['a'] = 'b'",
        "name: float = 5.",
        "name: O(n)  # It's so.",
        "print('It adds one')  # This is it.",
        "match x:\n    case 1: pass",
        "type Names = list[str]",
        "'''\nThis is a text.\n'''",
        "xs = [\n1.\n]",
        "{\nname:\n1\n}",
        "async def g(): return lambda x: not x",
    ],
)
def test_a_line_that_python_can_have_is_no_prose(code: str) -> None:
    assert without_prose(f"{PROGRAM}{code}\n") == f"{PROGRAM}{code}\n"


def test_prose_in_a_program_ends_it() -> None:
    assert without_prose("    y = x\nThis is the step.\n    return y\n") == "    y = x\n"


def test_a_text_that_begins_with_prose_stays() -> None:
    assert without_prose("Here is it.\nIt adds one.") == "Here is it.\nIt adds one."
