"""Whole programs that read and print behave as under plain Python."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

from judge_harness import ROOT

from trl_grpo_ext.workers.frames import Channel


def main(program: str, stdin: str = "") -> tuple[int, str, str]:
    """Run a whole program; return its exit status, standard output and standard error."""
    ours, theirs = socket.socketpair()
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        f"from trl_grpo_ext.programs.sandbox.inside.program import run_program\nrun_program({theirs.fileno()})"
    )
    with ours, theirs:
        Channel(ours.fileno()).send({"program": program})
        done = subprocess.run(
            [sys.executable, "-E", "-S", "-c", code],
            pass_fds=[theirs.fileno()],
            input=stdin.encode(),
            capture_output=True,
        )
        assert Channel(ours.fileno()).receive() == {"ready": True}
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_whole_program_reads_and_prints_as_python_does() -> None:
    assert main(
        "import sys\nif __name__ == '__main__': print(input() + '!', len(sys.argv))", "é\n"
    ) == (
        0,
        "é! 1\n",
        "",
    )
    assert main(
        "import sys\nsys.stdout.buffer.write(b'a')\nprint('b', end='')\nsys.exit(3)"
    ) == (3, "ab", "")
    assert main("print('a')\nimport sys\nsys.exit('bye')") == (1, "a\n", "bye\n")
    assert main("import atexit\natexit.register(print, 'late')\nprint('a')")[:2] == (
        0,
        "a\nlate\n",
    )
    threads = (
        "import threading, time\n"
        "def f(): time.sleep(0.1); print('t')\n"
        "threading.Thread(target=f).start()\n"
        "print('m')"
    )
    assert main(threads)[:2] == (0, "m\nt\n")


def test_a_whole_program_that_fails_hints_at_why() -> None:
    status, out, err = main("print('a')\n1 / 0")
    assert (status, out) == (1, "a\n") and "ZeroDivisionError" in err and "line 2" in err
    assert main("def f(:")[0] == 101 and main("def f(:")[2].startswith("SyntaxError")
    assert main("raise MemoryError")[0] == 102
    assert main(json.loads('"x = \\"\\\\u0000\\""'))[0] in (0, 101)


def test_a_whole_program_may_leave_by_exit_and_print_integers_of_any_length() -> None:
    assert main("print(6)\nexit()\nprint(7)") == (0, "6\n", "")
    assert main("print(len(str(10**5000)))\nquit(3)")[:2] == (3, "5001\n")
