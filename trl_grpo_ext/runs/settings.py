"""The settings of a run that its figures depend on, `scorecards/run.json`, with its verifiers' identities.

Two verifiers with one identity give the same verdicts, so recorded verdicts can be used again. An identity is a digest,
since a verifier's arguments may hold what does not belong in a run's folder. What people can read, `rewards`, has only
those arguments of this package's own verifiers that are plain values, and none whose name looks like a secret's.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from trl_grpo_ext.assets import short_name
from trl_grpo_ext.mix.gate import Gate, When
from trl_grpo_ext.mix.reward_plan import RewardPlan
from trl_grpo_ext.mix.schedule import Schedule
from trl_grpo_ext.mix.shape import NAMES
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.function import FunctionVerifier, PlainFunction
from trl_grpo_ext.support.files import write_json
from trl_grpo_ext.support.text import shortened
from trl_grpo_ext.support.version import __version__

SETTINGS = (
    "num_generations",
    "num_generations_eval",
    "scale_rewards",
    "multi_objective_aggregation",
    "loss_type",
    "beta",
    "epsilon",
    "learning_rate",
    "num_iterations",
    "temperature",
    "top_k",
    "max_completion_length",
    "mask_truncated_completions",
    "drop_dead_groups",
    "shuffle_dataset",
    "max_steps",
    "logging_steps",
    "seed",
)


def run_settings(args: Any, plan: RewardPlan, world_size: int, model: Any = None, rows: Any = None) -> dict[str, Any]:
    """The trainer's settings, plain values, after the names of its model and of its rows, if they have any.

    `reward_functions` are TRL's, in order, those that are terms among them. `verifiers` are the identities of the
    terms' verifiers, by term; null where it cannot be told. `rewards` are the reward functions as a person reads them.
    """
    names = {"model": short_name(str(getattr(model, "name_or_path", ""))), "dataset": _name_of_rows(rows)}
    found: dict[str, Any] = {key: name for key, name in names.items() if name}
    found |= {name: getattr(args, name, None) for name in SETTINGS}
    verifiers = {term.name: verifier_identity(verifier) for term, verifier in plan.mix.verifiers} if plan.mix else {}
    mixed = {"reward_functions": plan.names, "verifiers": verifiers, "rewards": described_rewards(plan)}
    return found | {"world_size": world_size} | mixed


def _name_of_rows(rows: Any) -> str:
    """What a dataset is called, or how many rows it has: files' and a script's have no name of their own."""
    about = getattr(rows, "info", None)
    name = getattr(about, "dataset_name", None) or ""
    if name and name != getattr(about, "builder_name", None):  # which is `json`, of JSON files
        return str(name)
    return f"{len(rows):,} rows" if hasattr(rows, "__len__") else ""


def write_settings(run_folder: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
    """Write `scorecards/run.json`, whole or not at all."""
    path = Path(run_folder) / "scorecards" / "run.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        settings = {**settings, "verifiers": _agreed(settings.get("verifiers", {}), path)}
    write_json(path, settings)


def _agreed(verifiers: Mapping[str, str | None], path: Path) -> dict[str, str | None]:
    """The identities of this session that were those of the earlier ones too; None for a term that has had several."""
    try:
        before = dict(json.loads(path.read_text(encoding="utf-8"))["verifiers"])
    except (ValueError, KeyError, TypeError):  # torn, or of a version that did not write them
        return dict.fromkeys(verifiers)
    changed = {term: None for term, identity in verifiers.items() if before.get(term, identity) != identity}
    return before | dict(verifiers) | changed


def described_rewards(plan: RewardPlan) -> list[dict[str, Any]]:
    """Each reward function as plain values, in the words of a recipe; `weight` is the one at the start.

    A term of the mix has `verifier`, its class, and the `settings` of that, or else what it combines. What it does not
    have, such as a gate, is left out.
    """
    terms = {term.name: term for term in plan.mix.terms} if plan.mix else {}
    described = []
    # TRL appends to the functions those of environments that score themselves, with weight 1.
    weights = chain(plan.weights, repeat(1.0))
    for name, function, weight in zip(plan.names, plan.functions, weights, strict=False):
        own = _described_term(terms[name]) if name in terms else {"verifier": _path(function)}
        described.append({"name": name, "weight": weight} | own)
    return described


def _described_term(term: RewardTerm) -> dict[str, Any]:
    gate, when, weight, combine = term.gate, term.when, term.weight, term.combine
    found = {
        "combine": {combine.kind: list(combine.terms)} if combine else None,
        "schedule": asdict(weight) if isinstance(weight, Schedule) else _path(weight) if callable(weight) else None,
        "gate": asdict(gate) if isinstance(gate, Gate) else None,
        "when": {column: list(map(_told, values)) for column, values in when.conditions}
        if isinstance(when, When)
        else None,
        "shape": [str(shape) if type(shape) in NAMES.values() else _path(shape) for shape in term.shapes] or None,
        "on_unscored": None if term.on_unscored == "void_row" else term.on_unscored,
        "only": term.only,
        "score_range": list(term.score_range) if term.score_range else None,
    }
    verifier = described_verifier(term.verifier) if term.verifier else {}
    return verifier | {key: value for key, value in found.items() if value is not None}


JUDGING = ("name", "verifier", "settings", "weight", "weight_at_end")  # who judges, and by how much


def conditions_of(described: Mapping[str, Any]) -> dict[str, Any]:
    """What else a described reward has: gate, `when`, shape and the like."""
    return {key: item for key, item in described.items() if key not in JUDGING}


SECRET = re.compile(r"key|token(?!s\b)|secret|passw|header|auth|credential|cookie|bearer", re.IGNORECASE)
URL = re.compile(r"(\w+://)(?:[^/\s]*@)?([^\s?#]*)[?#]?\S*")  # credentials stand before an @, or in the query
MOST_CHARS = 300  # of a text


def described_verifier(verifier: Verifier) -> dict[str, Any]:
    """A verifier's class, or function, and of this package's classes the settings that a stranger may read.

    Examples:
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> described_verifier(RegexVerifier(pattern="[0-9]+"))["settings"]["pattern"]
        '[0-9]+'
    """
    if isinstance(verifier, FunctionVerifier):
        settings = {"isolated": verifier.isolated, "timeout": verifier.timeout}
        return {"verifier": _path(verifier.function), "settings": settings}
    if isinstance(verifier, PlainFunction):
        return {"verifier": _path(verifier.function), "settings": {}}
    is_ours = type(verifier).__module__.startswith("trl_grpo_ext.")
    arguments: Mapping[str, Any] = _arguments(verifier) if is_ours and is_dataclass(verifier) else {}
    told = {name: _told(value) for name, value in arguments.items() if not SECRET.search(name)}
    return {"verifier": _path(type(verifier)), "settings": {name: value for name, value in told.items() if value != {}}}


def without_credentials(text: str) -> str:
    """A text whose URLs have lost what may let someone in.

    Examples:
        >>> without_credentials("a judge at https://me:word@host/v1?key=1")
        'a judge at https://host/v1'
    """
    return URL.sub(r"\1\2", text)


def _told(value: Any) -> Any:
    """A plain value, or a list of these, as it may be read; an empty mapping for any other."""
    if isinstance(value, str):
        return shortened(without_credentials(value), MOST_CHARS)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Verifier):
        return described_verifier(value)
    return list(map(_told, value)) if isinstance(value, list | tuple) else {}


def _path(found: Any) -> str:
    """Where a class or a function stands; of another object, its class."""
    if not hasattr(found, "__qualname__"):
        found = type(found)
    return f"{found.__module__}.{found.__qualname__}"


NO_ARGUMENT = ("name",)  # the metric's key does not change a verdict


class _UnknownError(Exception):
    """Raised for values that cannot be compared."""


def verifier_identity(verifier: Verifier) -> str | None:
    """Class, arguments and code as one short text; None where that cannot be told.

    The code is this package's version for its own verifiers. For others it is the source file that the verifier stands
    in; what that file imports is not looked at. A verifier of the script that was run, or made inside a function, has
    no identity.

    Examples:
        >>> from trl_grpo_ext.rewards import MathVerifier
        >>> strict = verifier_identity(MathVerifier(mode="boxed_only"))
        >>> strict == verifier_identity(MathVerifier(mode="boxed_only", name="strict"))
        True
        >>> strict == verifier_identity(MathVerifier())
        False
    """
    try:
        found = _identity(verifier)
    except Exception:  # a user's verifier may have any attributes
        return None
    digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    return f"{found[0]} {digest[:16]}"


def _identity(verifier: Verifier) -> list[Any]:
    if isinstance(verifier, FunctionVerifier):
        return [*_code(verifier.function), verifier.isolated, verifier.timeout]
    return [*_code(type(verifier)), _described(_arguments(verifier))]


def _arguments(verifier: Any) -> Mapping[str, Any]:
    if is_dataclass(verifier):
        state = {field.name: getattr(verifier, field.name) for field in fields(verifier) if field.init}
    else:
        state = verifier.__getstate__() or {}
    if not isinstance(state, Mapping):
        raise _UnknownError
    return {key: value for key, value in state.items() if key not in NO_ARGUMENT}


def _code(found: type | Callable[..., object]) -> list[str]:
    """Where a class or a function stands, and which code it is."""
    module, name = found.__module__, found.__qualname__
    if module == "__main__" or "<" in name:  # <locals>, <lambda>
        raise _UnknownError
    if module.startswith("trl_grpo_ext."):
        return [f"{module}.{name}", __version__]
    source = inspect.getsourcefile(found)
    if source is None:
        raise _UnknownError
    return [f"{module}.{name}", hashlib.sha256(Path(source).read_bytes()).hexdigest()]


def _described(value: Any) -> Any:
    """A value as JSON that is the same for equal values only."""
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Mapping):
        return {"map": sorted((json.dumps(_described(key)), _described(item)) for key, item in value.items())}
    if isinstance(value, list | tuple):
        return [_described(item) for item in value]
    if isinstance(value, set | frozenset):
        return {"set": sorted(json.dumps(_described(item), sort_keys=True) for item in value)}
    if isinstance(value, Verifier):
        return {"verifier": _identity(value)}
    return _described_object(value)


def _described_object(value: Any) -> Any:
    if isinstance(value, Enum):
        return {"enum": [*_code(type(value)), value.name]}
    if isinstance(value, Path):
        return {"path": str(value)}
    if isinstance(value, re.Pattern):
        return {"pattern": [value.pattern if isinstance(value.pattern, str) else value.pattern.hex(), value.flags]}
    if isinstance(value, type) or inspect.isfunction(value):
        return {"code": _code(value)}
    if is_dataclass(value):
        state = [(field.name, _described(getattr(value, field.name))) for field in fields(value)]
        return {"dataclass": [*_code(type(value)), state]}
    raise _UnknownError
