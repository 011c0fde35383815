"""Detect words around an answer that take the answer back or leave it open."""

from __future__ import annotations

import re

from trl_grpo_ext.answers.read.number_words import in_digits
from trl_grpo_ext.answers.read.signal_words import (
    CONDITION,
    CONTRAST,
    DENIAL,
    DOUBT,
    GUESS,
    THEREFORE,
    TURN,
    WRONG,
    contains_any,
    last_word,
)

# Characters after an answer that are searched for words that take it back.
REACH = 200

_THINK = r"\s+(?:\w+\s+){0,2}(?:think|believe|say|know|agree)\b"
# "It could also be written as 0.5" offers no other answer.
_TOLD_ANEW = r"\s+(?:[a-z]+ed|written|shown|known|seen|given|drawn|found|done|said|put)\b"
_DOUBT = re.compile(
    rf"\b(?=\w)(?:(?:{GUESS}|maybe|perhaps|possibly|probably not"
    r"|unlikely|not sure|unsure|uncertain|unclear|whether|either"
    r"|neither(?=\s+(?:of\b|is\b|answer\b|\W*\d)|[^.]*\bnor\b)"
    r"|undecided|unless|alternatively|anything (?:but|except)|no longer|otherwise"
    rf"|(?<!statement )(?<!claim )(?:is|are|was|seems)\s+(?:{WRONG}|not (?:right|correct))"
    r"|(?:(?:ca|could)n['’]t|(?:can|could)\s*not)\s+(?:be\s+)?(?:found?|determined?|solve|compute|known?|tell|say)"
    r"|not enough information|no (?:definite|exact|single|unique) (?:answer|number|value))\b"
    r"|(?:might|may|could) be\W{0,6}(?:[\d\\$]|[a-z]\s?=|$)"
    r"|(?<!more )(?<!less )(?<!equally )(?<!as )(?:probably|presumably|likely)\s+\W{0,4}(?:\d|boxed|(?-i:[A-Z])\b|$)"
    r"|(?:probably|presumably) it\b|(?<=, )(?:probably|presumably)[\s.]*$"
    rf"|(?:(?:might|may|could)(?:\s+(?:also|just|as|equally|easily|well))+"
    rf"|(?:{CONTRAST}),? (?:it|that|this) (?:might|may|could)) be\b(?!{_TOLD_ANEW})"
    rf"|(?:not|cannot|never|doubt){_THINK}"
    r"|if (?:you|we|they|one|instead)\b[^.\n]{0,12}\b(?:mean|meant|intend|interpret|assume|want|count|instead)"
    rf"|(?:if|suppose|assume)\s+(?:that\s+)?(?:the|my|our)?\s*$)|n['’]t{_THINK}",
    re.IGNORECASE,
)
# "though 6 might be better", "although 6 is also possible": another value that may be right
_RIVAL = (
    rf"(?:{CONTRAST})\s\W{{0,3}}\d\S{{0,12}}(?:\s[a-z]+)?\s(?:(?:might|may|could|would|is|seems?|looks)\s)"
    r"(?:also\s|well\s|even\s|just\s|be\s|as\s|more\s|a\s|an\s|the\s|equally\s){0,4}(?:better|possible|right|correct|likely|likelier"
    r"|plausible|closer|option|possibility|answer|true|valid)\b"
)
# A denial right before an answer; the denial in "75 of them are not roses" leaves the value 75 firm.
_DENIED = re.compile(
    r"\b(?:is|are|was|be)(?:n['’]t| not)(?:\s+\w+){0,2}\W*$|\bnot\W*$"
    r"|(?:\b(?:cannot|can not|must not|should not|never)|n['’]t) be\W*$"
    r"|(?:n['’]t|\bnot|\bnever) (?:get|have|find|obtain)\W*$",
    re.IGNORECASE,
)
# Every denial contains a negation; this cheap test avoids the slow expression.
_NEGATIONS = ("not", "n't", "n’t", "never")
_CLAUSE = re.compile(r"[,;]|\bbut\b")
_TURNED = re.compile(
    r"(?:\b(?:cannot|can not|must not|should not|never)|n['’]t) be\b(?!\s+[a-z]+ed\b)|\b(?:is|are) never\b"
    r"|\d[^\w\n]*;?\s+or\s+\W*\d|(?<=[a-z])[.,*$]{0,3}\s+or\s\W{0,3}\d[\d.,]*\W*$|[\d}$)]\s*,?\s+but\b"
    r"|\b(?:is|are|was|be)(?:n['’]t|\s+not)\s+(?:equal\s+to\s+)?[\W_]*(?:\d[^a-z]*$|[a-z]\w*\s*="
    r"|(?:\d\S*\s+(?!is\b|are\b)[a-z]+,?\s*(?:and\s+)?){2,4}[a-z]*$)"
    r"|\b(?:is|was|are)(?:n['’]t|\s+not)\s+the\s+(?:\w+\s+)?answer\W*$"
    rf"|\b(?:{WRONG})\s+(?:answer|option|choice|result|value)\s*(?:is\b|was\b|would\b|[:=])"
    rf"|^\W*(?:{WRONG})\s*:|,\s{_RIVAL}"
    rf"|\((?:{TURN}|no|oops|let me|in fact)\b[^()]*\d|\d[^()]*\bin fact\)"
    r"|\d\W{0,4}(?:is|was|are)(?:n['’]t|\s+not)\b[^\d]*$"
    r"|\b(?:answer|result|value|it|this|that)\s+(?:is|was)(?:n['’]t|\s+not)(?:\s+\w+){0,2}\W*$",
    re.IGNORECASE,
)
# Each such turn contains one of these.
_TURNED_PARTS = (
    "not",
    "n't",
    "n’t",
    "never",
    " or",
    "\nor",
    "fact",
    *f"{WRONG}|{TURN}|{CONTRAST}".split("|"),
    "(no",
    "oops",
    "let me",
)
# The gap between an answer and the words after it.
_EDGE = r"[\s*_`$)\]}.,;:\\]*"
# Openings of the text after an answer that take the answer back or offer another.
_OPEN = re.compile(
    rf"{_EDGE}(?:(?:or|{DOUBT}|alternatively|otherwise)\b(?!\s+(?:equivalently|simply|rather,? in))"
    r"[^.\n]{0,40}?(?:\d|\\boxed|\$|\\\()"
    rf"|(?:(?:is|was|seems|looks)\s+)?(?:{WRONG}|not (?:right|correct|it))\b"
    rf"|\(?(?:(?:but|though|although)\s+)?(?:{GUESS})\b"
    rf"|{_RIVAL}"
    r"|\?|(?:no|wait|hmm|oops|actually|but that)\b[^.\n]{0,40}"
    r"\b(?:wrong|incorrect|not|mistake|error|(?:doesn|didn|isn|can)['’]t)\b)"
    r"|[^\n]{0,3}\W*\(?\s*(?:or\s+)?if (?:you|we|instead)\b[^.\n]{0,30}\b(?:mean|meant|intend|interpret|instead)",
    re.IGNORECASE,
)
# "My previous answer was wrong."
_CALLED_WRONG_LATER = re.compile(
    r"\b(?:my|the) (?:previous|earlier|first|original|above|initial) (?:answer|result|calculation)"
    rf" (?:is|was) (?:{WRONG})\b",
    re.IGNORECASE,
)

