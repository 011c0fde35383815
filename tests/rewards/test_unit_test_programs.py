"""Extraction of a complete program from a completion."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import pytest
from growth import grows_linearly
from hypothesis import given
from hypothesis import strategies as st
from suite_harness import FENCE, STUB

from trl_grpo_ext.programs.suites.blocks import fenced_blocks, with_helpers
from trl_grpo_ext.programs.suites.columns import Columns
from trl_grpo_ext.programs.suites.free_names import assigned_names, free_names
from trl_grpo_ext.programs.suites.program_text import (
    complete_program,
    extract_program,
    prompt_code,
)
from trl_grpo_ext.programs.suites.read_row import read_row
from trl_grpo_ext.rewards import UnitTestVerifier
from trl_grpo_ext.rewards.unit_tests.verifier import program_of
from trl_grpo_ext.sample import Sample


@pytest.mark.parametrize(
    ("text", "program"),
    [
        (f"{FENCE}python\nx = 1\n{FENCE}", "x = 1\n"),
        (f"{FENCE}Python\nx = 1\n{FENCE}\nand\n{FENCE}py\nx = 2\n{FENCE}", "x = 2\n"),
        (f"{FENCE}python\nx = 1\n{FENCE}\nprints\n{FENCE}\n1\n{FENCE}", "x = 1\n"),
        (f"{FENCE}\nx = 1\n{FENCE}\n{FENCE}js\ny\n{FENCE}", "y\n"),
        (f"{FENCE}python3\nx = 1\nx = 2", "x = 1\nx = 2\n"),
        (f"{FENCE}{{.python}}\nx = 1\n{FENCE}", "x = 1\n"),
        ("~~~py\nx = 1\n~~~", "x = 1\n"),
        (f"~~~py\nx = '{FENCE}'\n{FENCE}\n~~~", f"x = '{FENCE}'\n{FENCE}\n"),
        (f"````python\n{FENCE}\n````", f"{FENCE}\n"),
        (
            f"{FENCE}python\nx = 1\n    {FENCE}\n    {FENCE}py\n{FENCE}",
            f"x = 1\n    {FENCE}\n    {FENCE}py\n",
        ),
        (f"1. So:\n   {FENCE}python\n   if x:\n       y\n   {FENCE}", "if x:\n    y\n"),
        (
            f"> So:\n>\n> {FENCE}python\n> if x:\n>     y\n>\n> {FENCE}\n",
            "if x:\n    y\n",
        ),
        (f"> > {FENCE}python\n> > x = (1\n> >   > 2)\n> > {FENCE}", "x = (1\n  > 2)\n"),
        (
            f"> 1. {FENCE}python\n>    x = 1{FENCE}\n\nIt is:\n{FENCE}\n1\n{FENCE}",
            "x = 1\n",
        ),
        (f"> {FENCE}python\n> x = 1\nand\n{FENCE}python\nx = 2\n{FENCE}", "x = 2\n"),
        (f"> {FENCE}python\nx = 1\n{FENCE}", "x = 1\n"),
        (
            f"{FENCE}python\nx = '''\n> {FENCE}py\n> 1\n> {FENCE}\n'''\n{FENCE}",
            f"x = '''\n> {FENCE}py\n> 1\n> {FENCE}\n'''\n",
        ),
        (f"{FENCE}python\r\nx = 1\r\n{FENCE}\r\n", "x = 1\n"),
        (f"{FENCE}python\nx = 1\n{FENCE}python\nx = 2\n{FENCE}", "x = 2\n"),
        (f"{FENCE}python\nx = 1\n{FENCE}\n{FENCE}python\n", "x = 1\n"),
        (f"````markdown\n{FENCE}python\nx = 1\n{FENCE}\n````", "x = 1\n"),
        (f"Say {FENCE}x{FENCE} or\n{FENCE}python\nx = 1\n{FENCE}", "x = 1\n"),
        ("x = 1\n", "x = 1\n"),
        ("x = 1\n[DONE]\nx = 2\n", "x = 1"),
        ("[BEGIN]\nx = 1\n[DONE]", "x = 1"),
        (
            "Here it is:\n[BEGIN]\n    return 1\n[DONE]\n[BEGIN]\nx = 2\n[DONE]",
            "    return 1",
        ),
        ("\n\n    return 1\n", "    return 1\n"),
        (f"{FENCE}python\n\n{FENCE}", None),
        (" \n ", None),
        ("", None),
    ],
)
def test_the_program_is_the_last_python_block_or_all_of_the_text(
    text: str, program: str | None
) -> None:
    assert extract_program(text) == program


@pytest.mark.parametrize(
    "answer",
    [
        f"<answer>{FENCE}python\n{{}}{FENCE}</answer>",
        f"<answer>{FENCE}\n{{}}{FENCE}</answer>\nIt adds them.",
        f"<think>1 + 2</think><answer> {FENCE}py\n{{}}\n{FENCE}\n</answer>",
        f"Here's the code: {FENCE}python\n{{}}{FENCE}\nIt adds them.",
        f"Here: {FENCE}\n{{}}{FENCE}",
        f"I use {FENCE}python\n{{}}\n{FENCE}",
        f"- {FENCE}python\n{{}}\n{FENCE}",
        f"Run {FENCE}bash\npip install x{FENCE}\n* Then {FENCE}python\n{{}}\n{FENCE}",
        f"Say {FENCE}x{FENCE}.\n{FENCE}python\n{{}}{FENCE}\nIt prints:\n{FENCE}\n3\n{FENCE}",
        f"{FENCE}python\n{{}}{FENCE}\nIts use:\n{FENCE}python\nadd(1, 2)\n{FENCE}",
        "<answer>{}</answer>",
        "The class of it is small.\n  <answer>\n{}\n</answer>\nDone.",
        "<answer>\n{}",
        "<code>\n{}\n</code>\nIt adds them.",
        "It adds.\n<solution>\n{}\n</solution>",
        "<think>1 + 2</think>\n<answer><code>{}</code></answer>",
        "The function:\n[PYTHON]\n{}\n[/PYTHON]\n[TESTS]\nassert add(1, 2) == 3\n[/TESTS]",
        f"[PYTHON]\n{FENCE}python\n{{}}\n{FENCE}[/PYTHON]",
    ],
)
@pytest.mark.parametrize(
    "program",
    [
        "def add(a, b):\n    return a + b",
        "def add(a, b):\n  if a:\n    return a\n  return b",
    ],
)
def test_a_program_is_found_where_its_fence_or_tag_shares_a_line_with_text(
    answer: str, program: str
) -> None:
    found = program_of(Sample(text=answer.format(program)), ["add"])
    assert isinstance(found, str) and found.strip() == program


@pytest.mark.parametrize(
    "behind",
    [
        ".",
        ")",
        "**",
        " :",
        "<|im_end|>",
        "<end_of_turn>",
        "<|eot_id|>",
        "</code>",
        "</s></s>",
        "</answer><|im_end|>",
        "<｜end▁of▁sentence｜>",
        "[/PYTHON]",
        " .",
    ],
)
def test_tokens_and_punctuation_behind_a_closing_fence_are_no_code(behind: str) -> None:
    code = "def add(a, b):\n    return a + b\n"
    assert extract_program(f"{FENCE}python\n{code}{FENCE}{behind}\nIt adds.") == code
    assert extract_program(f"{FENCE}\n{code.strip()}{FENCE}{behind}") == code


@pytest.mark.parametrize(
    "between", ["</THINK>", "<|end|><|start|>assistant<|channel|>final<|message|>"]
)
def test_a_block_may_begin_on_the_line_where_the_thinking_ends_with_a_block(
    between: str,
) -> None:
    draft, code = "def f(): ...\n", "def f(): return 1\n"
    text = f"<THINK>{FENCE}python\n{draft}{FENCE}{between}{FENCE}python\n{code}{FENCE}"
    assert extract_program(text, ["f"]) == code


def test_code_below_a_list_marker_may_be_indented_or_not() -> None:
    code = "def f(x):\n  if x:\n    return 1\n"
    below = "".join(f"   {line}\n" for line in code.splitlines())
    assert extract_program(f"1. {FENCE}python\n{code}{FENCE}") == code
    assert extract_program(f"1. {FENCE}python\n{below}   {FENCE}") == code


@pytest.mark.parametrize(
    "program",
    [
        f'def f(code):\n    return f"""{FENCE}\n{{code}}\n{FENCE}"""\n',
        f'def f(code):\n    return f"""{FENCE}python\n{{code}}\n{FENCE}"""\n',
        f"def f():\n    '''Example: {FENCE}\n    f()\n    {FENCE}\n    '''\n",
        f"def f():\n    '''\n    {FENCE}.\n{FENCE})\n    f()\n    '''\n",
        f"TEXTS = ['{FENCE}', \"{FENCE}.\"]\n# Ends with {FENCE}.\n",
        f"# {FENCE}\n# f() {FENCE}\ndef f():\n    return 1\n",
        f"MARK = '{FENCE}'\nx = \"it's {FENCE}\"\n",
        'MARK = "<answer>"\ndef f():\n    return "</answer>"\n',
        'TEXT = """\n<answer>\n"""\n',
        'TEXT = """\n[PYTHON]\n"""\ndef f():\n    return "<code>"\n',
        "def f(PYTHON):\n    return [\n[PYTHON]\n]\n",
        'def f():\n    return """\n<answer>\n1\n</answer>\n"""\n',
    ],
)
def test_a_fence_or_tag_in_a_string_or_comment_of_a_program_is_part_of_it(
    program: str,
) -> None:
    assert extract_program(f"{FENCE}python\n{program}{FENCE}\nbye") == program
    has_fence_of_a_line = f"\n    {FENCE}" in program
    if not has_fence_of_a_line:
        assert extract_program(program) == program


def test_of_several_blocks_the_last_that_defines_what_the_tests_call_is_the_program() -> (
    None
):
    draft, program, usage = "def f(): ...\n", "def f(): return 1\n", "print(f())\n"
    text = "\n".join(f"{FENCE}python\n{code}{FENCE}\n" for code in (draft, program, usage))
    assert extract_program(text, ["f"]) == program
    assert extract_program(text, ["g"]) == extract_program(text) == program + usage


@pytest.mark.parametrize(
    "usage",
    [
        "from solution import add\nprint(add(1, 2))\n",
        "import pytest\nfrom my_module import add\ndef test_add():\n    assert add(1, 2) == 3\n",
        "import unittest\nfrom solution import add\nclass T(unittest.TestCase):\n    pass\n",
    ],
)
def test_a_block_that_imports_the_function_shows_a_use_of_the_block_that_writes_it(
    usage: str,
) -> None:
    program = "def add(a, b):\n    return a + b\n"
    assert extract_program(_fenced(program, usage), ["add"]) == program
    assert (
        extract_program(_fenced(usage, "from operator import add\n"), ["add"])
        == "from operator import add\n"
    )


PROGRAM = "def add(a, b):\n    return a + b\n"
METHOD = "class Solution:\n    def add(self, a, b):\n        return a + b\n"
ASIDES = [
    "from solution import add, Solution\nprint(add(1, 2))\n",
    "import pytest\nfrom your_module import add\ndef test_add():\n    assert add(1, 2) == 3\n",
    "return a + b\n",
    "a.lower()\n",
    ">>> add(1, 2)\n3\n",
    "LIMIT = 3\n",
    "def is_odd(a):\n    return a % 2\n",
    "# 3\n",
]


@pytest.mark.parametrize("aside", ASIDES)
@pytest.mark.parametrize("program", [PROGRAM, METHOD])
@pytest.mark.parametrize(
    "columns",
    [
        {
            "tests": [
                {"input": "1\n2", "output": "3", "testtype": "functional", "fn_name": "add"}
            ]
        },
        {"input_output": {"fn_name": "add", "inputs": [[1, 2]], "outputs": [3]}},
    ],
)
def test_a_contests_function_is_judged_whatever_block_stands_behind_it(
    columns: dict[str, Any], program: str, aside: str
) -> None:
    completion = _fenced(program, aside)
    row = {name: [value] for name, value in columns.items()}
    assert UnitTestVerifier()([completion], **row) == [1.0]
    assert UnitTestVerifier()([completion.replace("+", "-")], **row) == [0.0]


@pytest.mark.parametrize("aside", ASIDES)
@pytest.mark.parametrize(
    "tests",
    [
        "import solution\ndef test_add():\n    assert solution.add(1, 2) == 3\n",
        "import solution as s\ndef test_add():\n    assert s.add(1, 2) == 3\n",
        "from solution import add as plus\ndef test_add():\n    assert plus(1, 2) == 3\n",
        "def test_add():\n    import solution\n    assert solution.add(1, 2) == 3\n",
    ],
)
def test_tests_of_a_module_take_the_program_from_the_block_that_writes_its_names(
    tests: str, aside: str
) -> None:
    row = read_row({"tests": tests}, None, Columns(), None)
    assert program_of(Sample(text=_fenced(PROGRAM, aside)), called=row.called) == PROGRAM


@pytest.mark.parametrize("aside", [*ASIDES, "print(add(1, 2))\n"])
def test_a_body_for_the_prompts_stub_is_the_program_whatever_block_stands_behind_it(
    aside: str,
) -> None:
    body = "    return a + b\n"
    assert extract_program(_fenced(body, aside), ["add"]) == body


@pytest.mark.parametrize(
    "aside",
    [
        "print(n * 2)\n",
        "n = int(input())\n",
        "# Input\n# 2\n",
        "import io, sys\nsys.stdin = io.StringIO('2')\nmain()\n",
        "import subprocess\nprint(subprocess.run(['python', 'a.py'], input='2', text=True))\n",
        "def double(n):\n    return n * 2\n",
    ],
)
@pytest.mark.parametrize(
    "program",
    [
        "n = int(input())\nprint(n * 2)\n",
        "import sys\n\ndef main():\n    sys.stdout.write(str(2 * int(sys.stdin.read())))\n\nmain()\n",
        "print(2 * int(open(0).read()))\n",
    ],
)
def test_tests_of_output_take_the_last_block_that_reads_input_and_prints(
    program: str, aside: str
) -> None:
    assert extract_program(_fenced(program, aside)) in (program, aside + program)
    shorter = "print(int(input()) * 2)\n"
    assert extract_program(_fenced(program, shorter)) == shorter


def _fenced(*blocks: str) -> str:
    return "\n".join(f"{FENCE}python\n{code}{FENCE}\n" for code in blocks)


def test_definitions_that_the_program_lacks_come_from_the_other_blocks() -> None:
    one, two = (
        "import math\nN = 2\ndef sq(x):\n    return x**N\n",
        "def cube(x):\n    return x * sq(x)\n",
    )
    program, usage = "def f(x):\n    return cube(x)\n", "assert sq(f(1)) == 1\n"
    helped = f"{one}{two}{program}"
    assert (
        extract_program(_fenced(one + "print(sq(2))\n", two, program, usage), ["f"])
        == helped
    )
    assert (
        extract_program(_fenced(one, "def f(x):\n    sq(x)\n"), ["f"])
        == f"{one}def f(x):\n    sq(x)\n"
    )
    for helper, program in (
        ("import math\n", "def f(x): return math.pi\n"),
        ("ONE = 1\n", "def f(x): return ONE\n"),
    ):
        assert extract_program(_fenced(helper, program), ["f"]) == helper + program


@pytest.mark.parametrize(
    "program",
    [
        "def f(x):\n    return x\n",
        "def sq(x): return 1\ndef f(x): return sq(x)\n",
        "    return sq(x)\n",
        "from math import sq\ndef f(x): return sq(x)\n",
        "def f(x): return x.sq(x)\n",
    ],
)
def test_a_program_that_lacks_nothing_and_a_body_stay_as_they_are(program: str) -> None:
    assert extract_program(_fenced("def sq(x): return x * x\n", program), ["f"]) == program


ITEM = "class Item:\n    pass\n"
STORE = "class Store:\n    kind = Item\n"
TEST = "class TestStore(TestCase):\n    def test_it(self):\n        Store()\n"


@pytest.mark.parametrize(
    "usage",
    [
        "from store import Store, Item\n\nprint(Store())\n",
        "from store import Store\nfrom item import Item\n\nprint(Store())\n",
        "from store import (\n    Store,  # the store\n    Item,\n)\n",
        "from store import Store, Item  # Item, as above\n",
        "from store import Store, \\\n    Item\n",
        "from store import Store as S, Item as I\n",
        "import pytest\nfrom store import Store, Item\n\ndef test():\n    Store()\n",
        "from .store import Store, Item\n",
        "from solution import *\n",
        "import store\n\nprint(store.Store(), store.Item())\n",
        f"from unittest import TestCase\nfrom store import Store, Item\n\n{TEST}",
    ],
)
def test_a_usage_that_imports_the_program_of_two_blocks_is_no_part_of_it(
    usage: str,
) -> None:
    assert extract_program(_fenced(ITEM, STORE, usage), ["Store"]) == ITEM + STORE


@pytest.mark.parametrize(
    "line",
    [
        "from shop import price\n",
        "from shop import (\n    price,\n)\n",
        "from .shop import price  # ours\n",
        "from shop import *\n",
        "import shop\nprint(f'{shop.price(1)}')\n",
    ],
)
def test_a_usage_that_has_a_constant_of_the_program_gives_it_without_its_import(
    line: str,
) -> None:
    program = "def price(x):\n    return x * RATE\n"
    usage = f"{line}RATE = 2\n\nprint(price(1))\n"
    assert extract_program(_fenced(program, usage), ["price"]) == f"RATE = 2\n\n{program}"


@pytest.mark.parametrize(
    ("values", "program"),
    [
        ("vowels = set('aeiou')\n", "def f(s):\n    return sum(c in vowels for c in s)\n"),
        ("a = 1\nb: int = a + 1\n", "def f(s):\n    return s[b:]\n"),
        ("low, high = 1, 9\n", "def f(s):\n    return low < len(s) < high\n"),
        ("count = 0\n", "def f():\n    global count\n    count = count + 1\n"),
        ("is_even = lambda n: n % 2 == 0\n", "def f(x):\n    return is_even(x)\n"),
        ("prefix = 'a'\n", "def f(x):\n    return f'{prefix}{x}'\n"),
    ],
)
def test_a_value_that_the_program_needs_comes_from_another_block(
    values: str, program: str
) -> None:
    usage = "s = 'abc'\nresult = f(s)\nprint(result)\n"
    assert extract_program(_fenced(values, program, usage), ["f"]) == values + program


@pytest.mark.parametrize(
    ("program", "usage"),
    [
        ("def f(x, *y, z: int = 1):\n    return x\n", "x, y = boom()\nz = boom()\n"),
        ("def f(x):\n    for y, z in x:\n        print(y, z)\n", "y = z = boom()\n"),
        ("def f(x):\n    return sorted(x, key=len)\n", "key = boom()\nlen = 1\n"),
        ("def f(x):\n    with x as y:\n        return y\n", "y = boom()\n"),
        ("def f(x):\n    return [z for z in x]\n", "z = boom()\n"),
        ("def f(x):\n    return map(lambda y, z=1: y, x)\n", "y = boom()\nz = boom()\n"),
        ("def f(x):\n    return result\n", "result = f(1)\n"),
        ("def f(x):\n    return limit\n", "limit = int(input())\n"),
        ("def f(x):\n    return text\n", 'text = """\na\n"""\n'),
    ],
)
def test_values_of_a_use_of_the_program_are_left_out(program: str, usage: str) -> None:
    assert extract_program(_fenced(program, usage), ["f"]) == program


@pytest.mark.parametrize(
    "piece", ["def f(a, ", "for a ", "lambda a, ", "a, ", "a = ", "(a = ", "global a, "]
)
def test_names_of_a_hostile_text_are_found_in_linear_time(piece: str) -> None:
    def read(length: int) -> None:
        text = piece * length
        free_names(text, {"a"}, set())
        assigned_names(text)

    assert grows_linearly(read, 20_000)


def test_names_of_an_import_in_brackets_are_no_names_that_a_program_lacks() -> None:
    program = "from typing import (\n    List,\n)\n\ndef f(x: List):\n    return x\n"
    usage = "import pytest\nfrom typing import List\nfrom solution import f\n"
    assert extract_program(_fenced(program, usage), ["f"]) == program


@pytest.mark.parametrize("behind", ["", "\nIt adds.", f"\nIt prints:\n{FENCE}\n3\n{FENCE}"])
def test_a_program_may_begin_in_the_block_that_its_prompt_opened(behind: str) -> None:
    prompt = f"Write add(a, b).\n{FENCE}python\n"
    right = f"def add(a, b):\n    return a + b\n{FENCE}{behind}"
    verdicts = UnitTestVerifier().judge(
        [right, right.replace("+", "-")],
        prompts=[prompt] * 2,
        tests=[["assert add(1, 2) == 3"]] * 2,
    )
    assert [verdict.reason for verdict in verdicts] == ["", "test_1_failed"], verdicts


MAIN = "def main():\n    print(sum(map(int, input().split())))\n"
SOLVER = "class Solver:\n    def run(self):\n        print(input())\n"


@pytest.mark.parametrize(
    ("program", "call"),
    [
        (MAIN, "# Run it\nmain()  # here\n"),
        (MAIN, 'if __name__ == "__main__":\n    main()\n'),
        (MAIN, "import sys\n\nsys.exit(main())\n"),
        (MAIN, "t = int(input())\nfor _ in range(t):\n    main()\n"),
        (
            f"import sys\nsys.setrecursionlimit(10**6)\ninput = sys.stdin.readline\n{MAIN}",
            "main()\n",
        ),
        (SOLVER, "Solver().run()\n"),
    ],
)
def test_a_later_block_that_only_calls_the_program_belongs_to_it_if_its_output_is_tested(
    program: str, call: str
) -> None:
    assert extract_program(_fenced(program, call)) == program + call
    assert extract_program(_fenced(program, call, "main()\n")) == program + call
    assert extract_program(_fenced(program, call), ["main", "Solver"]) == program


@pytest.mark.parametrize(
    ("program", "other"),
    [
        (MAIN, "main(3)\n"),
        (MAIN, "main()\nprint(6)\n"),
        (MAIN, "other()\n"),
        (MAIN, "x = main\n"),
        (f"{MAIN}\nmain()\n", "main()\n"),
        (f"{MAIN}\nresult = main()\n", "main()\n"),
        (f"{MAIN}\nif __name__ == '__main__':\n    main()\n", "main()\n"),
    ],
)
def test_no_example_is_run_behind_a_program_and_no_program_twice(
    program: str, other: str
) -> None:
    assert extract_program(_fenced(program, other)) == program


AREA = 'def area(r):\n    """Of a circle."""\n'


@pytest.mark.parametrize(
    "body",
    [
        "    s = r * r\n    return 3 * s\n",
        "    return 3 * r * r\n\n\nprint(area(1))\n",
        "    if r < 0:\n        return 0\n    return 3 * r * r\n",
        "    # Square it\n    s = [\n        r * r,\n    ]\n    return 3 * s[0]\n",
    ],
)
@pytest.mark.parametrize("prompt", [AREA, "def area(r):\n"])
def test_a_body_whose_first_line_lost_its_indentation_is_completed(
    body: str, prompt: str
) -> None:
    code = prompt_code(prompt, "area")
    whole = complete_program(body, code, "area")
    assert whole == f"{prompt}{body}"
    at = body.index("    " + body.lstrip(" #Squareit\n")[:1]) if "#" in body else 0
    for kept in ("", " ", "   "):
        assert complete_program(body[:at] + kept + body[at + 4 :], code, "area") == whole


@pytest.mark.parametrize(
    "program",
    [
        "area = lambda r: 3 * r * r\n",
        "if True:\n    def area(r):\n        return 3 * r * r\n",
        "r = 1\nprint(r)\n",
        "for r in range(3):\n    print(r)\nprint(area(1))\n",
    ],
)
def test_a_program_is_no_body_without_indentation(program: str) -> None:
    assert complete_program(program, prompt_code(AREA, "area"), "area") == program


def test_a_body_is_completed_only_behind_a_stub_that_holds_nothing() -> None:
    mended = f"{AREA}    return 3 * r * r\n"
    assert complete_program("ok", prompt_code(mended, "area"), "area") == "ok"


USER = "from dataclasses import dataclass\n\n@dataclass\nclass User:\n    name: str\n"
FUTURE = "from __future__ import annotations\n"


def _service(line: str, user: str = "User") -> str:
    return f"{line}\n\ndef make(name: str) -> {user}:\n    return {user}(name.upper())\n"


@pytest.mark.parametrize(
    "files",
    [
        (USER, _service("from models import User")),
        (USER, _service("from app.models import (User)  # the user")),
        (USER, _service("from .models import User")),
        (USER, _service("from models import User as U", "U")),
        (USER, _service("from models import *")),
        (USER, _service("import models", "models.User")),
        (USER, _service("from app import models as m", "m.User")),
        (_service("from models import User"), USER),
        (FUTURE + USER, _service(f"{FUTURE}from models import User")),
        (f"{USER}\n# service.py\n{_service('from models import User')}",),
        (
            USER,
            _service("try:\n    from models import User\nexcept ImportError:\n    raise"),
        ),
        (
            "from service import make as _make\n\ndef main():\n    return _make('a')\n",
            _service("from models import User"),
            USER,
        ),
    ],
)
def test_blocks_that_import_from_each_other_are_files_of_one_program(
    files: Sequence[str],
) -> None:
    numbered = [f"# {place}.py\n{code}" for place, code in enumerate(files)]
    right = _fenced(*numbered)
    wrong = right.replace(".upper()", "")
    tests = ["assert make('a') == User('A')"]
    verdicts = UnitTestVerifier().judge([right, wrong], tests=[tests, tests])
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0], verdicts


@pytest.mark.parametrize(
    "program",
    [
        _service("from models import User"),
        _service("from app.models import User as U", "U"),
        _service("from models import *"),
        _service("import models", "models.User"),
    ],
)
def test_a_program_may_import_a_file_that_its_prompt_shows(program: str) -> None:
    prompt = f"Given `models.py`:\n{_fenced(USER)}\nWrite `service.py`."
    right = _fenced(program)
    completions = [right, right.replace(".upper()", "")]
    tests = [["assert make('a').name == 'A'"]] * 2
    verdicts = UnitTestVerifier().judge(completions, prompts=[prompt] * 2, tests=tests)
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0], verdicts


def test_a_value_of_one_file_is_taken_where_another_imports_it() -> None:
    config = "rates = {'a': 2}\nlimit: int = 3\nprint(rates)\n"
    program = "from config import rates, limit\n\ndef f(x):\n    return rates[x] * limit\n"
    assert extract_program(_fenced(config, program), ["f"]) == (
        "rates = {'a': 2}\nlimit: int = 3\npass\n\ndef f(x):\n    return rates[x] * limit\n"
    )


@pytest.mark.parametrize(
    ("other", "program"),
    [
        ("def f(x):\n    return x\n", "from fast import f\n\ndef f(x):\n    return x\n"),
        (
            "def h(x):\n    return x\n",
            "from lib import h, g\n\ndef f(x):\n    return h(x)\n",
        ),
        ("def sqrt(x):\n    return x\n", "from math import sqrt\n\ndef f(x):\n    pass\n"),
        (
            "def h(x):\n    return x\n",
            "import lib\n\ndef f(x):\n    return lib.h(lib.g(x))\n",
        ),
        ("print(f(1))\n", "from lib import *\n\ndef f(x):\n    return x\n"),
        ("def h(x):\n    return 1\n", 'def f(x):\n    """\nimport lib\nlib.h(x)\n"""\n'),
    ],
)
def test_an_import_of_what_no_other_block_defines_stays(other: str, program: str) -> None:
    assert extract_program(_fenced(other, program), ["f"]) == program


def test_files_that_import_each_other_are_joined_and_of_alternatives_the_last_counts() -> (
    None
):
    one = "from b import g\n\ndef f(n):\n    return n and g(n - 1)\n"
    two = "from a import f\n\ndef g(n):\n    return n and f(n - 1)\n"
    joined = two.partition("\n\n")[2] + one.replace("from b import g", "pass")
    assert extract_program(_fenced(one, two), ["f", "g"]) == joined
    draft, final = "def f(x):\n    return 1\n", "def f(x):\n    return x\n"
    bench = "from solution import f\n\nprint(f(1))\n"
    assert extract_program(_fenced(draft, final, bench), ["f"]) == final


def _chained(length: int) -> list[str]:
    """Write functions that call each other, each in a block of its own."""
    calls = [f"def f{n}(): return f{n - 1}()\n" for n in range(1, length)]
    return ["def f0(): return 0\n", *calls]


def test_many_blocks_that_help_each_other_are_put_together_in_their_order() -> None:
    blocks = _chained(3_000)
    assert extract_program(_fenced(*blocks), ["f2999"]) == "".join(blocks)


def test_blocks_that_help_each_other_take_linear_time() -> None:
    def read(length: int) -> None:
        extract_program(_fenced(*_chained(length)), [f"f{length - 1}"])

    assert grows_linearly(read, 20_000)


@given(st.text(alphabet="`~ \n\tpython<>/think{.}x\r\ud800", max_size=200))
def test_any_text_has_a_program_or_none(text: str) -> None:
    program = extract_program(text)
    assert program is None or program.strip()
    complete_program(program or "", prompt_code(STUB, "unit"), "unit")
    fenced_blocks(text)


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "`",
            "```",
            "~~~python\n",
            " ",
            "\n",
            "```a`b",
            "</think>",
            "<think>",
            "\t \n",
            "    def ",
        ),
        *(
            "```py\nx```a\n",
            "<answer>",
            "\n<answer>",
            "\n[PYTHON]",
            "</a>",
            '"',
            "\\",
            "\"'",
            '"""',
            "'\\",
            "```py\n#```",
            "- ```",
            ">",
            "> ```py\n",
        ),
        *(
            "from a import (",
            "\nfrom a import b\n",
            "\nimport a\na.b\n",
            "```py\nfrom a import b\ndef b(): 0\n",
        ),
    ],
)
def test_hostile_completions_take_linear_time(piece: str) -> None:
    def read(repeats: int) -> None:
        program = extract_program(piece * repeats)
        complete_program(program or piece * repeats, prompt_code(STUB, "unit"), "unit")

    assert grows_linearly(read, 200_000 // len(piece))


@pytest.mark.parametrize(
    "text",
    [
        '"""Remove duplicates from a list of text_utils."""',
        "# as in the import of text_utils\n    pass",
        "raise_if = 'nothing to import from text_utils'",
    ],
)
def test_words_of_texts_and_comments_ask_for_no_block_that_imports_the_solution(
    text: str,
) -> None:
    program = f"def dedupe(xs):\n    {text}\n    return list(dict.fromkeys(xs))\n"
    usage = "from text_utils import dedupe\n\nprint(dedupe([1, 1]))\n"
    assert with_helpers(program, [usage], ["dedupe"]) == program


def test_a_name_inside_a_formatted_text_asks_for_the_block_that_defines_it() -> None:
    helper = "def sq(x):\n    return x * x\n"
    program = "def f(x):\n    return f'{sq(x)}' + str('sq')\n"
    assert with_helpers(program, [helper]) == helper + program
    assert with_helpers("def f(x):\n    return sqrt(x)\n", ["from math import sqrt\n"]) == (
        "from math import sqrt\ndef f(x):\n    return sqrt(x)\n"
    )


def test_a_body_goes_behind_the_stub_of_its_prompt() -> None:
    program = complete_program(
        "    return [x / norm(xs) for x in xs]\n", prompt_code(STUB, "unit"), "unit"
    )
    assert program.startswith(STUB.rstrip()) and program.endswith("for x in xs]\n")
    compile(program, "program", "exec")


@pytest.mark.parametrize(
    ("prompt", "completion"),
    [
        ('def f(x):\n    """Add one."""\n', "    return x + 1\n"),
        ("import math\n\ndef f(x):\n", "    return x + math.floor(1.5)\n"),
        (
            [{"role": "user", "content": f"Complete:\n{FENCE}python\ndef f(x):\n{FENCE}"}],
            "    return x + 1\n",
        ),
        ("import math\n\ndef f(x):\n", "def f(x):\n    return x + math.floor(1.5)\n"),
    ],
)
def test_the_tests_name_the_stub_of_a_prompt_if_the_row_does_not(
    prompt: Any, completion: str
) -> None:
    row = read_row({"tests": ["assert f(1) == 2"]}, prompt, Columns(), None)
    namespace: dict[str, Any] = {}
    exec(row.whole(completion), namespace)
    assert namespace["f"](1) == 2


NODE = "class Node:\n    def __init__(self, value, next=None):\n        self.value, self.next = value, next\n"
LAST = "def last(head):\n    while head.next:\n        head = head.next\n    return head.value\n"
TAX = "RATE = 0.5\n\ndef tax(x):\n    return x * RATE\n"


def _asked(*blocks: str) -> str:
    return "You have:\n\n" + "\n\nWrite:\n\n".join(
        f"{FENCE}python\n{block}{FENCE}" for block in blocks
    )


@pytest.mark.parametrize(
    ("prompt", "tests", "program"),
    [
        (f"{NODE}\ndef last(head):\n", ["assert last(Node(1, Node(5))) == 5"], LAST),
        (_asked(NODE), ["assert last(Node(1, Node(5))) == 5"], LAST),
        (
            _asked(NODE, "def last(head):\n    ...\n"),
            ["assert last(Node(1, Node(5))) == 5"],
            LAST,
        ),
        (
            _asked(TAX),
            ["assert total([1]) == 1.5"],
            "def total(xs):\n    return sum(x + tax(x) for x in xs)\n",
        ),
        (
            _asked(TAX, "def total(xs):\n"),
            ["assert total([1]) == 1.5"],
            "    return sum(x + tax(x) for x in xs)\n",
        ),
    ],
)
def test_classes_and_helpers_of_the_prompt_belong_to_the_program_where_it_or_its_tests_need_them(
    prompt: str, tests: list[str], program: str
) -> None:
    (verdict,) = UnitTestVerifier().judge(
        [f"{FENCE}python\n{program}{FENCE}"], prompts=[prompt], tests=[tests]
    )
    assert verdict.score == 1.0, verdict.details


def test_usage_in_another_block_of_the_prompt_is_no_helper() -> None:
    code = prompt_code(_asked("def f(x):\n", "result = f(1)\nprint(result)\n"), "f")
    program = "def f(x):\n    result = x\n    return result\n"
    assert complete_program(program, code, "f") == program


BODY = "    y = 2 * x\n    return y\n"
WHOLE = f"def f(x):\n{BODY}"


@pytest.mark.parametrize("code", [BODY, BODY.strip(), WHOLE, f"import math\n\n{WHOLE}"])
@pytest.mark.parametrize(
    "behind",
    [
        "",
        "\n\nIt doubles its argument.",
        f"\n\nExample:\n{FENCE}python\nprint(f(1))\n{FENCE}",
    ],
)
def test_a_fence_that_only_closes_ends_the_code_before_it(code: str, behind: str) -> None:
    found = extract_program(f"{code.rstrip()}\n{FENCE}{behind}", names=("f",))
    assert found is not None
    assert found.strip() == code.strip()
    assert extract_program(f"python\n{code.rstrip()}\n{FENCE}{behind}", ("f",)) == found


@pytest.mark.parametrize(
    ("text", "program"),
    [
        (f"Here it is:\n{FENCE}\nx = 1\n", "x = 1\n"),
        (f" Here is `f`, for all x:\n{FENCE}\nx = 1\n", "x = 1\n"),
        (f"x = 3\n{FENCE}\nx = 1\n{FENCE}", "x = 1\n"),
        (f"import math\n{FENCE}python\nx = 1\n{FENCE}", "x = 1\n"),
    ],
)
def test_a_fence_that_opens_a_block_begins_the_code(text: str, program: str) -> None:
    assert extract_program(text) == program


def test_an_answer_of_many_fences_is_read_in_linear_time() -> None:
    assert grows_linearly(lambda size: extract_program(f"x = 1\n{FENCE}\n" * size), 8_000)
    assert grows_linearly(
        lambda size: extract_program("x = [" * size + f"\n{FENCE}"), 20_000
    )


def test_a_body_goes_behind_a_header_without_a_docstring() -> None:
    code = prompt_code("class A:\n    pass\n\ndef f(x):\n", "f")
    assert complete_program("    return x", code, "f").endswith("def f(x):\n    return x")


def test_each_block_that_defines_what_the_tests_call_is_a_part_of_the_program() -> None:
    square, cube = "def square(x): return x * x\n", "def cube(x): return x ** 3\n"
    assert extract_program(_fenced(square, cube), ["square", "cube"]) == square + cube
    assert extract_program(_fenced(square, cube), ["cube"]) == cube
    draft = "def square(x): return x\n"
    assert (
        extract_program(_fenced(draft, cube, square), ["square", "cube"]) == cube + square
    )


def test_a_whole_function_gets_the_imports_and_helpers_that_it_mentions() -> None:
    code = prompt_code(STUB, "unit")
    program = complete_program(
        "def unit(xs: List[float]):\n    return [x / norm(xs) for x in xs]\n", code, "unit"
    )
    assert "def norm" in program and "import math" in program and "import List" in program
    assert "LIMIT" not in program and program.count("def unit") == 1


def test_what_a_program_defines_itself_is_not_put_in_front_of_it() -> None:
    program = "from typing import List\ndef norm(x):\n    return 1\ndef unit(xs: List):\n    return norm(xs)\n"
    assert complete_program(program, prompt_code(STUB, "unit"), "unit") == program


def test_a_program_with_a_future_import_stays_as_it_is() -> None:
    program = "from __future__ import annotations\ndef unit(xs):\n    return norm(xs)\n"
    assert complete_program(program, prompt_code(STUB, "unit"), "unit") == program


def test_a_program_that_is_indented_as_a_whole_is_no_body() -> None:
    code = prompt_code("def f(x):\n", "f")
    assert (
        complete_program("    def f(x):\n        return x\n", code, "f")
        == "def f(x):\n    return x\n"
    )
    inner = "    def f(x):\n        return x\n    return f(1)\n"
    assert complete_program(inner, code, "f") == "def f(x):\n" + inner


@pytest.mark.parametrize(
    "prompt",
    [
        None,
        "",
        "Write f.",
        [{"role": "user", "content": None}],
        "def f(:",
        "import os\n(((",
    ],
)
def test_a_prompt_without_the_stub_changes_no_program(prompt: Any) -> None:
    assert (
        complete_program("    return 1\n", prompt_code(prompt, "f"), "f")
        == "    return 1\n"
    )
    assert (
        complete_program("def f(): pass\n", prompt_code(prompt, "f"), "f")
        == "def f(): pass\n"
    )


def test_the_code_of_a_conversation_is_in_its_user_messages() -> None:
    messages = [
        {"role": "system", "content": f"{FENCE}python\ndef norm(xs): return 0\n{FENCE}"},
        {
            "role": "user",
            "content": [
                {
                    "type": "text",
                    "text": f"Complete it:\n{FENCE}python\n{STUB}{FENCE}\nThanks.",
                }
            ],
        },
    ]
    code = prompt_code(messages, "unit")
    assert code.ends_with_stub
    assert [part.usage.binds for part in code.definitions(["norm"])] == [
        {"List"},
        {"math"},
        {"norm"},
    ]


def test_the_code_of_a_prompt_may_follow_a_sentence() -> None:
    assert prompt_code(
        f"Complete the function from the book.\n\n{STUB}", "unit"
    ).ends_with_stub


def test_a_byte_order_mark_is_no_part_of_a_program() -> None:
    assert program_of(Sample(text="\ufeffdef f(): pass")) == "def f(): pass"


CONTEST_PROGRAM = (
    "class Solution:\n"
    "    def f(self, xs: List[int]) -> int:\n"
    "        return max(accumulate(xs)) - gcd(2, 4)\n"
)
OF_CONTEST = {"input_output": {"inputs": [[[3, 1]]], "outputs": [2], "fn_name": "f"}}
OF_METHOD = {"tests": ["assert Solution().f([3, 1]) == 2"]}
OF_CHECK = {
    "test": "def check(candidate):\n    assert candidate([3, 1]) == 2\n",
    "entry_point": "Solution().f",
}
OF_PRINT = {"tests": [{"input": "", "output": "2"}]}
LIST_PROGRAM = (
    "class Solution:\n"
    "    def f(self, xs: List[int]) -> Optional[ListNode]:\n"
    "        head = ListNode(nlargest(1, xs)[0] - 1)\n"
    "        return head.val\n"
)


@pytest.mark.parametrize(
    ("row", "program"),
    [
        (OF_CONTEST, CONTEST_PROGRAM),
        (OF_CONTEST, CONTEST_PROGRAM.partition("\n")[2].replace("self, ", "")),
        (OF_METHOD, CONTEST_PROGRAM),
        (OF_METHOD, LIST_PROGRAM),
        (OF_CHECK, CONTEST_PROGRAM),
        (OF_CHECK, LIST_PROGRAM.replace("Solution", "Solution(object)")),
        (OF_PRINT, f"{CONTEST_PROGRAM}print(Solution().f([3, 1]))\n"),
    ],
)
def test_a_contests_program_may_leave_out_what_its_graders_have_in_scope(
    row: dict[str, Any], program: str
) -> None:
    columns = {name: [value] for name, value in row.items()}
    (verdict,) = UnitTestVerifier().judge([textwrap.dedent(program)], **columns)
    assert verdict.score == 1.0, verdict.details
    wrong = textwrap.dedent(program).replace("max(", "min(1, ").replace("nlargest", "most")
    (verdict,) = UnitTestVerifier().judge([wrong], **columns)
    assert verdict.score == 0.0, verdict.details


@pytest.mark.parametrize(
    ("program", "score"),
    [
        ("def f(xs: List[int]) -> Optional[int]:\n    return 2\n", 1.0),
        ("def f(xs: 'list', *more: Any) -> dict[str, Any]:\n    return 2\n", 1.0),
        ("class A:\n    xs: list[Tuple] = []\ndef f(xs):\n    return 2\n", 1.0),
        ("def f(xs: List[int]):\n    return 2 * isinstance(xs, Iterable)\n", 0.0),
        ("def f(xs: List[int]):\n    return 2 + len(deque())\n", 0.0),
        ("Grid = List[int]\ndef f(xs: Grid):\n    return 2\n", 0.0),
        ("def f(xs: Lists[int]):\n    return 2\n", 0.0),
    ],
)
def test_only_in_annotations_a_program_may_leave_out_its_import_of_typing(
    program: str, score: float
) -> None:
    (verdict,) = UnitTestVerifier().judge([program], tests=[["assert f([3, 1]) == 2"]])
    assert verdict.score == score, verdict.details


@pytest.mark.parametrize(
    "program",
    [
        "def f(xs): return len(xs)\n",
        "from typing import List\ndef f(xs: List[int]): return len(xs)\n",
        "import typing as t\ndef f(xs: t.List[int]): return len(xs)\n",
        "class Set: pass\ndef f(xs: Set): return len(xs)\n",
        "def f(xs):\n    # Any of the List\n    return len(xs)\n",
        "from __future__ import annotations\ndef f(xs: List[int]): return len(xs)\n",
    ],
)
def test_a_program_that_leaves_out_no_name_stays_as_it_is(program: str) -> None:
    row = read_row({"tests": ["assert f([3, 1]) == 2"]}, None, Columns(), None)
    assert row.whole(program) == program
    plain = "def f(xs): return len(xs)\n"
    assert read_row(OF_CONTEST, None, Columns(), None).whole(plain) == plain


@pytest.mark.parametrize(
    ("blocks", "helpers"),
    [
        (["from math import *\n"], "from math import *"),
        (["from math import *\n", "def f(x):\n"], "from math import *"),
        (["def f(x):\n", "import math\nfrom math import pi\n"], "from math import pi"),
        (
            ["def f(x):\n", "from math import *\nE = 1\ndef g(x):\n    ...\n"],
            "from math import *",
        ),
        (["def f(x):\n", "from solution import *\ndef test():\n    assert f(1)\n"], ""),
        (["def f(x):\n", "from math import pi\nprint(f(pi))\n"], ""),
    ],
)
def test_imports_count_in_each_block_of_a_prompt_that_shows_no_use(
    blocks: list[str], helpers: str
) -> None:
    program = "def f(x):\n    return x * pi\n"
    found = complete_program(program, prompt_code(_asked(*blocks), "f"), "f")
    assert found.removesuffix(program).strip() == helpers
