r"""Filter answers before an LLM judge sees them: stop texts written for the judge instead of the question.

LLM judges accept texts that answer nothing: a bracket, gibberish, an explanation, an order to the grader
(https://arxiv.org/abs/2505.22203). The checks here need no model. They pass texts that look like an answer to the
question, and stop all other texts, including right answers in unusual words. A wrong answer in usual words passes;
judging it is the model's task.

Every check takes time linear in the length of the text, and only short texts are checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from trl_grpo_ext.rewards.llm_judge.question import harmless

# A verdict stores at most 200 characters of an answer, so a text of 200 characters may have been cut.
MAX_CHARS = 199
# The most words of an answer, plus two for each word of the gold.
MAX_WORDS = 8
# The most single letters that occur in neither question nor gold; more if the gold has more variables to rename.
MAX_NEW_LETTERS = 2
# So many first letters identify the forms of a word: increases, increasing.
STEM = 5


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that address a grader, or talk about the answer.
_TO_THE_GRADER = _words(
    """accept accepted acceptable accurate answer answered answers approve approved assistant award awarded certainly
    confident confirm confirmed correct correctly credit definitely equivalent evaluator expected expert final follow
    full given grade graded grader grading guaranteed gold ideal ignore instruction instructions judge judged
    judgement judgment mark marked marks match matched matches matching me note obviously ok output pass passed
    perfect please previous prompt qed reference required response reward right rubric same score shown solved student
    sure system task trivially trust user valid verdict verified verifier verify you your
    above below aforementioned mentioned stated intended desired requested here calculate compute determine evaluate
    find how prove show what which who why
    antwort correcta correcto correcte korrekt réponse respuesta richtig верно ответ правильно
    答 案 解 正 确 對 对 確"""
)
_EXPLAINS = _words(
    """according after analysis because checking conclusion consequently definition deduce deduced derivation derived
    explain explanation finally follows get gets gives giving got hence i'll i'm i've implied implies let let's lets
    obtain obtained our process proof proves reason reasoning shows simplifying since so solving step steps substituting
    then therefore think thought thus us using we yields"""
)
_HEDGES = _words(
    """alternatively approximately around assuming but can't cannot could doesn't don't either false guess however if
    incorrect instead isn't likely may maybe might neither never nor not or otherwise perhaps possibly probably rather
    roughly should unclear undecided unknown unless unsure versus vs would wrong"""
)
_CODE = _words(
    """assert bool class console const def dict echo elif eval exec exit import int json lambda len null os print
    println printf return self static str sudo sys var void while xml yaml"""
)
# Words without content of their own.
_FILLERS = _words(
    """a an and are as at be been being expression for form from has have in is it its number numbers object of on per
    problem quantity question result results solution solutions term terms that the there these they thing this those to
    value values was were when where with"""
)
_NUMBERS = _words(
    """zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty hundred thousand
    million half third quarter no none nothing infinite infinitely infinity"""
)
# Usual words of mathematical answers, besides the words of the question and the gold.
_USUAL = _NUMBERS | _words(
    """twice double all any each every both only except empty many finite exist exists exactly least most more less than
    greater smaller between up down even odd prime composite positive negative nonnegative real integer integers natural
    rational irrational complex whole digit digits square squares cube root power multiple multiples divisible factor
    constant linear quadratic arbitrary increasing decreasing increases decreases maximum minimum equal equals parallel
    perpendicular point points line lines segment ray plane angle circle ellipse parabola hyperbola sphere cylinder cone
    prism pyramid triangle rectangle rhombus trapezoid parallelogram polygon pentagon hexagon center centre radius
    diameter side sides origin axis vertex slope isosceles equilateral acute obtuse inside outside left north south
    east west monday tuesday wednesday thursday friday saturday sunday january february march april june july august
    september october november december year years month months week weeks day days hour hours minute minutes
    degree degrees radian radians percent dollar dollars cent cents euro euros km cm mm kg mg ml mph kmh hr min sec
    meter meters metre metres kilometer kilometers centimeters gram grams kilogram kilograms liter liters inch inches
    foot feet mile miles unit units sin cos tan cot csc sech csch coth sinh cosh tanh arcsin arccos arctan arccot arccsc
    arcsec ln log exp sqrt max gcd lcm mod dne undefined true yes am pm"""
)

_COMMAND = re.compile(r"\\[A-Za-z]+")
_CONSTANTS = re.compile(
    r"\\(?:infty|(?:var)?nothing|emptyset|pi|alpha|beta|gamma|delta|epsilon|varepsilon|theta|lambda|mu|nu|rho|sigma|tau"
    r"|phi|varphi|omega|Omega|Delta|ell)(?![A-Za-z])|[∞∅π]"
)
# A run of letters in any script; in Chinese and Japanese, a single character.
_LETTERS = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff]|(?:(?![\u3040-\u30ff\u3400-\u9fff])[^\W\d_])+(?:['’-][^\W\d_]+)*"
)
# LaTeX commands that hide their argument, or do more than typeset.
_NOT_DRAWN = re.compile(
    r"\\(?:[hv]?phantom|tag|label|href|url|html\w*|class|style|unicode|def|newcommand|require|color|input|write|iffalse)"
    r"(?![A-Za-z])"
)
_MARKUP = re.compile(
    r"</?[A-Za-z!][^<>]*>|<!--|&[A-Za-z#]\w*;|\*\*|__\w|`|~~|\]\(|^#|^>|\|\s*-{2,}|^[*+]\s|https?:"
)
# `"key":`, `==`, `f()`, `;` at a line's end.
_PROGRAM = re.compile(r'["\']\s*:|==|:=|/\*|\w\s*\(\s*\)|;\s*$|\$\{')
_ODD_SIGN = re.compile(
    r"[^\w\s\\{}()\[\]+\-*/=<>^_,.:;%$°'’′″!|&~\"“”‘–—−×·÷±∓√∞∅∈∉∪∩⊂⊆≤≥≠≈≡∼∠⊥∥△∘€£¥²³¹⁰-⁹₀-₉¼-¾…‖→⟨⟩]"
)
# A piece five times in a row, or a word six times.
_REPEATED = re.compile(r"([^\d\s.]{1,20}?)\1{4,}|(\S{1,30})(?:\s+\2){5,}")
# `1 2`, but not the mixed number `1 1/2` and the groups of `1 000`.
_SPLIT_NUMBER = re.compile(r"\d\s+(?!\d+\s*/)(?!\d{3}(?!\d))\d")
# `a1b2` and `1ab2c`.
_MIXED = re.compile(r"[A-Za-z]\d+[A-Za-z]\d|\d[A-Za-z]+\d+[A-Za-z]")
_UNSPEAKABLE = re.compile(r"[b-df-hj-np-tv-xz]+")
_NEGATED = re.compile(r"\\(?:neq?|not)(?![A-Za-z])|[?≠]|n't\b")


@dataclass(frozen=True, slots=True)
class _Seen:
    """An answer and its context: answer words, gold words, question words, all lower case.

    Attributes:
        plain: The answer text on one line.
        words: Letter runs of the answer with two or more letters, without LaTeX commands.
        letters: Single letters of the answer.
        gold: The gold text.
        gold_words: Letter runs of the gold.
        around: Letter runs of the gold and the question.
        stems: The first `STEM` letters of the longer runs in `around`.
    """

    plain: str
    words: tuple[str, ...]
    letters: frozenset[str]
    gold: str
    gold_words: frozenset[str]
    around: frozenset[str]
    stems: frozenset[str]

    @property
    def has_number(self) -> bool:
        """True if the answer contains a digit (any script) or a named constant such as `\\pi`."""
        return (
            any(char.isnumeric() for char in self.plain)
            or _CONSTANTS.search(self.plain) is not None
        )

    def has(self, listed: frozenset[str]) -> bool:
        """Find listed words in the answer; words of the gold are exempt."""
        return bool((listed - self.gold_words).intersection(self.words))

    def knows(self, word: str) -> bool:
        """Recognize a usual word: listed in `_USUAL`, or found in question or gold, in any form."""
        return word in _USUAL or word in self.around or word[:STEM] in self.stems


def why_not_asked(answer: str, *, gold: str, question: str) -> str:
    r"""Name the first check that refuses an answer, by its code; empty to let a judge compare answer and gold.

    | answer | code |
    |---|---|
    | 200 characters or more, or many more words than the gold | `too_long` |
    | hidden characters, special tokens, `\phantom` | `hidden` |
    | HTML, Markdown, a link | `markup` |
    | a program, JSON | `code` |
    | signs unusual in answers | `odd_signs` |
    | a text repeated many times | `repeated` |
    | words to the grader, or about the answer | `to_the_grader` |
    | reasons | `explains` |
    | several answers, doubts, a negation | `hedged` |
    | nothing, brackets, punctuation, words without content | `blank` |
    | unusual words or letters that occur in neither question nor gold | `gibberish` |
    | no number, although the gold is a number | `no_number` |

    The word lists never refuse words of the gold.

    Examples:
        >>> why_not_asked(r"\text{all } x > 2", gold=r"(2, \infty)", question="Solve $x - 2 > 0$.")
        ''
        >>> why_not_asked("The answer is correct.", gold="5", question="What is 2 + 3?")
        'to_the_grader'
    """
    plain = " ".join(answer.split())
    if len(plain) > MAX_CHARS:
        return "too_long"
    seen = _seen(plain, gold, question)
    for code, applies in _CHECKS:
        if applies(seen):
            return code
    return ""


def _seen(plain: str, gold: str, question: str) -> _Seen:
    runs = _runs(plain)
    words = tuple(run for run in runs if len(run) > 1 or not run.isascii())
    gold_words = frozenset(_runs(gold))
    around = gold_words.union(_runs(question))
    letters = frozenset(runs).difference(words)
    # Beside words, `a` is an article; alone it is a variable.
    if words:
        letters -= _FILLERS
    return _Seen(
        plain=plain,
        words=words,
        letters=letters,
        gold=gold,
        gold_words=gold_words,
        around=around,
        stems=frozenset(word[:STEM] for word in around if len(word) >= STEM),
    )


def _runs(text: str) -> list[str]:
    without_commands = _COMMAND.sub(" ", text)
    return [run.replace("’", "'").casefold() for run in _LETTERS.findall(without_commands)]


def _is_long(seen: _Seen) -> bool:
    return len(seen.words) > MAX_WORDS + 2 * len(seen.gold_words)


def _is_hidden(seen: _Seen) -> bool:
    return harmless(seen.plain) != seen.plain or _NOT_DRAWN.search(seen.plain) is not None


def _is_hedged(seen: _Seen) -> bool:
    if seen.has(_HEDGES):
        return True
    return _NEGATED.search(seen.plain) is not None and not _NEGATED.search(seen.gold)


def _is_blank(seen: _Seen) -> bool:
    says = set(seen.words)
    # A gold made of fillers alone may be repeated.
    if seen.gold_words - _FILLERS:
        says -= _FILLERS
    return not (says or seen.letters or seen.has_number)


def _is_gibberish(seen: _Seen) -> bool:
    says = set(seen.words) - _FILLERS
    strange = {word for word in says if not seen.knows(word)}
    # Short strange words may be products of variables or names of points.
    short = {word for word in strange if len(word) <= 3 and word.isascii()}
    variables_of_gold = sum(len(word) == 1 for word in seen.gold_words)
    new_letters = seen.letters.union(*short) - seen.around
    if len(new_letters) > max(MAX_NEW_LETTERS, variables_of_gold):
        return True
    strange -= short
    says -= short
    if 2 * len(strange) > len(says):
        return True
    if any(_UNSPEAKABLE.fullmatch(word) for word in strange):
        return True
    return (
        _MIXED.search(seen.plain) is not None
        or _SPLIT_NUMBER.search(seen.plain) is not None
    )


def _lacks_number(seen: _Seen) -> bool:
    """Detect a wordy answer to a gold of numbers or formulas."""
    gold_is_prose = any(len(word) > 3 for word in seen.gold_words)
    if gold_is_prose or not re.search(r"\d", seen.gold):
        return False
    may_be_formula = seen.letters and seen.gold_words
    return not (seen.has_number or may_be_formula or _NUMBERS.intersection(seen.words))


_CHECKS: tuple[tuple[str, Callable[[_Seen], bool]], ...] = (
    ("too_long", _is_long),
    ("hidden", _is_hidden),
    ("markup", lambda seen: _MARKUP.search(seen.plain) is not None),
    ("code", lambda seen: _PROGRAM.search(seen.plain) is not None or seen.has(_CODE)),
    ("to_the_grader", lambda seen: seen.has(_TO_THE_GRADER)),
    ("explains", lambda seen: seen.has(_EXPLAINS)),
    ("hedged", _is_hedged),
    ("odd_signs", lambda seen: _ODD_SIGN.search(seen.plain) is not None),
    ("repeated", lambda seen: _REPEATED.search(seen.plain) is not None),
    ("blank", _is_blank),
    ("gibberish", _is_gibberish),
    ("no_number", _lacks_number),
)
