"""Find, read and compare final answers with gold answers; start at this folder's README."""

from typing import TYPE_CHECKING

from trl_grpo_ext.support.lazy import lazy_exports

if TYPE_CHECKING:
    from trl_grpo_ext.answers.question import same_answer as same_answer

__all__ = ["same_answer"]

__getattr__, __dir__ = lazy_exports("trl_grpo_ext.answers", {"same_answer": "question"})
