"""Check `truncation`: completions that are cut at the length limit, and a model that the limit has made short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trl_grpo_ext.diagnostics.batches import names, of_template, percent
from trl_grpo_ext.diagnostics.example import safe_reason
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.levels import length_level
from trl_grpo_ext.diagnostics.progress import FLAT_BATCHES, has_risen, is_flat
from trl_grpo_ext.diagnostics.term_totals import added
from trl_grpo_ext.diagnostics.window import LEAST_SAMPLES, CheckResult, Window
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.support.estimate import Estimate

# Of the completions: rl-doctor's upper level, rlprobe's level.
CUT_WARN, CUT_CRITICAL = 0.15, 0.5
# Of the completions: from the first batch on, a model that hardly ever ends. Ours.
NEARLY_ALL = 0.95
# Cut completions score less than this part of what the others do. Ours, tried in test_fault_injection.py.
COSTLY = 0.5
# Of the scale: completions that come to an end with a lower score fail for another reason. Ours, tried in
# test_diagnosis_cases.py (most are cut, and the others are as wrong).
RIGHT_NOW_AND_THEN = 0.05
# Of the length at the start. Ours, from a limit that thinking does not fit: 8 to 5 tokens.
SHORTER = 0.75
# Of the scale: with less missing to the best score, the short answers are as good.
MISSING = 0.2
# Of generation_kwargs: it takes the place of max_completion_length.
OTHER_LIMIT = "max_new_tokens"
READ_A_PROMPT = "Read a prompt as the model gets it, and a completion that comes to an end: more tokens do not help."


def cut(window: Window) -> CheckResult:
    """Find cut completions with low scores, or without any end and any rise.

    A higher limit helps only where completions that come to an end are right now and then.
    """
    if window.settings.get("max_completion_length") == 1:
        return NotChecked("completions of more than one token")
    cut = Estimate.together(batch.primary.cut_scores for batch in window.batches)
    ended = Estimate.together(batch.primary.ended_scores for batch in window.batches)
    known = cut.count + ended.count
    if window.batches and not known:
        return NotChecked("to know which completions were cut")
    if known < LEAST_SAMPLES:
        return None
    share = cut.count / known
    if share < CUT_WARN or not (
        _costs(window, cut, ended, share) or _never_ends(window, ended)
    ):
        return None
    helps = (
        ended.count < LEAST_SAMPLES or window.scale.unit(ended).mean >= RIGHT_NOW_AND_THEN
    )
    if not helps and has_risen(window):
        return None
    tools = _tools_of_most(window, cut.count)
    ending = (
        _ended_by(tools, window)
        if tools
        else f"of the completions are cut{_at_limit(window)}"
    )
    told = f"{percent(share)} {ending}, with a mean score of {cut.mean:z.2f}"
    numbers = {"share": share, "score_of_cut": cut.mean}
    if ended.count:
        sentence = f"{told}; completions that come to an end have {ended.mean:z.2f}."
        numbers["score_of_ended"] = ended.mean
    else:
        sentence = f"{told}: none comes to an end{'' if tools else _other_end(window)}."
    return Finding(
        severity=Severity.critical_if(share >= CUT_CRITICAL and helps),
        terms=tuple(window.primary_terms),
        sentence=sentence,
        numbers=numbers,
        action=_advice(window, tools, helps=helps),
    )


def _advice(window: Window, tools: str, *, helps: bool) -> str:
    """Advise on cut completions: shorter results of tools, a higher limit if it helps, else another prompt."""
    if tools:
        return f"Make the results of {tools} shorter, or raise max_completion_length."
    if helps:
        return _action(window)
    return of_template(window) + READ_A_PROMPT + _of_system_prompt(window)


def _tools_of_most(window: Window, cut: float) -> str:
    """Name the tools whose results did not fit, so that most of the cut completions ended; empty for another cause."""
    left_out = added(batch.left_out for batch in window.batches)
    if 2 * left_out.total() <= cut:
        return ""
    [(tools, _)] = left_out.most_common(1)
    return names([safe_reason(tool) for tool in tools])


def _ended_by(tools: str, window: Window) -> str:
    limit = window.settings.get("max_completion_length")
    size = f" ({limit})" if limit else ""
    return f"of the rollouts end early, mostly since the result of {tools} does not fit in max_completion_length{size}"


def _at_limit(window: Window) -> str:
    """Tell the length limit: ` at 64 tokens`; empty without one."""
    limit = window.settings.get("max_completion_length")
    other = (window.settings.get("generation_kwargs") or {}).get(OTHER_LIMIT)
    if other:
        return f" at {other} tokens ({OTHER_LIMIT} in generation_kwargs)"
    if not limit:
        return ""
    return f" at {limit} tokens"


def shortened(window: Window) -> CheckResult:
    """Find a limit that has taught short completions: many cut at first, and a flat score below the best."""
    before = _cut_share(window.opening)
    now = _cut_share(window.later)
    if not window.later or before < CUT_WARN or now >= CUT_WARN:
        return None
    cut = Estimate.together(batch.primary.cut_scores for batch in window.opening)
    ended = Estimate.together(batch.primary.ended_scores for batch in window.opening)
    shorter = made_short(window)
    if not shorter or not _costs(window, cut, ended, before):
        return None
    return Finding(
        severity=Severity.WARNING,
        terms=tuple(window.primary_terms),
        sentence=(
            f"The length limit has taught the model to be short: {percent(before)} of the first completions were cut"
            f"{_at_limit(window)}, with a mean score of {cut.mean:z.2f}, and {percent(now)} are now; {shorter}."
        ),
        numbers={
            "share_at_the_start": before,
            "share": now,
            "tokens": length_level(window.later).mean,
        },
        action="Raise max_completion_length, and start again: what was unlearned hardly comes back by itself.",
    )


def made_short(window: Window) -> str:
    """Tell of completions that have become shorter, and of a flat score below the best; else empty.

    A model that has learned to avoid a limit looks like this.
    """
    tokens = length_level(window.later)
    before = length_level(window.opening)
    is_shorter = tokens.mean <= SHORTER * before.mean and (before - tokens).is_sure
    if not is_shorter or not is_flat(window):
        return ""
    best = window.best
    missing = window.scale.part(replace(window.score, mean=best - window.score.mean))
    if missing.mean < MISSING:
        return ""
    return (
        f"they went from {before.mean:.0f} to {tokens.mean:.0f} tokens, and the score is {window.score.mean:z.2f} of "
        f"{best:z.2f} at best"
    )


def _cut_share(batches: Sequence[BatchFigures]) -> float:
    return Estimate.together(batch.primary.cut_share for batch in batches).mean


def _costs(window: Window, cut: Estimate, ended: Estimate, share: float) -> bool:
    """Test whether cut completions score far below others, or nothing while most are cut."""
    of_cut = window.scale.unit(cut).mean
    is_lower = ended.count > 0 and of_cut < COSTLY * window.scale.unit(ended).mean
    return is_lower or (of_cut <= 0 and share >= CUT_CRITICAL)


def _of_system_prompt(window: Window) -> str:
    """Advise to try without a system prompt where hardly a completion has ended well from the first batch on."""
    ended = Estimate.together(batch.primary.ended_scores for batch in window.opening)
    if (
        not window.settings.get("has_system_prompt")
        or window.scale.unit(ended).mean >= RIGHT_NOW_AND_THEN
    ):
        return ""
    return " Try it without the system prompt: the model may not know this form."


def _never_ends(window: Window, ended: Estimate) -> bool:
    """Test whether all completions are cut, and the score is flat or the template ends turns with another token."""
    is_whole = _cut_share(window.opening) >= NEARLY_ALL and not ended.count
    # A rise does not mend the end token of a template in use: the finding holds on.
    is_known = window.settings.get("other_end_of_turn") and not window.settings.get(
        "unused_chat_template"
    )
    is_refuted = not is_known and (window.is_solved or has_risen(window))
    return is_whole and len(window.batches) >= FLAT_BATCHES and not is_refuted


def _other_end(window: Window) -> str:
    """Name the chat template's end token if the tokenizer has another, else the causes that look alike."""
    token = window.settings.get("other_end_of_turn")
    if not token:
        return ", as where the end token is not the model's, or an answer does not fit"
    return f", since the chat template ends a turn with `{token}`, which is not the tokenizer's end token"


def _action(window: Window) -> str:
    token = window.settings.get("other_end_of_turn")
    if token and _cut_share(window.batches) >= NEARLY_ALL:
        return f"Set the tokenizer's eos_token to `{token}`."
    if _cut_share(window.opening) >= NEARLY_ALL:
        return (
            "Read a completion. If it goes on after its answer, the model does not know the token that ends a turn: "
            "set eos_token, or train from a model whose chat template has it. If it is still at work, raise "
            "max_completion_length."
        )
    if (window.settings.get("generation_kwargs") or {}).get(OTHER_LIMIT):
        return f"Take {OTHER_LIMIT} out of generation_kwargs."
    if window.settings.get("mask_truncated_completions"):
        return "Raise max_completion_length: cut ones are masked already, so they are not punished and teach nothing."
    return "Raise max_completion_length, or set mask_truncated_completions so that cut ones are not punished."
