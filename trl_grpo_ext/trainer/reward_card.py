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
from statistics import fmean
from typing import Any

from trl_grpo_ext.diagnostics.finding import read_findings
from trl_grpo_ext.diagnostics.levels import ends_of
from trl_grpo_ext.figures.logged import FALSE_ACCEPTS, FALSE_REJECTS
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.runs.listener import RunListener
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.resumed import KEY, told, weight_at_start
from trl_grpo_ext.runs.settings import conditions_of, without_credentials
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Interval
from trl_grpo_ext.support.files import plain, write_json, write_text
from trl_grpo_ext.support.text import on_one_line
from trl_grpo_ext.support.version import versions

FILE = "reward_card.json"
BEGIN, END = (
    "<!-- reward card: trl_grpo_ext writes what is up to the next comment -->",
    "<!-- end of the reward card -->",
)
# The heading in TRL's model card before which the section stands; without it, the section stands at the end.
BEFORE = "### Framework versions"

NOISE = {"false_rejects": FALSE_REJECTS, "false_accepts": FALSE_ACCEPTS}
# The figures that the card takes from the logs.
LOGGED = re.compile(r"step|loss|eval_reward|(eval_)?rewards/.*/mean|verified/noise/false_.*")
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
        self._settings, self._mix, self._has_log, self._has_checks = settings, mix, has_log, has_checks
        self._summary: Mapping[str, Any] | None = None
        self._has_ended = False
        # The step at which training began or resumed.
        self._from_step: int | None = None
        self._count: Counter[str] = Counter()
        self._hacks: Counter[str] = Counter()
        self._weights: dict[str, float] = {}

    def on_train_begin(self, *, quiet: bool) -> None:
        self._has_ended, self._summary, self._from_step = False, None, None
        self._count.clear()
        self._hacks.clear()

    def on_batch(self, card: Scorecard, figures: BatchFigures | None) -> None:
        if card.mode != "train":
            return
        if self._from_step is None:
            self._from_step = card.step
        self._weights, void = dict(card.weights), sum(card.void)
        self._count.update(judged=len(card) - void, void=void)
        self._hacks.update({term: found.fooled for term, found in (figures.terms if figures else {}).items()})

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
        text = readme.read_text(encoding="utf-8", errors="replace") if readme.is_file() else ""
        if is_new or BEGIN in text:
            write_text(readme, with_section(text, section(content)))

    def content(self) -> dict[str, Any]:
        """Return the content of `reward_card.json`; unknown values are null or left out."""
        entries = RecordedRun(self.folder).iterate_logs() if self._has_log else ()
        on_record = RecordedRun(self.folder).settings if self._has_log else {}
        logs = [{key: value for key, value in entry.items() if LOGGED.fullmatch(key)} for entry in entries]
        shown = ("code", "step", "severity", "sentence")
        found = [one.to_record() for one in read_findings(self.folder)] if self._has_checks else None
        return {
            "versions": versions(),
            "rewards": [
                {
                    **reward,
                    "weight": weight_at_start(reward, on_record),
                    "weight_at_end": self._weights.get(reward["name"], reward["weight"]),
                }
                for reward in self._settings["rewards"]
            ],
            KEY: on_record.get(KEY, []),
            "facts": self._facts,
            "measured": measured(self._settings["reward_functions"], logs, self._summary),
            "findings": found and [{name: record[name] for name in shown} for record in found],
            "hacks": {term: count for term, count in self._hacks.items() if count},
            "noise": {name: _latest(logs, key) for name, key in NOISE.items()},
            "completions": {"from_step": self._from_step, **self._count},
        }

    @cached_property
    def _facts(self) -> dict[str, dict[str, str]]:
        """The verifiers' facts, by term, cached because a verifier may run a program to learn facts."""
        verifiers = self._mix.verifiers if self._mix else ()
        return {term.name: facts for term, verifier in verifiers if (facts := _facts_of(verifier))}


def _facts_of(verifier: Verifier) -> dict[str, str]:
    try:
        return {name: without_credentials(fact) for name, fact in verifier.facts().items()}
    except Exception as error:
        # A service may be down; the rest of the card is still known.
        return {"unknown": type(error).__name__}


