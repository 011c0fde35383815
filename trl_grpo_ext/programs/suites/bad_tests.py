"""The error for unusable tests: reason codes that blame the data, each with advice."""

from __future__ import annotations

SHOWN_CHARS = 160

TESTS_DO_NOT_RUN = "tests_do_not_run"
TESTS_SKIPPED = "tests_all_skipped"

ADVICE = {
    "tests_missing": "The row has no tests. Drop it, or name the right column.",
    "tests_empty": "There is no test in it. Drop the row, or name the right column.",
    "tests_none_hidden": "The row has too few tests to hide any. Add tests; `part: shown` judges the row as it is.",
    "tests_not_text": "Tests are text, lists and dicts of text; convert the column to JSON or to lists of strings.",
    "tests_not_json": "It should be JSON and does not parse. Write it with json.dumps.",
    "tests_unequal": "There must be one output an input. Drop the row, or mend its lists.",
    "tests_not_arguments": "The input of a function is the list of its arguments, or a line of JSON for each argument.",
    "tests_name_no_function": "The cases call a function and do not say which; name it as `fn_name`.",
    "tests_unknown_form": (
        "Known are: a list of asserts (MBPP's `test_list`), test code as one text (functions `test_...`, unittest, "
        "HumanEval's `test` with `entry_point`), a list of dicts with `input` and `output` (or `stdin` and "
        "`stdout`), a dict of lists by such keys (CodeContests; APPS and TACO: `inputs` and `outputs`, perhaps with "
        "`fn_name`), and open-r1's `verification_info`."
    ),
    "tests_do_not_parse": "The tests are no Python of the version that runs here. Drop the row, or mend them.",
    "tests_call_nothing": (
        "The tests take no name from the solution, so that any program would pass. If they call a function with the "
        "name of a builtin, say so in an `entry_point` column."
    ),
    "tests_need_pytest": (
        "The tests need a part of pytest that the sandbox has no stand-in for. Write them with plain asserts."
    ),
    "tests_need_hypothesis": (
        "`@given` of hypothesis compiles code while the tests run, which the judge does not allow. Write examples with "
        "`pytest.mark.parametrize`, or draw them in a loop from `random.Random(0)`."
    ),
    "tests_start_processes": (
        "The tests take no name from the solution, but start a process, which the sandbox does not allow. Import what "
        "they test from `solution`, or write cases with `input` and `output` for a program that prints."
    ),
    "tests_import_several": (
        "The tests import several modules that are unknown here, and one may hold helpers of the tests. Import the "
        "program's names from `solution`, also those of an answer in several files."
    ),
    "tests_forget_an_import": (
        "Names of Python's library or of pytest that the tests use without an import are taken from there, never from "
        "the solution. Write the import, or name the solution's function in an `entry_point` column."
    ),
    "tests_call_python": (
        "These tests call only names that Python has too, such as `gcd` or `max`, and nothing of the solution: they "
        "test Python's. If the solution defines them, write `from solution import ...`, name one in an `entry_point` "
        "column, or give the row its reference solution."
    ),
    "tests_trust_the_completion": (
        "The check calls these helpers, and the row's prompt does not define them: the completion's are called, and "
        "may be made to fit a wrong solution. Put the code that defines them into the prompt, or in front of the "
        "tests, or drop the row."
    ),
    "tests_need_unsupported": (
        "The tests need what the sandbox has no means for, so a right program may fail. Rewrite them, or drop the row."
    ),
    TESTS_DO_NOT_RUN: "The tests fail by themselves, whatever the program is. Mend them, or drop the row.",
    TESTS_SKIPPED: (
        "Every test is skipped, here at least, so that nothing judges a program. Install what the tests ask for, or "
        "drop the row."
    ),
    "entry_point_missing": (
        "The tests define `check(candidate)`, and the row does not name the function to check. Add a column "
        "`entry_point` with its name, or name that column by the setting `entry_point_column`."
    ),
    "entry_point_invalid": "An entry point is the name of a function or class. Drop the row, or mend the column.",
    "groups_invalid": (
        "Groups are a mapping of names to places of tests, from 0, that leaves no test out: "
        '{"basic": [0, 1], "edge": [2]}.'
    ),
    "reference_fails": "The reference solution fails the tests; drop the row, or mend one of them.",
    "reference_times_out": (
        "The reference solution needs more time than `timeout` gives, so a right completion may fail. Raise `timeout`, "
        "or drop the row."
    ),
    "reference_lacks_library": (
        "The reference solution imports a library that is not installed here: `pip install` it, or drop the row."
    ),
    "non_solution_passes": "A program that solves nothing passes the tests; add tests, or drop the row.",
    "broken_code_passes": (
        "The code to mend passes the tests that judge it, so that a model is paid for changing nothing; add tests that "
        "it fails, or drop the row."
    ),
    "tests_need_namespaces": (
        "The tests use files, and programs may keep files only where this machine allows namespaces: "
        "`trl-grpo-ext doctor` says what is missing. Or drop the row."
    ),
    "sandbox_failed": "Try again: the sandbox failed, not the data.",
    "language_not_python": "Only Python can be judged. Drop the rows in other languages.",
}


class BadTests(ValueError):  # noqa: N818  (it is named after `Ending.BAD_TESTS`)
    """Raised for a row whose tests cannot judge any program.

    Attributes:
        reason: A stable reason code, a key of `ADVICE`.
        value: The faulty value of the row, shortened.
        advice: The remedy for the user.

    Examples:
        >>> BadTests("tests_empty", []).value
        '[]'
    """

    def __init__(self, reason: str, value: object) -> None:
        self.reason = reason
        self.value = _shown(value)
        self.advice = ADVICE[reason]
        # Unpickling calls the constructor with these arguments.
        super().__init__(reason, self.value)

    def __str__(self) -> str:
        return f"{self.reason}: {self.value} {self.advice}"


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 3] + "..."
