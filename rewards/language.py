"""Language consistency: the share of the prose that is in the wanted language."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from trl_grpo_ext.answers.find.thinking import after_thinking
from trl_grpo_ext.answers.verdicts import graded, unreadable
from trl_grpo_ext.protocol import DataProblem, Verifier, is_number, is_whole_number, problems_of, required_column
from trl_grpo_ext.rewards.language_detection import check_installed, foreign_words, language_code, main_language, shares
from trl_grpo_ext.rewards.prose import Passage, passages, prose, word_count
from trl_grpo_ext.sample import Prompt, Sample, content_text
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.verdict import Verdict, skipped

MIN_FOREIGN_WORDS = 2  # in another script: one may be a name
PARTS = ("completion", "thinking", "answer")
ADVICE = {
    "language_missing": "Drop the row, or give it a language code.",
    "language_unreadable": "Write the language as an ISO 639-1 code, such as en or zh.",
}


@dataclass(frozen=True, kw_only=True)
class LanguageVerifier(Verifier):
    """Scores the share of the words that are in one language.

    For reasoning models that mix languages, as DeepSeek-R1-Zero does: R1 was trained with this share as a reward. It
    costs some accuracy, so give it a small weight.

    Prose is what counts: code blocks, inline code, LaTeX mathematics, addresses, tags and numbers are left out, and so
    are single letters, short names in capitals (`ABC`), functions (`sin`), and two or three Greek letters among words
    of other scripts (`αβγ`). What only pretends counts: a code block or a formula that reads as prose, and words in one
    that are of another script than Latin and Greek.

    Words of another script are foreign, down to one. Within a script, py3langid tells languages apart by a sentence or
    more (12 words), and the wanted language has the benefit of the doubt: a few foreign words in a sentence of the same
    script are not found, nor are comments in code. Two characters of Chinese or Japanese count as a word. Letters that
    make no words have the benefit of the doubt as well: sense is not judged. It takes some 40 ms for 8000 tokens, and
    the detector a second and 100 MB, once a process.

    Args:
        language: The wanted language for all rows, as an ISO 639-1 code (`en`, `zh`, `pt-BR`); or
        column: the dataset column that holds each row's code. Without either it is the language of the prompt (of a
            conversation, its last user message). Where that has too few words to tell, such as `2+2=?`, the completion
            must keep to its own main language.
        part: What is looked at: `"completion"`, all of it; `"thinking"`, what comes before `</think>`; `"answer"`, what
            comes after it.
        threshold: The share from which on the score is 1, and 0 below, in (0, 1]. None scores the share itself.
        min_words: Fewer words of prose than this tell no language, unless two are in another script.
        too_little: The score, in [0, 1], where there are fewer. 1 leaves terse answers alone: they are in no other
            language. Lower it where a model dodges a language that it knows badly by writing formulas only.
        name: The metric key.

    | completion, with `language="en"` | score | status, reason |
    |---|---|---|
    | all in English | 1 | CORRECT |
    | 30 words of English, 10 of another language | 0.75 | PARTIAL, `mixed_languages` |
    | the same, `threshold=0.9` | 0 | INCORRECT, `mixed_languages` |
    | all in another language | 0 | INCORRECT, `other_language` |
    | `\\boxed{4}`, the empty one, nothing but code | 1 (`too_little`) | CORRECT, `too_little_prose` |
    | without `</think>`, `part="answer"`, if a think block was opened | 0 | UNPARSEABLE, `unclosed_think` |
    | without a think tag, `part="thinking"` | 0 | UNPARSEABLE, `no_think` |
    | any, `column="lang"` and none in this row | none, the data's fault | SKIPPED, `language_missing` |
    | any, and `"Klingon"` in this row | none, the data's fault | SKIPPED, `language_unreadable` |

    Raises:
        ValueError: for a language that is not known, both `language` and `column`, other settings that cannot be, or
            if `pip install trl-grpo-ext[language]` is needed.

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
        if self.part not in PARTS:
            raise ValueError(f"There is no part {self.part!r} of a completion. {did_you_mean(str(self.part), PARTS)}")
        if self.threshold is not None and not (is_number(self.threshold) and 0 < self.threshold <= 1):
            raise ValueError(f"threshold is a share above 0 and up to 1, got {self.threshold!r}.")
        if not is_whole_number(self.min_words, least=1):
            raise ValueError(f"min_words is a number of words, 1 or more; got {self.min_words!r}.")
        if not is_number(self.too_little) or not 0 <= self.too_little <= 1:
            raise ValueError(f"too_little is a score from 0 to 1, got {self.too_little!r}.")
        check_installed("LanguageVerifier")

    def check_columns(self, columns: Collection[str]) -> None:
        if self.column is not None:
            required_column(columns, [self.column], verifier=self)

    def check_rows(self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False) -> list[DataProblem]:
        """The rows whose language is missing or not known."""
        return problems_of(map(self._row_problem, rows), (row.get(self.column or "") for row in rows), ADVICE)

    def verify(self, sample: Sample) -> Verdict:
        problem = self._row_problem(sample.row)
        if problem:
            return skipped(problem)
        text = self._part(sample)
        if isinstance(text, Verdict):
            return text
        found = passages(prose(text))
        wanted = self._wanted(sample) or main_language(found)
        if wanted is None or (word_count(found) < self.min_words and foreign_words(found, wanted) < MIN_FOREIGN_WORDS):
            return graded(self.too_little, reason="too_little_prose")
        return self._scored(wanted, found)

    def _row_problem(self, row: Mapping[str, Any]) -> str:
        """The reason code why this row has no language, if it should have one."""
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
        said = self.language if self.column is None else sample.row[self.column]
        return _prompt_language(_asked(sample.prompt)) if said is None else language_code(said)

    def _part(self, sample: Sample) -> str | Verdict:
        text = (sample.prefill or "") + sample.text
        if self.part == "completion":
            return text
        if self.part == "answer":
            answer = after_thinking(text)
            problem = "unclosed_think"
        else:
            answer, problem = _thinking(text), "no_think"
        return unreadable(problem) if answer is None else answer

    def _scored(self, wanted: str, found: Sequence[Passage]) -> Verdict:
        words = shares(found, wanted)
        share = words.get(wanted, 0.0) / sum(words.values())
        reason = "" if share == 1 else "mixed_languages" if share else "other_language"
        score = share if self.threshold is None else float(share >= self.threshold)
        others = sorted((language for language in words if language != wanted), key=words.__getitem__, reverse=True)
        details = {"wanted": wanted, "share": f"{share:.2f}", "others": " ".join(others)}
        return graded(score, reason=reason, details=details)


def _thinking(text: str) -> str | None:
    """What comes before the last `</think>`, or all that follows `<think>`; None without either tag."""
    closed = text.rfind("</think>")
    if closed >= 0:
        return text[:closed]
    opened = text.find("<think>")
    return text[opened:] if opened >= 0 else None


def _asked(prompt: Prompt | None) -> str:
    """What the user asks: of a conversation, the last user message."""
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    asked = [message for message in prompt if message.get("role") == "user"]
    return content_text(asked[-1].get("content")) if asked else ""


@lru_cache(maxsize=512)
def _prompt_language(asked: str) -> str | None:
    # A group shares its prompt.
    return main_language(passages(prose(asked)))


if TYPE_CHECKING:
    language_reward: LanguageVerifier
    """`LanguageVerifier` for the language of the prompt, ready for a list of reward functions."""


def __getattr__(name: str) -> LanguageVerifier:
    # Made when it is asked for: without the extra the class can still be imported, and says what it needs.
    if name != "language_reward":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return LanguageVerifier(name=name)