# A sentence that only refuses or doubts the number before it: "It is 17? No.", "17. Hmm, wrong.", "17 apples. Maybe."
_REFUSED = re.compile(
    r"(?:[^.!?\n]{0,60}(?:[.!?…]|(?=\n))[*_`$)\s]+|[*_`$)\s]+(?-i:(?=[A-Z])))"
    r"(?:(?:but|well|hmm+|oh|sorry|actually|wait)\b[\s,.…!-]{1,4}){0,2}"
    rf"(?:no|nope|nah|hardly|of course not|not (?:quite|really|right|correct|it)|{WRONG}|maybe|perhaps|possibly"
    r"|(?:I['’]m |I am )?(?:not sure|unsure))(?:,[^.!?\n\d]{0,60})?[\s.!*_`…]*\Z",
    re.IGNORECASE,
)

_IT_IS = (
    r"(?:it(?:['’]s|\s+(?:is|was))|(?:it|that)\s+(?:would|should)\s+be|I\s+meant?"
    r"|(?:answer|result)(?:\s+(?:is|should\s+be)|:))"
)
_AGAIN = r"(?:double-?check|check|verify|re-?check|re-?compute|re-?calculate|re-?do|re-?consider|re-?think)\b"
# "Wait, no, it is 73", "Sorry, I meant 83", "Correction: 9", "But that counts one twice, so it's 9",
# "Hmm, let me recompute. 7 * 9 = 63, so it is 63"
_CORRECTED = re.compile(
    rf"{_EDGE}(?:(?:oh|no|oops|on second thoughts?|{TURN})\b[^.\n\d]{{0,60}}?\b{_IT_IS}"
    rf"|(?:wait|hmm|hold on)\b[^.\n\d]{{0,20}}\blet(?: me|['’]s| us) {_AGAIN}.{{0,160}}\b{_IT_IS}"
    r"|(?:(?:oh|no),?\s+)?(?:wait|oops|sorry|scratch that)\b[,.:]?(?:\s+no\b,?)?"
    r"|actually,?(?=\s+[*$]{0,3}(?:\d[\d,.]*|(?-i:[A-Z])\b)[*$]{0,3}(?:\s[a-z]+){0,3}[\s.!]*(?:\n|\Z))"
    r"|(?:but|however)\b[^.\n\d]{0,60}\bso\s+it(?:['’]s|\s+is)|correction:)"
    r"\s+(?=\W{0,4}(?:\d|(?-i:[A-Z])\b)|\\boxed|\\\()"
    rf"|{_EDGE}(?:(?:oh|wait|actually),?\s+)?no,\s+{_IT_IS}\s+(?=(?-i:[A-Z])[a-z])",
    re.IGNORECASE | re.DOTALL,
)
_SENTENCE = re.compile(r"(?<=[^\s.])(?<!i\.e)[.!?]\s+|\n\s*")
_NAME = rf"(?!(?:yes|no|true|false|oh|oops|well|so|{TURN})\b)(?-i:[A-Z][a-z]{{0,20}}(?: [A-Z][a-z]{{1,20}}){{0,3}})\b"
_VALUE = (
    rf"(?:\(?(?-i:[A-J])\)\s+)?"
    rf"(?:(?:\\?\$)?-?\d[\d,./:]{{0,20}}%?|\$[^$\n]{{1,40}}\$|\\\([^\n]{{1,40}}?\\\)|{_NAME})"
)
_REPLACING = (
    r"(?:no(?=,|\s+wait)|wait|oops|sorry|actually|"
    r"scratch that|hold on|I meant?|or rather|make that|correction)\b"
)
# "$63, no wait, $54", "A. Actually, B", "63... no, 54", "56 L left. Wait, no, 34 L"
_REPLACED = re.compile(
    rf"(?<![\w.$])(?<!not )(?<!n['’]t ){_VALUE}"
    rf"(?:(?<=\d)\s[A-Z]\b)?(?:\s(?-i:[a-z]+)){{0,4}}[*_`]{{0,2}}\s?[,;.…—–-]{{1,3}}\s+"
    rf"(?:oh,?\s+)?(?:{_REPLACING}[,.:…]{{0,3}}\s+){{1,3}}(?:it(?:['’]s|\s+is)\s+)?"
    rf"(?=(?!I\b)[*_`]{{0,2}}{_VALUE}(?:\s(?!(?:is|are|was|were|has|or|and)\b)[a-z]+){{0,3}}[.!*_`]{{0,4}}\s*(?:\n|\Z))",
    re.IGNORECASE,
)
# Every such phrase contains one of these; this cheap test avoids the slow expression.
_REPLACING_WORDS = (
    "no,",
    "wait",
    "oops",
    "sorry",
    "actually",
    "scratch that",
    "hold on",
    "i mean",
    "or rather",
    "make that",
    "correction",
)
_OPENING = r"(?:(?:oh|no|but|oops|wait|hmm+|hold on|sorry|actually|my bad)\b[\s,.…!-]{1,4})"
_MISTAKEN = r"I(?:['’]ve| have| (?:may|might) have| think I)?\s+(?:\w+\s+)?ma[dk]e an?\s+(?:\w+\s+)?(?:mistake|error)\b"
_REDO = (
    r"(?:let(?: me|['’]s| us)|I(?:['’]ll| will| need to| have to| should| must))\s+(?:\w+\s+)?(?:start over"
    r"|re-?(?:calculate|compute|do|consider|think|work)|(?:try|think|calculate) (?:(?:this|that|it) )?again)\b"
)
_CALLED_WRONG = (
    rf"(?:this|that|it|something)(?:(?:['’]s| is| was| looks| seems)\s+(?:{WRONG}|not right|off)\b"
    r"|\s(?:does|did)(?:n['’]t| not) (?:look|seem|sound|feel|make|add)\b"
    r"|\s(?:isn['’]t|can['’]t be|cannot be) (?:right|correct)\b)"
)
# A sentence that withdraws the answer before it: "Oops, I made a mistake", "Hmm, this doesn't look right".
_WITHDRAWN = re.compile(
    rf"\W*{_OPENING}{{0,3}}(?:{_MISTAKEN}|{_REDO}|(?:ignore|disregard|scratch|forget) (?:that|this)\b)"
    rf"|\W*{_OPENING}{{1,3}}(?:{_CALLED_WRONG}|(?:let me|I need to|I should) {_AGAIN})"
    rf"|\W*{_OPENING}{{0,2}}(?:wait|hold on)(?=[,.…!]|$)(?!.*\b(?:right|correct|fine|good|ok)\b)",
    re.IGNORECASE,
)
_I_AM = r"I(?:['’]m| am)(?:\s(?!not\b)[a-z]+)?"
# The speaker doubts in the last clause: "12, though I'm not certain", "12. However, I may have made a mistake."
_OWN_DOUBT = re.compile(
    rf"(?:[.!?…;,:*)}}$(>\n—–-]\s*|\s(?=(?:{CONTRAST})\b))[(*_]*(?:(?:{CONTRAST}|that said|still|please)\b,?\s+){{0,2}}"
    rf"(?:{_I_AM}(?:\snot(?:\s(?:[a-z]+|100\s?%))?\s(?:sure|certain|confident|positive|convinced)"
    r"|\s(?:unsure|uncertain|guessing))"
    r"|I\s(?:may|might|could)(?:\s(?:well|also|still))?\s(?:be|have)\s(?:[a-z]+\s){0,3}(?:wrong|mistaken|mistakes?|errors?|mis[a-z]+ed)"
    r"|I\s(?:still\s)?have\s(?:(?:my|some|a few)\s)?doubts"
    r"|I\s(?:have\snot|haven['’]t|did\snot|didn['’]t|could\snot|couldn['’]t)\s(?:double[- ]?)?(?:check|verif)[a-z]*"
    r"(?=\s(?:it|this|that|everything|my)\b|[\s.!*_)]*\Z)"
    r"|(?<=\s)double[- ]?check\smy|(?<=\s)(?:don['’]t|do\snot)\squote\sme|I\s(?:wouldn['’]t|would\snot)\sbet)\b"
    r"(?:(?!\b(?:why|how|what|who|when|where)\b)[^.!?;\n\d]){0,60}[\s.!*_)]*\Z",
    re.IGNORECASE,
)
# Each such clause contains one of these.
_OWN_DOUBT_PARTS = (
    "sure",
    "certain",
    "confident",
    "positive",
    "convinced",
    "guessing",
    "wrong",
    "mis",
    "error",
    "doubt",
    "check",
    "verif",
    "quote",
    "bet",
)
# The start of a sentence that corrects an answer before it: "Actually, she has 7 apples left."
_TURNS = re.compile(
    r"(?:\A[\s*_`$)\]}.,;:\\]*|(?<=[.!?…])\s+|\n\s*)[*_]*(?:(?:oh|but|well|and),?\s+)?"
    r"(?:no|oops|wait|hmm+|hold on|sorry|actually|in fact|correction|scratch that|on second thoughts?)\b"
    r"(?:,?\s+(?:wait|no|actually)\b)*\s?[,.:;!…—–-]",
    re.IGNORECASE,
)
# A number that is no part of a calculation: the 5 of "12 - 7 = 5".
_NUMBER = re.compile(
    r"(?<![\d.,])(?<![-−+*/×÷x]\s)\d[\d,]*(?:\.\d*[1-9])?(?![\d.]*\s[-−+*/×÷x]\s)"
)
# A name, or the letter of an option, that does not begin a sentence.
_NAMES = re.compile(r"(?<=[\w,:;]\s)(?!I\b)[A-Z][a-z]*\b")
# The end of a sentence or of a mark.
_STATEMENT = re.compile(r"(?<=[.!?…}*$>])\s+")
# "The total would be 36" states 36; "it would be 36" and "could be 36" do not.
_WOULD_BE = re.compile(
    r"(?<!\S)(?!(?:it|he|she|they|we|you|i|this|that|these|those|which|who|what|one|answers?)\s)(\S*\w\S*)"
    r"\s+(?:would|should)"
    r"(?:\s+(?:then|thus|therefore|also|now|simply|just|still))?\s+be\b(?!\s+(?:not|never|if)\b)",
    re.IGNORECASE,
)
# Words that make what would be a supposition, or another's opinion.
_CONDITION = re.compile(
    rf"\b(?:{CONDITION}|{DENIAL}|{WRONG}|{TURN}|{CONTRAST}"
    r"|without|with all|otherwise|doubt\w*|suppos\w+|assum\w+|imagin\w+"
    r"|hypothetical\w*|guess\w*|estimat\w+|mistake\w*|error|another|only|ideal\w*|expect\w*)\b|(?:^|[,;.!?\n]\s*)(?:had|were|should)\b|\bbe\b.*\b(?:had|were)\b",
    re.IGNORECASE,
)


