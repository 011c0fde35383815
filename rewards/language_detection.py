"""Detect the language of prose passages: by script, and with py3langid between languages of one script."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from trl_grpo_ext.rewards.prose import Passage, word_count
from trl_grpo_ext.support.text import did_you_mean

# Fewer words reveal only a script, not a language.
MIN_WORDS = 5
# A passage in the wanted script is foreign only if another language has at least this probability, and is this many
# times as likely as the wanted language. Real sentences lie far beyond both thresholds; lists of names, mathematical
# functions and variables do not.
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
# Languages that the detector separates but a reward should not: detected code -> code that receives its probability.
_NEAR = {
    "pcm": "en",
    "vec": "it",
    "lij": "it",
    "ext": "es",
    "an": "es",
    "sdh": "ku",
    "gcf": "ht",
    "gcr": "ht",
}
_MERGED = {**_SAME, **_NEAR}
_KIN = (frozenset({"id", "ms"}), frozenset({"bs", "hr", "sr"}))

_lock = threading.Lock()
_loaded: list[Any] = []


def check_installed(verifier: str) -> None:
    """Raise a ValueError that names the extra if py3langid or regex is not installed. Neither module is loaded."""
    missing = [module for module in ("py3langid", "regex") if find_spec(module) is None]
    if missing:
        raise ValueError(
            f"{verifier} tells languages apart by {' and '.join(missing)}, which is not installed: "
            f"pip install 'trl-grpo-ext[language]'"
        )


def language_code(value: object) -> str:
    """Normalize a language code such as `EN`, `zh-CN`, `pt_BR` or `nb` to its code in `LANGUAGES`.

    Raises:
        ValueError: if `LANGUAGES` has no such language.
    """
    text = ""
    if isinstance(value, str):
        # The region after a hyphen or an underscore makes no language of its own.
        text, _, _ = value.strip().lower().replace("_", "-").partition("-")
    code = _SAME.get(text, text)
    if code not in SCRIPTS_OF:
        raise ValueError(
            f"A language is an ISO 639-1 code such as 'en' or 'zh', got {value!r}. {did_you_mean(text, LANGUAGES)}"
        )
    return code


def shares(passages: Iterable[Passage], wanted: str) -> dict[str, float]:
    """Count the words per language: `{"en": 30.0, "de": 10.0}`. Doubtful passages count as the wanted language.

    A passage in a script that the wanted language does not use is foreign, however short. A passage in a script of the
    wanted language is foreign only if it has `MIN_WORDS` words and py3langid is certain.
    """
    found: dict[str, float] = {}
    for passage in passages:
        language = _language_of(passage, wanted)
        found[language] = found.get(language, 0.0) + passage.weight
    return found


def main_language(passages: Iterable[Passage]) -> str | None:
    """Find the language with the most words; None if fewer than `MIN_WORDS` words have a known language."""
    found: dict[str, float] = {}
    for passage in passages:
        language = _likeliest(passage)
        found[language] = found.get(language, 0.0) + passage.weight
    known = {language: words for language, words in found.items() if language in SCRIPTS_OF}
    if sum(known.values()) < MIN_WORDS:
        return None
    # Sorted, so that of languages with as many words the same one always wins.
    return max(sorted(known), key=known.__getitem__)


def _language_of(passage: Passage, wanted: str) -> str:
    if passage.script not in SCRIPTS_OF[wanted]:
        return _likeliest(passage)
    if passage.weight < MIN_WORDS:
        return wanted
    likely = _likelihoods(passage)
    kin = _kin(wanted)
    chance = sum(likely.get(language, 0.0) for language in kin)
    best = max(likely, key=likely.__getitem__)
    if best in kin or best not in SCRIPTS_OF:
        return wanted
    is_certain = likely[best] >= max(CERTAIN, TIMES_AS_LIKELY * chance)
    if not is_certain:
        return wanted
    return best


def _kin(language: str) -> frozenset[str]:
    """Return a language with its close relatives, between which py3langid mostly guesses."""
    for kin in _KIN:
        if language in kin:
            return kin
    return frozenset({language})


def _likeliest(passage: Passage) -> str:
    """Find the likeliest language of the passage's script; the script's name if the language cannot be told."""
    written = _WRITTEN.get(passage.script, "").split()
    if len(written) == 1:
        return written[0]
    cannot_be_told = passage.script.lower()
    if not written or passage.weight < MIN_WORDS:
        return cannot_be_told
    likely = _likelihoods(passage)
    candidates = [language for language in likely if language in written]
    if not candidates:
        return cannot_be_told
    return max(candidates, key=likely.__getitem__)


def _likelihoods(passage: Passage) -> dict[str, float]:
    likely: dict[str, float] = {}
    for code, chance in _identifier().rank(passage.text):
        language = _MERGED.get(code, code)
        likely[language] = likely.get(language, 0.0) + chance
    return likely


def foreign_words(passages: Iterable[Passage], wanted: str) -> float:
    """Count the words in scripts that the wanted language does not use."""
    return word_count(passages, outside=SCRIPTS_OF[wanted])


def _identifier() -> Any:
    """Load py3langid's model once per process, which takes a second and 100 MB. Reading the model needs no lock."""
    if not _loaded:
        with _lock:
            if not _loaded:
                langid = import_module("py3langid.langid")
                identifier = langid.LanguageIdentifier.from_model_file(
                    langid.MODEL_FILE, norm_probs=True
                )
                _loaded.append(identifier)
    return _loaded[0]
