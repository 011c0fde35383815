"""The registry of verifiers: the names that `verifier:` in a recipe accepts besides dotted import paths.

To add a verifier, add one line to `SHIPPED`. Other packages register verifiers in the entry point group `GROUP`.
"""

from __future__ import annotations

import importlib
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType, ModuleType

from trl_grpo_ext.support import entry_points
from trl_grpo_ext.support.lazy import find_object
from trl_grpo_ext.support.text import did_you_mean

GROUP = "trl_grpo_ext.verifiers"
PACKAGE = "trl_grpo_ext.rewards"

# Name in recipes -> module in this package, class, and ready instance if the class needs neither arguments nor extras.
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
    "multiple_choice": (
        "multiple_choice",
        "MultipleChoiceVerifier",
        "multiple_choice_reward",
    ),
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
GONE_SETTINGS: Mapping[tuple[str, str], str] = {
    (
        "LlmJudgeVerifier",
        "reply",
    ): "The judge ends its reply with a line that has the score.",
    ("LlmJudgeVerifier", "min_score"): "The scale is 0 to 10: write the rubric for it.",
    ("LlmJudgeVerifier", "max_score"): "The scale is 0 to 10: write the rubric for it.",
    ("LlmJudgeVerifier", "include_thinking"): "The judge reads what follows the thinking.",
    ("LlmJudgeVerifier", "max_chars"): "A text over 20,000 characters loses its middle.",
    (
        "LlmJudgeVerifier",
        "temperature",
    ): "Write `extra_body: {temperature: ...}`; null sends none.",
    (
        "LlmJudgeVerifier",
        "max_tokens",
    ): "Write `extra_body: {max_tokens: ...}`; null sends none.",
    (
        "LlmJudgeVerifier",
        "system_role",
    ): "Give the judge's server a chat template that takes a system message.",
    (
        "LlmJudgeVerifier",
        "max_retries",
    ): "The client retries twice; `timeout` bounds all tries together.",
    (
        "LlmJudgeVerifier",
        "requests_per_minute",
    ): "Lower `concurrency`; the client also waits as long as the endpoint asks.",
    ("LlmJudgeVerifier", "cache_size"): "Scores are remembered in memory.",
    ("LlmJudgeVerifier", "cache_folder"): "Scores are remembered in memory, not on disk.",
}
"""Settings that verifiers had in earlier versions, by class and name, and what to do now."""


def exports() -> dict[str, str]:
    """Map each name exported by `trl_grpo_ext.rewards` to its module, without importing anything.

    The map has `<name>_reward` for every verifier, although only some have a ready instance: `language_reward` needs an
    extra, so `SHIPPED` does not list it, but it can be imported.
    """
    modules = {}
    for name, (module, *names) in SHIPPED.items():
        modules[f"{name}_reward"] = module
        for export in names:
            modules[export] = module
    return modules


def verifier_names() -> list[str]:
    """List the verifier names for recipes, including names from other packages, without importing anything."""
    names = {*SHIPPED, *entry_points.registered_names(GROUP)}
    return sorted(names)


def claims_on(name: str) -> list[str]:
    """List the import paths registered under a name, each with its package unless the package is ours."""
    claims = []
    if name in SHIPPED:
        _, class_name, *_ = SHIPPED[name]
        claims.append(f"{PACKAGE}.{class_name}")
    claims.extend(entry_points.claims_on(GROUP, name))
    return claims


def find_verifier(name: str) -> object:
    """Load the verifier, or verifier class, registered under a name.

    Raises:
        ValueError: for an unknown name, for a name that two packages claim, or if the package cannot be imported. A
            broken package raises only if its own verifier is named.

    Examples:
        >>> find_verifier("math").__name__
        'MathVerifier'
    """
    claims = claims_on(name)
    # Another package may not take a name that had a meaning here.
    if name in GONE:
        raise ValueError(f"there is no verifier {name!r} any more. {GONE[name]}")
    if not claims:
        raise ValueError(
            f"there is no verifier {name!r}. {did_you_mean(_short(name), verifier_names())}"
        )
    if len(claims) > 1:
        raise ValueError(
            f"several verifiers have the name {name!r}: {'; '.join(claims)}. Write the import path of one of them."
        )
    if name in SHIPPED:
        module, class_name, *_ = SHIPPED[name]
        return find_object(f"{PACKAGE}.{module}", class_name)
    return entry_points.load_registered(GROUP, name)


def _short(name: str) -> str:
    """Translate a Python name of a shipped verifier to its recipe name: `MathVerifier` to `math`."""
    for short, (_, *names) in SHIPPED.items():
        if name in names or name == f"{short}_reward":
            return short
    return name


def import_named(name: str) -> object:
    """Import an object by `module:attribute` or `module.attribute`; modules in the current folder are found too.

    Raises:
        ValueError: if the import fails, or the module lacks the attribute.
    """
    module_name, _, attribute = name.rpartition(".")
    if ":" in name:
        module_name, _, attribute = name.partition(":")
    # A console script, unlike `python -m`, does not search the current folder.
    here = str(Path.cwd())
    _make_importable(here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        # The user's module may raise anything.
        what = f"{name!r} cannot be imported: {type(error).__name__}: {error}."
        top_level, _, _ = module_name.partition(".")
        if isinstance(error, ModuleNotFoundError) and error.name == top_level:
            what += f" Modules of your own are looked for in the current folder, {here}."
        raise ValueError(what) from None
    if not hasattr(module, attribute):
        near = did_you_mean(attribute, _own_names(module))
        raise ValueError(f"the module {module_name!r} has no {attribute!r}. {near}")
    found: object = getattr(module, attribute)
    return found


def _own_names(module: ModuleType) -> list[str]:
    """List a module's public names, without classes, functions and modules that it imported from other packages."""
    package = module.__name__.partition(".")[0]
    names = []
    for name in dir(module):
        # Names that the module loads lazily are not there yet.
        found = vars(module).get(name)
        home = getattr(
            found, "__name__" if isinstance(found, ModuleType) else "__module__", None
        )
        is_imported = (
            isinstance(found, type | FunctionType | ModuleType)
            and str(home).partition(".")[0] != package
        )
        if not name.startswith("_") and not is_imported:
            names.append(name)
    return names


def _make_importable(folder: str) -> None:
    if folder in sys.path:
        return
    # Insert after Python's standard library, so that a user's `random.py` cannot replace the standard module.
    library = sysconfig.get_path("stdlib")
    place = 0
    for index, other in enumerate(sys.path):
        if other in (library, f"{library}/lib-dynload"):
            place = index + 1
    sys.path.insert(place, folder)