def stated(text: str) -> str:
    """Rewrite conditional verbs as indicative in a text's last sentence: "would be", "should be" become "is".

    The subject is no pronoun, and neither the sentence nor the sentence before has a condition.

    Examples:
        >>> [stated(said) for said in ("The total would be $35.", "It would be 36.", "Had he won, the sum would be 5.")]
        ['The total is $35.', 'It would be 36.', 'Had he won, the sum would be 5.']
    """
    if not contains_any(text, ("would", "should")):
        return text
    # The starts of the last two sentences; zeros stand in for those that a short text lacks.
    starts = [0, 0, *(stop.end() for stop in _SENTENCE.finditer(text))][-2:]
    if _CONDITION.search(text[starts[0] :]):
        return text
    return text[: starts[1]] + _WOULD_BE.sub(r"\1 is", text[starts[1] :])


def settled(text: str) -> str:
    """Remove a value that its sentence, or a fragment right after, replaces by another.

    Examples:
        >>> settled("It costs $63, no wait, $54."), settled("The answer is A. Actually, B.")
        ('It costs $54.', 'The answer is B.')
        >>> settled("It costs $63. Actually, that is much.")
        'It costs $63. Actually, that is much.'
    """
    return _REPLACED.sub("", text) if contains_any(text, _REPLACING_WORDS) else text


