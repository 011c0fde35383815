"""The import cost of the package; no module hides an exported name."""

from __future__ import annotations

import pkgutil

import pytest
from command_line import modules_after

import trl_grpo_ext
from trl_grpo_ext import rewards

HEAVY = ("torch", "transformers", "sympy", "trl", "datasets", "math_verify", "accelerate")


@pytest.mark.parametrize(
    "statement",
    [
        "import trl_grpo_ext",
        "import trl_grpo_ext.rewards",
        "from trl_grpo_ext import RewardMix, RewardTerm, Verifier, verifier, Sample, Verdict, Status, Blame, Scorecard",
        "from trl_grpo_ext.rewards import math_reward, think_format_reward, RegexVerifier",
        "import trl_grpo_ext.cli.main",
        "import trl_grpo_ext.workers.worker_main",
    ],
)
def test_importing_loads_nothing_heavy(statement: str) -> None:
    assert not modules_after(statement) & set(HEAVY)


def test_the_help_of_no_command_loads_anything_heavy() -> None:
    statement = (
        "import contextlib, io\nfrom trl_grpo_ext.cli.main import COMMANDS, main\n"
        "for command in COMMANDS:\n"
        " with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): main([command, '--help'])"
    )
    assert not modules_after(statement) & {*HEAVY, "numpy", "pyarrow", "rich"}


@pytest.mark.parametrize(
    "package", [trl_grpo_ext, rewards], ids=lambda package: package.__name__
)
def test_every_exported_name_is_there_and_is_no_module(package: object) -> None:
    names = package.__all__  # type: ignore[attr-defined]
    assert set(names) <= set(dir(package))
    for name in names:
        assert getattr(package, name) is not None
        assert name not in {
            module.name for module in pkgutil.iter_modules(package.__path__)
        }  # type: ignore[attr-defined]


def test_a_name_that_is_not_exported_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        trl_grpo_ext.no_such_name  # noqa: B018
    with pytest.raises(ImportError):
        from trl_grpo_ext.rewards import no_such_reward  # noqa: F401
