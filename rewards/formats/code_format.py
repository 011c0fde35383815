"""Code in a fence, in the right language, that compiles and does something."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from trl_grpo_ext.answers.read.invisible import visible
from trl_grpo_ext.answers.verdicts import right, unreadable, wrong
from trl_grpo_ext.protocol import BatchVerifier, check_timeout
from trl_grpo_ext.rewards.formats.answer_part import answer_part, closed_blocks
from trl_grpo_ext.rewards.unit_tests.blocks import PYTHON_TAGS
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.workers.pool import close_workers, judge_in_workers

Blocks = Literal["one", "any"]
BLOCKS: tuple[str, ...] = get_args(Blocks)

MAX_CHARS = 50_000  # of code: no honest answer is longer, and no program of that size exhausts the memory

# What else a fence may call a language.
TAGS: Mapping[str, frozenset[str]] = {
    "python": PYTHON_TAGS,
    "bash": frozenset({"bash", "sh", "shell", "zsh"}),
    "c++": frozenset({"c++", "cpp", "cc", "cxx"}),
    "c#": frozenset({"c#", "csharp", "cs"}),
    "go": frozenset({"go", "golang"}),
    "javascript": frozenset({"javascript", "js", "jsx", "node"}),
    "kotlin": frozenset({"kotlin", "kt"}),
    "ruby": frozenset({"ruby", "rb"}),
    "rust": frozenset({"rust", "rs"}),
    "typescript": frozenset({"typescript", "ts", "tsx"}),
    "yaml": frozenset({"yaml", "yml"}),
}
_EFFECTS = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)  # what an expression alone is written for
_LANGUAGE_OF = {tag: language for language, tags in TAGS.items() for tag in tags}


@dataclass(frozen=True, kw_only=True)
class CodeFormatVerifier(BatchVerifier):
    """Whether the answer has code in a fence of its language; Python must also compile and do something.

    It runs nothing and says nothing of whether the code is right: that is `UnitTestVerifier`'s. A small term beside
    it, for a model that does not write fences yet. What stands around the code, and blocks of other languages or of
    none, do not count. Python is compiled in a worker process, since a few characters can keep the compiler busy.

    Args:
        language: The language that the fence names, `python` by default; `py`, `js`, `cpp` and the like are known too.
        blocks: `"one"` for exactly one block of that language, `"any"` for at least one, of which every one must do.
        compiles: Whether Python must compile and do something; no other language is compiled.
        timeout: Seconds that the compiler may take for a completion.
        name: The metric key.

    | completion | score | reason |
    |---|---|---|
    | a `python` fence around `print(1)` | 1 | |
    | `print(1)` without a fence | 0 | `no_code_block` |
    | a fence without a language, or with another | 0 | `no_code_block` |
    | two `python` fences, with `blocks="one"` | 0 | `several_code_blocks` |
    | a fence that is never closed | 0 | `unclosed_fence` |
    | nothing that is visible in the fence | 0 | `empty_code` |
    | `print(1` | 0 | `does_not_compile` |
    | nothing but comments, imports, bare values, `pass`, `...`, or functions of such | 0 | `trivial_code` |
    | more than 50,000 characters of code | 0 | `code_too_long` |
    | code on which the compiler takes `timeout` seconds | 0 | `timeout` |
    | a fence in thinking that does not end; nothing after it | 0 | `unclosed_think`, `no_answer` |

    Raises:
        ValueError: for a setting that does not exist, or a timeout that is not above 0.

    Examples:
        >>> code_format_reward(["```python\\nprint(1)\\n```", "```python\\npass\\n```", "print(1)"])
        [1.0, 0.0, 0.0]
    """

    language: str = "python"
    blocks: Blocks = "one"
    compiles: bool = True
    timeout: float = 5.0
    name: str | None = None

    def __post_init__(self) -> None:
        check_timeout(self.timeout)
        if self.blocks not in BLOCKS:
            raise ValueError(f"There is no blocks={self.blocks!r}. {did_you_mean(str(self.blocks), BLOCKS)}")
        if not isinstance(self.language, str) or not self.language or self.language != self.language.lower().strip():
            raise ValueError(f"The language is a fence's word in lower case, such as `python`; got {self.language!r}.")

    @property
    def tags(self) -> frozenset[str]:
        """What a fence may call the language."""
        language = _LANGUAGE_OF.get(self.language, self.language)
        return TAGS.get(language, frozenset({language}))

    def close(self) -> None:
        """End this process's workers; they are started again when they are needed."""
        if self._is_compiled:
            close_workers()

    @property
    def _is_compiled(self) -> bool:
        return self.compiles and self.tags == PYTHON_TAGS

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        judge = partial(judge_in_workers, "trl_grpo_ext.rewards.formats.code_format:compile_here", timeout=self.timeout)
        return self.judge_questions(samples, self._call, judge)

    def _call(self, sample: Sample) -> tuple[list[str]] | Verdict:
        """The verdict; or, for `compile_here`, the code that a worker must compile."""
        answer = answer_part(sample)
        blocks = answer if isinstance(answer, Verdict) else closed_blocks(answer)
        if isinstance(blocks, Verdict):
            return blocks
        code = [content for tag, content in blocks if tag in self.tags]
        if not code:
            return unreadable("no_code_block")
        if len(code) > 1 and self.blocks == "one":
            return wrong("several_code_blocks")
        if not all(visible(content) for content in code):
            return wrong("empty_code")
        if sum(map(len, code)) > MAX_CHARS:
            return wrong("code_too_long", answer=code[-1])
        return (code,) if self._is_compiled else right(code[-1])


def compile_here(programs: Sequence[str]) -> dict[str, Any]:
    """Compile Python programs; INCORRECT if one does not compile, or does nothing. Called inside a worker."""
    for program in programs:
        problem, detail = _problem(program)
        if problem:
            return wrong(problem, answer=program, details={"compiler": detail} if detail else {}).to_record()
    return right(programs[-1]).to_record()


def _problem(program: str) -> tuple[str, str]:
    """The reason code for a program that does not do, and what the compiler says; two empty texts if it does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a doubtful escape is no error
        try:
            compile(program, "<completion>", "exec", dont_inherit=True)
            tree = ast.parse(program)
        except SyntaxError as error:
            return "does_not_compile", f"{error.msg}, line {error.lineno}"[:200]
        except (ValueError, OverflowError, RecursionError, MemoryError) as error:  # a NUL, or too deep
            return "does_not_compile", type(error).__name__
    return ("", "") if any(map(_does_something, ast.walk(tree))) else ("trivial_code", "")


def _does_something(node: ast.AST) -> bool:
    """Whether a statement has an effect of its own: not `pass`, a value, an import or a bare return."""
    match node:
        case ast.Expr(value=value):
            return any(isinstance(part, _EFFECTS) for part in ast.walk(value))
        case ast.Return(value=None | ast.Constant(value=None)):
            return False
        case ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name))):
            return name != "NotImplementedError"
        case ast.Return() | ast.Raise() | ast.Assign() | ast.AugAssign() | ast.AnnAssign():
            return True
        case ast.Assert() | ast.Delete():
            return True
    return False


code_format_reward = CodeFormatVerifier(name="code_format_reward")
"""`CodeFormatVerifier` for one block of Python, ready for a list of reward functions."""
