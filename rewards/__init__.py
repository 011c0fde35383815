"""The verifier classes, with a ready instance `NAME_reward` of each class that needs no arguments.

`registry.py` lists all verifiers; `docs/verifiers.md` says what each verifier judges, and which dataset columns it
needs.

A name is imported at its first use, so importing this package loads neither torch nor sympy.
"""

from typing import TYPE_CHECKING

from trl_grpo_ext.rewards.registry import PACKAGE, SHIPPED, exports
from trl_grpo_ext.support.lazy import lazy_exports

# Type checkers and editors read this list; a test compares it with the registry.
if TYPE_CHECKING:
    from trl_grpo_ext.rewards.calibration import CalibrationVerifier as CalibrationVerifier
    from trl_grpo_ext.rewards.calibration import calibration_reward as calibration_reward
    from trl_grpo_ext.rewards.compositions import AllOf as AllOf
    from trl_grpo_ext.rewards.compositions import AnyOf as AnyOf
    from trl_grpo_ext.rewards.compositions import FirstScored as FirstScored
    from trl_grpo_ext.rewards.environment import EnvironmentReward as EnvironmentReward
    from trl_grpo_ext.rewards.exact_text import ExactTextVerifier as ExactTextVerifier
    from trl_grpo_ext.rewards.exact_text import exact_text_reward as exact_text_reward
    from trl_grpo_ext.rewards.formats.boxed import BoxedVerifier as BoxedVerifier
    from trl_grpo_ext.rewards.formats.boxed import boxed_reward as boxed_reward
    from trl_grpo_ext.rewards.formats.code_format import (
        CodeFormatVerifier as CodeFormatVerifier,
    )
    from trl_grpo_ext.rewards.formats.code_format import (
        code_format_reward as code_format_reward,
    )
    from trl_grpo_ext.rewards.formats.json_format import JsonVerifier as JsonVerifier
    from trl_grpo_ext.rewards.formats.json_format import json_reward as json_reward
    from trl_grpo_ext.rewards.formats.regex import RegexVerifier as RegexVerifier
    from trl_grpo_ext.rewards.formats.tags import TagsVerifier as TagsVerifier
    from trl_grpo_ext.rewards.formats.tags import ThinkFormatVerifier as ThinkFormatVerifier
    from trl_grpo_ext.rewards.formats.tags import think_format_reward as think_format_reward
    from trl_grpo_ext.rewards.ifeval.verifier import IFEvalVerifier as IFEvalVerifier
    from trl_grpo_ext.rewards.ifeval.verifier import ifeval_reward as ifeval_reward
    from trl_grpo_ext.rewards.language import LanguageVerifier as LanguageVerifier
    from trl_grpo_ext.rewards.language import language_reward as language_reward
    from trl_grpo_ext.rewards.length_limits import (
        CosineLengthVerifier as CosineLengthVerifier,
    )
    from trl_grpo_ext.rewards.length_limits import OverlongVerifier as OverlongVerifier
    from trl_grpo_ext.rewards.lengths import ConciseVerifier as ConciseVerifier
    from trl_grpo_ext.rewards.lengths import TokenBudgetVerifier as TokenBudgetVerifier
    from trl_grpo_ext.rewards.lengths import concise_reward as concise_reward
    from trl_grpo_ext.rewards.llm_judge.cascade import CascadeVerifier as CascadeVerifier
    from trl_grpo_ext.rewards.llm_judge.verifier import LlmJudgeVerifier as LlmJudgeVerifier
    from trl_grpo_ext.rewards.math import MathVerifier as MathVerifier
    from trl_grpo_ext.rewards.math import math_reward as math_reward
    from trl_grpo_ext.rewards.multiple_choice import (
        MultipleChoiceVerifier as MultipleChoiceVerifier,
    )
    from trl_grpo_ext.rewards.multiple_choice import (
        multiple_choice_reward as multiple_choice_reward,
    )
    from trl_grpo_ext.rewards.numeric import NumericVerifier as NumericVerifier
    from trl_grpo_ext.rewards.numeric import numeric_reward as numeric_reward
    from trl_grpo_ext.rewards.overlap import OverlapVerifier as OverlapVerifier
    from trl_grpo_ext.rewards.overlap import overlap_reward as overlap_reward
    from trl_grpo_ext.rewards.reasoning_gym.verifier import (
        ReasoningGymVerifier as ReasoningGymVerifier,
    )
    from trl_grpo_ext.rewards.repetition import DiversityVerifier as DiversityVerifier
    from trl_grpo_ext.rewards.repetition import RepetitionVerifier as RepetitionVerifier
    from trl_grpo_ext.rewards.repetition import diversity_reward as diversity_reward
    from trl_grpo_ext.rewards.repetition import repetition_reward as repetition_reward
    from trl_grpo_ext.rewards.tool_calls import ToolCallsVerifier as ToolCallsVerifier
    from trl_grpo_ext.rewards.tool_calls import tool_calls_reward as tool_calls_reward
    from trl_grpo_ext.rewards.unit_tests.verifier import (
        UnitTestVerifier as UnitTestVerifier,
    )
    from trl_grpo_ext.rewards.unit_tests.verifier import (
        unit_test_reward as unit_test_reward,
    )
else:
    __all__ = [name for _, *names in SHIPPED.values() for name in names]

__getattr__, __dir__ = lazy_exports(PACKAGE, exports())