def is_withdrawn(text: str) -> bool:
    """Check whether a text's last sentence withdraws the answer before it and gives none, or its last clause doubts it.

    Examples:
        >>> is_withdrawn("It is 5, though I'm not certain."), is_withdrawn("I'm not certain why, but it is 5.")
        (True, False)
        >>> [is_withdrawn(said) for said in ("It is 5. Oops, I made a mistake.", "I made a mistake. It is 5.")]
        [True, False]
    """
    end = text[-REACH:]
    if contains_any(end, _OWN_DOUBT_PARTS) and _OWN_DOUBT.search(end):
        return True
    stated = text.rstrip(" \t\r\n.!…")
    # Most last sentences end with their value.
    if any(map(str.isdigit, last_word(stated))):
        return False
    lines, _, line = stated.rpartition("\n")
    *before, last = _STATEMENT.split(line.lstrip())
    has_value = any(map(str.isdigit, last)) or "\\boxed" in last
    return bool(lines or before) and not has_value and _WITHDRAWN.match(last) is not None


def is_hedged(sentence: str) -> bool:
    """Check whether a sentence leaves its answer open, or only denies a value.

    Examples:
        >>> [is_hedged(said) for said in ("5 or 6", "perhaps 5", "I don't think the answer is 5", "5?", "5 metres")]
        [True, True, True, True, False]
    """
    said = sentence.strip(" \t\n*_`$.")
    if said.endswith("?") or _DOUBT.search(sentence):
        return True
    return contains_any(said, _TURNED_PARTS) and _TURNED.search(said) is not None


