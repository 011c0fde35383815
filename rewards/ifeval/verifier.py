"""Verify that an answer follows the row's instructions, in the columns of IFEval or RLVR-IFeval."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trl_grpo_ext.answers.verdicts import graded
from trl_grpo_ext.protocol import DataProblem, Verifier, required_column
from trl_grpo_ext.rewards.formats.answer_part import answer_part
from trl_grpo_ext.rewards.ifeval.instructions import CHECKS, FUNCTIONS, Settings
from trl_grpo_ext.rewards.language_detection import check_installed
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Verdict, skipped

IDS, SETTINGS, GROUND_TRUTH = "instruction_id_list", "kwargs", "ground_truth"
Scoring = Literal["all", "share"]
ADVICE = "Drop the row, or mend its instructions; rewards/ifeval/instructions.py has what each needs."


@dataclass(frozen=True, kw_only=True)
class IFEvalVerifier(Verifier):
    """Checks the verifiable instructions of a row strictly; all 25 instructions of IFEval (arXiv 2311.07911) are known.

    A row has `instruction_id_list` and `kwargs`, one mapping per instruction, as in google/IFEval; or `ground_truth`, a
    mapping or its JSON with `func_name` and settings, as in allenai/RLVR-IFeval. Only the text after the thinking
    counts. Keywords match whole words. An answer without visible text follows no instruction. The language instruction
    needs the extra `language`; the instructions on capital and small letters do not check for English.

    Args:
        scoring: `all`: 1 if every instruction is followed, else 0. `share`: the share of followed instructions.
        name: The metric key.

    | completion | verdict | reason |
    |---|---|---|
    | follows all | CORRECT, 1 | |
    | not all | INCORRECT, 0 | the first violated instruction, `punctuation:no_comma` |
    | 1 of 2, `scoring="share"` | PARTIAL, 0.5 | the first violated instruction |
    | nothing, or thinking that does not end | UNPARSEABLE, 0 | `no_answer`, `unclosed_think` |
    | anything; the row has no or an unknown instruction, or lacks settings | SKIPPED, none | `instructions_invalid` |

    Raises:
        ValueError: for an unknown scoring.

    Examples:
        >>> row = {"instruction_id_list": [["punctuation:no_comma"]] * 2, "kwargs": [[{}]] * 2}
        >>> ifeval_reward(["Yes indeed.", "Yes, indeed."], **row)
        [1.0, 0.0]
    """

    scoring: Scoring = "all"
    name: str | None = None

    def __post_init__(self) -> None:
        if self.scoring not in get_args(Scoring):
            raise ValueError(
                f"scoring is one of {', '.join(get_args(Scoring))}; got {self.scoring!r}."
            )

    def check_columns(self, columns: Collection[str]) -> None:
        required_column(columns, (IDS, GROUND_TRUTH), verifier=self)

    def check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        """List the rows whose instructions are unreadable or lack settings."""
        problems = []
        for place, row in enumerate(rows):
            # Missing settings show only when a text is checked.
            try:
                _followed("A text.", instructions_of(row))
            except ValueError as error:
                problem = DataProblem(
                    row=place,
                    reason="instructions_invalid",
                    value=str(error),
                    advice=ADVICE,
                )
                problems.append(problem)
            except ModuleNotFoundError:
                check_installed("IFEvalVerifier")
                raise
        return problems

    def verify(self, sample: Sample) -> Verdict:
        answer = answer_part(sample)
        # Without an answer the row is still checked: an invalid row is the data's fault.
        text = "" if isinstance(answer, Verdict) else answer
        try:
            followed = _followed(text, instructions_of(sample.row))
        except ValueError:
            return skipped("instructions_invalid")
        if isinstance(answer, Verdict):
            return answer
        details = {}
        violated = []
        for instruction, is_followed in followed.items():
            details[instruction] = "followed" if is_followed else "not followed"
            if not is_followed:
                violated.append(instruction)
        if not violated:
            return graded(1.0, details=details)
        score = 0.0
        if self.scoring == "share":
            score = (len(followed) - len(violated)) / len(followed)
        reason, _, _ = violated[0].partition("#")
        return graded(score, reason=reason, details=details)


def instructions_of(row: Mapping[str, Any]) -> list[tuple[str, Settings]]:
    """Read the (instruction, settings) pairs of a row, in IFEval's names; raise a ValueError for an invalid row."""
    if row.get(IDS) is None:
        return [_function(_parsed(row.get(GROUND_TRUTH)))]
    ids = list(row[IDS])
    settings = list(_parsed(row.get(SETTINGS)) or [{}] * len(ids))
    if not ids or len(ids) != len(settings):
        raise ValueError(f"there are {len(ids)} instructions and {len(settings)} settings")
    pairs = zip(ids, settings, strict=True)
    return [(instruction, _set(_parsed(given))) for instruction, given in pairs]


def _function(written: Any) -> tuple[str, Settings]:
    """Translate an RLVR-IFeval function to an IFEval instruction; section counts become exact."""
    name = ""
    if isinstance(written, Mapping):
        name = str(written.get("func_name"))
    if name not in FUNCTIONS:
        raise ValueError(f"there is no function {name!r}")
    instruction, names = FUNCTIONS[name]
    # RLVR-IFeval counts sections exactly, IFEval asks for at least so many.
    settings = {"section_relation": "exactly"}
    for key, value in _set(written).items():
        if key != "func_name":
            settings[names.get(key, key)] = value
    return instruction, settings


def _parsed(written: Any) -> Any:
    if isinstance(written, str):
        return json.loads(written)
    return written


def _set(settings: Any) -> dict[str, Any]:
    """Drop settings of None: a dataset gives each mapping the keys of all mappings, and fills gaps with None."""
    if not isinstance(settings, Mapping):
        raise ValueError(f"settings are a mapping, got {settings!r:.80}")
    return {key: value for key, value in settings.items() if value is not None}


def _followed(text: str, asked: Sequence[tuple[str, Settings]]) -> dict[str, bool]:
    """Check each instruction, and return instruction -> followed; a repeated instruction gets `#` and its index.

    Raises:
        ValueError: for an unknown instruction, or missing or unusable settings.
    """
    followed: dict[str, bool] = {}
    for place, (instruction, settings) in enumerate(asked):
        if instruction not in CHECKS:
            raise ValueError(f"there is no instruction {instruction!r}")
        check = CHECKS[instruction]
        try:
            is_followed = check(text, settings)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{instruction}: {type(error).__name__}: {error}") from None
        key = f"{instruction}#{place}" if instruction in followed else instruction
        followed[key] = is_followed
    return followed


ifeval_reward = IFEvalVerifier(name="ifeval_reward")
"""`IFEvalVerifier` with its defaults, ready for a list of reward functions or for `trl grpo --reward_funcs`."""
