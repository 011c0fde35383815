"""Decode what a program sends, in the judge, and refuse objects that would answer a test's questions by themselves."""

from __future__ import annotations

from typing import Any

from trl_grpo_ext.programs.sandbox.inside.crossing.decoder import Decoder
from trl_grpo_ext.programs.sandbox.inside.crossing.values import (
    Json,
    MalformedError,
    contents,
)
from trl_grpo_ext.programs.sandbox.inside.given import check_replaced
from trl_grpo_ext.programs.sandbox.inside.handle import ASSERTIONS_OF_MOCKS, PREDICATES

_JUDGING = ASSERTIONS_OF_MOCKS | PREDICATES


class JudgeDecoder(Decoder):
    """A decoder for a single message of the program."""

    __slots__ = ()

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