def doubted_before(text: str) -> bool:
    """Check whether words just before an answer, in its sentence, doubt it: `maybe`, `it is not`."""
    clauses = [clause for clause in _CLAUSE.split(text) if any(map(str.isalpha, clause))]
    last = clauses[-1] if clauses else ""
    denies = contains_any(last, _NEGATIONS) and _DENIED.search(last)
    return bool(denies or _DOUBT.search(last))


def correction(text: str) -> str:
    """Return the answer that replaces an answer right before the text; empty if the text replaces none.

    Examples:
        >>> [correction(said) for said in (". Wait, no, it is 73. So 73.", ". Actually, it is a prime.")]
        ['73', '']
    """
    found = _CORRECTED.match(text[:REACH])
    if found is None:
        return ""
    return _SENTENCE.split(text[found.end() :], maxsplit=1)[0].rstrip(". ")


def taken_back(text: str) -> bool:
    r"""Check whether the text after an answer takes the answer back or offers another.

    Examples:
        >>> [taken_back(said) for said in (" is wrong.", ", or maybe 6", "?", " metres.", ". Hence we are done.")]
        [True, True, True, False, False]
    """
    near = text[:REACH]
    return bool(_OPEN.match(near) or _CALLED_WRONG_LATER.search(near))


def is_refused(answer: str, after: str) -> bool:
    """Check whether the last sentence of a text only refuses or doubts the number before the text.

    Examples:
        >>> is_refused("17", " apples? No."), is_refused("17", ". Wrong."), is_refused("17", ". No remainder.")
        (True, True, False)
    """
    # The sentence is short, and most answers end their text.
    if not 1 < len(after) < 2 * REACH or not any(map(str.isdigit, answer)):
        return False
    return _REFUSED.match(after) is not None


