"""Decode what a program sends, in the judge, and refuse objects that would answer a test's questions by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.crossing.containers import CONTAINERS, Container
from trl_grpo_ext.programs.sandbox.inside.crossing.decoder import Decoder
from trl_grpo_ext.programs.sandbox.inside.crossing.kinds import BY_TAG, INDEX
from trl_grpo_ext.programs.sandbox.inside.crossing.values import (
    Json,
    MalformedError,
    contents,
)
from trl_grpo_ext.programs.sandbox.inside.given import check_replaced
from trl_grpo_ext.programs.sandbox.inside.guard.empty_arrays import guarding_empty
from trl_grpo_ext.programs.sandbox.inside.guard.empty_frames import after_guard
from trl_grpo_ext.programs.sandbox.inside.handle import ASSERTIONS_OF_MOCKS, PREDICATES

_JUDGING = ASSERTIONS_OF_MOCKS | PREDICATES


def _guarded_rules(
    tag: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Container:
    """Return a container's conversion rules with its constructor wrapped."""
    own = CONTAINERS[tag]
    return own._replace(empty=wrap(own.empty))


class JudgeDecoder(Decoder):
    """Decoder of one program message in the judge, with guarded arrays and frames."""

    __slots__ = ()

    # Tables of the judge alone: the program's own empty arrays behave like numpy's.
    containers = CONTAINERS | {
        "ndarray": _guarded_rules("ndarray", guarding_empty),
        "DataFrame": _guarded_rules("DataFrame", after_guard),
        "Series": _guarded_rules("Series", after_guard),
    }
    kinds = BY_TAG | {INDEX.tag: INDEX._replace(make=after_guard(INDEX.make))}

    def check_names(self, state: dict[str, Any]) -> None:
        """Refuse a method that judges, as `SimpleNamespace(startswith=bool)` has.

        Raises:
            MalformedError: if one of the attributes is such a method.
        """
        for name, value in state.items():
            if name in _JUDGING and callable(value):
                raise MalformedError(f"an object with a method {name!r} that judges")

    def _change(self, number: Json, content: Json) -> Any:
        before = contents(self.shared.containers.at(number))
        value = super()._change(number, content)
        if number not in self.shared.received:
            check_replaced(value, "", before, contents(value))
        return value
