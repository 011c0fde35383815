r"""Normalize spelling: rewrite Unicode, HTML and control characters as LaTeX or ASCII.

Only the spelling changes, never the value. Takes time linear in the length of the text.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from trl_grpo_ext.answers.read.signal_words import CONDITION, DENIAL, DOUBT, WRONG, any_of
from trl_grpo_ext.answers.read.units import currency_codes

# Unicode's Default_Ignorable_Code_Point, control characters, and the blank Braille pattern. White space is visible
# between two letters, so it is kept.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
_SYMBOLS = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "﹣": "-",
    "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ", "∗": "*", "÷": r"\div ",
    "±": r"\pm ", "∓": r"\mp ",
    "≤": r"\le ", "⩽": r"\le ", "≦": r"\le ", "≥": r"\ge ", "⩾": r"\ge ", "≧": r"\ge ", "≠": r"\ne ", "≈": r"\approx ",
    "≡": r"\equiv ", "∞": r"\infty ", "°": r"^{\circ}", "º": r"^{\circ}", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ",
    "∉": r"\notin ", "∅": r"\emptyset ", "√": r"\sqrt ", "∛": r"\sqrt[3]", "∜": r"\sqrt[4]", "∑": r"\sum ",
    "∏": r"\prod ", "∫": r"\int ", "→": r"\to ", "⇒": r"\implies ", "∀": r"\forall ", "∃": r"\exists ",
    "∨": r"\lor ", "∧": r"\land ", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ",
    "⟨": "(", "⟩": ")", "∖": r"\setminus ", "′": "'", "’": "'", "‘": "'", "“": '"', "”": '"', "µ": "μ",
    "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}", "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}",
    "€": r"\text{ eur }", "£": r"\text{ gbp }", "¥": r"\text{ yen }", "₹": r"\text{ inr }",
    "¢": r"\text{ cents }",
    "或": r" \text{ or } ", "、": ",", "。": ".", "⁄": "/", "∶": ":", "～": "~",
}  # fmt: skip
# Control characters that remain where a program read LaTeX as a string: `\f` of `\frac` became a form feed.
_LOST = {
    "\x07": r"\a",
    "\x08": r"\b",
    "\x0b": r"\v",
    "\x0c": r"\f",
    "\t": r"\t",
    "\r": r"\r",
}
# Each alternative begins with its own character, for which `re` searches fast.
_LOST_AT = re.compile(
    r"\x07(?=[a-z])|\x08(?=[a-z])|\x0b(?=[a-z])|\x0c(?=[a-z])"
    r"|\t(?=ext\b|imes\b|an\b|heta\b|frac\b|extbf\b)|\r(?=ight|ho\b)"
)
# The dot of an abbreviation, which ends no sentence: `Rs. 105`, `sq. ft.`
_DOTTED = re.compile(r"\.(?<=\b(?i:rs|sq|cu|ft|vs)\.) ?(?=\}?\s?[\d$€£₹a-z])")
# Currencies before an amount: `A$80`, `CHF 80`. Their first characters are rare, for which `re` searches fast.
_DOLLARS = re.compile(r"(?:US|AU|CA|NZ|HK|SG|NT|MX|A|C|S)(\\?\$)(?=\d)")
_CODES = {"R$": "BRL", "GH₵": "GHS", **currency_codes()}
# The signs of `_SYMBOLS` are read before their amounts.
_LEADING = sorted(set(_CODES) - set(_SYMBOLS), key=len, reverse=True)
_LEADING_CODE = re.compile(
    rf"({'|'.join(map(re.escape, _LEADING))}) ?"
    r"([-−]?\d(?:,?\d)*(?:\.\d+)?(?: (?:thousand|million|billion)\b)?)(?![\w%])"
)
_FLUID_OUNCES = re.compile(r"[Ff]l(?:uid)?\.?[ -]?(?:oz\b(?:\.(?!\s+[A-Z]))?|ounces?\b)")
# The open end of `\left. x^2 \right|_0^1`, whose dot ends no sentence.
_OPEN_END = re.compile(r"\\left\s?\.(?!\d)")
_HTML = re.compile(
    r"<(/?)(sup|sub|br|b|i|em|strong|p|span|div)\b[^<>]{0,80}>", re.IGNORECASE
)
_DOUBLED = re.compile(r"\\(?=\\[A-Za-z])")
# Rows of: a cheap substring test, a pattern for an unusual form, and the usual form.
Rewritings = tuple[tuple[str, re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]
_USUAL: Rewritings = (
    ("quad", re.compile(r"\\q?quad(?=[A-Za-z])"), r"\g<0> "),
    # (mod 5), in italics or upright
    (
        "mod",
        re.compile(
            r"\(\s*(?:\\(?:mathrm|text|operatorname)\{\s*mod\s*\}|\\?mod\b)(?:\s|\\[ ,;:]|~)*([^()]{1,40})\)"
        ),
        r"\\pmod{\1}",
    ),
    # 2516 (base 8)
    (
        "base",
        re.compile(r"(\d)\s*+(?:\\text\s*+\{\s*+)?\(?(?:in )?base[ -](\d{1,2})\)?\s*+\}?"),
        r"\1_{\2}",
    ),
    # Not the spaces of LaTeX around a sign: 3~=~3
    ("~=", re.compile(r"~=(?!~)"), r"\\approx "),
    (r"\pounds", re.compile(r"\\pounds(?![A-Za-z])\s*"), "£"),
    ("0x", re.compile(r"(?<![\w.])0x([\dA-Fa-f]+)(?![\w.])"), r"\1_{16}"),
    ("0b", re.compile(r"(?<![\w.])0b([01]+)(?![\w.])"), r"\1_{2}"),
    (
        r"frac{\text{",
        re.compile(r"\\[dt]?frac\{\\text\{([A-Za-z ]+)\}\}\{\\text\{([A-Za-z ]+)\}\}"),
        r"\\text{ \1/\2}",
    ),
    # 2{,}5: a decimal comma, because thousands have three digits
    ("{,}", re.compile(r"(?<![\d}.])(\d+)\{,\}(\d{1,2}|\d{4,})(?![\d{])"), r"\1.\2"),
    # 1.000.000 and 1.250,00
    (
        ".",
        re.compile(
            r"\d(?<![\w.,]\d)\d{0,2}(?:(?:\.\d{3})+,\d+|(?:\.\d{3}){2,})(?![.,]?\d)"
        ),
        lambda found: found[0].replace(".", "").replace(",", "."),
    ),
    # ₹1,00,000: without the currency it may be a list
    (
        "₹",
        re.compile(r"(?<=₹)\s?\d{1,2}(?:,\d\d)+,\d{3}(?!\d)"),
        lambda found: found[0].replace(",", ""),
    ),
    # 6 ÷ 3/4: behind this sign, a slash writes a fraction
    ("÷", re.compile(r"÷\s?(\d{1,9})/(\d{1,9})(?![\d/.])"), r"÷ \\frac{\1}{\2}"),
    (
        r"\div",
        re.compile(r"\\div\s?(\d{1,9})/(\d{1,9})(?![\d/.])"),
        r"\\div \\frac{\1}{\2}",
    ),
    # P(both are red), a probability of an event in words
    ("P(", re.compile(r"(?<![A-Za-z\\])P\((?=[^()]*[A-Za-z]{2})[^()=\\]{1,40}\)"), "P"),
    ("F(", re.compile(r"(?<![A-Za-z\\])[GH]CF(?=\()"), r"\\gcd "),
    ("D(", re.compile(r"(?<![A-Za-z\\])GCD(?=\()"), r"\\gcd "),
    ("M(", re.compile(r"(?<![A-Za-z\\])LCM(?=\()"), r"\\lcm "),
    # C(5, 2) in a calculation; alone it is a point with a name
    (
        "C(",
        re.compile(
            r"(?<![A-Za-z\\_])C\((\d{1,3}),\s?(\d{1,3})\)(?=\s?(?:[=≈*×·⋅/÷+(]|\\(?:times|cdot|div|approx)|C\())"
        ),
        r"\\binom{\1}{\2}",
    ),
    # 33 1/3%
    ("%", re.compile(r"(?<![\d.,/])(\d+) (\d+)/(\d+)\s?(?=\\?%)"), r"\1\\frac{\2}{\3}"),
    # 100\text{th}
    (r"\text{", re.compile(r"(?<=\d)\s?\^?\{?\\text\{\s?(st|nd|rd|th)\s?\}\}?"), r"\1"),
    # Dots above the first and the last digit of a period
    (
        r"\dot",
        re.compile(r"\\dot\{?(\d)\}?(?:(\d*)\\dot\{?(\d)\}?)"),
        r"\\overline{\1\2\3}",
    ),
    # {x | x > 1}
    ("｜", re.compile("｜"), "|"),
    ("|", re.compile(r"(?<![\\\w}^_])\{(\s*[a-z]\s*\|[^{}]+)\}"), r"\\{\1\\}"),
    # Two parts of an answer in other languages
    (
        r"\text{ ",
        re.compile(r"\\text\{\s+(?:y|e|et|und|en|och|и|和)\s+\}"),
        r"\\text{ and }",
    ),
    (r"\text{ ", re.compile(r"\\text\{\s+(?:o|ou|oder|или|或)\s+\}"), r"\\text{ or }"),
    # A unit vector
    (
        r"\hat",
        re.compile(
            r"\\hat\s*(?:\{\s*\\?([ijk])(?:math)?\s*\}|\s\\?([ijk])(?:math)?(?![A-Za-z]))"
        ),
        r"\\mathbf{\1\2}",
    ),
    # 5 p.m.
    ("m.", re.compile(r"(?<=\d)(\s*(?:\\text\{\s*)?)([apAP])\.\s?([mM])\b\.?"), r"\1 \2\3"),
    (r"\therefore", re.compile(r"\\therefore(?![A-Za-z])"), ""),
    (
        "prime",
        re.compile(r"\^\s?(?:\\prime(?![A-Za-z])|\{\s?(?:\\prime\s?)+\})"),
        lambda found: "'" * found[0].count("prime"),
    ),
    ("{:}", re.compile(r"\{:\}"), ":"),
)
# `]0; 1[`, an open interval
_OUTWARD = re.compile(
    r"(?<![\w)}])(?:\\left\s*)?([][])([^][;,]{1,60}?[;,][^][;,]{1,60}?)(?:\\right\s*)?([][])(?!\s*[\w(])"
)
_LINES = re.compile(
    r"(?:\\left\s*\\\{\s*)?\\begin\{(?:(cases|aligned|align\*?|gathered|split)|(array)\}\{[lcr]*)\}(?P<lines>.{0,500}?)"
    r"\\end\{(?(1)\1|array)\}(?:\s*\\right\s*\.)?",
    re.DOTALL,
)
_ALIGNED = re.compile(r"&(?=\s*=)")
# A comma before a line that begins with `=`.
_CONTINUED = re.compile(r",(?=\s*=)")
_MICRO = re.compile(r"(?<=[\d\s{])μ(?=[mgsLlAVWN]\b)")
_OUTSIDE_ASCII = re.compile(r"[^\x00-\x7f]")
_RAISED = re.compile(r"(?:\^\{\(?[^{}\\]\)?\})+|(?:_\{[^{}\\]\})+")
# Commands whose argument is text, and commands that only change the font of their argument.
TEXTS = frozenset(
    (
        "text",
        "textrm",
        "textbf",
        "textit",
        "textnormal",
        "texttt",
        "textsf",
        "textup",
        "mbox",
        "hbox",
    )
)
FONTS = frozenset(("mathrm", "mathbf", "mathit", "mathsf", "mathtt", "operatorname"))
TEXT_COMMAND = re.compile(
    rf"\\(?:{'|'.join(sorted(TEXTS | FONTS | {'mathnormal'}))})\s*\{{([^{{}}]*)\}}"
)
_WITHOUT_COMMANDS: Rewritings = (("\\", TEXT_COMMAND, r"\1"),)
# A label with a word, before the only calculation of a text: "Cost for 3 tickets: 3 * 12 = 36", "Step 2: 35 + 3 = 38".
_LABEL = re.compile(
    r"\A(?!.*\n|.*:\s.*:\s)(?:\\text\{)?(?=[^:]*[A-Za-z]{3})([^:=\\]{3,80}):[\s*_}]+"
    r"(?=\W{0,3}\d[^:=]*[-−+*/×÷\\][^:=]*=)"
)
_NO_LABEL = any_of(CONDITION, DENIAL, DOUBT, WRONG, "instead|mistake|except")
# A dollar before an amount
_OF_AMOUNT = re.compile(
    r"\$(?=\d[\d,]*(?:\.\d+)?(?:[\s.,;:!?)]|\s*[-−+*/×÷=]\s*\$?\d|/[A-Za-z]{2}|$))"
)
_BEGINS_SIDE = re.compile(r"(=\s?)\$")
_WRAPPERS = (
    ("$$", "$$"),
    ("$", "$"),
    (r"\(", r"\)"),
    (r"\[", r"\]"),
    ("**", "**"),
    ("`", "`"),
)
_OPENINGS = tuple(start for start, _ in _WRAPPERS)


@lru_cache(maxsize=8192)
def spelled(text: str) -> str:
    r"""Normalize a text's spelling: replace Unicode, HTML and lost backslashes by LaTeX or ASCII.

    Examples:
        >>> [spelled(text) for text in ("½", "x²", "２π", "3<sup>x</sup>", "\x0crac{1}{2}", "x ⩽ 5")]
        ['\\frac{1}{2}', 'x^{2}', '2\\pi ', '3^{x}', '\\frac{1}{2}', 'x \\le  5']
    """
    text = restored(text)
    if r"\begin" in text:
        text = _LINES.sub(_on_one_line, text)
    if "<" in text or "&" in text:
        text = _HTML.sub(_from_html, html.unescape(text))
    if "\\\\" in text and r"\begin" not in text:
        text = _DOUBLED.sub("", text)
    text = rewritten(text, _USUAL)
    if "]" in text or "[" in text:
        text = _OUTWARD.sub(_inward, text)
    if not text.isascii():
        # Before a unit, mu is the prefix micro; elsewhere it is a Greek letter.
        text = _MICRO.sub("µ", without_invisible(text))
        text = _OUTSIDE_ASCII.sub(lambda found: _ascii(found[0]), text)
        text = _RAISED.sub(_joined, text)
    return text


def rewritten(text: str, rewritings: Rewritings) -> str:
    """Rewrite the unusual forms in a text as the usual forms, row by row.

    Examples:
        >>> rewritten("5 miles", (("mile", re.compile(r"miles?"), "mi"),))
        '5 mi'
    """
    for sign, written, usual in rewritings:
        # `sub` parses the usual form before it searches, which takes longer than most searches.
        if sign in text and written.search(text):
            text = written.sub(usual, text)
    return text


def _inward(found: re.Match[str]) -> str:
    """Rewrite an open interval with round brackets: `]0; 1[` becomes `(0; 1)`; other matches stay unchanged."""
    left, ends, right = found.groups()
    if left + right == "[]":
        return found[0]
    opened = "[" if left == "[" else "("
    closed = "]" if right == "]" else ")"
    return f"{opened}{ends}{closed}"


def _on_one_line(found: re.Match[str]) -> str:
    """Join the equations of a system or an alignment with commas; other environments stay unchanged."""
    equations = []
    for line in found["lines"].split(r"\\"):
        equation = _ALIGNED.sub("", line.strip())
        if not equation:
            continue
        # A matrix, for example
        if "=" not in equation or "&" in equation:
            return found[0]
        equations.append(equation.rstrip(" ,;"))
    return _CONTINUED.sub("", ", ".join(equations))


# A group's completions share a gold, and `ask` and `math_answer` both restore a completion.
@lru_cache(maxsize=64)
def restored(text: str) -> str:
    r"""Restore a text before values are found in it.

    Backslashes return that were lost where a program read LaTeX as a string: `\f` for a form feed before `rac`. Dots of
    abbreviated units, `Rs. 105`, and of open brackets, `\left.`, are removed. Currencies move behind their amounts.

    Examples:
        >>> restored("CHF 80"), restored("US$80"), restored("8 fl. oz.")
        ('80 CHF', '$80', '8 floz')
    """
    if r"\left" in text:
        text = _OPEN_END.sub("", text)
    if any(map(text.__contains__, _LOST)):
        text = _LOST_AT.sub(lambda found: _LOST[found[0]], text)
    if "." in text:
        text = _DOTTED.sub(" ", text)
    if "oz" in text or "ounce" in text:
        text = _FLUID_OUNCES.sub("floz", text)
    if "$" in text:
        text = _DOLLARS.sub(_without_country, text)
    return _LEADING_CODE.sub(_behind_amount, text)


def _without_country(found: re.Match[str]) -> str:
    """Write dollars of a country as dollars: `A$80` becomes `$80`."""
    return found[0] if _is_within_word(found) else found[1]


def _behind_amount(found: re.Match[str]) -> str:
    """Write a currency's code behind its amount: `₩80` becomes `80 KRW`."""
    name, amount = found.groups()
    if _is_within_word(found):
        return found[0]
    return f"{amount} {_CODES[name]}"


