"""Build a `RewardMix` from its description, the `rewards:` list of a recipe."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from trl_grpo_ext.mix.combination import Combination, Kind
from trl_grpo_ext.mix.gate import Gate
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.schedule import Schedule, Weight, cosine, linear
from trl_grpo_ext.mix.shape import GONE, NAMES, Shape
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.function import PlainFunction, is_plain_function
from trl_grpo_ext.rewards.registry import GONE_SETTINGS, find_verifier, import_named, verifier_names
from trl_grpo_ext.support.text import did_you_mean, nearest

logger = logging.getLogger(__name__)

TERM_KEYS = ("name", "verifier", "combine", "weight", "gate", "when", "shape", "on_unscored", "only", "score_range")


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
    return RewardMix(terms)


def _build_term(entry: Mapping[str, Any]) -> RewardTerm:
    rest = {key: value for key, value in entry.items() if key not in TERM_KEYS}
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
    """Read one argument of a verifier; a mapping with the key `verifier` becomes a verifier, also inside a list."""
    if isinstance(value, list):
        return [_argument(item) for item in value]
    if isinstance(value, Mapping) and isinstance(value.get("verifier"), str):
        rest = {key: item for key, item in value.items() if key != "verifier"}
        return _build_verifier(value["verifier"], rest, of_the_entry=("verifier",))
    return value


def _build_verifier(name: str, arguments: Mapping[str, Any], of_the_entry: tuple[str, ...] = TERM_KEYS) -> Verifier:
    found = import_named(name) if "." in name or ":" in name else find_verifier(name)
    if isinstance(found, Verifier):
        if arguments:
            key = sorted(arguments)[0]
            meant = nearest(key, of_the_entry)
            hint = f"Did you mean `{meant}`?" if meant else "A function reads what it needs from `sample.row`."
            raise ValueError(f"the verifier {name!r} is ready-made and takes no arguments, got `{key}`. {hint}")
        return found
    if is_plain_function(found):
        return _plain_function(name, found, arguments)
    if not (isinstance(found, type) and issubclass(found, Verifier)):
        raise ValueError(
            f"{name!r} is not a verifier; make one of a function with @verifier. (TRL's plain reward functions, which "
            f"take `completions`, will do too.)"
        )
    valid = list(inspect.signature(found).parameters)
    for key in arguments:
        if key not in valid:
            instead = GONE_SETTINGS.get((found.__qualname__, key))
            if instead is not None:
                raise ValueError(f"the verifier {name!r} has no setting `{key}` any more. {instead}")
            raise ValueError(f"unknown key `{key}`. {did_you_mean(key, [*of_the_entry, *valid])}")
    missing = [key for key in _needed(found) if key not in arguments]
    if missing:
        raise ValueError(f"the verifier {name!r} needs `{missing[0]}`.")
    return found(**{key: _argument(value) for key, value in arguments.items()})


def _plain_function(name: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> PlainFunction:
    if arguments:
        raise ValueError(
            f"{name!r} is a plain reward function and takes no arguments, got `{sorted(arguments)[0]}`. A function "
            f"reads the dataset's columns from its parameters."
        )
    logger.warning(
        "%s is a plain reward function: it is called as TRL calls it, and its numbers count, but nothing says why a "
        "completion got its number. With @verifier it gives verdicts: trl-grpo-ext docs verifiers",
        name,
    )
    return PlainFunction(function)


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
    if isinstance(written, str):
        return _parse_text(written)
    if not isinstance(written, Mapping):
        return written  # type: ignore[no-any-return]  # `RewardTerm` checks the type
    if "points" in written:
        _check_keys("weight", written, POINT_KEYS, needed=("points",))
        points = written["points"]
        if not isinstance(points, Mapping):
            raise ValueError(f"a weight's `points` map times to weights, such as {{0: 1.0, 0.5: 0.2}}; got {points!r}.")
        rest = {key: value for key, value in written.items() if key != "points"}
        return Schedule(points=tuple(points.items()), **rest)
    _check_keys("weight", written, RAMP_KEYS, needed=("from", "to"))
    curves = {"linear": linear, "cosine": cosine}
    curve = written.get("curve", "linear")
    if curve not in curves:
        raise ValueError(f"a weight `from` ... `to` ... has no curve {curve!r}. {did_you_mean(str(curve), curves)}")
    if written.get("unit") == "step" and "until" not in written:
        raise ValueError("a weight that counts steps needs `until`, the step at which it arrives.")
    rest = {key: value for key, value in written.items() if key not in ("from", "to", "curve")}
    return curves[curve](written["from"], written["to"], **rest)


def _parse_text(written: str) -> Weight:
    try:
        # YAML reads 1e-3 as a string.
        return float(written)
    except ValueError:
        pass
    if "." not in written:
        return written  # type: ignore[return-value]  # `RewardTerm` checks the type
    if not all(part.isidentifier() for part in written.split(".")):
        raise ValueError(f"`weight` is a number, a schedule, or the dotted path of a function; got {written!r}.")
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
        raise ValueError(f"a gate is a term's name, or a mapping with `term`; got {written!r}.")
    _check_keys("gate", written, ("term", "at_least", "scale", "floor"), needed=("term",))
    return Gate(**written)


def parse_shapes(written: Any) -> list[Shape]:
    """Read one shape or several, each a mapping from a name to arguments, or the dotted path of a function.

    Examples:
        >>> parse_shapes([{"clip": {"low": 0}}, {"threshold": {"at": 0.5}}])
        [Clip(low=0, high=None), Threshold(at=0.5, above=1.0, below=0.0)]
    """
    if written is None:
        return []
    return [_shape(entry) for entry in (written if isinstance(written, list) else [written])]


def _shape(written: Any) -> Shape:
    if isinstance(written, str) and "." in written:
        found: Any = import_named(written)
        return found  # type: ignore[no-any-return]  # `RewardTerm` checks the type
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
        raise ValueError(f"there is no shape {name!r}. {did_you_mean(str(name), NAMES)}")
    if not isinstance(arguments, Mapping):
        raise ValueError(f"the shape {name!r} takes arguments by name, got {arguments!r}.")
    valid = tuple(inspect.signature(NAMES[name]).parameters)
    _check_keys(f"shape {name!r}", arguments, valid, needed=_needed(NAMES[name]))
    return NAMES[name](**arguments)


def parse_combination(written: Any) -> Combination:
    """Read a combination: a mapping from its kind to a list of term names.

    Examples:
        >>> parse_combination({"product": ["accuracy", "format"]})
        Combination(kind='product', terms=('accuracy', 'format'))
    """
    kinds = get_args(Kind)
    if not isinstance(written, Mapping) or len(written) != 1:
        raise ValueError(f"`combine` is a mapping of one of {', '.join(kinds)} to a list of terms; got {written!r}.")
    ((kind, terms),) = written.items()
    if not isinstance(terms, list):
        raise ValueError(f"`combine` needs a list of the names of other terms, got {terms!r}.")
    return Combination(kind, tuple(terms))


def _needed(made: type) -> list[str]:
    """List a class's parameters without default values."""
    parameters = inspect.signature(made).parameters.values()
    return [each.name for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD]


def _check_keys(what: str, written: Mapping[str, Any], valid: tuple[str, ...], *, needed: Sequence[str]) -> None:
    for key in written:
        if key not in valid:
            raise ValueError(f"the {what} has an unknown key `{key}`. {did_you_mean(str(key), valid)}")
    for key in needed:
        if key not in written:
            raise ValueError(f"the {what} needs `{key}`.")
