"""The `rewards:` list of a recipe, made into a reward mix."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trl_grpo_ext.mix.described_terms import parse_combination, parse_gate, parse_shapes, parse_weight
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.registry import find_verifier, verifier_names
from trl_grpo_ext.support.text import did_you_mean

TERM_KEYS = ("name", "verifier", "combine", "weight", "gate", "when", "shape", "on_unscored")


def build_mix(entries: object) -> RewardMix:
    """The mix that a recipe's `rewards:` describes.

    Each entry is a mapping: `verifier` is a registered name or a dotted import path (the current folder counts), or
    `combine` names other terms; `name`, `weight`, `gate`, `when`, `shape` and `on_unscored` are the term's; every
    other key is an argument of the verifier. An argument that is itself a mapping with a `verifier`, or a list of
    these, is made into verifiers.

    Raises:
        ValueError: for what cannot be built, naming the entry.

    Example:
        >>> build_mix([{"name": "accuracy", "verifier": "math", "column": "answer"}]).weights
        [1.0]
    """
    if not isinstance(entries, Sequence) or isinstance(entries, str) or not entries:
        raise ValueError(
            "The recipe needs a `rewards:` list with at least one entry, such as `- {name: accuracy, verifier: math}`."
        )
    terms = []
    for number, entry in enumerate(entries, start=1):
        where = f"rewards entry {number}"
        if not isinstance(entry, Mapping):
            raise ValueError(f"{where} must be a mapping with a `verifier`, got {entry!r}.")
        if entry.get("name"):
            where += f" ({entry['name']})"
        try:
            terms.append(_build_term(entry))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{where}: {error}") from None
    return RewardMix(terms)


def _build_term(entry: Mapping[str, Any]) -> RewardTerm:
    rest = {key: value for key, value in entry.items() if key not in TERM_KEYS}
    of_the_term = {
        "weight": parse_weight(entry.get("weight", 1.0), _import),
        "gate": parse_gate(entry.get("gate")),
        "when": entry.get("when"),
        "shape": parse_shapes(entry.get("shape")),
        "on_unscored": entry.get("on_unscored", "void_row"),
    }
    if "combine" in entry:
        return _build_combined(entry, rest, of_the_term)
    if not isinstance(entry.get("verifier"), str):
        raise ValueError(f"`verifier` must name what judges. {did_you_mean('', verifier_names())}")
    verifier = _build_verifier(entry["verifier"], rest)
    return RewardTerm(name=entry.get("name") or verifier.__name__, verifier=verifier, **of_the_term)


def _build_combined(entry: Mapping[str, Any], rest: Mapping[str, Any], of_the_term: Mapping[str, Any]) -> RewardTerm:
    if "verifier" in entry or rest:
        key = "verifier" if "verifier" in entry else sorted(rest)[0]
        raise ValueError(f"a term that combines others takes no `{key}`. {did_you_mean(key, set(TERM_KEYS) - {key})}")
    if not entry.get("name"):
        raise ValueError("a term that combines others needs a `name`.")
    return RewardTerm(name=entry["name"], combine=parse_combination(entry["combine"]), **of_the_term)


def _argument(value: Any) -> Any:
    """An argument of a verifier; one that describes a verifier, or several, is made into that."""
    if isinstance(value, list):
        return [_argument(item) for item in value]
    if isinstance(value, Mapping) and isinstance(value.get("verifier"), str):
        rest = {key: item for key, item in value.items() if key != "verifier"}
        return _build_verifier(value["verifier"], rest, of_the_entry=("verifier",))
    return value


def _build_verifier(name: str, arguments: Mapping[str, Any], of_the_entry: tuple[str, ...] = TERM_KEYS) -> Verifier:
    found = _import(name) if "." in name else find_verifier(name)
    if isinstance(found, Verifier):
        if arguments:
            key = sorted(arguments)[0]
            raise ValueError(
                f"the verifier {name!r} is ready-made and takes no arguments, got `{key}`. "
                f"{did_you_mean(key, of_the_entry)}"
            )
        return found
    if not (isinstance(found, type) and issubclass(found, Verifier)):
        raise ValueError(f"{name!r} is no verifier; make one of a function with @verifier.")
    valid = list(inspect.signature(found).parameters)
    for key in arguments:
        if key not in valid:
            raise ValueError(f"unknown key `{key}`. {did_you_mean(key, [*of_the_entry, *valid])}")
    needed = [
        key
        for key, parameter in inspect.signature(found).parameters.items()
        if parameter.default is inspect.Parameter.empty and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    missing = [key for key in needed if key not in arguments]
    if missing:
        raise ValueError(f"the verifier {name!r} needs `{missing[0]}`.")
    return found(**{key: _argument(value) for key, value in arguments.items()})


def _import(name: str) -> object:
    module_name, _, attribute = name.rpartition(".")
    here = str(Path.cwd())
    if here not in sys.path:  # as TRL does for --reward_funcs
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # the module is the user's, and may fail in any way
        raise ValueError(f"{name!r} cannot be imported: {type(error).__name__}: {error}.") from None
    if not hasattr(module, attribute):
        raise ValueError(f"the module {module_name!r} has no {attribute!r}. {did_you_mean(attribute, dir(module))}")
    found: object = getattr(module, attribute)
    return found
