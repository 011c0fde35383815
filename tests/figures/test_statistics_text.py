"""Text figures of diagnostics, on any completion text, including hostile text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trl_grpo_ext import Sample
from trl_grpo_ext.figures.repeated_and_foreign import (
    LEAST_TOKENS,
    NGRAM,
    SAMPLES,
    text_figures,
)
from trl_grpo_ext.rewards.prose import passages, word_count
from trl_grpo_ext.rewards.repetition import repeated_share

ENGLISH = "Please write in the language of this question, and show every step of it."
CHINESE = "我们先把这两个数相加然后再减去第三个数得到最后的结果"
ARABIC = "نجمع العددين أولا ثم نطرح العدد الثالث من الناتج لنصل إلى الجواب النهائي"

# Whole scripts, lone surrogates, marks that turn the direction of writing, joiners, and long runs of one character.
characters = st.one_of(
    st.characters(),
    st.characters(categories=["Cs", "Cf", "Mn", "Co", "Cn"]),
    st.sampled_from(
        "\u202e\u202a\u2066\u200d\u200f\ufeff\u0301\x00\ud800\udfffאب汉한ไ`$<>\\"
    ),
)
texts = st.one_of(
    st.text(characters, max_size=300),
    st.tuples(st.text(characters, min_size=1, max_size=8), st.integers(1, 25_000)).map(
        lambda run: run[0] * run[1]
    ),
)
contents = st.one_of(
    texts,
    st.none(),
    st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts})),
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant"]), "content": contents}
)
prompts = st.one_of(st.none(), texts, st.lists(messages, max_size=3))
tokens = st.one_of(
    st.none(), st.lists(st.integers(0, 3), max_size=3000), st.lists(st.integers(0, 200_000))
)
samples = st.builds(Sample, text=texts, prompt=prompts, completion_ids=tokens)


@given(batch=st.lists(samples, max_size=4))
@example(batch=[Sample(text="\ud83d" * 200_000, prompt=ENGLISH)])
@example(batch=[Sample(text="\u202eשלום " * 40_000, prompt="\udc00")])
@example(
    batch=[
        Sample(text="e" + "\u0301" * 200_000, prompt=[{"role": "user", "content": None}])
    ]
)
def test_shares_are_shares_or_not_known_for_text_of_any_kind(
    batch: Sequence[Sample],
) -> None:
    facts = text_figures(batch)
    for share in (facts.repeated, facts.foreign):
        assert share is None or 0.0 <= share <= 1.0


@given(text=texts)
def test_words_of_other_scripts_are_never_more_than_all(text: str) -> None:
    found = passages(text)
    scripts = {window.script for window in found}
    assert word_count(found, outside=scripts) == 0.0
    apart = [word_count(found, outside=scripts - {script}) for script in scripts]
    assert sum(apart) == pytest.approx(word_count(found))


@given(ids=st.lists(st.integers(0, 3), max_size=80), size=st.integers(1, 12))
def test_the_share_of_repeated_ngrams_is_what_counting_them_one_by_one_says(
    ids: list[int], size: int
) -> None:
    seen: list[list[int]] = []
    repeats = 0
    for start in range(len(ids) - size + 1):
        ngram = ids[start : start + size]
        repeats += ngram in seen
        seen.append(ngram)
    assert repeated_share(ids, size) == pytest.approx(repeats / max(1, len(seen)))


def sample(text: str, prompt: Any = ENGLISH, ids: Sequence[int] | None = None) -> Sample:
    return Sample(text=text, prompt=prompt, completion_ids=ids)


@pytest.mark.parametrize(
    "foreign", [CHINESE, ARABIC, f"\u202e{ARABIC}\u202c"], ids=["cjk", "rtl", "turned"]
)
def test_text_in_another_script_than_the_prompts_is_foreign_and_in_its_own_is_not(
    foreign: str,
) -> None:
    assert text_figures([sample(foreign)]).foreign == 1.0
    assert text_figures([sample(foreign, prompt=foreign)]).foreign == 0.0
    asked = [{"role": "system", "content": ENGLISH}, {"role": "user", "content": foreign}]
    assert text_figures([sample(foreign, prompt=asked)]).foreign == 0.0
    mixed = text_figures([sample(f"{ENGLISH} {foreign}")]).foreign
    assert mixed is not None
    assert 0.3 < mixed < 0.8


def test_what_is_too_short_or_has_no_prompt_to_compare_with_is_not_known() -> None:
    short = text_figures([sample("4", ids=[1] * (LEAST_TOKENS - 1))])
    assert (short.repeated, short.foreign) == (None, None)
    assert text_figures([sample(CHINESE, prompt=None)]).foreign is None
    assert text_figures([sample(CHINESE, prompt="2+2=?")]).foreign is None
    assert text_figures([]).repeated is None


def test_a_loop_repeats_itself_and_tokens_that_all_differ_do_not() -> None:
    loop, honest = [7] * 64, list(range(64))
    repeated = 1 - 1 / (64 - NGRAM + 1)
    assert text_figures([sample("", ids=loop)]).repeated == pytest.approx(repeated)
    assert text_figures([sample("", ids=honest)]).repeated == 0.0
    halves = [sample("", ids=loop)] * (2 * SAMPLES) + [sample("", ids=honest)] * (
        2 * SAMPLES
    )
    assert text_figures(halves).repeated == pytest.approx(
        repeated / 2
    )  # those that are looked at are spread evenly
