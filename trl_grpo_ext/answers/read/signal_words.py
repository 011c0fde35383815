"""Words that deny, doubt, suppose, turn or conclude a thought, as alternatives for regular expressions.

The rules that look for such words are composed of these sets, so that a word is added in one place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

DENIAL = r"not|no|nor|never|neither|cannot|\w+n['’]t"
WRONG = r"wrong|incorrect|false|untrue"
# Words by which a speaker calls an answer a guess.
GUESS = (
    r"it(?:['’]s| is) possible that|my (?:best )?guess|I(?:['’]d)? guess|I(?:['’]m| am) guessing"
    r"|I (?:could|may|might)(?: well)? be (?:wrong|mistaken)|if I(?:['’]m| am) (?:not (?:mistaken|wrong)|right|correct)"
)
DOUBT = r"maybe|perhaps|possibly|probably|might|may|could"
CONDITION = r"if|unless|whether"
# Words that offer several answers.
SEVERAL = r"or|either|both"
THEREFORE = "so|thus|therefore|hence"
# Openers before a comma, as in "In total, there are 21", that add nothing to a sentence's value.
SUMMING_UP = "in total|in all|all in all|in sum|in the end|altogether|all together|together|overall|combined|now"
# Words that begin another thought.
TURN = r"wait|actually|hmm|instead|rather|sorry|alternatively|correction"
CONTRAST = "but|however|although|though"
# Words that leave a value open, deny it or replace it.
UNSETTLING = "|".join((CONDITION, CONTRAST, DENIAL, DOUBT, SEVERAL, TURN, WRONG))
# "as" before a reason, not before a form: "3/4 as a decimal", "written as 0.75"
AS_REASON = (
    r"(?<!written )(?<!expressed )(?<!represented )"
    r"as(?!\san?\s(?:[a-z]+\s){0,2}(?:decimal|fraction|percent|percentage|ratio|mixed|power|product|sum)\b)"
)

# Not "the first day", not "last longer"
_ALONE = r"(?!\s(?!(?:to|by|in|at|and|with|of)\b)[a-z])"
_BEATEN = r"loses?|lost|loser|slower|slowest|behind|trail(?:s|ed)?|(?:was|were|got|been) (?:beaten|defeated)"
# Pairs of words of opposite comparisons.
OPPOSITES = (
    (
        r"more|most|larger|largest|bigger|biggest|greater|greatest|higher|highest",
        r"less|least|fewer|fewest|smaller|smallest|lower|lowest",
    ),
    (r"taller|tallest|longer|longest", r"shorter|shortest|less"),
    (r"farther|farthest|further|furthest", r"nearer|nearest|closer|closest|less"),
    (
        r"older|oldest|elder|born (?:earlier|before|first)",
        r"younger|youngest|born (?:later|after|second|last)",
    ),
    (
        r"faster|fastest|quicker|quickest|(?:shorter|shortest|lower|lowest|less|least) time",
        r"slower|slowest|less|lost|(?:longer|longest|higher|highest|more|most) time",
    ),
    (
        rf"earlier|earliest|first{_ALONE}|(?-i:(?:before|ahead of)(?= [A-Z]))",
        rf"later|latest|last{_ALONE}|{_BEATEN}|(?-i:after(?= (?:[A-Z]|the [a-z]+ one\b)))",
    ),
    (
        r"heavier|heaviest|weighs? (?:\d\S* [a-z]+ )?more",
        r"lighter|lightest|less",
    ),
    (
        r"cheaper|cheapest|(?:less|least) (?:expensive|costly)|costs? (?:\$?\d\S* )?less"
        r"|(?:lower|lowest) (?:[a-z]+ )?(?:price|cost)",
        r"(?:more|most) (?:expensive|costly)|dearer|dearest|pricier|priciest|costlier|costliest"
        r"|costs? (?:\$?\d\S* )?more|(?:higher|highest) (?:[a-z]+ )?(?:price|cost)",
    ),
    (r"better|best", r"worse|worst"),
    (r"warmer|warmest|hotter|hottest", r"colder|coldest|cooler|coolest"),
    (r"wins?|won|winner|beats?", _BEATEN),
)


def any_of(*words: str) -> re.Pattern[str]:
    """Compile a case-insensitive regular expression matching each given word.

    Examples:
        >>> bool(any_of(DENIAL, DOUBT).search("It isn't 5.")), bool(any_of(DENIAL, DOUBT).search("It is 5."))
        (True, False)
    """
    return re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE)


def contains_any(text: str, parts: Iterable[str]) -> bool:
    """Check whether a text contains a part in any case, within a word too: a cheap test before a slow expression.

    Examples:
        >>> contains_any("It isn't 5.", ("not", "n't")), contains_any("Nothing", ["not"]), contains_any("5", ["not"])
        (True, True, False)
    """
    return any(map(text.casefold().__contains__, parts))


def last_word(text: str) -> str:
    """Return a text's characters behind its last space or line end.

    Examples:
        >>> last_word("So it is 5. "), last_word(" ")
        ('5.', '')
    """
    return "".join(text.rsplit(maxsplit=1)[-1:])


def has_words(text: str, words: str) -> bool:
    """Check whether a text has a word of a pattern, in any case.

    Examples:
        >>> has_words("It fell by 3.", "fell|lost"), has_words("He felled it.", "fell|lost")
        (True, False)
    """
    return re.search(rf"\b(?:{words})(?!\w)", text, re.IGNORECASE) is not None
