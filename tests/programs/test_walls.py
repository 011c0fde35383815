"""Walls that the attack corpus cannot test: leftovers of programs, and abilities that right programs keep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from walls import wait_until

from trl_grpo_ext.programs.sandbox.isolation import Isolation
from trl_grpo_ext.programs.sandbox.job import (
    CallSuite,
    Ending,
    Job,
    Limits,
    StdioCase,
    StdioSuite,
)
from trl_grpo_ext.programs.sandbox.local import LocalSandbox
from trl_grpo_ext.programs.sandbox.walls import filesystem
from trl_grpo_ext.programs.sandbox.zygote import Zygote

LIMITS = Limits(wall_seconds=10.0, cpu_seconds=5.0, memory_mb=128)


@pytest.fixture(scope="module")
def sandbox(level: Isolation) -> Iterator[LocalSandbox]:
    with closing(LocalSandbox(1, isolation=level)) as sandbox:
        yield sandbox


def prints(
    sandbox: LocalSandbox, program: str, printed: str, limits: Limits = LIMITS
) -> tuple[Ending, str]:
    """Return ending and detail of a program that must print `printed`."""
    suite = StdioSuite(tests=(StdioCase(stdin="", stdout=printed),))
    (result,) = sandbox.run([Job(program=program, suite=suite, limits=limits)])
    return result.ending, result.detail


def test_a_program_begins_in_an_empty_folder(sandbox: LocalSandbox) -> None:
    assert (
        prints(
            sandbox,
            "import os\nprint(os.listdir('.'), os.path.isdir(os.getcwd()))",
            "[] True",
        )[0]
        is Ending.PASSED
    )


def test_a_program_that_may_write_no_file_fails_and_the_verdict_says_why(
    level: Isolation, sandbox: LocalSandbox
) -> None:
    writes = "with open('out.txt', 'w') as file:\n    file.write('x')\nprint('ok')"
    ending, detail = prints(sandbox, writes, "ok")
    if level.namespaces:
        assert ending is Ending.PASSED
    else:
        assert (
            ending is Ending.ERROR and "PermissionError" in detail and "out.txt" in detail
        )


def test_standard_input_can_be_opened_by_its_name(sandbox: LocalSandbox) -> None:
    suite = StdioSuite(tests=(StdioCase(stdin="1 2\n3\n", stdout="1 2\n6\n"),))
    program = "with open('/dev/stdin') as f:\n    print(f.readline(), end='')\n    print(sum(map(int, f)) * 2)"
    assert sandbox.run([Job(program=program, suite=suite)])[0].ending is Ending.PASSED


def test_a_thread_with_a_stack_as_large_as_the_memory_starts(sandbox: LocalSandbox) -> None:
    program = """
import sys, threading
sys.setrecursionlimit(1 << 20)
threading.stack_size(512 << 20)
def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)
thread = threading.Thread(target=lambda: print(depth(100_000)))
thread.start()
thread.join()
"""
    assert prints(sandbox, program, "100000", Limits(memory_mb=512))[0] is Ending.PASSED


def test_folders_in_folders_keep_no_later_program_from_its_verdict(
    sandbox: LocalSandbox,
) -> None:
    digs = "import os\nwhile True:\n    os.mkdir('a')\n    os.chdir('a')"
    right = CallSuite(tests=("assert f() == 1",), names=("f",))
    assert prints(sandbox, digs, "ok")[0] is Ending.ERROR
    (after,) = sandbox.run([Job(program="def f(): return 1", suite=right)])
    assert after.ending is Ending.PASSED


def test_memory_of_processes_whose_first_thread_has_ended_counts(
    level: Isolation, sandbox: LocalSandbox
) -> None:
    if not level.namespaces:
        pytest.skip("programs cannot start processes here")
    holds = """
import ctypes, os, threading, time
def hold():
    block = bytearray(b"x") * (80 << 20)  # at once: what is copied would not fit
    time.sleep(60)
for _ in range(6):
    if os.fork() == 0:
        threading.Thread(target=hold).start()
        ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
time.sleep(60)
"""
    assert (
        prints(sandbox, holds, "", Limits(wall_seconds=30, memory_mb=128))[0]
        is Ending.MEMORY
    )


def test_shared_memory_of_no_file_is_refused(sandbox: LocalSandbox) -> None:
    maps = """
import mmap
try: print("shared", len(mmap.mmap(-1, 4096)))
except PermissionError: print("refused")
print(len(mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)))
"""
    assert prints(sandbox, maps, "refused\n4096") == (Ending.PASSED, "")


def test_pairs_of_sockets_are_streams_which_can_send_to_no_address(
    sandbox: LocalSandbox,
) -> None:
    pairs = """
import socket
for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
    try: print(len(socket.socketpair(socket.AF_UNIX, kind)))
    except PermissionError: print("refused")
"""
    assert prints(sandbox, pairs, "refused\nrefused\n2") == (Ending.PASSED, "")


def test_packages_that_a_python_here_has_installed_cannot_be_read(
    sandbox: LocalSandbox,
) -> None:
    bases, kinds = (
        (sys.base_prefix, "/usr", "/usr/local"),
        ("site-packages", "dist-packages"),
    )
    folders = [
        each
        for base in bases
        for kind in kinds
        for each in Path(base).glob(f"lib/python3*/{kind}")
    ]
    found = (
        next((file for file in each.rglob("*.py") if "numpy" not in str(file)), None)
        for each in folders
    )
    files = [str(each) for each in found if each is not None]
    if not files:
        pytest.skip("no package is installed outside the virtual environment")
    reads = f"""
