"""Remarks at the end of a text: what only checks, explains or illustrates the conclusion before it is none itself."""

from __future__ import annotations

import re

from trl_grpo_ext.answers.find.hedges import is_hedged

_BEGUN = re.compile(
    r"\W*(?:(?:to|let['’]?s|let us|let me|we can|you can|as an?|now|please|just|also|by|quick|final|sanity)\s+){0,3}"
    r"(?:(?:double-?)?check(?:ing)?|verify(?:ing)?|verification|confirm(?:ing)?|proof|note|notice|observe|remember"
    r"|recall|keep in mind|bear in mind|indeed|plugging|substituting|putting (?:it|this|that|them) back"
    r"|for (?:example|instance)|(?:this|that|it|the result) (?:makes sense|checks out|(?:can|may) be (?:checked"
    r"|verified|confirmed))|(?:this|that) (?:matches|agrees|assumes|works))\b",
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"\((?!\s*(?:or|i\.e\.|that is|answer)\b)(?=[^()\\]*[a-z]{3})[^$]*\)[\s.!*]*", re.IGNORECASE)
# What gives another answer is no remark, however it begins.
_GIVES_ANSWER = re.compile(
    r"\b(?:answer is|boxed|wrong|mistake|error|incorrect|actually|wait|instead|rather|sorry|should|correction|so|thus"
    r"|therefore|hence)\b|\bnot\s+\W*\d|[#<]",
    re.IGNORECASE,
)
_SENTENCES = re.compile(r"(?<=[^\s.])(?<!i\.e)[.!]\s|\n")


def without_remarks(text: str) -> str:
    """The text without the remarks that end it, where something stands before them.

    Examples:
        >>> without_remarks("So he has 12. Check: 12 + 3 = 15."), without_remarks("He has 9. (Indeed, 9 + 6 = 15.)")
        ('So he has 12', 'He has 9')
        >>> without_remarks("So he has 12. Note that the answer is actually 31.")
        'So he has 12. Note that the answer is actually 31.'
    """
    for stop in reversed(list(_SENTENCES.finditer(text))):
        sentence = text[stop.end() :].lstrip()
        is_remark = _BEGUN.match(sentence) or _BRACKETED.fullmatch(sentence)
        if is_remark and not _GIVES_ANSWER.search(sentence) and not is_hedged(sentence):
            if not any(map(str.isalnum, text[: stop.start()])):
                break
            text = text[: stop.start()]
        elif any(map(str.isdigit, sentence)):
            break
    return text
