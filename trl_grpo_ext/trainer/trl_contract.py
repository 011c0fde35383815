"""The TRL that this package knows: what it touches of the trainer, checked at import, and the warnings to expect.

Also what TRL does not tell: which tokens end a completion, and what the chat template puts before one.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trl_grpo_ext.sample import think_prefill

logger = logging.getLogger(__name__)

SUPPORTED = "trl>=1.6,<2,!=1.15.0"

# TRL split `_calculate_rewards` out for subclasses (trl#3620); its signature is the same from 0.19 to 1.16.
EXPECTED_PARAMETERS = {
    "_calculate_rewards": ("self", "inputs", "prompts", "completions", "completion_ids_list"),
    "_generate": ("self", "prompts"),
    "_generate_and_score_completions": ("self", "inputs"),
    "_log_metric": ("self", "name", "value"),
    "log": ("self", "logs", "start_time"),
}


def check_trl(trainer_class: type, trl_version: str) -> None:
    """Raise an ImportError of one sentence if TRL's trainer is not the one this package subclasses."""
    for method, expected in EXPECTED_PARAMETERS.items():
        # TRL wraps these in a profiling decorator; the signature is that of the function inside.
        is_there = hasattr(trainer_class, method)
        found = inspect.signature(inspect.unwrap(getattr(trainer_class, method))).parameters if is_there else ()
        if tuple(found) != expected:
            has = f"takes ({', '.join(found)})" if is_there else "is missing"
            raise ImportError(
                f"trl_grpo_ext supports {SUPPORTED}, and in the installed TRL {trl_version} the method "
                f"GRPOTrainer.{method} {has}, not ({', '.join(expected)}): install a supported TRL, or use the "
                f"verifiers of trl_grpo_ext.rewards with TRL's own GRPOTrainer."
            )


# Where TRL warns of each batch with a void row, and prints that row whole.
TRAINER = "trl.trainer.grpo_trainer"

VOID_ROWS = (
    "Some completions could not be judged; they are left out of training, not punished (verified/void in the logs). "
    "Their verdicts tell why. This is said once."
)


class _VoidRowsOnce(logging.Filter):
    """Lets the warning of void rows through once, in words that fit: in TRL alone, they are a mistake."""

    has_said = False

    def filter(self, record: logging.LogRecord) -> bool:
        if "All reward functions returned None" not in record.getMessage():
            return True
        is_first, self.has_said = not self.has_said, True
        record.msg, record.args = VOID_ROWS, ()
        return is_first


_VOID_ROWS = _VoidRowsOnce()


@contextmanager
def void_rows_expected() -> Iterator[None]:
    """Keep TRL from warning of rows for which all rewards are None: that is how a void row is left out.

    Only for rewards of a mix: where plain functions return None for a row, TRL's warning names a mistake.
    """
    log = logging.getLogger(TRAINER)
    log.addFilter(_VOID_ROWS)
    try:
        yield
    finally:
        log.removeFilter(_VOID_ROWS)


def end_token_ids(processing_class: Any, generation_config: Any) -> set[int]:
    """The tokens that a completion which was not cut ends with, as TRL tells it."""
    tokenizer = getattr(processing_class, "tokenizer", processing_class)
    configured = generation_config.eos_token_id
    ends = configured if isinstance(configured, list) else [configured]
    return {token for token in (*ends, tokenizer.eos_token_id, tokenizer.pad_token_id) if token is not None}


def template_prefill(processing_class: Any, template_arguments: Mapping[str, Any] | None) -> str | None:
    """What the chat template puts at the start of the assistant's turn, seen by rendering an empty exchange."""
    try:
        rendered = processing_class.apply_chat_template(
            [{"role": "user", "content": "?"}],
            tokenize=False,
            add_generation_prompt=True,
            **(template_arguments or {}),
        )
    except Exception as error:  # no template, or one with demands of its own
        logger.debug("The chat template's prefill is unknown: %s", error)
        return None
    return think_prefill(rendered)
