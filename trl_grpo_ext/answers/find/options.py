"""Find the option that a sentence chooses, and the options that a question lists."""

from __future__ import annotations

import re
from functools import lru_cache

from trl_grpo_ext.answers.find.letters import LABELS, option
from trl_grpo_ext.answers.find.names import names
from trl_grpo_ext.answers.read.choices import Choice, Options, option_text, plain_text, read_choice

_SENTENCE = re.compile(r"\n|(?<=[.!?])\s+")
_CAPITAL = re.compile(r"(?<!['’\w])[A-Z](?!['’\w])")
# Any such word in a sentence leaves open whether it chooses the option that it names.
_UNSURE = re.compile(
    r"\b(?:or|but|maybe|perhaps|possibly|probably|might|may|could|would|if|unless|whether|not|no|nor|never|neither"
    r"|either|both|cannot|except|besides|doubt\w*|unlikely|impossible|hardly|wrong|false|untrue|incorrect|worst|rather|instead|than)\b"
    r"|n['’]t\b|\?",
    re.IGNORECASE,
)
# An option's text may be a number or a phrase; a name in its place lets `names` read the sentence.
_STAND_IN = "Option"


@lru_cache(maxsize=64)
def listed_options(prompt: str) -> Options:
    """Return the options that a question lists by letters; options without texts if it lists none.

    Examples:
        >>> listed_options("What is the capital of Peru?\\nA) Rome\\nB) Lima").texts
        ('rome', 'lima')
    """
    texts = [option_text(option(label, prompt), label) for label in LABELS]
    while texts and not texts[-1]:
        texts.pop()
    has_two = sum(map(bool, texts)) > 1
    return Options(texts=tuple(texts)) if has_two else Options()


def choice_said(answer: str, options: Options) -> Choice:
    """Read the option that an answer chooses as a whole, or in its last sentence.

    Without a letter, the sentence has to name the whole text of one option, and no text or letter of another. Earlier
    sentences may name others, as in "Rome is in Italy.", but not choose them.

    Examples:
        >>> peru = Options(("A", "B"), ("rome", "lima"))
        >>> [*choice_said("It lies in Peru. The capital is Lima.", peru).labels]
        ['B']
        >>> [choice_said(said, peru).problem for said in ("It's not Lima.", "It's Lima or Rome.", "Rome. It's Lima.")]
        ['no_choice', 'no_choice', 'several_choices']
    """
    whole = read_choice(answer, options)
    if whole.problem != "no_choice":
        return whole
    sentences = [sentence for sentence in _SENTENCE.split(answer.strip()) if sentence.strip()]
    if not sentences:
        return whole
    choice = _of_sentence(sentences[-1], options)
    if not choice.labels:
        return choice
    for sentence in sentences[:-1]:
        if read_choice(sentence, options).labels - choice.labels:
            return Choice(problem="several_choices")
    return choice


def _of_sentence(sentence: str, options: Options) -> Choice:
    choice = read_choice(sentence, options)
    if choice.problem != "no_choice":
        return choice
    plain = plain_text(sentence)
    labels = _named(plain, options)
    return Choice(labels) if labels else choice


def _named(sentence: str, options: Options) -> frozenset[str]:
    """Return the labels of the option whose text a sentence gives as the answer; empty if it leaves any doubt."""
    if _UNSURE.search(sentence):
        return frozenset()
    text = options.within(sentence)
    labels = frozenset(options.saying(text))
    if not labels:
        return frozenset()
    lettered = rf"(?<!\w){re.escape(text)}(?!\w)(?:\s*\((?:option\s+)?(?:{'|'.join(sorted(labels))})\))?"
    stated = re.sub(lettered, _STAND_IN, sentence, flags=re.IGNORECASE)
    other_letters = {*_CAPITAL.findall(stated)} & {*options.labels} - labels
    if other_letters or options.another(stated, labels):
        return frozenset()
    return labels if names(stated, _STAND_IN) else frozenset()
