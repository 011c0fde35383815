"""Running a `CallSuite` on a service that runs whole programs and keeps nothing: the judge here, the program there.

The judge is the same as everywhere, in a jail of this machine where it has one, and speaks over a channel. At the
other end of the channel is not the program but this module: for each message of the judge it has the program run
again on the service, with all messages so far, and passes on the answer to the last one; see `inside.fusion_main`.
Tests and expected values never leave this machine. For a program that does not give the same answers each time, the
judge may see answers that do not belong together.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import functools
import importlib.util
import json
import secrets
import socket
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trl_grpo_ext.sandbox.call_run import REPORT_BYTES, Report, follow, judge_limits, judge_order, tell_judge
from trl_grpo_ext.sandbox.fusion_service import Run, ServiceError, ending_of
from trl_grpo_ext.sandbox.job import CallSuite, Job, RunResult, TestResult
from trl_grpo_ext.sandbox.monitor import LimitError, Monitor, over_time
from trl_grpo_ext.sandbox.zygote import Zygote
from trl_grpo_ext.workers.frames import Channel, Deadline, Inbox

MAX_REQUESTS = 64
"""The most messages of a judge to one program: each is a run of it, as long as all before together."""

ANSWER_CHARS = 120_000  # packed; SandboxFusion stalls a program that prints more than about 190 kB
_UNPACKED_BYTES = 4 << 20  # of an answer: the trainer itself unpacks it
_CALLS_BYTES = 64 << 20  # what a judge may ask of one program
_WRITE_SECONDS = 30.0
_MAIN = "trl_grpo_ext.sandbox.inside.fusion_main"
_BOOT = """\
import base64, builtins, json, sys, types, zlib
if not hasattr(builtins, "BaseExceptionGroup"):  # before Python 3.11
    builtins.BaseExceptionGroup = type("BaseExceptionGroup", (BaseException,), {{}})
for name, source in json.loads(zlib.decompress(base64.b64decode("{packed}"))).items():
    sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec", dont_inherit=True), sys.modules[name].__dict__)
sys.modules["{main}"].main()
"""

Ask = Callable[[str, str], Run]
"""Runs Python code that reads a text; raises `ServiceError` when the service fails."""


def run_calls(zygote: Zygote, job: Job, suite: CallSuite, ask: Ask) -> RunResult:
    """Run the tests against the program, by a judge that this zygote forks.

    Raises:
        ServiceError: if the service fails, or it takes too many requests.
        LostError, IsolationError: if the sandbox of the judge fails.
    """
    with contextlib.ExitStack() as opened:
        ends = [opened.enter_context(end) for _ in range(2) for end in socket.socketpair()]
        control, control_end, calls, calls_end = ends
        (judge,) = opened.enter_context(zygote.children(("judge", judge_limits(job.limits), [control_end])))
        tell_judge(control, calls_end, judge_order(job, suite))
        judging = _Judging(zygote, job, control, calls, ask)
        cut = follow(zygote, judge, job, judging.report, judging.reports, judging.step)
        return judging.report.conclude(cut, lambda: judging.ended)


@functools.cache
def driver() -> str:
    """The code that the service runs: `inside.fusion_main`, with the modules that it needs."""
    sources: dict[str, str] = {}
    _collect(_MAIN, sources)
    packed = base64.b64encode(zlib.compress(json.dumps(sources).encode(), 9)).decode()
    return _BOOT.format(packed=packed, main=_MAIN)


def _collect(name: str, sources: dict[str, str]) -> None:
    """Add the source of a module of this package, after those that it imports."""
    found = importlib.util.find_spec(name)
    assert found is not None and found.origin is not None
    source = Path(found.origin).read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if module.startswith("trl_grpo_ext.") and module not in sources:
            _collect(module, sources)
    sources[name] = source


class _Judging:
    """One run of a judge: what it asks goes to the service, what it reports is kept."""

    def __init__(self, zygote: Zygote, job: Job, control: socket.socket, calls: socket.socket, ask: Ask) -> None:
        self.report = Report(job)
        self.reports = Inbox(control.fileno(), REPORT_BYTES)
        self._questions = Inbox(calls.fileno(), _CALLS_BYTES)
        self._monitor = Monitor(zygote, job.limits)
        self.report.take([self._monitor.await_ready(self.reports), *self.reports.take()])
        self._monitor.add(control.fileno())
        self._monitor.add(calls.fileno())
        self._job, self._calls, self._ask = job, calls, ask
        self._messages: list[dict[str, Any]] = []
        self.ended: TestResult | None = None  # how the program ended, when it has
        # The judge's own time: that of the program is counted on the service.
        self._left, self._since = job.limits.wall_seconds, time.monotonic()
        self._begun = False

    def step(self) -> None:
        """Tell the judge whether the program was loaded; from then on, wait for the judge, and do as it says."""
        if not self._begun:
            self._begun = True
            self._pass_on()
            return
        ready = self._monitor.wait()
        if self.reports.descriptor in ready:  # first, as it says what came of the questions before
            self.reports.read()
            self.report.take(self.reports.take())
        elif self._questions.descriptor in ready:
            self._questions.read()
            for message in self._questions.take():
                self._messages.append(message)
                self._pass_on()
            if self._questions.ended:
                self._monitor.remove(self._questions.descriptor)

    def _pass_on(self) -> None:
        """Have the program answer; the judge's time stands still meanwhile."""
        self._left -= time.monotonic() - self._since
        answer = self._answer()
        if answer is None:
            self._calls.shutdown(socket.SHUT_WR)
        else:
            with contextlib.suppress(OSError):  # a judge that is gone shows when it says nothing
                Channel(self._calls.fileno()).send_bytes(answer, Deadline(_WRITE_SECONDS))
        self._since = time.monotonic()
        self._monitor.start(self._left)

    def _answer(self) -> bytes | None:
        """What the program says to the last message, or before the first one; None if it has ended."""
        if len(self._messages) > MAX_REQUESTS:
            raise ServiceError(f"the tests ask the program more than {MAX_REQUESTS} times, too often for a service")
        # One that ends well has answered: if nothing is there, the service may have lost it.
        for _ in range(2):
            marker = secrets.token_hex(16)
            order = {"program": self._job.program, "messages": self._messages, "marker": marker, "most": ANSWER_CHARS}
            run = self._ask(driver(), json.dumps(order, allow_nan=False, separators=(",", ":")))
            if run.timed_out:
                raise LimitError(over_time(self._job.limits))
            _, *parts = run.stdout.rsplit(marker, 2)
            if len(parts) == 2:
                return _unpack(parts[0])
            if run.code != 0:
                break
        self.ended = ending_of(run, self._job.limits)
        return None


def _unpack(text: str) -> bytes:
    """The answer between two markers. What cannot be unpacked is for the judge to refuse, as is what is too long."""
    if text == "!":  # too long for the service to carry
        return b"\xff\xff\xff\xff"
    try:
        packed = base64.b64decode(text, validate=True)
        return zlib.decompressobj().decompress(packed, _UNPACKED_BYTES)
    except (ValueError, zlib.error):
        return b""
