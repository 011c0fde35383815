"""Words that deny, doubt, suppose, turn or conclude a thought, as alternatives for regular expressions.

The rules that look for such words are composed of these sets, so that a word is added in one place.
"""

from __future__ import annotations

import re

DENIAL = r"not|no|nor|never|neither|cannot|\w+n['’]t"
WRONG = r"wrong|incorrect|false|untrue"
DOUBT = r"maybe|perhaps|possibly|probably|might|may|could"
CONDITION = r"if|unless|whether"
# Words that offer several answers.
SEVERAL = r"or|either|both"
THEREFORE = "so|thus|therefore|hence"
# Words that begin another thought.
TURN = r"wait|actually|hmm|instead|rather|sorry|alternatively|correction"
CONTRAST = "but|however|although|though"


def any_of(*words: str) -> re.Pattern[str]:
    """Compile a case-insensitive regular expression matching each given word.

    Examples:
        >>> bool(any_of(DENIAL, DOUBT).search("It isn't 5.")), bool(any_of(DENIAL, DOUBT).search("It is 5."))
        (True, False)
    """
    return re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE)
