"""Reward language consistency: score the share of prose words in the wanted language."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from trl_grpo_ext.answers.find.final_answer import after_thinking
from trl_grpo_ext.answers.verdicts import graded, unreadable
from trl_grpo_ext.protocol import DataProblem, Verifier, problems_of, required_column
from trl_grpo_ext.rewards.language_detection import (
    check_installed,
    foreign_words,
    language_code,
    main_language,
    shares,
)
from trl_grpo_ext.rewards.prose import Passage, passages, prose, word_count
from trl_grpo_ext.sample import Prompt, Sample, content_text
from trl_grpo_ext.support.setting_checks import check_choice, check_number, check_whole
from trl_grpo_ext.verdict import Verdict, skipped

# A single word in another script may be a name.
MIN_FOREIGN_WORDS = 2
PARTS = ("completion", "thinking", "answer")
ADVICE = {
    "language_missing": "Drop the row, or give it a language code.",
    "language_unreadable": "Write the language as an ISO 639-1 code, such as en or zh.",
}


@dataclass(frozen=True, kw_only=True)
class LanguageVerifier(Verifier):
    """Scores the share of prose words in the wanted language.

    Use it for reasoning models that mix languages, as DeepSeek-R1-Zero does: R1 was trained with this share as a
    reward. The reward costs some accuracy, so give it a small weight.

    Only prose counts. Code blocks, inline code, LaTeX mathematics, URLs, tags and numbers are left out, and so are
    single letters, short names in capitals (`ABC`), functions (`sin`), and up to three Greek letters among words of
    other scripts (`αβγ`). A code block or formula that reads as prose does count, and so do all words in it that are
    neither Latin nor Greek.

    Every word in another script is foreign. Between languages of the same script, py3langid decides on passages of a
    sentence or more (12 words), and an uncertain passage counts as the wanted language: a few foreign words in a
    sentence of the same script are not found, nor are comments in code. Two characters of Chinese or Japanese count as
    a word. Meaningless letters count as the wanted language as well: the verifier does not judge sense. Judging 8000
    tokens takes about 40 ms; loading the detector takes a second and 100 MB, once per process.

    Args:
        language: The wanted language for all rows, as an ISO 639-1 code (`en`, `zh`, `pt-BR`); or
        column: the dataset column with the wanted language of each row. If both are None, the wanted language is the
            language of the prompt (of the last user message in a conversation). If the prompt has too few words to
            tell, such as `2+2=?`, the wanted language is the main language of the completion itself.
        part: The judged part of the completion: `"completion"`, all of it; `"thinking"`, the text before `</think>`;
            `"answer"`, the text after `</think>`.
        threshold: The lowest share, in (0, 1], that scores 1; a smaller share scores 0. None scores the share itself.
        min_words: The fewest prose words to judge, 1 or more. Two words in another script are judged in any case.
        too_little: The score, in [0, 1], of a completion with fewer words. 1 spares terse answers, which are in no
            other language. Lower it if a model avoids a language that it knows badly by writing only formulas.
        name: The metric key.

    | completion, with `language="en"` | score | status, reason |
    |---|---|---|
    | all in English | 1 | CORRECT |
    | 30 words of English, 10 of another language | 0.75 | PARTIAL, `mixed_languages` |
    | the same, `threshold=0.9` | 0 | INCORRECT, `mixed_languages` |
    | all in another language | 0 | INCORRECT, `other_language` |
    | `\\boxed{4}`, an empty completion, only code | 1 (`too_little`) | CORRECT, `too_little_prose` |
    | without `</think>`, `part="answer"`, if a think block was opened | 0 | UNPARSEABLE, `unclosed_think` |
    | without a think tag, `part="thinking"` | 0 | UNPARSEABLE, `no_think` |
    | any, `column="lang"` and none in this row | none, the data's fault | SKIPPED, `language_missing` |
    | any, and `"Klingon"` in this row | none, the data's fault | SKIPPED, `language_unreadable` |

    Raises:
        ValueError: for an unknown language, for both `language` and `column`, for a setting out of range, or if the
            extra is missing (`pip install trl-grpo-ext[language]`).

    Examples:
        >>> english = LanguageVerifier(language="en")
        >>> english(["So we add the two numbers and get four.", "所以我们把这两个数相加得到四"])
        [1.0, 0.0]

    Source: DeepSeek-R1, section 2.3.2 (https://huggingface.co/papers/2501.12948).
    """

    language: str | None = None
    column: str | None = None
    part: Literal["completion", "thinking", "answer"] = "completion"
    threshold: float | None = None
    min_words: int = 5
    too_little: float = 1.0
    name: str | None = None

    def __post_init__(self) -> None:
        if self.language is not None and self.column is not None:
            raise ValueError(
                "Give either language=..., for all rows, or column=..., the dataset column that holds each row's; "
                "or neither, for the language of the prompt."
            )
        if self.language is not None:
            language_code(self.language)
        check_choice("part", self.part, PARTS)
        if self.threshold is not None:
            check_number("threshold", self.threshold, "a share", above=0, most=1)
        check_whole("min_words", self.min_words, "a number of words", least=1)
        check_number("too_little", self.too_little, "a score", least=0, most=1)
        check_installed("LanguageVerifier")

    def check_columns(self, columns: Collection[str]) -> None:
        if self.column is not None:
            required_column(columns, [self.column], verifier=self)

    def check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        """List the rows whose language code is missing or unknown."""
        if self.column is None:
            return []
        reasons = [self._row_problem(row) for row in rows]
        codes = [row.get(self.column) for row in rows]
        return problems_of(reasons, codes, ADVICE)

    def verify(self, sample: Sample) -> Verdict:
        problem = self._row_problem(sample.row)
        if problem:
            return skipped(problem)
        text = self._part(sample)
        if isinstance(text, Verdict):
            return text
        found = passages(prose(text))
        # Without a setting, and with a prompt of mathematics alone, the completion's main language counts.
        wanted = self._wanted(sample) or main_language(found)
        if wanted is None or self._is_too_little(found, wanted):
            return graded(self.too_little, reason="too_little_prose")
        return self._scored(wanted, found)

    def _is_too_little(self, found: Sequence[Passage], wanted: str) -> bool:
        if word_count(found) >= self.min_words:
            return False
        # Foreign words count even in a short text.
        return foreign_words(found, wanted) < MIN_FOREIGN_WORDS

    def _row_problem(self, row: Mapping[str, Any]) -> str:
        """Return the reason code of a missing or unreadable language in the row's `column`; empty if none."""
        if self.column is None:
            return ""
        if row.get(self.column) is None:
            return "language_missing"
        try:
            language_code(row[self.column])
        except ValueError:
            return "language_unreadable"
        return ""

    def _wanted(self, sample: Sample) -> str | None:
        if self.column is not None:
            return language_code(sample.row[self.column])
        if self.language is not None:
            return language_code(self.language)
        return _prompt_language(_asked(sample.prompt))

    def _part(self, sample: Sample) -> str | Verdict:
        text = (sample.prefill or "") + sample.text
        if self.part == "completion":
            return text
        if self.part == "answer":
            part = after_thinking(text)
            problem = "unclosed_think"
        else:
            part = _thinking(text)
            problem = "no_think"
        if part is None:
            return unreadable(problem)
        return part

    def _scored(self, wanted: str, found: Sequence[Passage]) -> Verdict:
        words = shares(found, wanted)
        share = words.get(wanted, 0.0) / sum(words.values())
        score = share
        if self.threshold is not None:
            score = float(share >= self.threshold)
        by_words = sorted(words, key=words.__getitem__, reverse=True)
        others = [language for language in by_words if language != wanted]
        details = {
            "wanted": wanted,
            "share": f"{share:.2f}",
            "others": " ".join(others),
        }
        return graded(score, reason=_reason(share), details=details)


def _reason(share: float) -> str:
    if share == 1:
        return ""
    if share == 0:
        return "other_language"
    return "mixed_languages"


def _thinking(text: str) -> str | None:
    """Return the text before the last `</think>`, else the text from `<think>` on; None without either tag."""
    closed = text.rfind("</think>")
    if closed >= 0:
        return text[:closed]
    opened = text.find("<think>")
    if opened >= 0:
        return text[opened:]
    return None


def _asked(prompt: Prompt | None) -> str:
    """Return the text of the prompt; for a conversation, of the last user message."""
    if prompt is None:
        return ""
    if isinstance(prompt, str):
        return prompt
    # A system prompt is often in English, whatever the user writes.
    asked = [message for message in prompt if message.get("role") == "user"]
    if not asked:
        return ""
    return content_text(asked[-1].get("content"))


@lru_cache(maxsize=512)
def _prompt_language(asked: str) -> str | None:
    # All completions of a group share one prompt, so the cache saves most detections.
    return main_language(passages(prose(asked)))


if TYPE_CHECKING:
    language_reward: LanguageVerifier
    """`LanguageVerifier` for the language of the prompt, ready for a list of reward functions."""


def __getattr__(name: str) -> LanguageVerifier:
    # The instance is made on first access, so that without the extra the class can still be imported and its error
    # names the extra.
    if name != "language_reward":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return LanguageVerifier(name=name)
