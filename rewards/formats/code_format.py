"""Verify the format of code answers: a fence with the right language, and Python that compiles and has an effect."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from trl_grpo_ext.answers.read.spelling import visible
from trl_grpo_ext.answers.verdicts import right, unreadable, wrong
from trl_grpo_ext.programs.suites.blocks import PYTHON_TAGS
from trl_grpo_ext.protocol import BatchVerifier
from trl_grpo_ext.rewards.formats.answer_part import answer_part, closed_blocks
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.setting_checks import check_choice, check_seconds
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.workers.pool import close_workers, judge_in_workers

Blocks = Literal["one", "any"]
BLOCKS: tuple[str, ...] = get_args(Blocks)

# No honest answer has more code, and compiling so much code cannot exhaust the memory.
MAX_CHARS = 50_000

# Language -> all tags that a fence may use for the language.
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
# An expression statement has an effect only if it contains one of these nodes.
_EFFECTS = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
_LANGUAGE_OF = {tag: language for language, tags in TAGS.items() for tag in tags}


@dataclass(frozen=True, kw_only=True)
class CodeFormatVerifier(BatchVerifier):
    """Checks for code in a fence of the language; Python code must also compile and have an effect.

    No code is run, and correctness is not judged: that is the job of `UnitTestVerifier`. Use this verifier as a small
    term beside it, for a model that does not write fences yet. Text around the code, and blocks of other languages or
    without a language, are ignored. Python is compiled in a worker process, since a few characters can keep the
    compiler busy.

    Args:
        language: The language of the fence, `python` by default; aliases such as `py`, `js` and `cpp` are accepted.
        blocks: `"one"` for exactly one block of the language, `"any"` for one or more valid blocks.
        compiles: Require Python code to compile and to have an effect; other languages are never compiled.
        timeout: Time limit for compiling the code of one completion, in seconds.
        name: The metric key.

    | completion | score | reason |
    |---|---|---|
    | a `python` fence around `print(1)` | 1 | |
    | `print(1)` without a fence | 0 | `no_code_block` |
    | a fence without a language, or with another language | 0 | `no_code_block` |
    | two `python` fences, with `blocks="one"` | 0 | `several_code_blocks` |
    | a fence that is never closed | 0 | `unclosed_fence` |
    | no visible text in the fence | 0 | `empty_code` |
    | `print(1` | 0 | `does_not_compile` |
    | nothing but comments, imports, bare values, `pass`, `...`, or functions of such | 0 | `trivial_code` |
    | more than 50,000 characters of code | 0 | `code_too_long` |
    | code that keeps the compiler busy for `timeout` seconds | 0 | `timeout` |
    | a fence in thinking that does not end; nothing after it | 0 | `unclosed_think`, `no_answer` |

    Raises:
        ValueError: for an unknown setting, a language not in lower case, or a timeout that is not above 0.

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
        check_seconds("timeout", self.timeout)
        check_choice("blocks", self.blocks, BLOCKS)
        is_word = isinstance(self.language, str) and self.language != ""
        if not is_word or self.language != self.language.lower().strip():
            raise ValueError(
                f"The language is a fence's word in lower case, such as `python`; got {self.language!r}."
            )

    @property
    def tags(self) -> frozenset[str]:
        """The fence tags accepted for the language."""
        language = _LANGUAGE_OF.get(self.language, self.language)
        return TAGS.get(language, frozenset({language}))

    def close(self) -> None:
        """Stop the workers of this process; the next use starts new workers."""
        if self._is_compiled:
            close_workers()

    @property
    def _is_compiled(self) -> bool:
        return self.compiles and self.tags == PYTHON_TAGS

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        target = "trl_grpo_ext.rewards.formats.code_format:compile_here"
        judge = partial(judge_in_workers, target, timeout=self.timeout)
        return self.judge_questions(samples, self._call, judge)

    def _call(self, sample: Sample) -> tuple[list[str]] | Verdict:
        """Return the code for `compile_here`, wrapped as worker arguments; a verdict if no compilation is needed."""
        answer = answer_part(sample)
        if isinstance(answer, Verdict):
            return answer
        blocks = closed_blocks(answer)
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
        if not self._is_compiled:
            return right(code[-1])
        return (code,)


def compile_here(programs: Sequence[str]) -> dict[str, Any]:
    """Compile Python programs inside a worker; INCORRECT if any program does not compile or has no effect."""
    for program in programs:
        problem, detail = _problem(program)
        if problem:
            details = {}
            if detail:
                details["compiler"] = detail
            return wrong(problem, answer=program, details=details).to_record()
    return right(programs[-1]).to_record()


def _problem(program: str) -> tuple[str, str]:
    """Return the reason code and the compiler's message for an invalid program; two empty texts for a valid program."""
    with warnings.catch_warnings():
        # A warning, such as one about an invalid escape sequence, is no error.
        warnings.simplefilter("ignore")
        try:
            # Besides parsing: `return` outside of a function parses, and does not compile.
            compile(program, "<completion>", "exec", dont_inherit=True)
            tree = ast.parse(program)
        except SyntaxError as error:
            return "does_not_compile", f"{error.msg}, line {error.lineno}"[:200]
        except (ValueError, OverflowError, RecursionError, MemoryError) as error:
            # The source has a NUL character, or nests too deeply.
            return "does_not_compile", type(error).__name__
    if not any(map(_does_something, ast.walk(tree))):
        return "trivial_code", ""
    return "", ""


def _does_something(node: ast.AST) -> bool:
    """Recognize a statement with effect; `pass`, bare values, imports and empty `return` statements have none."""
    match node:
        # A docstring or a bare `...` has no effect.
        case ast.Expr(value=value):
            return any(isinstance(part, _EFFECTS) for part in ast.walk(value))
        case ast.Return(value=None | ast.Constant(value=None)):
            return False
        # `raise NotImplementedError` is a placeholder.
        case ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name))):
            return name != "NotImplementedError"
        case ast.Return() | ast.Raise() | ast.Assign() | ast.AugAssign() | ast.AnnAssign():
            return True
        case ast.Assert() | ast.Delete():
            return True
    return False


code_format_reward = CodeFormatVerifier(name="code_format_reward")
"""`CodeFormatVerifier` for one block of Python, ready for a list of reward functions."""
