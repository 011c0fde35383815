"""The documentation's examples run, and produce the shown output."""

from __future__ import annotations

import argparse
import doctest
import importlib
import io
import itertools
import json
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from places import ROOT
from trl import GRPOConfig
from walls import walls_or_skip

from trl_grpo_ext.answers.find.final_answer import ANSWER_FROM
from trl_grpo_ext.cli.main import COMMANDS, PARSE_FLAGS, parse
from trl_grpo_ext.recipe.file import load_recipe
from trl_grpo_ext.recipe.recipe import parse_recipe
from trl_grpo_ext.rewards.registry import SHIPPED
from trl_grpo_ext.support.documentation import read_docs
from trl_grpo_ext.trainer.config import VerifiedGRPOConfig

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODULES_WITH_EXAMPLES = sorted(
    {
        ".".join(path.with_suffix("").relative_to(ROOT).parts).removesuffix(".__init__")
        for folder in ("trl_grpo_ext", "trl_grpo_ext/rewards")
        for path in (ROOT / folder).rglob("*.py")
        if ">>> " in path.read_text(encoding="utf-8")
    }
)

# Modules and pages whose examples run programs: skipped on machines without sandbox isolation.
SANDBOXED_MODULES = {
    "trl_grpo_ext.programs.sandbox.local",
    "trl_grpo_ext.programs.sandbox.session",
    "trl_grpo_ext.environments.python",
    "trl_grpo_ext.environments.code_repair",
    "trl_grpo_ext.rewards.unit_tests.verifier",
}
SANDBOXED = SANDBOXED_MODULES | {
    "unit_tests.md",
    "recipe_code.md",
    "python_tool.md",
    "code_repair.md",
    "README.md",
}

# Modules whose examples need an extra outside `dev`.
REASONING_GYM = (
    "trl_grpo_ext.rewards.reasoning_gym.verifier",
    "trl_grpo_ext.rewards.reasoning_gym.scoring",
)
NEEDS = dict.fromkeys(REASONING_GYM, "reasoning_gym")

Fence = tuple[str, str]


def fences(page: Path) -> list[Fence]:
    return [
        (match[1], match[2]) for match in FENCE.finditer(page.read_text(encoding="utf-8"))
    ]


def python_blocks() -> list[tuple[str, str, str | None]]:
    """List (page name, python block, output shown after the block or None)."""
    blocks = []
    for page in PAGES:
        found = [*fences(page), ("", "")]
        for (language, code), (next_language, shown) in itertools.pairwise(found):
            if language == "python":
                output = shown if next_language == "" and "print(" in code else None
                blocks.append((page.name, code, output))
    return blocks


def takes_long(page: str, code: str, _: str | None) -> bool:
    """Detect slow blocks outside the README: training, or programs that wait for a time limit."""
    return page != "README.md" and any(
        part in code for part in ("run_lab(", ".train()", "time.sleep(")
    )


@pytest.mark.usefixtures("any_cpu_counts")
@pytest.mark.parametrize("name", MODULES_WITH_EXAMPLES)
def test_examples_in_docstrings_run(name: str) -> None:
    if name in SANDBOXED:
        walls_or_skip()
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0


@pytest.mark.usefixtures("any_cpu_counts")
@pytest.mark.parametrize(
    ("page", "code", "shown"),
    [
        pytest.param(*block, marks=[pytest.mark.slow] if takes_long(*block) else [])
        for block in python_blocks()
    ],
)
def test_python_in_the_pages_runs_and_prints_what_is_shown(
    page: str, code: str, shown: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page in SANDBOXED:
        walls_or_skip()
    monkeypatch.chdir(tmp_path)
    module = ModuleType(
        "page"
    )  # a module that can be found, so that what it defines pickles
    monkeypatch.setitem(sys.modules, "page", module)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, page, "exec"), module.__dict__)
    if shown is not None:
        assert printed.getvalue() == shown


FLAG_ROW = re.compile(r"^\| (`--.*?) \|", re.MULTILINE)
PAGES_WITH_FLAGS = [
    page for page in PAGES if page.stem in COMMANDS and FLAG_ROW.search(page.read_text())
]


