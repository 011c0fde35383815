"""Verifiers, one a file. Each is a class to configure and, where it needs no arguments, a ready instance.

`docs/verifiers.md` has the table: what each judges, and which dataset columns it needs.

Names are imported when they are first used, so that importing this package loads neither torch nor sympy.
"""

from typing import TYPE_CHECKING

from trl_grpo_ext.support.lazy import lazy_exports

if TYPE_CHECKING:
    from trl_grpo_ext.rewards.all_of import AllOf
    from trl_grpo_ext.rewards.any_of import AnyOf
    from trl_grpo_ext.rewards.boxed import BoxedVerifier, boxed_reward
    from trl_grpo_ext.rewards.code_format import CodeFormatVerifier, code_format_reward
    from trl_grpo_ext.rewards.concise import ConciseVerifier, concise_reward
    from trl_grpo_ext.rewards.cosine_length import CosineLengthVerifier
    from trl_grpo_ext.rewards.diversity import DiversityVerifier, diversity_reward
    from trl_grpo_ext.rewards.exact_text import ExactTextVerifier, exact_text_reward
    from trl_grpo_ext.rewards.first_scored import FirstScored
    from trl_grpo_ext.rewards.json_format import JsonVerifier, json_reward
    from trl_grpo_ext.rewards.language import LanguageVerifier
    from trl_grpo_ext.rewards.language import language_reward as language_reward
    from trl_grpo_ext.rewards.llm_judge import LlmJudgeVerifier
    from trl_grpo_ext.rewards.math import MathVerifier, math_reward
    from trl_grpo_ext.rewards.multiple_choice import MultipleChoiceVerifier, multiple_choice_reward
    from trl_grpo_ext.rewards.numeric import NumericVerifier, numeric_reward
    from trl_grpo_ext.rewards.overlap import OverlapVerifier, overlap_reward
    from trl_grpo_ext.rewards.overlong import OverlongVerifier
    from trl_grpo_ext.rewards.reasoning_gym import ReasoningGymVerifier
    from trl_grpo_ext.rewards.regex import RegexVerifier
    from trl_grpo_ext.rewards.repetition import RepetitionVerifier, repetition_reward
    from trl_grpo_ext.rewards.tags import TagsVerifier
    from trl_grpo_ext.rewards.think_format import ThinkFormatVerifier, think_format_reward
    from trl_grpo_ext.rewards.token_budget import TokenBudgetVerifier
    from trl_grpo_ext.rewards.unit_test import UnitTestVerifier, unit_test_reward
    from trl_grpo_ext.rewards.xml_format import XmlVerifier

__all__ = [
    "AllOf",
    "AnyOf",
    "BoxedVerifier",
    "CodeFormatVerifier",
    "ConciseVerifier",
    "CosineLengthVerifier",
    "DiversityVerifier",
    "ExactTextVerifier",
    "FirstScored",
    "JsonVerifier",
    "LanguageVerifier",
    "LlmJudgeVerifier",
    "MathVerifier",
    "MultipleChoiceVerifier",
    "NumericVerifier",
    "OverlapVerifier",
    "OverlongVerifier",
    "ReasoningGymVerifier",
    "RegexVerifier",
    "RepetitionVerifier",
    "TagsVerifier",
    "ThinkFormatVerifier",
    "TokenBudgetVerifier",
    "UnitTestVerifier",
    "XmlVerifier",
    "boxed_reward",
    "code_format_reward",
    "concise_reward",
    "diversity_reward",
    "exact_text_reward",
    "json_reward",
    "math_reward",
    "multiple_choice_reward",
    "numeric_reward",
    "overlap_reward",
    "repetition_reward",
    "think_format_reward",
    "unit_test_reward",
]

# What a recipe's `verifier:` may name, beside a dotted import path.
SHIPPED = {
    "all_of": "AllOf",
    "any_of": "AnyOf",
    "boxed": "BoxedVerifier",
    "code_format": "CodeFormatVerifier",
    "concise": "ConciseVerifier",
    "cosine_length": "CosineLengthVerifier",
    "diversity": "DiversityVerifier",
    "exact_text": "ExactTextVerifier",
    "first_scored": "FirstScored",
    "json": "JsonVerifier",
    "language": "LanguageVerifier",
    "llm_judge": "LlmJudgeVerifier",
    "math": "MathVerifier",
    "multiple_choice": "MultipleChoiceVerifier",
    "numeric": "NumericVerifier",
    "overlap": "OverlapVerifier",
    "overlong": "OverlongVerifier",
    "reasoning_gym": "ReasoningGymVerifier",
    "regex": "RegexVerifier",
    "repetition": "RepetitionVerifier",
    "tags": "TagsVerifier",
    "think_format": "ThinkFormatVerifier",
    "token_budget": "TokenBudgetVerifier",
    "unit_test": "UnitTestVerifier",
    "xml": "XmlVerifier",
}

# A verifier's module is called as recipes call it, but for these, which would hide a library's name from readers.
_MODULES = {"json": "json_format", "xml": "xml_format"}
_HOMES = {name: _MODULES.get(shipped, shipped) for shipped, name in SHIPPED.items()}
# Ready instances: `math_reward` of `math`. Those of verifiers that need an extra are not in __all__, but can be had.
_HOMES |= {f"{shipped}_reward": _MODULES.get(shipped, shipped) for shipped in SHIPPED}

__getattr__, __dir__ = lazy_exports("trl_grpo_ext.rewards", _HOMES)
