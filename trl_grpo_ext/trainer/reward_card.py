"""The reward card: how a model was rewarded, in `reward_card.json` and in TRL's model card.

It summarises records of the run: settings, logs, findings and summary. No scorecard is read again.
"""

from __future__ import annotations

import html
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from trl_grpo_ext.diagnostics.finding import read_findings
from trl_grpo_ext.diagnostics.levels import ends_of
from trl_grpo_ext.figures.logged import FALSE_ACCEPTS, FALSE_REJECTS
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.runs.listener import RunListener
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.resumed import KEY, describe_changes, weight_at_start
from trl_grpo_ext.runs.run_settings import conditions_of, without_credentials
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Interval, mean_of_known
from trl_grpo_ext.support.files import plain, write_json, write_text
from trl_grpo_ext.support.text import on_one_line
from trl_grpo_ext.support.version import versions

FILE = "reward_card.json"
BEGIN = "<!-- reward card: trl_grpo_ext writes what is up to the next comment -->"
END = "<!-- end of the reward card -->"
# The heading in TRL's model card before which the section stands; without it, the section stands at the end.
BEFORE = "### Framework versions"

NOISE = {"false_rejects": FALSE_REJECTS, "false_accepts": FALSE_ACCEPTS}
# The figures that the card takes from the logs.
LOGGED = re.compile(
    r"step|loss|eval_reward|(eval_)?rewards/.*/mean|verified/noise/false_.*"
)
Logs = Sequence[Mapping[str, Any]]

# The maximum length of a text in the model card, in characters.
MOST_CHARS = 300


class RewardCard(RunListener):
    """A listener that writes the reward card: after training, with each model card, with the summary.

    Without `has_log` or `has_checks`, this run records no logs or findings, so files on disk belong to another run.
    """

    def __init__(
        self,
        run_folder: str | os.PathLike[str],
        settings: Mapping[str, Any],
        mix: RewardMix | None,
        *,
        has_log: bool,
        has_checks: bool,
    ) -> None:
        self.folder = Path(run_folder)
        self._settings = settings
        self._mix = mix
        self._has_log = has_log
        self._has_checks = has_checks
        self._summary: Mapping[str, Any] | None = None
        self._has_ended = False
        # The step at which training began or resumed.
        self._from_step: int | None = None
        self._count: Counter[str] = Counter()
        self._hacks: Counter[str] = Counter()
        self._weights: dict[str, float] = {}

    def on_train_begin(self, *, quiet: bool) -> None:
        self._has_ended = False
        self._summary = None
        self._from_step = None
        self._count.clear()
        self._hacks.clear()

    def on_batch(self, card: Scorecard, figures: BatchFigures | None) -> None:
        if card.mode != "train":
            return
        if self._from_step is None:
            self._from_step = card.step
        self._weights = dict(card.weights)
        void = sum(card.void)
        self._count.update(judged=len(card) - void, void=void)
        if figures is not None:
            for term, found in figures.terms.items():
                self._hacks[term] += found.fooled

    def on_evaluate(self) -> None:
        if self._has_ended:
            self._write()

    def on_train_end(self) -> None:
        self._has_ended = True
        self._write()

    def on_summary(self, summary: Mapping[str, Any]) -> None:
        self._summary = summary
        self._write()

    def on_model_card(self) -> None:
        self._write(is_new=True)

    def _write(self, *, is_new: bool = False) -> None:
        """Write the file; update the section in the model card if the model card is new or has the section."""
        content = plain(self.content())
        write_json(self.folder / FILE, content)
        readme = self.folder / "README.md"
        text = ""
        if readme.is_file():
            text = readme.read_text(encoding="utf-8", errors="replace")
        if is_new or BEGIN in text:
            write_text(readme, with_section(text, section(content)))

    def content(self) -> dict[str, Any]:
        """Return the content of `reward_card.json`; unknown values are null or left out."""
        logs = self._logs()
        on_record = RecordedRun(self.folder).settings if self._has_log else {}
        return {
            "versions": versions(),
            "rewards": self._rewards(on_record),
            KEY: on_record.get(KEY, []),
            "facts": self._facts,
            "measured": measured(self._settings["reward_functions"], logs, self._summary),
            "findings": self._findings(),
            "hacks": {term: count for term, count in self._hacks.items() if count},
            "noise": {name: _latest(logs, key) for name, key in NOISE.items()},
            "completions": {"from_step": self._from_step, **self._count},
        }

    def _logs(self) -> Logs:
        """Read the run's logged figures of `LOGGED`."""
        if not self._has_log:
            return []
        logs = []
        for entry in RecordedRun(self.folder).iterate_logs():
            logs.append(
                {key: value for key, value in entry.items() if LOGGED.fullmatch(key)}
            )
        return logs

    def _rewards(self, on_record: Mapping[str, Any]) -> list[dict[str, Any]]:
        rewards = []
        for reward in self._settings["rewards"]:
            weights = {
                "weight": weight_at_start(reward, on_record),
                "weight_at_end": self._weights.get(reward["name"], reward["weight"]),
            }
            rewards.append({**reward, **weights})
        return rewards

    def _findings(self) -> list[dict[str, Any]] | None:
        if not self._has_checks:
            return None
        findings = []
        for finding in read_findings(self.folder):
            record = finding.to_record()
            findings.append(
                {name: record[name] for name in ("code", "step", "severity", "sentence")}
            )
        return findings

    @cached_property
    def _facts(self) -> dict[str, dict[str, str]]:
        """The verifiers' facts, by term, cached because a verifier may run a program to learn facts."""
        found: dict[str, dict[str, str]] = {}
        if self._mix is None:
            return found
        for term, verifier in self._mix.verifiers:
            facts = _facts_of(verifier)
            if facts:
                found[term.name] = facts
        return found


