r"""Split an answer into tokens: numbers, symbols, signs and words, from LaTeX or ASCII.

Takes time linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from trl_grpo_ext.answers.read.spelling import FONTS, TEXTS
from trl_grpo_ext.answers.read.units import is_unit, raised_by

# Nesting depth of commands such as `\text{\text{...}}`.
MAX_DEPTH = 20


class Token(NamedTuple):
    r"""An answer's token.

    Attributes:
        kind: `number`, `symbol`, `word`, `function`, `command`, `sign`, `open`, `close`, `group` or `row`.
        text: The normalized spelling, such as `<=` for `\leq`.
        space: Whether white space, or a spacing command, precedes the token.
        start: Index of the token's first character in the text.
        end: Index after the token's last character.
    """

    kind: str
    text: str
    space: bool
    start: int
    end: int


FUNCTIONS = frozenset(
    """sin cos tan cot sec csc sinh cosh tanh coth sech csch arcsin arccos arctan arccot arcsec arccsc
    arsinh arcosh artanh arcsinh arccosh arctanh asin acos atan sgn log ln lg exp
    sqrt cbrt abs gcd lcm max min floor ceil Re Im arg""".split()  # noqa: SIM905
)
GREEK = frozenset(
    """alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi omicron pi rho
    sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell
    hbar aleph""".split()  # noqa: SIM905
)
_INFINITY = frozenset(("infinity", "infty", "inf", "oo"))
_SIGNS = {
    "le": "<=", "leq": "<=", "leqslant": "<=", "leqq": "<=", "ge": ">=", "geq": ">=", "geqslant": ">=", "geqq": ">=",
    "lt": "<", "gt": ">", "ne": "!=", "neq": "!=", "approx": "~", "approxeq": "~", "simeq": "~", "sim": "~",
    "doteq": "~", "equiv": "==", "times": "*", "cdot": "*", "ast": "*", "bullet": "*", "div": "/", "pm": "+-",
    "mp": "-+", "in": "in", "notin": "notin", "cup": "cup", "cap": "cap", "setminus": "setminus",
    "backslash": "setminus", "lor": "or", "vee": "or", "land": "and", "wedge": "and", "mid": "|", "vert": "|",
    "colon": ":", "to": "to", "rightarrow": "to", "longrightarrow": "to", "mapsto": "to", "implies": "implies",
    "Rightarrow": "implies", "Longrightarrow": "implies", "therefore": "implies", "iff": "implies",
    "Leftrightarrow": "implies", "Longleftrightarrow": "implies", "prime": "'", "circ": "deg", "degree": "deg",
    "ldots": "...", "cdots": "...", "dots": "...", "forall": "forall", "exists": "exists", "mod": "mod", "bmod": "mod",
    "pmod": "mod", "perp": "perp", "parallel": "parallel", "subset": "subset", "subseteq": "subset",
}  # fmt: skip
# Commands for size, font and space that add no meaning.
_SILENT = frozenset(
    """left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr displaystyle textstyle scriptstyle
    limits nolimits boldsymbol bm mathnormal boxed fbox bold strut rm bf it hfill
    noindent middle displaylimits underline""".split()  # noqa: SIM905
)
_SPACES = frozenset(("quad", "qquad", "enspace", "thinspace", "space", "newline"))
# Font commands that are used on single letters.
_LETTERS = frozenset(("mathbf", "mathit", "mathcal", "mathscr", "mathfrak"))
_FONT = FONTS | _LETTERS | {"mathbb"}
_DROPPED = frozenset(
    (
        "phantom",
        "hphantom",
        "vphantom",
        "color",
        "label",
        "tag",
        "hspace",
        "vspace",
        "textcolor",
    )
)
_SETS = {"R": "Reals", "Z": "Integers", "N": "Naturals", "Q": "Rationals", "C": "Complexes"}
# Kind and text of each command's token.
_COMMANDS = {
    **{name: ("sign", sign) for name, sign in _SIGNS.items()},
    **{name: ("function", name) for name in FUNCTIONS},
    **{name: ("symbol", name.removeprefix("var")) for name in GREEK},
    **dict.fromkeys(_INFINITY, ("symbol", "oo")),
    **{name: ("symbol", full) for name, full in _SETS.items()},
    **dict.fromkeys(("emptyset", "varnothing"), ("symbol", "EmptySet")),
    **dict.fromkeys(("frac", "dfrac", "tfrac", "cfrac"), ("command", "frac")),
    **dict.fromkeys(("binom", "dbinom", "tbinom"), ("command", "binom")),
    **dict.fromkeys(("top", "intercal"), ("symbol", "T")),
    "overrightarrow": ("command", "vec"),
    "sqrt": ("command", "sqrt"),
    "lfloor": ("open", "floor"), "lceil": ("open", "ceil"), "lvert": ("open", "abs"), "langle": ("open", "("),
    "lbrace": ("open", "{"), "lbrack": ("open", "["), "rfloor": ("close", "floor"), "rceil": ("close", "ceil"),
    "rvert": ("close", "abs"), "rangle": ("close", ")"), "rbrace": ("close", "}"), "rbrack": ("close", "]"),
}  # fmt: skip
_ESCAPED = {
    r"\{": ("open", "{"),
    r"\}": ("close", "}"),
    r"\$": ("word", "usd"),
    r"\%": ("sign", "%"),
    r"\|": ("sign", "|"),
}
_BRACKETS = {
    "(": "open",
    "[": "open",
    ")": "close",
    "]": "close",
    "{": "group",
    "}": "group",
}
_SHORT_WORDS = frozenset(
    """or and is are no not to of if so as at by be it we he an the for but yes odd all any has was per one two six
    ten sum its on than then none both any only how why who may can men man day red big box boy
    am pm""".split()  # noqa: SIM905
)
# Words before an amount; elsewhere they are read as `cos t` and `tan k`.
_LIKE_FUNCTIONS = ("cost", "tank")
# Words that end a text too, behind a space: "the 120 L tank", "12 logs".
_THINGS_LIKE_FUNCTIONS = ("tank", "sink", "logs")
_SPACED = re.compile(r"\s*:|\s*=\s*\\?\$|\s+[$\w]")
# 340 toy cars, 12 US dollars, 6 TVs: a short noun or an acronym, unless "6 abc" is a product.
_SHORT_NOUN = re.compile(r"[A-Z]{2,3}s?|(?!abc|xyz)(?=[a-z]{0,2}[aeiouy])[a-z]{3}")
_BEHIND_AMOUNT = re.compile(r"\d (?:[a-z]{3,15} )?\Z")
# The longest text that `_BEHIND_AMOUNT` matches.
_AMOUNT_REACH = 18
_BEFORE_THINGS = re.compile(
    r"(?:(?<=[A-Z]s)| (?:[a-z]{3,15}[ -])?"
    r"(?!(?:plus|minus|times|is|was|has|does|gives|means|equals|yields|units|terms)\b)[a-z]{2,15}s)"
    r"(?![A-Za-z'’]| ?[-+*/^=<>])"
)
_WORD_LIKE = re.compile(r"[b-df-hj-np-tv-z][aeiou][b-df-hj-np-tvwz]", re.ASCII)

_PLAIN = r"\d+(?:\.\d+)?|\.\d+"
# Separators of thousands.
_SEPARATOR = r"(?P<sep>,|\s?\{,\s?\}|,?\\[,!;: ],?\s?|'|[ ~])"
_GROUPED = rf"(?<![\d.,(\[])\d{{1,3}}{_SEPARATOR}\d{{3}}(?:(?P=sep)\d{{3}})*(?![\d,]|\.\d*,)(?:\.\d+)?"
# The most frequent tokens come first: signs that begin no longer sign, and letters. A digit or a dot is a cheap test
# before the spellings of numbers.
_TOKEN = re.compile(
    r"(?P<single>[][(){}^_,+/:;|])"
    r"|(?P<letters>[^\W\d_]+)"
    r"|\\(?P<command>[A-Za-z]+)\*?"
    rf"|(?=[\d.])(?:(?P<repeating>\d*\.\d*\\(?:overline|bar|dot)\s*\{{?\d+\}}?)"
    rf"|(?P<grouped>{_GROUPED})"
    rf"|(?P<scientific>(?:{_PLAIN})[eE][+-]?\d+(?![A-Za-z\d.]))"
    rf"|(?P<ordinal>{_PLAIN})(?:(?<=1)st|(?<=2)nd|(?<=3)rd|(?<=\d)th)(?![A-Za-z\d])"
    rf"|(?P<number>{_PLAIN}))"
    r"|(?P<space>\s+|\\[,;:!> ]|~|&nbsp;|\\/)"
    r"|(?P<factorial>(?<=\d)!(?==))"
    r"|(?P<row>\\\\(?:\s?\[-?[\d.]+(?:pt|em|ex|mm|cm)\])?)"
    r"|(?P<escaped>\\.)"
    r"|(?P<sign><=|>=|=<|=>|!=|<>|==|\*\*|\.\.\.|->|[^\w\s]|_)",
    re.DOTALL,
)
_WITH_ARGUMENT = TEXTS | _FONT | _DROPPED
_WRITTEN_OUT = frozenset(
    ("sin", "cos", "tan", "cot", "sec", "csc", "ln", "log", "lg", "exp")
)
_WORDS_THAT_ARE_SIGNS = {
    **dict.fromkeys(("percent", "pct", "percentage"), ("sign", "%")),
    **dict.fromkeys(_INFINITY, ("symbol", "oo")),
    "or": ("sign", "or"),
    "and": ("sign", "and"),
    "mod": ("sign", "mod"),
}
_ASCII_SIGNS = {
    "=<": "<=",
    "=>": "implies",
    "<>": "!=",
    "==": "=",
    "**": "^",
    "->": "to",
    "•": "*",
}
# Escaped signs without a meaning.
_UNWRITTEN = frozenset((r"\(", r"\)", r"\[", r"\]", r"\&", r"\#", r"\_", r"\-"))
_BRACES = re.compile(r"\\[{}\\]|[{}]")
_NO_NUMBER = re.compile(r"[^\d.]")


class UnreadableError(Exception):
    """A text contains mathematics that no reader here supports."""


def tokens(text: str) -> tuple[Token, ...]:
    r"""Split a text in the spelling of `spelled` into tokens.

    Examples:
        >>> [token.text for token in tokens(r"-\dfrac{1}{2} \leqslant x^2 \text{ or } 1{,}000 km")]
        ['-', 'frac', '{', '1', '}', '{', '2', '}', '<=', 'x', '^', '2', 'or', '1000', 'km']
    """
    scanner = _Scanner(text)
    scanner.scan(0, len(text), words=False, depth=0)
    return tuple(scanner.row)


class _Scanner:
    """Collects the tokens of a text in `row`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.closing = _closing(text) if "{" in text else {}
        self.space = False
        self.row: list[Token] = []

    def scan(self, start: int, end: int, *, words: bool, depth: int) -> None:
        """Add the tokens between two indices; with `words`, letters form words outside dollars."""
        if depth > MAX_DEPTH:
            raise UnreadableError
        at, in_words = start, words
        while at < end and (found := _TOKEN.match(self.text, at, end)):
            at = found.end()
            match found.lastgroup:
                case "space":
                    self.space = True
                case "sign" if found[0] == "$":
                    in_words = words and not in_words
                    self.space = True
                case "letters":
                    for part in _run_of_letters(found, words=in_words):
                        self._add(found, part)
                case "command":
                    at = self._command(found, depth)
                case _ if found[0] not in _UNWRITTEN:
                    self._add(found, _plain(found))

    def _add(self, found: re.Match[str], part: tuple[str, str]) -> None:
        """Add a token with its kind and text, at a match's place."""
        self.row.append(Token(*part, self.space, *found.span()))
        self.space = False

    def _command(self, found: re.Match[str], depth: int) -> int:
        """Add the tokens of a command with its argument; return the index at which scanning continues."""
        command = found["command"]
        at = found.end()
        if command in _SPACES:
            self.space = True
            return at
        held = self._argument(at, command) if command in _WITH_ARGUMENT else None
        if held:
            start, end, at = held
            self._hold(command, start, end, depth)
            self.space = self.space or command in TEXTS
        elif command not in _SILENT:
            self._add(found, _COMMANDS.get(command, ("command", command)))
        return at

    def _argument(self, at: int, command: str) -> tuple[int, int, int] | None:
        r"""Find a command's argument: a group in braces, or the letter of `\mathbb R`; None without an argument.

        Returns:
            The argument's start and end, and the index at which scanning continues.
        """
        while at < len(self.text) and self.text[at].isspace():
            at += 1
        if command in _FONT and self.text[at : at + 1].isalpha():
            return at, at + 1, at + 1
        end = self.closing.get(at)
        return (at + 1, end, end + 1) if end is not None else None

    def _hold(self, command: str, start: int, end: int, depth: int) -> None:
        """Add the tokens inside a text or font command."""
        content = self.text[start:end].strip()
        if command in _DROPPED:
            self.space = True
        elif command in TEXTS:
            self.space = self.space or self.text[start : start + 1].isspace()
            self.scan(start, end, words=True, depth=depth + 1)
        elif content in _SETS and command in ("mathbb", "mathbf"):
            self.row.append(Token("symbol", _SETS[content], self.space, start, end))
        else:
            letter = command in _LETTERS and len(content) == 1
            math = (
                letter
                or content in ("d", "e", "i")
                or content in FUNCTIONS
                or not content.isalpha()
            )
            self.scan(start, end, words=not math, depth=depth + 1)


