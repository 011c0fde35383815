"""The keys of a `rewards:` entry that are the term's own: weight, gate, shape and combination, as YAML writes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_args

from trl_grpo_ext.mix.combination import Combination, Kind
from trl_grpo_ext.mix.gate import Gate
from trl_grpo_ext.mix.schedule import Schedule, Weight, cosine, linear
from trl_grpo_ext.mix.shape import NAMES, Shape
from trl_grpo_ext.support.text import did_you_mean

RAMP_KEYS = ("from", "to", "begin", "until", "curve", "unit")
POINT_KEYS = ("points", "curve", "unit")


def parse_weight(written: Any, find: Callable[[str], object]) -> Weight:
    """A weight: a number, a ramp, points, or the dotted path of a function of the progress.

    Args:
        written: What the YAML has.
        find: Imports a dotted path.

    Raises:
        ValueError: for a mapping with an unknown or missing key, or values that make no schedule.

    Example:
        >>> parse_weight({"from": 0.3, "to": 0.0, "until": 0.4}, find=str).at(0.2)
        0.15
    """
    if isinstance(written, str):
        return _parse_text(written, find)
    if not isinstance(written, Mapping):
        return written  # type: ignore[no-any-return]  # the term checks what this is
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


def _parse_text(written: str, find: Callable[[str], object]) -> Weight:
    try:
        return float(written)  # YAML takes 1e-3 for a text
    except ValueError:
        pass
    if "." not in written:
        return written  # type: ignore[return-value]  # the term checks what this is
    if not all(part.isidentifier() for part in written.split(".")):
        raise ValueError(f"`weight` is a number, a schedule, or the dotted path of a function; got {written!r}.")
    try:
        found: Any = find(written)
    except ValueError as error:
        raise ValueError(f"`weight`: {error}") from None
    return found  # type: ignore[no-any-return]


def parse_gate(written: Any) -> Gate | None:
    """A gate: a term's name, or a mapping with `term`, `at_least`, and `scale` or `floor`.

    Example:
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
    """Shapes: one or a list, each a name, or a mapping of a name to its arguments.

    Example:
        >>> parse_shapes([{"affine": {"scale": 2, "offset": -1}}, "sign"])
        [Affine(scale=2, offset=-1), Sign()]
    """
    if written is None:
        return []
    return [_shape(entry) for entry in (written if isinstance(written, list) else [written])]


def _shape(written: Any) -> Shape:
    if isinstance(written, str):
        written = {written: {}}
    if not isinstance(written, Mapping) or len(written) != 1:
        raise ValueError(f"a shape is a name, or a name with arguments: {{clip: {{high: 1}}}}; got {written!r}.")
    ((name, arguments),) = written.items()
    if name not in NAMES:
        raise ValueError(f"there is no shape {name!r}. {did_you_mean(str(name), NAMES)}")
    if not isinstance(arguments, Mapping):
        raise ValueError(f"the shape {name!r} takes arguments by name, got {arguments!r}.")
    parameters = inspect.signature(NAMES[name]).parameters
    needed = [key for key, parameter in parameters.items() if parameter.default is inspect.Parameter.empty]
    _check_keys(f"shape {name!r}", arguments, tuple(parameters), needed=tuple(needed))
    return NAMES[name](**arguments)


def parse_combination(written: Any) -> Combination:
    """A combination: a mapping of its kind to a list of terms.

    Example:
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


def _check_keys(what: str, written: Mapping[str, Any], valid: tuple[str, ...], *, needed: tuple[str, ...]) -> None:
    for key in written:
        if key not in valid:
            raise ValueError(f"the {what} has an unknown key `{key}`. {did_you_mean(str(key), valid)}")
    for key in needed:
        if key not in written:
            raise ValueError(f"the {what} needs `{key}`.")