def _facts_of(verifier: Verifier) -> dict[str, str]:
    try:
        return {name: without_credentials(fact) for name, fact in verifier.facts().items()}
    except Exception as error:
        # A service may be down; the rest of the card is still known.
        return {"unknown": type(error).__name__}


def measured(
    terms: Sequence[str], logs: Logs, summary: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return each term's mean before and after training, from the best source: summary, evaluations or training logs.

    `by` describes the source. `before` and `after` map terms to `mean`, and to `low` and `high` if they are known.
    """
    if summary is not None and any(summary["accuracy"].values()):
        return {
            "by": "on the test split, before and after training",
            "before": _of_summary(summary, "before"),
            "after": _of_summary(summary, "after"),
        }
    evaluations = [entry for entry in logs if "eval_reward" in entry]
    if len(evaluations) > 1:
        first = evaluations[0]
        last = evaluations[-1]
        return {
            "by": f"in the first and the last evaluation, at steps {first['step']} and {last['step']}",
            "before": _means(terms, [first], "eval_"),
            "after": _means(terms, [last], "eval_"),
        }
    training = [entry for entry in logs if "loss" in entry]
    before, after = _ends_of_logs(training)
    by = "in training"
    if before:
        by = f"in training, {_steps(training, before)} and {_steps(training, after)}"
    return {
        "by": by,
        "before": _means(terms, before),
        "after": _means(terms, after),
    }


def _of_summary(summary: Mapping[str, Any], when: str) -> dict[str, Any]:
    return {term: pair[when] for term, pair in summary["terms"].items() if pair[when]}


def _ends_of_logs(training: Logs) -> tuple[Logs, Logs]:
    """Select logs from start and end of training, by the same rule as the run's headline."""
    if not training:
        return [], []
    *earlier, latest = training
    first, last = ends_of(range(1, latest["step"] + 1))
    before = [entry for entry in earlier if entry["step"] in first]
    # The first log may cover more steps than the run's start has.
    if not before:
        before = earlier[:1]
    after = [entry for entry in training[len(before) :] if entry["step"] in last]
    return before, after


def _steps(training: Logs, part: Logs) -> str:
    """Name the steps over which consecutive logs average; each log covers the steps since the previous log."""
    if not part:
        return ""
    previous = [entry["step"] for entry in training if entry["step"] < part[0]["step"]]
    begin = max(previous, default=0) + 1
    return f"steps {begin} to {part[-1]['step']}"


def _means(
    terms: Sequence[str], entries: Logs, prefix: str = ""
) -> dict[str, dict[str, float]]:
    means = {}
    for term in terms:
        mean = mean_of_known(entry.get(f"{prefix}rewards/{term}/mean") for entry in entries)
        if mean is not None:
            means[term] = {"mean": mean}
    return means


def _latest(logs: Logs, key: str) -> dict[str, float | None] | None:
    """Return the latest logged rate with its interval; None if no log has it."""
    for entry in reversed(logs):
        if entry.get(key) is not None:
            return {
                "mean": entry[key],
                "low": entry.get(f"{key}_low"),
                "high": entry.get(f"{key}_high"),
            }
    return None


def with_section(text: str, body: str) -> str:
    """Insert the section into a model card, or replace its earlier version."""
    written = f"{BEGIN}\n{body}\n{END}"
    before, begin, rest = text.partition(BEGIN)
    if begin:
        _, _, behind = rest.partition(END)
        return f"{before}{written}{behind}"
    before, heading, rest = text.partition(BEFORE)
    return f"{before.rstrip()}\n\n{written}\n\n{heading}{rest}"


def section(card: Mapping[str, Any]) -> str:
    """Write the section in Markdown, one table, with texts of data and model escaped and cut."""
    had = card["versions"]
    found = card["measured"]
    lines = [
        "",
        "### How the model was rewarded",
        "",
        f"By trl_grpo_ext {had['trl_grpo_ext']} with TRL {had['trl']}. Means are {found['by']}. `{FILE}` has more.",
        "",
        "| reward | judged by | weight at the start, at the end | conditions | mean before | mean after |",
        "|---|---|---|---|---|---|",
    ]
    for reward in card["rewards"]:
        cells = [
            escaped(reward["name"]),
            escaped(_judge(reward)),
            f"{_words(reward['weight']) or 'none'}, {reward['weight_at_end']:g}",
            escaped(_words(conditions_of(reward))),
            _rate(found["before"].get(reward["name"])),
            _rate(found["after"].get(reward["name"])),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    for entry in card.get(KEY, ()):
        lines += [
            "",
            escaped(
                f"The run was resumed with other settings {describe_changes(entry['step'], entry['changes'])}."
            ),
        ]
    return "\n".join(lines)


def _judge(reward: Mapping[str, Any]) -> str:
    """Name a reward's verifier, with its settings."""
    path: str = reward.get("verifier", "")
    _, _, name = path.rpartition(".")
    settings = _words(reward.get("settings"))
    if not settings:
        return name
    return f"{name} ({settings})"


def _rate(found: Mapping[str, float] | None) -> str:
    """Format a mean with its interval, if known."""
    if found is None:
        return "not measured"
    if found.get("low") is None:
        return f"{found['mean']:z.3f}"
    return str(Interval(**found))


def _words(value: Any) -> str:
    """Format plain values in one line, without unset and False settings."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        # 0 is set, and equals False.
        is_set = {
            key: item
            for key, item in value.items()
            if item not in (None, []) and item is not False
        }
        return ", ".join(f"{key} {_words(item)}" for key, item in is_set.items())
    if isinstance(value, list):
        return f"[{', '.join(map(_words, value))}]"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def escaped(text: str) -> str:
    r"""Shorten a text to one line of 300 characters, and escape Markdown, HTML and addresses.

    Examples:
        >>> print(escaped("| <b>*see* https://me"))
        \| &lt;b&gt;\*see\* https\://me
    """
    line = html.escape(on_one_line(text, MOST_CHARS), quote=False)
    return re.sub(r"[\\`*_\[\]|~$#!@]|:(?=//)|(?<=www)\.", r"\\\g<0>", line)
