"""One notation for what people and models write: Unicode, ASCII and LaTeX spellings of the same thing.

Only spelling is changed here, never value. Linear in the length of the text.
"""

from __future__ import annotations

import re
from functools import lru_cache

_SYMBOLS = {
    "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": r"\div ", "±": r"\pm ",
    "≤": r"\le ", "⩽": r"\le ", "≥": r"\ge ", "⩾": r"\ge ", "≠": r"\neq ", "∞": r"\infty ", "°": r"^\circ ",
    "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ", "√": r"\sqrt",
    "π": r"\pi ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "λ": r"\lambda ", "μ": r"\mu ",
    "φ": r"\phi ", "ω": r"\omega ",
    "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}",
    "′": "'", "’": "'", "“": '"', "”": '"', "\u00a0": " ", "\u2009": " ", "\u202f": " ", "％": "%", "，": ",",
    "（": "(", "）": ")", "－": "-", "＋": "+", "／": "/", "．": ".", "µ": r"\mu ",
    **dict(zip("０１２３４５６７８９", "0123456789", strict=True)),
}  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ⁿ", "0123456789-n")
_SUPERSCRIPT = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻ⁿ]+")
_SYMBOL = re.compile("|".join(map(re.escape, _SYMBOLS)))

# Commands that hold words, and those that set what they hold, which may be mathematics, in another font.
WORDS = r"text(?:normal|rm|bf|it)?|mathrm|mbox"
_FONTS = r"mathnormal|mathbf|mathit|operatorname"
TEXT_COMMAND = re.compile(rf"\\(?:{WORDS}|{_FONTS})\s*\{{([^{{}}]*)\}}")
_COMMAND = re.compile(rf"\\(?:{WORDS})\s*\{{[^{{}}]*\}}|\\[A-Za-z]+")
_WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_REWRITES = [
    (re.compile(r"(?<=\d),?\\!\s*,?(?=\d{3}(?!\d))"), ""),
    (re.compile(r"\\(?:text(?:rm|bf|it)?|math(?:rm|bf|it))\s*\{\s*([-+]?[\d.,]+)\s*\}"), r"\1"),
    (re.compile(r"[€£¥₹]"), ""),
    (re.compile(r"!="), r"\\neq "),
    (re.compile(r"\\varnothing(?![A-Za-z])"), r"\\emptyset "),
    (re.compile(r"^\*\*(.+)\*\*$"), r"\1"),
    (re.compile(r"\\[,;:](?=[A-Za-z])"), " "),
    (re.compile(r"\\(?:left|right|displaystyle|,|;|!|:|bigl?|bigr?|Bigl?|Bigr?)(?![A-Za-z])"), ""),
    (re.compile(r"(?:(?<!\\)\\\\|\\)[dct]?frac(?![A-Za-z])"), r"\\frac"),  # a doubled backslash as well
    (re.compile(r"\\mathrm\s*\{\s*([ei])\s*\}"), r"\1"),
    (re.compile(r"(?<=\d)\s*\{,\s*\}\s*(?=\d)"), ","),
    (re.compile(r"(?<=\d)\\ (?=\d{3}(?!\d))"), ""),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"\s*\*\s*"), r"\\cdot "),
    (re.compile(r"(?<![A-Za-z\\])pi(?![A-Za-z])"), r"\\pi "),
    (re.compile(r"(?<![A-Za-z\\])(?:infinity|infty|oo|inf)(?![A-Za-z])"), r"\\infty "),
    (re.compile(r"(?<![A-Za-z\\])(sqrt|sin|cos|tan|ln|log|exp)(?=\s*[({])"), r"\\\1"),
    (re.compile(r"\\sqrt\s*\(([^()]*)\)"), r"\\sqrt{\1}"),
    (re.compile(r"\\exp\s*\(([^()]*)\)"), r"e^{\1}"),
    (re.compile(r"(?<![A-Za-z\d\\.])(\d+(?:\.\d+)?)[eE]([+-]?\d+)(?![A-Za-z\d.])"), r"\1\\times 10^{\2}"),
]
_SENTENCE = re.compile(r"(?<![A-Za-z])[A-Za-z]{2,}\s+[A-Za-z]{2,}\s+[A-Za-z$\\]")
_REPEATING = re.compile(r"(?<!\d)(\d*)\.(\d*)\\(?:overline|bar)\s*\{(\d+)\}")


@lru_cache(maxsize=8192)
def standard(text: str) -> str:
    r"""The text in one notation: LaTeX, without sizes and thin spaces.

    Example:
        >>> [standard(text) for text in ("\u00bd", "sqrt(2)/2", "-2*pi", "x²", "1e-3", r"0.\overline{3}")]
        ['\\frac{1}{2}', '\\sqrt{2}/2', '-2\\cdot \\pi', 'x^{2}', '1\\times 10^{-3}', '\\frac{3}{9}']
    """
    text = _SUPERSCRIPT.sub(lambda match: f"^{{{match[0].translate(_SUPERSCRIPTS)}}}", text)
    text = _SYMBOL.sub(lambda match: _SYMBOLS[match[0]], text)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    if "\\overline" in text or "\\bar" in text:
        text = _REPEATING.sub(_repeating_fraction, text)
    return strip_delimiters(" ".join(text.split())).rstrip(".,;").strip()


def _repeating_fraction(match: re.Match[str]) -> str:
    whole, fixed, period = match.groups()
    high = int(whole + fixed + period or 0) - int(whole + fixed or 0)
    low = 10 ** len(fixed) * (10 ** len(period) - 1)
    return rf"\frac{{{high}}}{{{low}}}"


def strip_delimiters(text: str) -> str:
    """The text without math delimiters that enclose all of it."""
    text = text.strip()
    for start, end in _WRAPPERS:
        inner = text[len(start) : -len(end)]
        if text.startswith(start) and text.endswith(end) and len(text) > len(start) and end not in inner:
            return inner.strip()
    return text


def without_text_commands(text: str) -> str:
    r"""The text with `\text{...}` and its like replaced by what they hold."""
    return TEXT_COMMAND.sub(r"\1", text)


def without_commands(text: str) -> str:
    r"""The text with a space for each command, those that hold words together with their words."""
    return _COMMAND.sub(" ", text)


def text_in(text: str) -> list[str]:
    r"""What `\text{...}` and its like hold."""
    return [content.strip() for content in TEXT_COMMAND.findall(text)]


def is_sentence(text: str) -> bool:
    """Whether the text is prose, such as a worked solution, in which the answer still has to be found.

    Example:
        >>> is_sentence("The answer is 5"), is_sentence(r"5 \text{ square metres}"), is_sentence("10 square feet")
        (True, False, False)
    """
    return _SENTENCE.search(without_commands(text)) is not None
