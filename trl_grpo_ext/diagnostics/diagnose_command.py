"""`trl-grpo-ext diagnose RUN`: the answer on the console."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from trl_grpo_ext.diagnostics.diagnosis import Diagnosis
    from trl_grpo_ext.diagnostics.example import Example
    from trl_grpo_ext.diagnostics.finding import Finding


def add_diagnose_parser(commands: Any) -> None:
    """Add the command to `argparse`'s sub-commands."""
    parser = commands.add_parser(
        "diagnose",
        help="say in one sentence what holds a run's reward back",
        allow_abbrev=False,
        description="Read what a run has recorded, and say what holds its reward back: the sentence, the findings in "
        "order of cause, and a few completions. The run may be going on.",
    )
    parser.add_argument("run", metavar="RUN", help="the output_dir of a run")
    parser.add_argument("--examples", type=int, default=3, metavar="N", help="completions to quote (default: 3)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_diagnose_command(arguments: argparse.Namespace) -> int:
    """Print the answer; returns the exit status."""
    from trl_grpo_ext.diagnostics.diagnosis import diagnose
    from trl_grpo_ext.diagnostics.recorded_run import RecordedRun

    try:
        diagnosis = diagnose(RecordedRun(arguments.run), most_examples=max(0, arguments.examples))
    except (OSError, ValueError) as error:
        print(f"trl-grpo-ext: error: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(diagnosis.to_record(), indent=2, allow_nan=False))
    else:
        print_diagnosis(diagnosis)
    return 0


def print_diagnosis(diagnosis: Diagnosis, console: Console | None = None, *, short: bool = False) -> None:
    """Print the sentence and what to do; unless `short`, also the other findings, examples and what was not checked."""
    from rich.console import Console

    page = _Page(console or Console())
    page.line(diagnosis.sentence, style="bold")
    if diagnosis.causes and diagnosis.causes[0].sentence in diagnosis.sentence:
        page.line(f"{diagnosis.causes[0].action} ({diagnosis.causes[0].docs})", indent=2)
    if short:
        return
    others = [cause for cause in diagnosis.causes if cause.sentence not in diagnosis.sentence]
    over = [finding for finding in diagnosis.findings if finding.code not in {cause.code for cause in diagnosis.causes}]
    page.findings("Also", others)
    page.findings("Earlier, and over", over)
    page.examples(diagnosis.examples)
    if diagnosis.not_checked:
        page.title("Not checked")
        for code, needs in diagnosis.not_checked.items():
            page.line(f"{code}: needs {needs}", indent=2, style="dim")


class _Page:
    """Lines of text in which nothing is markup: completions are anybody's text."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def line(self, text: str, *, indent: int = 0, style: str = "") -> None:
        self.console.print(" " * indent + text, style=style, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def title(self, text: str) -> None:
        self.line("")
        self.line(text, style="underline" if self.console.is_terminal else "")

    def findings(self, title: str, findings: Sequence[Finding]) -> None:
        if findings:
            self.title(title)
        for finding in findings:
            self.line(f"step {finding.step}, {finding.severity}, {finding.code}: {finding.sentence}", indent=2)
            self.line(f"{finding.action} ({finding.docs})", indent=4, style="dim")

    def examples(self, examples: Sequence[Example]) -> None:
        if examples:
            self.title("Completions")
        for example in examples:
            advantage = "" if example.advantage is None else f", advantage {example.advantage:+.2f}"
            self.line(f"step {example.step}, group {example.group}{advantage}", indent=2)
            for name, text in {"prompt": example.prompt, "text": example.text, **example.verdicts}.items():
                self.line(f"{name}: {text}", indent=4)