def _is_within_word(found: re.Match[str]) -> bool:
    """Check whether a match begins within a word or a formula: the C of `ABC$5$`."""
    start = found.start()
    before = found.string[start - 1 : start] if start else ""
    return before.isalnum() or before in ("_", "$", "\\")


def _from_html(tag: re.Match[str]) -> str:
    name = tag[2].lower()
    if name in ("sup", "sub"):
        opened = "^{" if name == "sup" else "_{"
        return "}" if tag[1] else opened
    return "\n" if name in ("br", "p", "div") else ""


def _joined(found: re.Match[str]) -> str:
    """Merge adjacent exponents or indices: `^{1}^{2}` becomes `^{12}`."""
    sign = found[0][0]
    return sign + "{" + found[0].replace(sign + "{", "").replace("}", "") + "}"


@lru_cache(maxsize=1024)
def _ascii(char: str) -> str:
    if char in _SYMBOLS:
        return _SYMBOLS[char]
    if char in _CODES:
        return rf"\text{{ {_CODES[char]} }}"
    how, _, codes = unicodedata.decomposition(char).partition(" ")
    if how in ("<super>", "<sub>"):
        sign = "^" if how == "<super>" else "_"
        raised = "".join(chr(int(code, 16)) for code in codes.split())
        return sign + "{" + raised.replace("−", "-") + "}"
    if how == "<fraction>":
        above, _, below = unicodedata.normalize("NFKC", char).partition("⁄")
        return rf"\frac{{{above}}}{{{below}}}"
    name = unicodedata.name(char, "")
    # Unicode spells the letter "lamda".
    letter = name.rpartition(" ")[2].replace("LAMDA", "LAMBDA")
    if name.startswith("GREEK SMALL LETTER ") and " WITH " not in name:
        return "\\" + letter.lower() + " "
    if name.startswith("GREEK CAPITAL LETTER ") and " WITH " not in name:
        return "\\" + letter.capitalize() + " "
    plain = unicodedata.normalize("NFKC", char)
    if plain == char or plain.isascii():
        return plain
    return "".join(map(_ascii, plain))


