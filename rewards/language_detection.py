"""In which language a passage of prose is. What tells languages of one script apart is py3langid."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from trl_grpo_ext.rewards.prose import Passage, word_count
from trl_grpo_ext.support.text import did_you_mean

MIN_WORDS = 5  # fewer tell no language, but only a script
# A passage of the wanted script is foreign only if another language is this certain, and this many times as likely.
# Sentences lie far beyond both; lists of names, of mathematical functions and of variables do not.
CERTAIN = 0.5
TIMES_AS_LIKELY = 5

_LATIN = (
    "af az br bs ca cs cy da de en eo es et eu fi fo fr fy ga gd gl ha hr ht hu id ig is it jv ku la lb lg ln lt lv mg "
    "ms mt nl no oc om pl pt qu ro sk sl so sq sr sv sw tk tl tr uz vi vo wa xh yo zu"
)
_OTHERS = {
    "Cyrillic": "ba be bg kk ky mk mn ru sr tg tt uk uz",
    "Arabic": "ar fa ku ps ug ur",
    "CJK": "ja zh",
    "Hangul": "ko",
    "Devanagari": "hi mr ne sa",
    "Bengali": "as bn",
    "Ethiopic": "am",
    "Greek": "el",
    "Hebrew": "he",
    "Armenian": "hy",
    "Georgian": "ka",
    "Khmer": "km",
    "Kannada": "kn",
    "Lao": "lo",
    "Malayalam": "ml",
    "Myanmar": "my",
    "Oriya": "or",
    "Gurmukhi": "pa",
    "Sinhala": "si",
    "Tamil": "ta",
    "Telugu": "te",
    "Thai": "th",
    "Gujarati": "gu",
    "Tibetan": "dz",
}
_WRITTEN = {"Latin": _LATIN, **_OTHERS}
SCRIPTS_OF: Mapping[str, frozenset[str]] = {
    code: frozenset(script for script, codes in _WRITTEN.items() if code in codes.split())
    for codes in _WRITTEN.values()
    for code in codes.split()
}
LANGUAGES = tuple(sorted(SCRIPTS_OF))

# Other codes for the same language.
_SAME = {
    **dict.fromkeys(("nb", "nn"), "no"),
    **dict.fromkeys(("cmn", "yue", "wuu"), "zh"),
    **dict.fromkeys(("arb", "ary", "arz"), "ar"),
    "iw": "he",
    "fil": "tl",
    "grc": "el",
    "uzs": "uz",
}
# What the detector tells apart where a reward should not: the likelihoods are added up under the second.
_NEAR = {"pcm": "en", "vec": "it", "lij": "it", "ext": "es", "an": "es", "sdh": "ku", "gcf": "ht", "gcr": "ht"}
_MERGED = {**_SAME, **_NEAR}
_KIN = (frozenset({"id", "ms"}), frozenset({"bs", "hr", "sr"}))

_lock = threading.Lock()
_loaded: list[Any] = []


def check_installed(verifier: str) -> None:
    """Raise a ValueError that names the extra unless py3langid is there; does not load it."""
    missing = [module for module in ("py3langid", "regex") if find_spec(module) is None]
    if missing:
        raise ValueError(
            f"{verifier} tells languages apart by {' and '.join(missing)}, which is not installed: "
            f"pip install 'trl-grpo-ext[language]'"
        )


def language_code(value: object) -> str:
    """The code in `LANGUAGES` that is meant by one like `EN`, `zh-CN`, `pt_BR` or `nb`.

    Raises:
        ValueError: if none is.
    """
    text = value.strip().lower().replace("_", "-").partition("-")[0] if isinstance(value, str) else ""
    code = _SAME.get(text, text)
    if code not in SCRIPTS_OF:
        raise ValueError(
            f"A language is an ISO 639-1 code such as 'en' or 'zh', got {value!r}. {did_you_mean(text, LANGUAGES)}"
        )
    return code


def shares(passages: Iterable[Passage], wanted: str) -> dict[str, float]:
    """How many words of each language there are; what may be the wanted one, is.

    A passage of another script than the wanted language's is foreign, however short; one of its script only if it is
    long enough to tell.
    """
    found: dict[str, float] = {}
    for passage in passages:
        language = _language_of(passage, wanted)
        found[language] = found.get(language, 0.0) + passage.weight
    return found


def main_language(passages: Iterable[Passage]) -> str | None:
    """The language of the most words; None if there are too few to tell."""
    found: dict[str, float] = {}
    for passage in passages:
        language = _likeliest(passage)
        found[language] = found.get(language, 0.0) + passage.weight
    known = {language: words for language, words in found.items() if language in SCRIPTS_OF}
    if sum(known.values()) < MIN_WORDS:
        return None
    return max(sorted(known), key=known.__getitem__)


def _language_of(passage: Passage, wanted: str) -> str:
    if passage.script not in SCRIPTS_OF[wanted]:
        return _likeliest(passage)
    if passage.weight < MIN_WORDS:
        return wanted
    likely = _likelihoods(passage)
    kin = next((kin for kin in _KIN if wanted in kin), frozenset({wanted}))
    chance = sum(likely.get(language, 0.0) for language in kin)
    best = max(likely, key=likely.__getitem__)
    certain = likely[best] >= max(CERTAIN, TIMES_AS_LIKELY * chance)
    return best if certain and best in SCRIPTS_OF and best not in kin else wanted


def _likeliest(passage: Passage) -> str:
    """The likeliest language that is written in the passage's script; the script's name where that cannot be told."""
    written = _WRITTEN.get(passage.script, "").split()
    if len(written) == 1:
        return written[0]
    likely = _likelihoods(passage) if written and passage.weight >= MIN_WORDS else {}
    likely = {language: chance for language, chance in likely.items() if language in written}
    return max(likely, key=likely.__getitem__) if likely else passage.script.lower()


def _likelihoods(passage: Passage) -> dict[str, float]:
    likely: dict[str, float] = {}
    for code, chance in _identifier().rank(passage.text):
        language = _MERGED.get(code, code)
        likely[language] = likely.get(language, 0.0) + chance
    return likely


def foreign_words(passages: Iterable[Passage], wanted: str) -> float:
    """How many words are of another script than the wanted language's."""
    return word_count(passages, outside=SCRIPTS_OF[wanted])


def _identifier() -> Any:
    """py3langid's model, loaded once a process: a second, and 100 MB. Reading it needs no lock."""
    if not _loaded:
        with _lock:
            if not _loaded:
                langid = import_module("py3langid.langid")
                _loaded.append(langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True))
    return _loaded[0]
