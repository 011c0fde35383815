"""The contract with TRL: the methods of the trainer that this package uses, checked at import, and expected warnings.

It also finds facts that TRL does not pass on: the tokens that end a completion, and the chat template's prefill.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from trl_grpo_ext.sample import Completion, think_prefill

logger = logging.getLogger(__name__)

SUPPORTED = "trl>=1.6,<2,!=1.15.0"

# TRL has `_calculate_rewards` for subclasses (trl#3620), with a constant signature from 0.19 to 1.16.
EXPECTED_PARAMETERS = {
    "_calculate_rewards": (
        "self",
        "inputs",
        "prompts",
        "completions",
        "completion_ids_list",
    ),
    "_generate": ("self", "prompts"),
    "_generate_and_score_completions": ("self", "inputs"),
    "_load_optimizer_and_scheduler": ("self", "checkpoint"),
    "_log_metric": ("self", "name", "value"),
    "_save_checkpoint": ("self", "model", "trial"),
    "log": ("self", "logs", "start_time"),
}


def check_trl(trainer_class: type, trl_version: str) -> None:
    """Raise an ImportError if TRL's trainer lacks an expected method, or a method has unexpected parameters."""
    for method, expected in EXPECTED_PARAMETERS.items():
        # TRL wraps these methods in a profiling decorator; the function inside has the signature.
        found: tuple[str, ...] = ()
        has = "is missing"
        if hasattr(trainer_class, method):
            wrapped = getattr(trainer_class, method)
            found = tuple(inspect.signature(inspect.unwrap(wrapped)).parameters)
            has = f"takes ({', '.join(found)})"
        if found != expected:
            raise ImportError(
                f"trl_grpo_ext supports {SUPPORTED}, and in the installed TRL {trl_version} the method "
                f"GRPOTrainer.{method} {has}, not ({', '.join(expected)}): install a supported TRL, or use the "
                f"verifiers of trl_grpo_ext.rewards with TRL's own GRPOTrainer."
            )


class Generated(NamedTuple):
    """What TRL generated, one per prompt: token ids, masks with 0 for tokens of tool results, texts or messages."""

    completion_ids: list[list[int]]
    tool_masks: list[list[int]] | None
    completions: list[Completion]


def read_generated(result: Sequence[Any], prompts: int) -> Generated:
    """Read token ids, tool masks and completions from their places in the result of TRL's `_generate`.

    Raises:
        RuntimeError: if a place holds another kind of value, or not one value per prompt.

    Examples:
        >>> read_generated(([[1]], [[5, 6]], None, ["4"], 3), prompts=1).completions
        ['4']
        >>> read_generated(([[1]], None, [[5, 6]], ["4"], 3), prompts=1)
        Traceback (most recent call last):
            ...
        RuntimeError: TRL's `_generate` does not return completions at the places that trl_grpo_ext knows: ...
    """
    _, ids, masks, completions, *_ = result
    parts = [ids, completions]
    if masks is not None:
        parts.append(masks)
    is_known = (
        all(part is not None and len(part) == prompts for part in parts)
        and all(map(_is_completion, completions))
        and not any(map(_is_completion, ids))
    )
    if not is_known:
        raise RuntimeError(
            f"TRL's `_generate` does not return completions at the places that trl_grpo_ext knows: install "
            f"{SUPPORTED}, or use the verifiers of trl_grpo_ext.rewards with TRL's own GRPOTrainer."
        )
    return Generated(ids, masks, completions)


def _is_completion(value: Any) -> bool:
    """Check for a text, or for a nonempty list of messages."""
    return isinstance(value, str) or (len(value) > 0 and isinstance(value[0], Mapping))


# The logger by which TRL warns of each batch with a void row, printing the whole row.
TRAINER = "trl.trainer.grpo_trainer"

VOID_ROWS = (
    "Some completions could not be judged; they are left out of training, not punished (verified/void in the logs). "
    "Their verdicts tell why. This is said once."
)


class _VoidRowsOnce(logging.Filter):
    """A log filter that shortens TRL's warning about void rows and shows it once.

    In plain TRL, rows without any reward are a mistake, so TRL warns about each batch.
    """

    has_said = False

    def filter(self, record: logging.LogRecord) -> bool:
        if "All reward functions returned None" not in record.getMessage():
            return True
        is_first = not self.has_said
        self.has_said = True
        record.msg = VOID_ROWS
        record.args = ()
        return is_first


_VOID_ROWS = _VoidRowsOnce()


@contextmanager
def void_rows_expected() -> Iterator[None]:
    """Replace TRL's warnings about rows without rewards, which are void rows here, by one short warning.

    Only for rewards of a mix: if plain functions return None for a row, TRL's warning points to a mistake.
    """
    log = logging.getLogger(TRAINER)
    log.addFilter(_VOID_ROWS)
    try:
        yield
    finally:
        log.removeFilter(_VOID_ROWS)


def end_token_ids(processing_class: Any, generation_config: Any) -> set[int]:
    """Return the token ids that end an untruncated completion, as TRL defines them."""
    tokenizer = getattr(processing_class, "tokenizer", processing_class)
    configured = generation_config.eos_token_id
    ends = configured if isinstance(configured, list) else [configured]
    # Models and tokenizers may lack one of them.
    return {*ends, tokenizer.eos_token_id, tokenizer.pad_token_id} - {None}


def template_prefill(
    processing_class: Any, template_arguments: Mapping[str, Any] | None
) -> str | None:
    """Return the prefill of the chat template, found by rendering an empty exchange; None if rendering fails.

    The prefill is a `<think>` tag at the start of the assistant's turn, else "".
    """
    try:
        rendered = processing_class.apply_chat_template(
            [{"role": "user", "content": "?"}],
            tokenize=False,
            add_generation_prompt=True,
            **(template_arguments or {}),
        )
    except Exception as error:
        # The tokenizer has no template, or the template rejects this conversation.
        logger.debug("The chat template's prefill is unknown: %s", error)
        return None
    return think_prefill(rendered)
