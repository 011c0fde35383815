"""The `rewards:` list of a recipe, made into a reward mix."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trl_grpo_ext import rewards as shipped
from trl_grpo_ext.mix import RewardMix, RewardTerm
from trl_grpo_ext.names import did_you_mean
from trl_grpo_ext.protocol import Verifier

TERM_KEYS = ("name", "verifier", "weight")


def build_mix(entries: object) -> RewardMix:
    """The mix that a recipe's `rewards:` describes.

    Each entry is a mapping: `verifier` is a shipped name or a dotted import path (the current folder counts);
    `name` and `weight` are the term's; every other key is an argument of the verifier.

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
    if not isinstance(entry.get("verifier"), str):
        raise ValueError(f"`verifier` must name what judges. {did_you_mean('', shipped.SHIPPED)}")
    arguments = {key: value for key, value in entry.items() if key not in TERM_KEYS}
    verifier = _build_verifier(entry["verifier"], arguments)
    return RewardTerm(name=entry.get("name") or verifier.__name__, verifier=verifier, weight=entry.get("weight", 1.0))


def _build_verifier(name: str, arguments: Mapping[str, Any]) -> Verifier:
    found = getattr(shipped, shipped.SHIPPED[name]) if name in shipped.SHIPPED else _import(name)
    if isinstance(found, Verifier):
        if arguments:
            key = sorted(arguments)[0]
            raise ValueError(
                f"the verifier {name!r} is ready-made and takes no arguments, got `{key}`. "
                f"{did_you_mean(key, TERM_KEYS)}"
            )
        return found
    if not (isinstance(found, type) and issubclass(found, Verifier)):
        raise ValueError(f"{name!r} is no verifier; make one of a function with @verifier.")
    valid = [key for key in inspect.signature(found).parameters if key != "name"]
    for key in arguments:
        if key not in valid:
            raise ValueError(f"unknown key `{key}`. {did_you_mean(key, [*TERM_KEYS, *valid])}")
    needed = [
        key
        for key, parameter in inspect.signature(found).parameters.items()
        if parameter.default is inspect.Parameter.empty and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    missing = [key for key in needed if key not in arguments]
    if missing:
        raise ValueError(f"the verifier {name!r} needs `{missing[0]}`.")
    return found(**arguments)


def _import(name: str) -> object:
    module_name, _, attribute = name.rpartition(".")
    if not module_name:
        raise ValueError(f"there is no shipped verifier {name!r}. {did_you_mean(name, shipped.SHIPPED)}")
    here = str(Path.cwd())
    if here not in sys.path:  # as TRL does for --reward_funcs
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # the module is the user's, and may fail in any way
        raise ValueError(f"the verifier {name!r} cannot be imported: {type(error).__name__}: {error}.") from None
    if not hasattr(module, attribute):
        raise ValueError(f"the module {module_name!r} has no {attribute!r}. {did_you_mean(attribute, dir(module))}")
    found: object = getattr(module, attribute)
    return found