for path in {files}:
    try: print(open(path).read(1))
    except OSError: pass
"""
    assert prints(sandbox, reads, "") == (Ending.PASSED, "")


def test_the_environment_says_nothing_of_this_machine(sandbox: LocalSandbox) -> None:
    usual = {"HOME", "PATH", "LANG", "TMPDIR", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}
    assert prints(sandbox, f"import os\nprint(set(os.environ) - {usual})", "set()") == (
        Ending.PASSED,
        "",
    )


def test_flags_that_a_program_sets_on_its_standard_streams_are_its_own(
    sandbox: LocalSandbox,
) -> None:
    suite = CallSuite(tests=("assert f() is True",), names=("f",))
    sets = "import fcntl, os\ndef f():\n    for n in range(3):\n        fcntl.fcntl(n, fcntl.F_SETFL, os.O_APPEND)\n"
    looks = (
        "import fcntl, os\ndef f(): return not fcntl.fcntl(0, fcntl.F_GETFL) & os.O_APPEND"
    )
    jobs = [
        Job(program=program, suite=suite) for program in (f"{sets}    return True", looks)
    ]
    assert [result.ending for result in sandbox.run(jobs)] == [Ending.PASSED, Ending.PASSED]


def test_file_locks_are_granted_and_nobody_sees_them(sandbox: LocalSandbox) -> None:
    locks = """
import fcntl, os
first, second = (os.open(os.__file__, os.O_RDONLY) for _ in range(2))
for descriptor in (first, second):
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(descriptor, fcntl.LOCK_SH)
try:
    fcntl.fcntl(second, fcntl.F_GETLK, bytes(32))
except PermissionError:
    print("unseen")
"""
    assert prints(sandbox, locks, "unseen")[0] is Ending.PASSED


def test_the_processes_of_a_program_share_one_session_and_so_one_share_of_the_processor(
    sandbox: LocalSandbox,
) -> None:
    program = """\
import os
before = os.getsid(0)
try:
    child = os.fork()
except PermissionError:
    child = -1
if child == 0:
    os.setsid()
    os._exit(os.getsid(0) != before)
print(child < 0 or os.waitpid(child, 0)[1] == 0)
"""
    assert prints(sandbox, program, "True") == (Ending.PASSED, "")


def test_the_host_has_no_name_and_the_start_of_the_process_is_not_shown(
    sandbox: LocalSandbox,
) -> None:
    asks = "import os, platform, sys, uuid\nprint(os.uname().nodename, platform.node(), sys.orig_argv)"
    assert prints(sandbox, asks, "sandbox sandbox ['python']")[0] is Ending.PASSED


def test_installed_packages_are_hidden_but_for_those_that_are_named(
    level: Isolation,
) -> None:
    shared = Path(sysconfig.get_path("purelib"))
    reads = f"""
import os, sys
path = {str(shared / "click" / "__init__.py")!r}
try: print(len(open(path).read()) > 0)
except OSError: print("hidden")
"""
    imports = (
        "import click, os\n"
        "print(click.Option is not None, 'core.py' in os.listdir(os.path.dirname(click.__file__)))"
    )
    with closing(LocalSandbox(1, isolation=level)) as plain:
        assert prints(plain, reads, "hidden")[0] is Ending.PASSED
        assert prints(plain, imports, "True True")[0] is Ending.ERROR
    with closing(LocalSandbox(1, isolation=level, packages=["click"])) as named:
        assert prints(named, imports, "True True")[0] is Ending.PASSED


def test_what_lies_beside_installed_packages_can_be_read_and_they_cannot(
    tmp_path: Path,
) -> None:
    library = tmp_path / "lib" / "python3"
    for folder in ("json", "site-packages/data", "site-packages/wanted"):
        (library / folder).mkdir(parents=True)
    shown = {"/packages/wanted": str(library / "site-packages" / "wanted")}
    readable = filesystem.Readable(
        [str(tmp_path / "lib")], [str(library / "site-packages")], shown
    )
    assert readable.rights() == {
        str(tmp_path / "lib"): 1 << 3,
        str(library): 1 << 3,
        str(library / "json"): filesystem.READ,
        "/packages": filesystem.READ,
        str(library / "site-packages" / "wanted"): filesystem.READ,
    }


TRAINER = """
import sys, time
from trl_grpo_ext.programs.sandbox.isolation import Isolation
from trl_grpo_ext.programs.sandbox.zygote import Zygote
zygote = Zygote(Isolation[sys.argv[1]])
print("up", flush=True)
time.sleep(60)
"""


def test_when_the_trainer_is_killed_no_folder_is_left(
    level: Isolation, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", TRAINER, level.name]
    trainer = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert trainer.stdout is not None and trainer.stdout.readline() == "up\n"
    trainer.kill()
    trainer.communicate()
    assert wait_until(lambda: not list(tmp_path.iterdir()))


@pytest.mark.parametrize("killed", [True, False])
def test_a_zygote_that_is_closed_leaves_no_folder(
    level: Isolation, killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    zygote = Zygote(level)
    if killed:
        os.kill(zygote.pid, signal.SIGKILL)
    zygote.kill()
    assert not list(tmp_path.iterdir())
