"""Build a `RewardMix` from its description, the `rewards:` list of a recipe."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from trl_grpo_ext.mix.combination import Combination, Kind
from trl_grpo_ext.mix.gate import Gate
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.schedule import CURVES, Schedule, Weight
from trl_grpo_ext.mix.shape import GONE, NAMES, Shape
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.function import VARIABLE, PlainFunction, is_plain_function
from trl_grpo_ext.rewards.registry import (
    GONE_SETTINGS,
    find_verifier,
    import_named,
    verifier_names,
)
from trl_grpo_ext.support.text import did_you_mean, nearest

logger = logging.getLogger(__name__)

TERM_KEYS = (
    "name",
    "verifier",
    "combine",
    "weight",
    "gate",
    "when",
    "shape",
    "on_unscored",
    "only",
    "score_range",
)


def build_mix(entries: object, *, each: str = "rewards entry") -> RewardMix:
    """Build the mix that a recipe's `rewards:` list describes.

    Each entry is a mapping: `verifier` is a registered name or a dotted import path (the current folder counts), or
    `combine` names other terms; `name`, `weight`, `gate`, `when`, `shape`, `on_unscored`, `only` and `score_range` are
    attributes of the term; every other key is an argument of the verifier. An argument that is a mapping with a
    `verifier`, or a list of such mappings, becomes a verifier or a list of verifiers. Error messages call an entry
    `each` and its number.

    Raises:
        ValueError: for an entry that cannot be built; the message names the entry.

    Examples:
        >>> build_mix([{"name": "accuracy", "verifier": "math", "column": "answer"}]).weights
        [1.0]
    """
    if not isinstance(entries, Sequence) or isinstance(entries, str) or not entries:
        raise ValueError(
            "The recipe needs a `rewards:` list with at least one entry, such as `- {name: accuracy, verifier: math}`."
        )
    terms = []
    for number, entry in enumerate(entries, start=1):
        where = f"{each} {number}"
        if not isinstance(entry, Mapping):
            raise ValueError(f"{where} must be a mapping with a `verifier`, got {entry!r}.")
        if entry.get("name"):
            where += f" ({entry['name']})"
        try:
            terms.append(_build_term(entry))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{where}: {error}") from None
    _tell_plain_functions(entries, terms)
    return RewardMix(terms)


def _tell_plain_functions(
    entries: Sequence[Mapping[str, Any]], terms: Sequence[RewardTerm]
) -> None:
    """Warn once of all terms that are plain reward functions."""
    names = []
    for entry, term in zip(entries, terms, strict=True):
        if isinstance(term.verifier, PlainFunction) and entry["verifier"] not in names:
            names.append(entry["verifier"])
    if names:
        logger.warning(
            "Called as TRL calls plain reward functions: %s. Their numbers count, but nothing says why a completion "
            "got its number. With @verifier they give verdicts: trl-grpo-ext docs verifiers",
            ", ".join(names),
        )


def _build_term(entry: Mapping[str, Any]) -> RewardTerm:
    arguments = {key: value for key, value in entry.items() if key not in TERM_KEYS}
    of_the_term = {
        "weight": parse_weight(entry.get("weight", 1.0)),
        "gate": parse_gate(entry.get("gate")),
        "when": entry.get("when"),
        "shape": parse_shapes(entry.get("shape")),
        "on_unscored": entry.get("on_unscored", "void_row"),
        "only": entry.get("only"),
        "score_range": entry.get("score_range"),
    }
    if "combine" in entry:
        _check_combined(entry, arguments)
        combination = parse_combination(entry["combine"])
        return RewardTerm(name=entry["name"], combine=combination, **of_the_term)
    if not isinstance(entry.get("verifier"), str):
        # No name is like an empty one, so the message lists valid names.
        near = did_you_mean("", verifier_names())
        raise ValueError(f"`verifier` must name what judges. {near}")
    verifier = _build_verifier(entry["verifier"], arguments)
    name = entry.get("name") or verifier.__name__
    return RewardTerm(name=name, verifier=verifier, **of_the_term)


def _check_combined(entry: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if "verifier" in entry or arguments:
        # The message needs one key; the least of them is the same at every start.
        key = "verifier" if "verifier" in entry else min(arguments)
        near = did_you_mean(key, set(TERM_KEYS) - {key})
        raise ValueError(f"a term that combines others takes no `{key}`. {near}")
    if not entry.get("name"):
        raise ValueError("a term that combines others needs a `name`.")


def _argument(value: Any) -> Any:
    """Read one argument of a verifier; a mapping with the key `verifier` becomes a verifier, also inside a list."""
    if isinstance(value, list):
        return [_argument(item) for item in value]
    if isinstance(value, Mapping) and isinstance(value.get("verifier"), str):
        arguments = dict(value)
        name = arguments.pop("verifier")
        return _build_verifier(name, arguments, of_the_entry=("verifier",))
    return value


def _build_verifier(
    name: str,
    arguments: Mapping[str, Any],
    of_the_entry: tuple[str, ...] = TERM_KEYS,
) -> Verifier:
    # A registered name has neither.
    is_path = "." in name or ":" in name
    found = import_named(name) if is_path else find_verifier(name)
    # First, since a verifier can be called with `completions` as plain functions are.
    if isinstance(found, Verifier):
        if arguments:
            hint = "A function reads what it needs from `sample.row`."
            told = f"the verifier {name!r} is ready-made"
            raise ValueError(_without_arguments(told, min(arguments), of_the_entry, hint))
        return found
    if is_plain_function(found):
        if arguments:
            hint = "A function reads the dataset's columns from its parameters."
            told = f"{name!r} is a plain reward function"
            raise ValueError(_without_arguments(told, min(arguments), of_the_entry, hint))
        return PlainFunction(found)
    if not (isinstance(found, type) and issubclass(found, Verifier)):
        raise ValueError(
            f"{name!r} is not a verifier; make one of a function with @verifier. (TRL's plain reward functions, which "
            f"take `completions`, will do too.)"
        )
    # Names first: a misspelled key is told before nested verifiers are imported.
    _check_arguments(name, found, arguments, of_the_entry)
    built_arguments = {key: _argument(value) for key, value in arguments.items()}
    return found(**built_arguments)


def _without_arguments(
    told: str, key: str, of_the_entry: tuple[str, ...], hint: str
) -> str:
    """Say that a reward takes no arguments, and suggest the misspelled key of its entry, or else give the hint."""
    meant = nearest(key, of_the_entry)
    if meant:
        hint = f"Did you mean `{meant}`?"
    return f"{told} and takes no arguments, got `{key}`. {hint}"


def _check_arguments(
    name: str,
    verifier: type[Verifier],
    arguments: Mapping[str, Any],
    of_the_entry: tuple[str, ...],
) -> None:
    # The class itself would raise a TypeError that suggests nothing.
    parameters = inspect.signature(verifier).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    valid = [parameter.name for parameter in parameters if parameter.kind not in VARIABLE]
    for key in arguments:
        if key in valid or takes_any:
            continue
        instead = GONE_SETTINGS.get((verifier.__qualname__, key))
        if instead is not None:
            raise ValueError(
                f"the verifier {name!r} has no setting `{key}` any more. {instead}"
            )
        near = did_you_mean(key, [*of_the_entry, *valid])
        raise ValueError(f"unknown key `{key}`. {near}")
    for key in _needed(verifier):
        if key not in arguments:
            raise ValueError(f"the verifier {name!r} needs `{key}`.")


RAMP_KEYS = ("from", "to", "begin", "until", "curve", "unit")
POINT_KEYS = ("points", "curve", "unit")


def parse_weight(written: Any) -> Weight:
    """Read a weight: a number, a ramp, points, or the dotted path of a function of the progress.

    Raises:
        ValueError: for a mapping with an unknown or missing key, invalid schedule values, or a bad dotted path.

    Examples:
        >>> parse_weight({"from": 0.3, "to": 0.0, "until": 0.4}).at(0.2)
        0.15
    """
    # A text may be a number that YAML did not read as one, or a path.
    if isinstance(written, str):
        return _parse_text(written)
    if not isinstance(written, Mapping):
        return written  # type: ignore[no-any-return]  # `RewardTerm` checks the type
    if "points" in written:
        return _parse_points(written)
    return _parse_ramp(written)


def _parse_points(written: Mapping[str, Any]) -> Schedule:
    _check_keys("weight", written, POINT_KEYS, needed=("points",))
    settings = dict(written)
    points = settings.pop("points")
    if not isinstance(points, Mapping):
        raise ValueError(
            f"a weight's `points` map times to weights, such as {{0: 1.0, 0.5: 0.2}}; got {points!r}."
        )
    return Schedule(points=tuple(points.items()), **settings)


def _parse_ramp(written: Mapping[str, Any]) -> Schedule:
    _check_keys("weight", written, RAMP_KEYS, needed=("from", "to"))
    # A weight that is held never arrives.
    curves = [curve for curve in CURVES if curve != "hold"]
    curve = written.get("curve", "linear")
    if curve not in curves:
        near = did_you_mean(str(curve), curves)
        raise ValueError(f"a weight `from` ... `to` ... has no curve {curve!r}. {near}")
    unit = written.get("unit", "progress")
    if unit == "step" and "until" not in written:
        raise ValueError(
            "a weight that counts steps needs `until`, the step at which it arrives."
        )
    points = (
        (written.get("begin", 0.0), written["from"]),
        (written.get("until", 1.0), written["to"]),
    )
    return Schedule(points=points, curve=curve, unit=unit)


def _parse_text(written: str) -> Weight:
    try:
        # YAML reads 1e-3 as a string.
        return float(written)
    except ValueError:
        pass
    if "." not in written:
        return written  # type: ignore[return-value]  # `RewardTerm` checks the type
    # `0.1.2` is neither a number nor a path.
    if not all(part.isidentifier() for part in written.split(".")):
        raise ValueError(
            f"`weight` is a number, a schedule, or the dotted path of a function; got {written!r}."
        )
    try:
        found: Any = import_named(written)
    except ValueError as error:
        raise ValueError(f"`weight`: {error}") from None
    return found  # type: ignore[no-any-return]


def parse_gate(written: Any) -> Gate | None:
    """Read a gate: a term's name, or a mapping with `term`, `at_least`, and `scale` or `floor`.

    Examples:
        >>> parse_gate({"term": "accuracy", "floor": -1.0})
        Gate(term='accuracy', at_least=1.0, scale=None, floor=-1.0)
    """
    if written is None:
        return None
    if isinstance(written, str):
        return Gate(written)
    if not isinstance(written, Mapping):
        raise ValueError(
            f"a gate is a term's name, or a mapping with `term`; got {written!r}."
        )
    _check_keys(
        "gate",
        written,
        ("term", "at_least", "scale", "floor"),
        needed=("term",),
    )
    return Gate(**written)


def parse_shapes(written: Any) -> list[Shape]:
    """Read a shape, or a list of shapes: mappings from a name to arguments, or dotted paths of functions.

    Examples:
        >>> parse_shapes([{"clip": {"low": 0}}, {"threshold": {"at": 0.5}}])
        [Clip(low=0, high=None), Threshold(at=0.5, above=1.0, below=0.0)]
    """
    if written is None:
        return []
    entries = written if isinstance(written, list) else [written]
    return [_shape(entry) for entry in entries]


def _shape(written: Any) -> Shape:
    if isinstance(written, str) and "." in written:
        found: Any = import_named(written)
        return found  # type: ignore[no-any-return]  # `RewardTerm` checks the type
    # `shape: threshold` alone: the check of its arguments tells which it needs.
    if isinstance(written, str):
        written = {written: {}}
    if not isinstance(written, Mapping) or len(written) != 1:
        raise ValueError(
            f"a shape is a name with arguments, {{clip: {{high: 1}}}}, or a function's dotted path; got {written!r}."
        )
    ((name, arguments),) = written.items()
    if name in GONE:
        raise ValueError(f"there is no shape {name!r} any more. {GONE[name]}")
    if name not in NAMES:
        near = did_you_mean(str(name), NAMES)
        raise ValueError(f"there is no shape {name!r}. {near}")
    if not isinstance(arguments, Mapping):
        raise ValueError(f"the shape {name!r} takes arguments by name, got {arguments!r}.")
    shape = NAMES[name]
    valid = tuple(inspect.signature(shape).parameters)
    _check_keys(f"shape {name!r}", arguments, valid, needed=_needed(shape))
    return shape(**arguments)


def parse_combination(written: Any) -> Combination:
    """Read a combination: a mapping from its kind to a list of term names.

    Examples:
        >>> parse_combination({"product": ["accuracy", "format"]})
        Combination(kind='product', terms=('accuracy', 'format'))
    """
    kinds = get_args(Kind)
    if not isinstance(written, Mapping) or len(written) != 1:
        raise ValueError(
            f"`combine` is a mapping of one of {', '.join(kinds)} to a list of terms; got {written!r}."
        )
    ((kind, terms),) = written.items()
    if not isinstance(terms, list):
        raise ValueError(
            f"`combine` needs a list of the names of other terms, got {terms!r}."
        )
    return Combination(kind, tuple(terms))


def _needed(made: type) -> list[str]:
    """List a class's parameters without default values."""
    needed = []
    for name, parameter in inspect.signature(made).parameters.items():
        has_default = parameter.default is not parameter.empty
        # `**settings` may stay empty.
        may_be_empty = parameter.kind is parameter.VAR_KEYWORD
        if not has_default and not may_be_empty:
            needed.append(name)
    return needed


def _check_keys(
    what: str,
    written: Mapping[str, Any],
    valid: tuple[str, ...],
    *,
    needed: Sequence[str],
) -> None:
    for key in written:
        if key not in valid:
            near = did_you_mean(str(key), valid)
            raise ValueError(f"the {what} has an unknown key `{key}`. {near}")
    for key in needed:
        if key not in written:
            raise ValueError(f"the {what} needs `{key}`.")
