"""The 25 verifiable instructions of IFEval (Zhou et al. 2023, arXiv 2311.07911), each a function of text and settings.

The checks are strict: an answer that only resembles the requested form fails. To add an instruction, write a function
and put it into `CHECKS`. Every pattern takes time linear in the text, since the policy writes the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trl_grpo_ext.answers.read.spelling import visible
from trl_grpo_ext.rewards.language_detection import language_code, main_language
from trl_grpo_ext.rewards.prose import passages, prose

Settings = Mapping[str, Any]

_WORD = re.compile(r"\w+(?:['’-]\w+)*")
# A run of marks such as `?!`, before white space or a closing quote: the point of 3.5 ends no sentence.
_SENTENCE_END = re.compile(r"(?<![.!?。！？])[.!?。！？]++(?=[\s\"'”’)\]]|\Z)")
# `***`, the divider of paragraphs in IFEval's prompts.
_DIVIDER = re.compile(r"^[ \t]*\*[ \t]?\*[ \t]?\*[ \t]*$", re.MULTILINE)
_EMPTY_LINES = re.compile(r"\n(?:[ \t]*\n)+")
_BULLET = re.compile(r"^[ \t]*[*-][ \t]+\S", re.MULTILINE)
# *text* or **text**.
_HIGHLIGHT = re.compile(
    r"(?<!\*)\*(?=[^\s*])[^*\n]+(?<!\s)\*(?!\*)|\*\*(?=[^\s*])[^*\n]+(?<!\s)\*\*(?!\*)"
)
# [name]
_PLACEHOLDER = re.compile(r"\[([^\[\]\n]+)\]")
# <<title>>
_TITLE = re.compile(r"<<([^<>\n]+)>>")
_FENCED = re.compile(r"\A```(?:json|JSON)?[ \t]*\n(.*)\n[ \t]*```\Z", re.DOTALL)
_COMMAS = frozenset(",，")
_QUOTES = {'"': '"', "“": "”"}
_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
# "around" a number means: within a tenth of the number, and within 1 for small numbers.
ABOUT = 0.1


def _holds(count: int, relation: str, number: int) -> bool:
    match relation:
        case "at least":
            return count >= number
        case "at most":
            return count <= number
        case "less than":
            return count < number
        case "around":
            return abs(count - number) <= max(1, round(ABOUT * number))
        case "exactly":
            return count == number
    raise ValueError(f"there is no relation {relation!r}")


def _each_times(text: str, words: Any) -> list[int]:
    """Count each word in the text, even after a missing word: an invalid word must always invalidate the row."""
    return [_times(text, word) for word in _texts(words)]


def _times(text: str, phrase: str) -> int:
    """Count whole-word, case-insensitive occurrences of a word or phrase in a text."""
    phrase = str(phrase).strip()
    if not phrase:
        raise ValueError("a keyword is empty")
    whole_word = rf"(?<!\w){re.escape(phrase)}(?!\w)"
    return len(re.findall(whole_word, text, re.IGNORECASE))


def _texts(listed: object) -> Sequence[str]:
    """Validate a list of texts. A single text is refused: its letters would pass as words."""
    if not isinstance(listed, list | tuple) or not all(
        isinstance(each, str) for each in listed
    ):
        raise ValueError(f"a list of texts is needed, got {listed!r:.80}")
    return listed


def _letters(text: str, settings: Settings) -> bool:
    letter = settings["letter"]
    if len(letter) != 1:
        raise ValueError(f"{letter!r} is not one letter")
    count = text.casefold().count(letter.casefold())
    # RLVR-IFeval has no relation: there the count is exact.
    relation = settings.get("let_relation", "exactly")
    return _holds(count, relation, settings["let_frequency"])


def _sentences(text: str) -> int:
    """Count sentences: pieces between sentence ends that contain a word."""
    return sum(map(_has_words, _SENTENCE_END.split(text)))


def _paragraphs(text: str, settings: Settings) -> bool:
    parts = _DIVIDER.split(text)
    return len(parts) == settings["num_paragraphs"] and all(map(visible, parts))


def _first_word(text: str, settings: Settings) -> bool:
    parts = [part for part in _EMPTY_LINES.split(text.strip()) if visible(part)]
    place = settings["nth_paragraph"]
    wanted = _WORD.search(str(settings["first_word"]).casefold())
    if len(parts) != settings["num_paragraphs"] or not 1 <= place <= len(parts):
        return False
    found = _WORD.search(parts[place - 1].casefold())
    if wanted is None or found is None:
        return False
    return found[0] == wanted[0]


def _postscript(text: str, settings: Settings) -> bool:
    marker = re.escape(settings["postscript_marker"].strip())
    return (
        re.search(rf"^[ \t]*{marker}[^\n\w]*\w", text, re.MULTILINE | re.IGNORECASE)
        is not None
    )


def _sections(text: str, settings: Settings) -> bool:
    # The spelling is IFEval's.
    splitter = re.escape(settings["section_spliter"].strip())
    found = re.findall(rf"^[ \t#*_]*{splitter}[ \t]+\w", text, re.MULTILINE)
    relation = settings.get("section_relation", "at least")
    return _holds(len(found), relation, settings["num_sections"])


def _is_json(text: str, _: Settings) -> bool:
    fenced = _FENCED.match(text.strip())
    if fenced:
        text = fenced[1]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict | list)


def _two_responses(text: str, _: Settings) -> bool:
    parts = [part.strip() for part in text.split("******")]
    if len(parts) != 2 or not all(map(visible, parts)):
        return False
    return parts[0] != parts[1]


def _repeats(text: str, settings: Settings) -> bool:
    asked = settings["prompt_to_repeat"].strip()
    said = text.strip()
    if not said.startswith(asked):
        return False
    return visible(said.removeprefix(asked)) != ""


def _quoted(text: str, _: Settings) -> bool:
    said = text.strip()
    if len(said) <= 2 or said[-1] != _QUOTES.get(said[0]):
        return False
    return visible(said[1:-1]) != ""


def _capital_words(text: str, settings: Settings) -> bool:
    count = sum(word.isupper() for word in _WORD.findall(text))
    relation = settings.get("capital_relation", "exactly")
    return _holds(count, relation, settings["capital_frequency"])


def _language(text: str, settings: Settings) -> bool:
    wanted = language_code(settings["language"])
    return main_language(passages(prose(text))) == wanted


def _keyword_frequency(text: str, settings: Settings) -> bool:
    count = _times(text, settings["keyword"])
    relation = settings.get("relation", "exactly")
    return _holds(count, relation, settings["frequency"])


def _number_sentences(text: str, settings: Settings) -> bool:
    return _holds(_sentences(text), settings["relation"], settings["num_sentences"])


def _number_words(text: str, settings: Settings) -> bool:
    count = len(_WORD.findall(text))
    return _holds(count, settings["relation"], settings["num_words"])


def _placeholders(text: str, settings: Settings) -> bool:
    count = sum(map(_has_words, _PLACEHOLDER.findall(text)))
    return _holds(count, "at least", settings["num_placeholders"])


def _highlights(text: str, settings: Settings) -> bool:
    count = len(_HIGHLIGHT.findall(text))
    return _holds(count, "at least", settings["num_highlights"])


def _constrained(text: str, settings: Settings) -> bool:
    options = settings.get("options", _ANSWERS)
    return text.strip() in _texts(options)


def _ends(text: str, settings: Settings) -> bool:
    # A quotation mark may follow the phrase, if another instruction requires quotes around the whole answer.
    unquoted = text.rstrip().rstrip('"”')
    return unquoted.endswith(settings["end_phrase"].strip())


def _has_words(text: str) -> bool:
    return _WORD.search(text) is not None


def _has_letters(text: str) -> bool:
    return any(map(str.isalpha, text))


CHECKS: Mapping[str, Callable[[str, Settings], bool]] = {
    "keywords:existence": lambda text, asked: all(_each_times(text, asked["keywords"])),
    "keywords:frequency": _keyword_frequency,
    "keywords:forbidden_words": lambda text, asked: (
        not any(_each_times(text, asked["forbidden_words"]))
    ),
    "keywords:letter_frequency": _letters,
    "language:response_language": _language,
    "length_constraints:number_sentences": _number_sentences,
    "length_constraints:number_paragraphs": _paragraphs,
    "length_constraints:number_words": _number_words,
    "length_constraints:nth_paragraph_first_word": _first_word,
    "detectable_content:number_placeholders": _placeholders,
    "detectable_content:postscript": _postscript,
    "detectable_format:number_bullet_lists": lambda text, asked: (
        len(_BULLET.findall(text)) == asked["num_bullets"]
    ),
    "detectable_format:constrained_response": _constrained,
    "detectable_format:number_highlighted_sections": _highlights,
    "detectable_format:multiple_sections": _sections,
    "detectable_format:json_format": _is_json,
    "detectable_format:title": lambda text, _: any(map(_has_words, _TITLE.findall(text))),
    "combination:two_responses": _two_responses,
    "combination:repeat_prompt": _repeats,
    "startend:end_checker": _ends,
    "change_case:capital_word_frequency": _capital_words,
    "change_case:english_capital": lambda text, _: (
        _has_letters(text) and text == text.upper()
    ),
    "change_case:english_lowercase": lambda text, _: (
        _has_letters(text) and text == text.lower()
    ),
    "punctuation:no_comma": lambda text, _: not _COMMAS & set(text),
    "startend:quotation": _quoted,
}

# Function name in RLVR-IFeval -> IFEval instruction, and setting name in RLVR-IFeval -> setting name in IFEval.
FUNCTIONS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "verify_keywords": ("keywords:existence", {"keyword_list": "keywords"}),
    "verify_keyword_frequency": (
        "keywords:frequency",
        {"word": "keyword", "N": "frequency"},
    ),
    "validate_forbidden_words": ("keywords:forbidden_words", {}),
    "verify_letter_frequency": ("keywords:letter_frequency", {"N": "let_frequency"}),
    "validate_response_language": ("language:response_language", {}),
    "verify_sentence_constraint": (
        "length_constraints:number_sentences",
        {"N": "num_sentences", "quantifier": "relation"},
    ),
    "verify_paragraph_count": (
        "length_constraints:number_paragraphs",
        {"N": "num_paragraphs"},
    ),
    "validate_word_constraint": (
        "length_constraints:number_words",
        {"N": "num_words", "quantifier": "relation"},
    ),
    "validate_paragraphs": (
        "length_constraints:nth_paragraph_first_word",
        {"N": "num_paragraphs", "i": "nth_paragraph"},
    ),
    "validate_placeholders": (
        "detectable_content:number_placeholders",
        {"N": "num_placeholders"},
    ),
    "verify_postscript": ("detectable_content:postscript", {}),
    "verify_bullet_points": ("detectable_format:number_bullet_lists", {"N": "num_bullets"}),
    "validate_choice": ("detectable_format:constrained_response", {}),
    "validate_highlighted_sections": (
        "detectable_format:number_highlighted_sections",
        {"N": "num_highlights"},
    ),
    "validate_sections": (
        "detectable_format:multiple_sections",
        {"N": "num_sections", "section_splitter": "section_spliter"},
    ),
    "validate_json_format": ("detectable_format:json_format", {}),
    "validate_title": ("detectable_format:title", {}),
    "validate_two_responses": ("combination:two_responses", {}),
    "validate_repeat_prompt": (
        "combination:repeat_prompt",
        {"original_prompt": "prompt_to_repeat"},
    ),
    "validate_end": ("startend:end_checker", {}),
    "validate_frequency_capital_words": (
        "change_case:capital_word_frequency",
        {"N": "capital_frequency", "quantifier": "capital_relation"},
    ),
    "validate_uppercase": ("change_case:english_capital", {}),
    "validate_lowercase": ("change_case:english_lowercase", {}),
    "validate_no_commas": ("punctuation:no_comma", {}),
    "validate_quotation": ("startend:quotation", {}),
}
