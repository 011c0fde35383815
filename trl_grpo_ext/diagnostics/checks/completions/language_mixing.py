"""Check `language_mixing`: words in a script that the prompt does not use."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.batches import percent
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.window import CheckResult, Window
from trl_grpo_ext.support.estimate import mean_of_known

# Of the words. Ours, without an experiment: information only, so a wrong level costs a line.
FOREIGN_WARN = 0.1
# Times the share at the start.
TWICE = 2.0


def foreign(window: Window) -> CheckResult:
    """Find foreign scripts: many words outside the prompt's script, twice the opening share."""
    if not window.later:
        return None
    now = mean_of_known(batch.text.foreign for batch in window.later)
    if now is None:
        return NotChecked("completions and prompts with words")
    before = mean_of_known(batch.text.foreign for batch in window.opening) or 0.0
    if now < max(FOREIGN_WARN, TWICE * before):
        return None
    return Finding(
        # Forbidding it costs some right answers (arXiv 2507.15849), so it is the user's to judge.
        severity=Severity.INFO,
        sentence=(
            f"{percent(now)} of the words of completions are in a script that their prompt does not use, "
            f"{percent(before)} at the start."
        ),
        numbers={"foreign": now, "foreign_at_the_start": before},
        action="If readers matter, add the `language` verifier with a small weight.",
    )
