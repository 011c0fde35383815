"""What is printed at one end, and to which stream of the other it belongs."""

from __future__ import annotations

from judge_harness import assert_all_pass, endings

PROGRAM = """
import contextlib, io, sys
def capture(f):
    def wrapper(*args):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed): f(*args)
        return printed.getvalue()
    return wrapper
def quiet(f):
    def wrapper(*args):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()): return f(*args)
    return wrapper
def peek(f):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try: f(0)
        except AssertionError: pass
    return printed.getvalue()
def complain(x): print(x, file=sys.stderr)
def say(x): print(x)
def around(f): print('before'); f(); print('after')
"""
NAMES = "capture quiet peek complain say around"
SETUP = "import io, sys\nfrom contextlib import redirect_stderr, redirect_stdout\nb = io.StringIO()\n"


def test_what_the_program_prints_to_stderr_is_in_stderr_of_the_tests() -> None:
    tests = (
        "b = io.StringIO()\nwith redirect_stderr(b): complain('x')\nassert b.getvalue() == 'x\\n'",
        "b = io.StringIO()\nwith redirect_stdout(b): complain('x'); say('y')\nassert b.getvalue() == 'y\\n'",
    )
    assert_all_pass(PROGRAM, *tests, names=NAMES, setup=SETUP)
    wrong = PROGRAM.replace("print(x, file=sys.stderr)", "print(x)")
    assert endings(wrong, *tests, names=NAMES, setup=SETUP) == ["failed", "failed"]


def test_what_a_callback_prints_goes_where_the_program_has_redirected_it() -> None:
    tests = (
        "@capture\ndef hi(n): print('hi', n)\nassert hi('a') == 'hi a\\n'",
        "@quiet\ndef hi(n):\n    print('hi')\n    print('no', file=sys.stderr)\n    return n\n"
        "with redirect_stdout(b), redirect_stderr(b): assert hi(3) == 3\nassert b.getvalue() == ''",
        "b = io.StringIO()\nwith redirect_stdout(b): around(lambda: print('in'))\n"
        "assert b.getvalue() == 'before\\nin\\nafter\\n'",
    )
    assert_all_pass(PROGRAM, *tests, names=NAMES, setup=SETUP)
    silent = "def capture(f): return lambda *args: ''"
    assert endings(silent, tests[0], names="capture") == ["failed"]


def test_the_program_does_not_get_what_a_callback_prints_before_its_assertion_fails() -> (
    None
):
    test = "def check(x):\n    print('want 42')\n    assert x == 42\nassert '42' in peek(check)"
    assert endings(PROGRAM, test, names=NAMES) == ["failed"]
