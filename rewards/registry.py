"""The one registry of verifiers: what a recipe's `verifier:` may name, beside a dotted import path.

A new verifier is one line in `SHIPPED`. Other packages register theirs by the entry point group `GROUP`.
"""

from __future__ import annotations

import importlib
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from trl_grpo_ext.support import entry_points
from trl_grpo_ext.support.lazy import find_object
from trl_grpo_ext.support.text import did_you_mean

GROUP = "trl_grpo_ext.verifiers"
PACKAGE = "trl_grpo_ext.rewards"

# A recipe's name: the module in this package, the class, and the ready instance if it needs no arguments and no extra.
SHIPPED: Mapping[str, tuple[str, ...]] = {
    "all_of": ("compositions", "AllOf"),
    "any_of": ("compositions", "AnyOf"),
    "boxed": ("formats.boxed", "BoxedVerifier", "boxed_reward"),
    "calibration": ("calibration", "CalibrationVerifier", "calibration_reward"),
    "cascade": ("llm_judge.cascade", "CascadeVerifier"),
    "code_format": ("formats.code_format", "CodeFormatVerifier", "code_format_reward"),
    "concise": ("lengths", "ConciseVerifier", "concise_reward"),
    "cosine_length": ("length_limits", "CosineLengthVerifier"),
    "diversity": ("repetition", "DiversityVerifier", "diversity_reward"),
    "environment": ("environment", "EnvironmentReward"),
    "exact_text": ("exact_text", "ExactTextVerifier", "exact_text_reward"),
    "first_scored": ("compositions", "FirstScored"),
    "ifeval": ("ifeval.verifier", "IFEvalVerifier", "ifeval_reward"),
    "json": ("formats.json_format", "JsonVerifier", "json_reward"),
    "language": ("language", "LanguageVerifier"),
    "llm_judge": ("llm_judge.verifier", "LlmJudgeVerifier"),
    "math": ("math", "MathVerifier", "math_reward"),
    "multiple_choice": ("multiple_choice", "MultipleChoiceVerifier", "multiple_choice_reward"),
    "numeric": ("numeric", "NumericVerifier", "numeric_reward"),
    "overlap": ("overlap", "OverlapVerifier", "overlap_reward"),
    "overlong": ("length_limits", "OverlongVerifier"),
    "reasoning_gym": ("reasoning_gym.verifier", "ReasoningGymVerifier"),
    "regex": ("formats.regex", "RegexVerifier"),
    "repetition": ("repetition", "RepetitionVerifier", "repetition_reward"),
    "tags": ("formats.tags", "TagsVerifier"),
    "think_format": ("formats.tags", "ThinkFormatVerifier", "think_format_reward"),
    "token_budget": ("lengths", "TokenBudgetVerifier"),
    "tool_calls": ("tool_calls", "ToolCallsVerifier", "tool_calls_reward"),
    "unit_test": ("unit_tests.verifier", "UnitTestVerifier", "unit_test_reward"),
}
GONE = {
    "run_without_error": "`unit_test` with `run_only: true` does it.",
    "xml": "`tags` checks tags and their order.",
}
"""Verifiers of earlier versions, and what to use now."""


def exports() -> dict[str, str]:
    """By the name that `trl_grpo_ext.rewards` exports, the module that has it. Nothing is imported.

    Every verifier may have a ready instance, called `<name>_reward`; one that needs an extra can be had, and is not
    listed.
    """
    instances = {f"{name}_reward": module for name, (module, *_) in SHIPPED.items()}
    return instances | {export: module for module, *names in SHIPPED.values() for export in names}


def verifier_names() -> list[str]:
    """The names that a recipe may use, those of other packages included. Nothing is imported."""
    return sorted({*SHIPPED, *entry_points.registered_names(GROUP)})


def claims_on(name: str) -> list[str]:
    """The import paths that are registered under a name, each with its package if that is another one."""
    shipped = [f"{PACKAGE}.{SHIPPED[name][1]}"] if name in SHIPPED else []
    return [*shipped, *entry_points.claims_on(GROUP, name)]


def find_verifier(name: str) -> object:
    """What is registered under a name: a verifier, or a class of them.

    Raises:
        ValueError: for an unknown name, for one that two packages claim, or if the package that has it cannot be
            imported. A broken package is no matter as long as its verifier is not named.

    Examples:
        >>> find_verifier("math").__name__
        'MathVerifier'
    """
    claims = claims_on(name)
    if name in GONE:
        raise ValueError(f"there is no verifier {name!r} any more. {GONE[name]}")
    if not claims:
        raise ValueError(f"there is no verifier {name!r}. {did_you_mean(_short(name), verifier_names())}")
    if len(claims) > 1:
        raise ValueError(
            f"several verifiers have the name {name!r}: {'; '.join(claims)}. Write the import path of one of them."
        )
    if name in SHIPPED:
        module, class_name, *_ = SHIPPED[name]
        return find_object(f"{PACKAGE}.{module}", class_name)
    return entry_points.load_registered(GROUP, name)


def _short(name: str) -> str:
    """A shipped verifier's name for recipes, where it is called as in Python."""
    return next((short for short, (_, *names) in SHIPPED.items() if name in (*names, f"{short}_reward")), name)


def import_named(name: str) -> object:
    """What `module:attribute` or `module.attribute` names; modules in the current folder count.

    Raises:
        ValueError: for what cannot be imported, or is not there.
    """
    module_name, _, attribute = name.partition(":") if ":" in name else name.rpartition(".")
    here = str(Path.cwd())
    if here not in sys.path:  # behind Python's own library: a `random.py` of the user's is not to replace that
        library = sysconfig.get_path("stdlib")
        own = [place for place, folder in enumerate(sys.path) if folder in (library, f"{library}/lib-dynload")]
        sys.path.insert(own[-1] + 1 if own else 0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # the module is the user's, and may fail in any way
        is_here = isinstance(error, ModuleNotFoundError) and error.name == module_name.partition(".")[0]
        where = f" Modules of your own are looked for in the current folder, {here}." if is_here else ""
        raise ValueError(f"{name!r} cannot be imported: {type(error).__name__}: {error}.{where}") from None
    if not hasattr(module, attribute):
        public = [each for each in dir(module) if not each.startswith("_")]
        raise ValueError(f"the module {module_name!r} has no {attribute!r}. {did_you_mean(attribute, public)}")
    found: object = getattr(module, attribute)
    return found