def measured(terms: Sequence[str], logs: Logs, summary: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return each term's mean before and after training, from the best source: summary, evaluations or training logs.

    `by` describes the source. `before` and `after` map terms to `mean`, and to `low` and `high` if they are known.
    """
    if summary is not None and any(summary["accuracy"].values()):
        pairs = summary["terms"].items()
        return {"by": "on the test split, before and after training"} | {
            when: {term: pair[when] for term, pair in pairs if pair[when]} for when in ("before", "after")
        }
    evaluations = [entry for entry in logs if "eval_reward" in entry]
    if len(evaluations) > 1:
        first, last = evaluations[0], evaluations[-1]
        steps = f"in the first and the last evaluation, at steps {first['step']} and {last['step']}"
        return {"by": steps, "before": _means(terms, [first], "eval_"), "after": _means(terms, [last], "eval_")}
    training = [entry for entry in logs if "loss" in entry]
    before, after = _ends_of_logs(training)
    by = f"in training, {_steps(training, before)} and {_steps(training, after)}"
    return {"by": by if before else "in training", "before": _means(terms, before), "after": _means(terms, after)}


def _ends_of_logs(training: Logs) -> tuple[Logs, Logs]:
    """Select logs from start and end of training, by the same rule as the run's headline."""
    first, last = ends_of(range(1, training[-1]["step"] + 1)) if training else ((), ())
    before = [entry for entry in training[:-1] if entry["step"] in first] or training[:-1][:1]
    return before, [entry for entry in training[len(before) :] if entry["step"] in last]


def _steps(training: Logs, part: Logs) -> str:
    """Name the steps over which consecutive logs average; each log covers the steps since the previous log."""
    begin = max((entry["step"] for entry in training if part and entry["step"] < part[0]["step"]), default=0) + 1
    return f"steps {begin} to {part[-1]['step']}" if part else ""


def _means(terms: Sequence[str], entries: Logs, prefix: str = "") -> dict[str, dict[str, float]]:
    found = {term: [entry.get(f"{prefix}rewards/{term}/mean") for entry in entries] for term in terms}
    known = {term: [value for value in values if value is not None] for term, values in found.items()}
    return {term: {"mean": fmean(values)} for term, values in known.items() if values}


def _latest(logs: Logs, key: str) -> dict[str, float | None] | None:
    """Return the latest logged rate with its interval; None if no log has it."""
    for entry in reversed(logs):
        if entry.get(key) is not None:
            return {"mean": entry[key], "low": entry.get(f"{key}_low"), "high": entry.get(f"{key}_high")}
    return None


def with_section(text: str, body: str) -> str:
    """Insert the section into a model card, or replace its earlier version."""
    before, begin, rest = text.partition(BEGIN)
    if begin:
        return f"{before}{BEGIN}\n{body}\n{END}{rest.partition(END)[2]}"
    before, heading, rest = text.partition(BEFORE)
    return f"{before.rstrip()}\n\n{BEGIN}\n{body}\n{END}\n\n{heading}{rest}"


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
        lines += ["", escaped(f"The run was resumed with other settings {told(entry['step'], entry['changes'])}.")]
    return "\n".join(lines)


def _judge(reward: Mapping[str, Any]) -> str:
    """Name a reward's verifier, with its settings."""
    name: str = reward.get("verifier", "").rpartition(".")[2]
    settings = _words(reward.get("settings"))
    return f"{name} ({settings})" if settings else name


def _rate(found: Mapping[str, float] | None) -> str:
    """Format a mean with its interval, if known."""
    if found is None:
        return "not measured"
    return str(Interval(**found)) if found.get("low") is not None else f"{found['mean']:z.3f}"


def _words(value: Any) -> str:
    """Format plain values in one line, without unset and False settings."""
    if isinstance(value, Mapping):
        is_set = {key: item for key, item in value.items() if item not in (None, []) and item is not False}
        return ", ".join(f"{key} {_words(item)}" for key, item in is_set.items())
    if isinstance(value, list):
        return f"[{', '.join(map(_words, value))}]"
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def escaped(text: str) -> str:
    r"""Shorten a text to one line of 300 characters, and escape Markdown, HTML and addresses.

    Examples:
        >>> print(escaped("| <b>*see* https://me"))
        \| &lt;b&gt;\*see\* https\://me
    """
    line = html.escape(on_one_line(text, MOST_CHARS), quote=False)
    return re.sub(r"[\\`*_\[\]|~$#!@]|:(?=//)|(?<=www)\.", r"\\\g<0>", line)
