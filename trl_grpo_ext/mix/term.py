"""A reward term: one line of the reward equation. It is a value, not code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trl_grpo_ext.mix.combination import Combination
from trl_grpo_ext.mix.gate import Gate, When
from trl_grpo_ext.mix.schedule import Weight, check_weight, is_shadow
from trl_grpo_ext.mix.shape import Shape, check_shapes
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.verdict import ScoreRange, check_score_range

OnUnscored = Literal["void_row", "zero", "raise"]
Only = Literal["eval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardTerm:
    """One line of the reward equation: what judges, or which terms are combined, and how much it counts.

    A verdict's score becomes a value by the shape and then the gate; the value times the weight in force is what the
    term adds to a sample's total.

    Attributes:
        name: The key in logs and scorecards: letters, digits, `_`, `-` and `.`.
        verifier: What judges.
        combine: Instead of a verifier, the other terms that this one is made of.
        weight: A finite number, a `Schedule`, or a function of the progress in [0, 1]. A term of weight 0 is a
            *shadow*: judged and logged, never trained on.
        gate: Another term that must say so for this one to count; its name alone is a gate at 1.
        when: The rows of the dataset that it is for, a mapping of columns to a value or a list of values; all rows by
            default. On others it has no verdict.
        shape: What becomes of the score: a shape or a list of them, applied in order. One that makes no finite number
            is the grader's fault: the sample could not be judged.
        on_unscored: What becomes of a sample that could not be judged, by the grader's or the data's fault, while the
            term has weight: `"void_row"` takes it out of training, `"zero"` counts as 0, `"raise"` ends the run.
        only: `"eval"` for a term that judges evaluations and does not run while training, as its cost is too high for
            that; its weight must be 0. None for a term that judges both.
        score_range: The lowest and the highest score of a function that returns numbers, such as `(0, 50)`; the
            highest is right. A verifier that tells right from wrong itself, or has a range, needs none.

    Raises:
        ValueError: for a name that cannot be a key, a weight, gate, routing or policy that cannot be.
        TypeError: for another object in the place of a verifier or a shape.

    Examples:
        >>> from trl_grpo_ext.rewards import MathVerifier
        >>> RewardTerm(name="accuracy", verifier=MathVerifier(), weight=1.0).weight
        1.0
    """

    name: str
    verifier: Verifier | None = None
    combine: Combination | None = None
    weight: Weight = 1.0
    gate: Gate | str | None = None
    when: When | Mapping[str, Any] | None = None
    shape: Shape | Sequence[Shape] | None = None
    on_unscored: OnUnscored = "void_row"
    only: Only | None = None
    score_range: ScoreRange | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"[\w.-]+", self.name):
            raise ValueError(
                f"A reward term's name must be made of letters, digits, '_', '-' and '.', got {self.name!r}: "
                f"it is a key in logs and files."
            )
        self._check_source()
        try:
            object.__setattr__(self, "weight", check_weight(self.weight))
        except ValueError as error:
            raise ValueError(f"The weight of the reward term {self.name!r} {error}.") from None
        try:
            object.__setattr__(self, "shape", check_shapes(self.shape))
        except TypeError as error:
            raise TypeError(f"The shape of the reward term {self.name!r} is {self.shape!r}; {error}.") from None
        self._check_gate_and_routing()
        self._check_score_range()
        if self.on_unscored not in get_args(OnUnscored):
            known = did_you_mean(str(self.on_unscored), get_args(OnUnscored))
            raise ValueError(f"The reward term {self.name!r} has no on_unscored {self.on_unscored!r}. {known}")
        if self.only not in {None, *get_args(Only)}:
            raise ValueError(f"The reward term {self.name!r}: `only` is 'eval' or left out, got {self.only!r}.")
        if self.only == "eval" and not self.is_shadow:
            raise ValueError(
                f"The reward term {self.name!r} is only for evaluations (`only: eval`), so nothing is trained on it: "
                f"set its weight to 0."
            )

    def _check_gate_and_routing(self) -> None:
        if isinstance(self.gate, str):
            object.__setattr__(self, "gate", Gate(self.gate))
        if not (self.gate is None or isinstance(self.gate, Gate)):
            raise TypeError(f"The gate of the reward term {self.name!r} is a Gate or a term's name, got {self.gate!r}.")
        if self.when is not None and not isinstance(self.when, When):
            try:
                object.__setattr__(self, "when", When.parse(self.when))
            except ValueError as error:
                raise ValueError(f"Reward term {self.name!r}: {error}") from None

    def _check_source(self) -> None:
        if isinstance(self.combine, Combination) and self.verifier is None:
            return
        if self.combine is not None:
            raise TypeError(
                f"The reward term {self.name!r} has a verifier, or else a combination of other terms such as "
                f"product('a', 'b'); got {self.verifier!r} and {self.combine!r}."
            )
        if not isinstance(self.verifier, Verifier):
            raise TypeError(
                f"The reward term {self.name!r} needs a Verifier, got {self.verifier!r}. "
                f"Make one of a function with @verifier, or of a class by calling it."
            )

    def _check_score_range(self) -> None:
        own = getattr(self.verifier, "score_range", None)
        try:
            declared = check_score_range(self.score_range)
        except ValueError as error:
            raise ValueError(f"Reward term {self.name!r}: {error}") from None
        if None not in (own, declared) and own != declared:
            raise ValueError(
                f"The reward term {self.name!r} has the score_range {list(declared or ())}, and its verifier has "
                f"{list(own or ())}: one of them is wrong. Leave it out of the term."
            )
        object.__setattr__(self, "score_range", declared or own)

    @property
    def is_shadow(self) -> bool:
        """Whether its weight is 0 for ever."""
        return is_shadow(self.weight)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes, in the order in which they are applied."""
        return self.shape  # type: ignore[return-value]  # which `__post_init__` has made a tuple

    @property
    def needs(self) -> tuple[str, ...]:
        """The names of the terms that must be judged before this one."""
        gating = (self.gate.term,) if isinstance(self.gate, Gate) else ()
        return (*gating, *(self.combine.terms if self.combine else ()))

    def applies(self, row: Mapping[str, Any]) -> bool:
        """Whether the term is for this row of the dataset."""
        return self.when.applies(row) if isinstance(self.when, When) else True
