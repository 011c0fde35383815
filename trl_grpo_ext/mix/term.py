"""A reward term, one line of the reward equation, as a frozen value."""

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
from trl_grpo_ext.rewards.function import PlainFunction, is_plain_function
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.verdict import ScoreRange, check_score_range

OnUnscored = Literal["void_row", "zero", "raise"]
Only = Literal["eval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardTerm:
    """One line of the reward equation: a verifier or combination, with its weight, gate and shapes.

    The shapes and then the gate turn a verdict's score into a value. The term adds its value times the weight in force
    to the sample's total.

    Attributes:
        name: The key in logs and scorecards: letters, digits, `_`, `-` and `.`.
        verifier: The verifier that judges the samples; or a plain TRL reward function, whose numbers are the scores.
        combine: Instead of a verifier, a combination of other terms' values.
        weight: A finite number, a `Schedule`, or a function of the progress in [0, 1]. A term of weight 0 is a
            *shadow*: judged and logged, never trained on.
        gate: A gate by another term's value; a term's name alone is a gate with the threshold 1.
        when: The dataset rows to which the term applies, a mapping from columns to a value or a list of values; all
            rows by default. Other rows get no verdict.
        shape: A shape or a list of shapes, applied to the score in order. A shape that fails or returns a number that
            is not finite is a grader error: the sample has no value.
        on_unscored: The treatment of a sample without a score, by the grader's or the data's fault, while the term has
            weight: `"void_row"` takes it out of training, `"zero"` counts as 0, `"raise"` ends the run.
        only: `"eval"` for a term that runs in evaluations only, such as one too slow for training; its weight must
            be 0. None for a term that runs in both.
        score_range: The lowest and the highest score of a function that returns numbers, such as `(0, 50)`; the
            highest is right. A verifier that tells right from wrong itself, or has a range, needs none.

    Raises:
        ValueError: for an invalid name, weight, `when`, `on_unscored` or `only`.
        TypeError: for a wrong type of verifier, combination, gate or shape.

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
        # Assigned by `object`, here and below, since the class is frozen.
        try:
            object.__setattr__(self, "weight", check_weight(self.weight))
        except ValueError as error:
            raise ValueError(
                f"The weight of the reward term {self.name!r} {error}."
            ) from None
        try:
            object.__setattr__(self, "shape", check_shapes(self.shape))
        except TypeError as error:
            raise TypeError(
                f"The shape of the reward term {self.name!r} is {self.shape!r}; {error}."
            ) from None
        self._check_gate_and_routing()
        self._check_score_range()
        # After the weight, which `is_shadow` reads here.
        self._check_choices()

    @property
    def is_function_of_all_rows(self) -> bool:
        """Whether a plain function alone decides by its None where the term does not apply."""
        return (
            isinstance(self.verifier, PlainFunction)
            and self.when is None
            and self.gate is None
        )

    def _check_choices(self) -> None:
        if self.on_unscored not in get_args(OnUnscored):
            known = did_you_mean(str(self.on_unscored), get_args(OnUnscored))
            raise ValueError(
                f"The reward term {self.name!r} has no on_unscored {self.on_unscored!r}. {known}"
            )
        # A tuple, since a list can be looked for in no set.
        if self.only not in (None, *get_args(Only)):
            raise ValueError(
                f"The reward term {self.name!r}: `only` is 'eval' or left out, got {self.only!r}."
            )
        if self.only == "eval" and not self.is_shadow:
            raise ValueError(
                f"The reward term {self.name!r} is only for evaluations (`only: eval`), so nothing is trained on it: "
                f"set its weight to 0."
            )

    def _check_gate_and_routing(self) -> None:
        if isinstance(self.gate, str):
            object.__setattr__(self, "gate", Gate(self.gate))
        if not (self.gate is None or isinstance(self.gate, Gate)):
            raise TypeError(
                f"The gate of the reward term {self.name!r} is a Gate or a term's name, got {self.gate!r}."
            )
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
        # A Verifier can be called with `completions` as well, so it is asked for first.
        if not isinstance(self.verifier, Verifier) and is_plain_function(self.verifier):
            object.__setattr__(self, "verifier", PlainFunction(self.verifier))
        if not isinstance(self.verifier, Verifier):
            raise TypeError(
                f"The reward term {self.name!r} needs a Verifier or a function that takes `completions`, as TRL's do; "
                f"got {self.verifier!r}. Make a verifier of a function of one Sample with @verifier, or of a class by "
                f"calling it."
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
        # A verifier's own range is stored here, too, so that other code asks the term alone.
        object.__setattr__(self, "score_range", declared or own)

    @property
    def is_shadow(self) -> bool:
        """Whether the weight is 0 during the whole run."""
        return is_shadow(self.weight)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes in application order."""
        # `__post_init__` has made it a tuple.
        return self.shape  # type: ignore[return-value]

    @property
    def needs(self) -> tuple[str, ...]:
        """The names of terms judged before this term: the gating term and combined terms."""
        names: list[str] = []
        if isinstance(self.gate, Gate):
            names.append(self.gate.term)
        if self.combine is not None:
            names += self.combine.terms
        return tuple(names)

    def applies(self, row: Mapping[str, Any]) -> bool:
        """Return whether the term applies to a dataset row."""
        if isinstance(self.when, When):
            return self.when.applies(row)
        return True