def _plain(found: re.Match[str]) -> tuple[str, str]:
    """Return kind and text of a matched number or sign."""
    text = found[0]
    match found.lastgroup:
        case "single" | "sign" | "factorial":
            return _BRACKETS.get(text, "sign"), _ASCII_SIGNS.get(text, text)
        case "grouped":
            return "number", _NO_NUMBER.sub("", text)
        case "ordinal":
            return "number", found["ordinal"]
        case "escaped" if text in _ESCAPED:
            return _ESCAPED[text]
        case "escaped":
            raise UnreadableError
        case "row":
            return "row", text
    return "number", text


def _run_of_letters(found: re.Match[str], *, words: bool) -> Iterable[tuple[str, str]]:
    """Split matched letters by context: `Be^x` means a product, `cost: 5` begins with a word."""
    run = found[0]
    # A digit that `\d` does not match, such as an Ethiopic one
    if run[0].isdigit():
        return [("number", run)]
    if len(run) == 2 and found.string.startswith("e^", found.end() - 1):
        return [("symbol", letter) for letter in run]
    is_thing = run in _THINGS_LIKE_FUNCTIONS and found.string[: found.start()].endswith(" ")
    is_word = is_thing or (
        run in _LIKE_FUNCTIONS and _SPACED.match(found.string, found.end()) is not None
    )
    return _letters(run, words=words or is_word or _is_short_noun(found))


