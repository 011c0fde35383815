"""The workflow for GitHub runs what has to hold before anything lands."""

from __future__ import annotations

import re

import yaml
from places import ROOT


def test_the_workflow_runs_the_targets_of_ci_run() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    targets = [line.partition("   #")[0] for line in lines if line.startswith("make ")]
    workflow = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    )
    assert workflow["jobs"]["make"]["strategy"]["matrix"]["target"] == targets
    assert workflow["jobs"]["make"]["steps"][-1]["run"].endswith("${{ matrix.target }}")


def test_every_target_that_contributors_are_told_to_run_is_one() -> None:
    targets = re.findall(
        r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    for file in ("CONTRIBUTING.md", ".github/PULL_REQUEST_TEMPLATE.md"):
        named = re.findall(r"`make ([a-z-]+)", (ROOT / file).read_text(encoding="utf-8"))
        assert {*named} <= {*targets}, file
