"""Check `odd_sampling`: sampling settings that distort what the policy writes."""

from __future__ import annotations

from collections.abc import Mapping

from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.progress import has_risen, steps_so_far
from trl_grpo_ext.diagnostics.window import LEAST_SAMPLES, CheckResult, Window
from trl_grpo_ext.runs.run_settings import SAMPLING
from trl_grpo_ext.support.setting_checks import is_number

# The highest value of each setting that leaves texts as they are. Ours, tried with the bundled model: at a temperature
# of 1.5 it learns, at 3 it writes nonsense. A lower penalty hardly changes what is written.
HIGHEST = {"temperature": 1.5, "repetition_penalty": 1.05}
# Of the length limit: where no completion may be shorter, hardly one ends with its answer. Ours.
LONG = 0.5
# Tokens: the shortest answer alone may well have half of a low limit.
ANSWER = 12
# Logs, and optimizer steps: by chance, so many shortest lengths differ.
LEAST_LOGS, LEAST_STEPS = 4, 16
# Of generation_kwargs: lengths, which have checks of their own, and settings that change no text.
OF_LENGTH = (
    "min_new_tokens",
    "min_length",
    "min_tokens",
    "max_new_tokens",
    "max_length",
    "max_tokens",
)
WITHOUT_EFFECT = (
    "use_cache",
    "cache_implementation",
    "seed",
    "num_return_sequences",
    "pad_token_id",
    "bos_token_id",
)


def distorted(window: Window) -> CheckResult:
    """Find a temperature or repetition penalty that samples other text than the policy's, below the ceiling."""
    if window.is_solved or window.score.count < LEAST_SAMPLES:
        return None
    for name, highest in HIGHEST.items():
        value = window.number(name)
        if value is not None and value > highest:
            return _finding(window, name, value)
    if has_risen(window):
        return None
    forced = _forced_length(window)
    return _of_length(window, forced) if forced else _of_kwargs(window)


def _of_kwargs(window: Window) -> Finding | None:
    """Find any other setting in generation_kwargs that bends completions, in a run that has not risen."""
    generation = window.settings.get("generation_kwargs") or {}
    aside = (*OF_LENGTH, *WITHOUT_EFFECT, *SAMPLING)
    # 0 and 1 turn a penalty, a size, a share or a number of beams off.
    bending = [
        name
        for name, value in generation.items()
        if name not in aside and value not in (None, 0, 1, "", [])
    ]
    if not bending or steps_so_far(window) < LEAST_STEPS:
        return None
    told = " and ".join(f"{name} {generation[name]}" for name in bending)
    return Finding(
        severity=Severity.WARNING,
        sentence=(
            f"The sampling may be the cause: with {told} (generation_kwargs) texts are sampled that the policy would "
            f"not write, and the score is {window.score.mean:.{window.scale.digits}f}."
        ),
        numbers={},
        action=f"Take {' and '.join(bending)} out of generation_kwargs.",
    )


def _forced_length(window: Window) -> int:
    """Return the enforced least length in tokens, from half of the length limit on; else 0."""
    limit = window.number("max_completion_length")
    if limit is None or limit <= 1:
        return 0
    generation = window.settings.get("generation_kwargs")
    least = generation.get("min_new_tokens") if isinstance(generation, Mapping) else None
    if not is_number(least):
        least = _shortest(window)
    is_answer = least < ANSWER and not (
        isinstance(generation, Mapping) and generation.get("min_new_tokens")
    )
    return int(least) if LONG * limit <= least < limit and not is_answer else 0


def _shortest(window: Window) -> float:
    """Return the shortest completion's length in tokens, equal in all logs; 0 for a varying length."""
    shortest = window.logged("completions/min_length")
    if (
        len(shortest) < LEAST_LOGS
        or steps_so_far(window) < LEAST_STEPS
        or min(shortest) < max(shortest)
    ):
        return 0.0
    return shortest[0]


def _of_length(window: Window, forced: int) -> Finding:
    return Finding(
        severity=Severity.CRITICAL,
        sentence=(
            f"The sampling, not the model: no completion is shorter than {forced} tokens, so none may end with its "
            f"answer, and the score is {window.score.mean:.{window.scale.digits}f}."
        ),
        numbers={"shortest": forced},
        action="Take min_new_tokens, or min_length, out of generation_kwargs.",
    )


def _finding(window: Window, name: str, value: float) -> Finding:
    severity = Severity.CRITICAL
    if has_risen(window):
        severity = Severity.INFO
    return Finding(
        severity=severity,
        sentence=(
            f"The sampling, not the model: a {name} of {value:g} samples texts that the policy would not write, and "
            f"the score is {window.score.mean:.{window.scale.digits}f}."
        ),
        numbers={name: value},
        action=f"Set {name} to 1, TRL's default.",
    )