def _is_short_noun(found: re.Match[str]) -> bool:
    """Check whether matched letters begin the counted things behind an amount: `12 tea bags`, not `12 ab`."""
    run, text, start = found[0], found.string, found.start()
    if not 1 < len(run) < 5 or text[start - 1 : start] != " ":
        return False
    if run in GREEK or run in FUNCTIONS or not _SHORT_NOUN.fullmatch(run):
        return False
    is_counted = _BEHIND_AMOUNT.search(text[max(start - _AMOUNT_REACH, 0) : start])
    return is_counted is not None and _BEFORE_THINGS.match(text, found.end()) is not None


def _letters(run: str, *, words: bool) -> Iterable[tuple[str, str]]:
    """Split a run of letters into words (inside text commands) or functions, symbols and words (elsewhere)."""
    if run in _WORDS_THAT_ARE_SIGNS:
        return [_WORDS_THAT_ARE_SIGNS[run]]
    if words:
        return [("function" if run in _WRITTEN_OUT else "word", run)]
    if run in ("frac", "dfrac", "tfrac"):
        return [("command", "frac")]
    if run in FUNCTIONS:
        return [("command" if run == "sqrt" else "function", run)]
    if run in GREEK:
        return [("symbol", run)]
    if len(run) == 1:
        return [("symbol" if run.isascii() else "word", run)]
    if _is_word(run):
        return [("word", run)]
    # sinx
    if run[:-1] in FUNCTIONS and len(run) - 1 in (7, 6, 4, 3, 2):
        return [("function", run[:-1]), ("symbol", run[-1])]
    return [("symbol", letter) for letter in run]


def _is_word(run: str) -> bool:
    """Check whether unspaced letters form a word or unit, not a product such as `xy`."""
    if len(run) > 3 or not run.isascii():
        return is_unit(run) or run[:-1] not in FUNCTIONS
    # Ann, Max
    is_name = len(run) == 3 and run.istitle()
    is_like_one = is_name or _WORD_LIKE.fullmatch(run[0].lower() + run[1:]) is not None
    return run.lower() in _SHORT_WORDS or is_unit(run) or raised_by(run) > 1 or is_like_one


def _closing(text: str) -> dict[int, int]:
    """Map the index of each opening brace to the index of its closing brace."""
    opened: list[int] = []
    found = {}
    for brace in _BRACES.finditer(text):
        sign = brace[0]
        if sign == "{":
            opened.append(brace.start())
        elif sign == "}" and opened:
            found[opened.pop()] = brace.start()
    return found
