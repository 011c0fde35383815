"""The registry of verifiers: its agreement with recipes, type checkers and docs, and entry points of packages."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import installed_package
import pytest
from places import ROOT

from trl_grpo_ext import RewardMix, rewards
from trl_grpo_ext.cli.main import main
from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.mix.reward_plan import plan_rewards
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.registry import PACKAGE, SHIPPED, find_verifier, verifier_names

VERIFIER = """
from trl_grpo_ext import Sample, Verdict, Verifier, verifier

class Polite(Verifier):
    def __init__(self, word="please"):
        self.word = word

    def verify(self, sample):
        return Verdict(status="correct", score=1.0)

@verifier
def ends_well(sample: Sample) -> bool:
    return sample.text.endswith(".")
"""
Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a distribution with these entry point lines, and a module `polite_rewards`, on Python's path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "polite_rewards.py").write_text(VERIFIER)
    (tmp_path / "broken_rewards.py").write_text("raise RuntimeError('no GPU')\n")

    def write(package: str, lines: str) -> None:
        installed_package.install(tmp_path, package, "trl_grpo_ext.verifiers", lines)

    return write


def mix_of(*verifiers: str) -> RewardMix:
    return build_mix(
        [
            {"name": f"term_{place}", "verifier": name}
            for place, name in enumerate(verifiers)
        ]
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_name_is_a_class_and_its_ready_instance_is_one_of_it(
    name: str,
) -> None:
    _, class_name, *ready = SHIPPED[name]
    found = find_verifier(name)
    assert isinstance(found, type) and issubclass(found, Verifier)
    assert found is getattr(rewards, class_name)
    assert ready in ([], [f"{name}_reward"])
    for instance in ready:
        assert type(getattr(rewards, instance)) is found


def test_type_checkers_see_what_the_registry_has() -> None:
    (block,) = (
        node
        for node in ast.parse(Path(rewards.__file__).read_text()).body
        if isinstance(node, ast.If)
    )
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {
        alias.asname: node.module
        for node in imports
        for alias in node.names
        if alias.name == alias.asname
    }
    # `language_reward` needs an extra, so it is made at first access; its type is declared nevertheless.
    assert seen.pop("language_reward").endswith("language")  # type: ignore[union-attr]
    assert seen == {
        name: f"{PACKAGE}.{module}" for module, *names in SHIPPED.values() for name in names
    }


def test_the_docs_table_and_the_readme_s_count_are_the_registry_s() -> None:
    page = (ROOT / "docs" / "verifiers_reference.md").read_text()
    table = page.partition("## What is shipped")[2].partition("\n\nEach ")[0]
    listed = {}
    for row in table.splitlines():
        classes, names, ready = (
            [*re.findall(r"`(\w+)`", cell)] for cell in (row + "|||").split("|")[1:4]
        )
        assert len(classes) == len(names) >= len(ready)
        listed |= {name: (each, *ready) for name, each in zip(names, classes, strict=True)}
    lazy = {
        "language": ["language_reward"],
        "reasoning_gym": ["reasoning_gym_reward"],
    }  # they need an extra
    assert listed == {
        name: (*names, *lazy.get(name, [])) for name, (_, *names) in SHIPPED.items()
    }
    readme = (ROOT / "README.md").read_text()
    count = re.search(
        r"\[(\d+) of them\]\(docs/verifiers_reference.md#what-is-shipped\)", readme
    )
    assert count is not None and int(count[1]) == len(SHIPPED)


def test_the_page_says_of_each_verifier_what_a_verdict_costs_or_why_not() -> None:
    page = (ROOT / "docs" / "verifiers_reference.md").read_text()
    costs = page.partition("what a verdict costs")[2].partition("\n## ")[0]
    assert [name for name in SHIPPED if f"`{name}`" not in costs] == []


def test_a_package_s_verifiers_are_in_recipes(install: Install) -> None:
    install(
        "polite", "polite = polite_rewards:Polite\nends_well = polite_rewards:ends_well"
    )
    assert {"polite", "ends_well", "math"} <= set(verifier_names())
    polite, ends_well = build_mix(
        [{"name": "a", "verifier": "polite", "word": "thanks"}, {"verifier": "ends_well"}]
    ).terms
    assert (polite.verifier.word, ends_well.name) == ("thanks", "ends_well")  # type: ignore[union-attr]
    assert ends_well.verifier(["Yes.", "Yes"]) == [1.0, 0.0]  # type: ignore[misc]
    with pytest.raises(ValueError, match=r"no verifier 'polit'\. Did you mean `polite`\?"):
        mix_of("polit")
    with pytest.raises(TypeError, match="the name 'polite'"):
        plan_rewards(["polite"])


def test_a_command_lists_them_with_their_import_paths(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("broken", "moody = broken_rewards:Moody")
    assert main(["recipes", "--verifiers"]) == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert listed["math"] == "trl_grpo_ext.rewards.MathVerifier"
    assert listed["moody"] == "broken_rewards.Moody of the package 'broken'"
    assert set(listed) == set(verifier_names())


def test_a_broken_package_is_an_error_only_where_it_is_named(install: Install) -> None:
    install(
        "broken",
        "moody = broken_rewards:Moody\nabsent = no_such_module:X\nnameless = polite_rewards:Rude",
    )
    install(
        "polite",
        "ends_well = polite_rewards:ends_well\nno_verifier = polite_rewards:Sample",
    )
    assert [term.verifier.__name__ for term in mix_of("ends_well", "math").terms] == [
        "ends_well",
        "math",
    ]  # type: ignore[union-attr]
    with pytest.raises(
        ValueError, match=r"entry 1.*broken_rewards\.Moody of the package 'broken'.*no GPU"
    ):
        mix_of("moody")
    with pytest.raises(
        ValueError, match=r"'absent', .* cannot be imported: ModuleNotFoundError"
    ):
        mix_of("absent")
    with pytest.raises(ValueError, match="cannot be imported: AttributeError"):
        mix_of("nameless")
    with pytest.raises(ValueError, match="'no_verifier' is not a verifier"):
        mix_of("no_verifier")


def test_a_package_cannot_replace_a_shipped_verifier_nor_another_package_s(
    install: Install,
) -> None:
    install("polite", "math = polite_rewards:Polite\nends_well = polite_rewards:ends_well")
    install("kind", "ends_well = kind_rewards:ends_well")
    with pytest.raises(
        ValueError, match=r"rewards\.MathVerifier; polite_rewards\.Polite of the"
    ):
        mix_of("math")
    with pytest.raises(
        ValueError, match=r"(polite_rewards.*kind_rewards|kind_rewards.*polite_rewards)"
    ):
        mix_of("ends_well")
    named = mix_of("trl_grpo_ext.rewards.MathVerifier", "polite_rewards.ends_well", "boxed")
    assert len(named.terms) == 3