@pytest.mark.parametrize("page", PAGES_WITH_FLAGS, ids=lambda page: page.stem)
def test_the_table_of_a_command_s_page_has_the_flags_of_its_parser(page: Path) -> None:
    listed = re.findall(
        r"--\w+", "".join(FLAG_ROW.findall(page.read_text(encoding="utf-8")))
    )
    # The text around a table says what the recipe is for.
    assert {*listed, "--config"} == {*flags_of(page.stem), "--config"}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_usage_of_a_command_has_the_flags_of_its_parser(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    with pytest.raises(SystemExit):
        parse([command, "--help"])
    usage = capsys.readouterr().out.partition("\n\n")[0]
    assert [flag for flag in flags_of(command) if flag not in usage] == []
    assert ("[--FLAG VALUE ...]" in usage) == (command in PARSE_FLAGS)


def flags_of(command: str) -> list[str]:
    """List the long flags that help shows, the first spelling of each."""
    parsers = argparse.ArgumentParser().add_subparsers()
    COMMANDS[command].add_parser(parsers)
    flags = []
    for action in parsers.choices[command]._actions:
        long = [name for name in action.option_strings if name.startswith("--")]
        if long and action.help != argparse.SUPPRESS:
            flags.append(long[0])
    return [flag for flag in flags if flag != "--help"]


@pytest.mark.slow
def test_the_tutorial_runs_from_top_to_bottom(tmp_path: Path) -> None:
    cells = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))[
        "cells"
    ]
    lines = [
        line
        for cell in cells
        if cell["cell_type"] == "code"
        for line in "".join(cell["source"]).splitlines()
    ]
    command = re.compile(r"^!trl-grpo-ext (.*)")
    script = "\n".join(command.sub(r'run_command("\1")', line) for line in lines)
    (tmp_path / "tutorial.py").write_text(
        "import subprocess, sys\n"
        "def run_command(line):\n"
        "    assert subprocess.run([sys.executable, '-m', 'trl_grpo_ext', *line.split()]).returncode in (0, 1)\n"
        + script
    )
    done = subprocess.run(
        [sys.executable, "tutorial.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "HOLE" in done.stdout
    first, last = re.findall(r"batches: (0\.\d+) of", done.stdout)
    assert float(first) < float(last)


def recipes_in_pages() -> list[str]:
    return [code for page in PAGES for language, code in fences(page) if language == "yaml"]


def commands_in_pages() -> list[str]:
    shown = [
        line
        for page in PAGES
        for language, code in fences(page)
        if language != "python"
        for line in code.splitlines()
    ]
    return [line for line in shown if line.startswith("trl-grpo-ext ")]


@pytest.mark.parametrize("text", recipes_in_pages())
def test_recipes_in_the_pages_are_valid(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, begins in (("my_rewards", "def polite"), ("my_games", "class Adder")):
        (shown,) = {code for page, code, _ in python_blocks() if begins in code}
        (tmp_path / f"{module}.py").write_text(shown)
        sys.modules.pop(module, None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    keys = {"model_name_or_path": "m"} | yaml.safe_load(text)
    if "datasets" not in keys:
        keys = {"dataset_name": "d"} | keys
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(keys))
    parse_recipe(load_recipe("recipe.yaml"), ["--use_cpu", "true", "--bf16", "false"])


@pytest.mark.parametrize("line", commands_in_pages())
def test_commands_in_the_pages_are_understood(line: str) -> None:
    arguments = parse(shlex.split(line.partition(" > ")[0], comments=True)[1:])
    assert arguments.command


def test_what_the_code_refers_to_is_on_the_pages() -> None:
    """Help texts, errors and docstrings reach users without a clone."""
    sources = [
        path
        for folder in ("trl_grpo_ext", "rewards")
        for path in (ROOT / folder).rglob("*.py")
    ]
    reference = re.compile(r"(?:docs/|trl-grpo-ext docs )([a-z_]+(?:\.md)?(?:#[a-z_-]+)?)")
    found = {
        name
        for source in sources
        for name in reference.findall(source.read_text(encoding="utf-8"))
    }
    assert {"metrics#console", "findings#bad_data", "math.md"} <= found
    for name in found:
        assert read_docs(name)


def test_every_setting_that_we_add_to_trls_trainer_is_in_the_table_of_recipes() -> None:
    ours = {each.name for each in fields(VerifiedGRPOConfig)} - {
        each.name for each in fields(GRPOConfig)
    }
    rows = re.findall(
        r"^\| (.*) \| `VerifiedGRPOConfig` \|",
        read_docs("recipes_reference#keys"),
        re.MULTILINE,
    )
    assert {name for row in rows for name in re.findall(r"\w+", row)} == ours


def test_every_rule_for_finding_an_answer_is_on_the_page_of_verifiers() -> None:
    table = read_docs("verifiers_reference#where-the-answer-stands")
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == ["answer_from", *ANSWER_FROM]


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target, section in re.findall(
            r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")
        ):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
            if section:
                assert read_docs(f"{target or page.name}#{section}")


def test_every_page_is_in_the_sites_navigation_and_every_verifier_in_its_reference() -> (
    None
):
    listed = set(
        re.findall(r"[\w./-]+[.]md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    )
    assert listed == {
        str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")
    }
    shown = (ROOT / "docs" / "api" / "rewards.md").read_text(encoding="utf-8")
    classes = {
        name for _, *names in SHIPPED.values() for name in names if name[0].isupper()
    }
    assert {name for name in re.findall(r"\w+", shown) if name[0].isupper()} == classes