def strip_delimiters(text: str) -> str:
    """Remove math delimiters or Markdown that enclose a whole text."""
    text = text.strip()
    # Most texts begin with no delimiter.
    if not text.startswith(_OPENINGS):
        return text
    for start, end in _WRAPPERS:
        is_enclosed = (
            text.startswith(start) and text.endswith(end) and len(text) > len(start)
        )
        if is_enclosed and end not in (inner := text[len(start) : -len(end)]):
            return inner.strip()
    return text


def is_in_money(text: str) -> bool:
    """Check whether each dollar of a text stands before an amount: `4 books at $5 cost $20`."""
    return text.count("$") == len(_OF_AMOUNT.findall(text))


def with_money(text: str) -> str:
    r"""Escape a dollar that begins a side of an equation, unless dollars enclose formulas.

    Examples:
        >>> with_money("6 * $1.25 = $7.50"), with_money("$5 = x$")
        ('6 * $1.25 = \\$7.50', '$5 = x$')
    """
    if "$" not in text or not is_in_money(text):
        return text
    return _BEGINS_SIDE.sub(r"\1\\$", text)


def without_label(text: str) -> str:
    """Remove the label before a text's only calculation, unless the label denies or supposes the calculation.

    Examples:
        >>> without_label("Cost for 3 tickets: 3 * 12 = 36"), without_label("Step 2: 35 + 3 = 38")
        ('3 * 12 = 36', '35 + 3 = 38')
        >>> without_label("Not for 3 tickets: 3 * 12 = 36"), without_label("3 boys: 4 girls = 6:8")
        ('Not for 3 tickets: 3 * 12 = 36', '3 boys: 4 girls = 6:8')
    """
    label = _LABEL.match(text) if ":" in text else None
    is_label = label is not None and not _NO_LABEL.search(label[1])
    return text[label.end() :] if label and is_label else text


def without_text_commands(text: str) -> str:
    r"""Replace `\text{...}` and font commands by their contents."""
    return rewritten(text, _WITHOUT_COMMANDS)


def visible(text: str) -> str:
    r"""Remove invisible characters, such as zero-width spaces, and surrounding white space.

    Use the result to test for content and to measure it, not to compare texts: some scripts depend on joiners.

    Examples:
        >>> visible(" \u200bfour\u00a0eggs \ufeff"), visible("\u200b\u2060 \u3164")
        ('four\xa0eggs', '')
    """
    return without_invisible(text).strip()


def without_invisible(text: str) -> str:
    r"""Remove invisible characters from a text; white space is kept.

    Examples:
        >>> without_invisible(" 1\u200b0 ")
        ' 10 '
    """
    return _INVISIBLE.sub("", text)
