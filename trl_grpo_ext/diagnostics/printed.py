"""Console output of a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console

from trl_grpo_ext.diagnostics.diagnosis import Diagnosis
from trl_grpo_ext.diagnostics.example import Example
from trl_grpo_ext.diagnostics.finding import Finding


def print_diagnosis(
    diagnosis: Diagnosis, drivers: Mapping[str, float] | None = None, *, short: bool = False
) -> None:
    """Print the answer.

    Drivers are as `recent_drivers` gives them. `short` prints only the sentence and what to do.
    """
    page = _Page()
    page.line(diagnosis.sentence, style="bold")
    # The causes last: a cause that holds now has the action for now.
    told: dict[str, Finding] = {}
    for finding in (*diagnosis.findings, *diagnosis.causes):
        if finding.sentence in diagnosis.sentence:
            told[finding.sentence] = finding
    for finding in told.values():
        page.line(f"{finding.action} ({finding.docs})", indent=2)
    if short:
        return
    page.drivers(drivers or {})
    active = {cause.code for cause in diagnosis.causes}
    over = [
        finding
        for finding in diagnosis.findings
        if finding.code not in active and finding.sentence not in told
    ]
    page.findings(
        "Also", [cause for cause in diagnosis.causes if cause.sentence not in told]
    )
    page.findings("Earlier, and over", over)
    page.examples(diagnosis.examples)
    page.not_checked(diagnosis.not_checked)


class _Page:
    """Lines of text in which nothing is markup: a completion may hold any text."""

    def __init__(self) -> None:
        self.console = Console()

    def line(self, text: str, *, indent: int = 0, style: str = "") -> None:
        self.console.print(
            " " * indent + text,
            style=style,
            markup=False,
            highlight=False,
            emoji=False,
            soft_wrap=True,
        )

    def title(self, text: str) -> None:
        self.line("")
        self.line(text, style="underline" if self.console.is_terminal else "")

    def drivers(self, drivers: Mapping[str, float]) -> None:
        # One term has them all.
        if len(drivers) > 1:
            shares = ", ".join(
                f"{term} {100 * share:z.0f} %" for term, share in drivers.items()
            )
            self.line(
                f"The latest advantages come from: {shares} (trl-grpo-ext docs metrics_reference#driver-shares)"
            )

    def findings(self, title: str, findings: Sequence[Finding]) -> None:
        if findings:
            self.title(title)
        for finding in findings:
            at = "" if finding.step is None else f"step {finding.step}, "
            self.line(
                f"{at}{finding.severity}, {finding.code}: {finding.sentence}", indent=2
            )
            self.line(f"{finding.action} ({finding.docs})", indent=4, style="dim")

    def examples(self, examples: Sequence[Example]) -> None:
        if examples:
            self.title("Completions")
        for example in examples:
            advantage = (
                ""
                if example.advantage is None
                else f", advantage {example.advantage:+z.2f}"
            )
            self.line(f"step {example.step}, group {example.group}{advantage}", indent=2)
            shown = {"prompt": example.prompt, "completion": example.text}
            if example.gold is not None:
                shown["gold"] = example.gold
            shown |= example.verdicts
            for name, text in shown.items():
                self.line(f"{name}: {text}", indent=4)

    def not_checked(self, needs: Mapping[str, str]) -> None:
        if needs:
            self.title("Not checked, or only in part")
        for code, lacks in needs.items():
            self.line(f"{code}: needs {lacks}", indent=2, style="dim")