def turned_from(answer: str, after: str) -> bool:
    """Check whether a later sentence corrects an answer: it begins with a word of a turn, and another value ends it.

    Examples:
        >>> turned_from("5 apples", ".\\nActually, she ate 5, so 7 are left."), turned_from("5", ". Wait, 12 - 7 = 5.")
        (True, False)
        >>> turned_from("Ann", ". Actually, Ben won."), turned_from("5", ". Actually, that is much.")
        (True, False)
    """
    turn = _TURNS.search(after)
    if turn is None:
        return False
    rest = after[turn.end() - 1 :]
    for values in (_NUMBER, _NAMES):
        # The comma lets `_NAMES`, which asks for a word or sign before a name, find one at the start.
        own = values.findall(f", {in_digits(answer)}")
        told = values.findall(in_digits(rest))
        if own:
            return bool(told) and told[-1] not in own
    return False


# "Suppose x = 3 and y = 2.", "Answer: Assume that n = 4"
_ONLY_SUPPOSES = re.compile(
    rf"\W*(?:answer\W+)?(?:suppose|assum(?:e|ing)|imagine)\b(?!.*\b(?:{THEREFORE}|then|gives?|get|means?|is|are|must)\b)",
    re.IGNORECASE | re.DOTALL,
)


def only_supposes(sentence: str) -> bool:
    """Check whether a sentence supposes values without a conclusion.

    Examples:
        >>> only_supposes("Suppose x = 3 and y = 2."), only_supposes("Suppose x = 3, then y = 2.")
        (True, False)
    """
    return _ONLY_SUPPOSES.match(sentence) is not None
