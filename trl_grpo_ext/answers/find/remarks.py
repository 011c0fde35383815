"""Remove closing remarks, which only check, explain or illustrate the conclusion before them."""

from __future__ import annotations

import re
from collections.abc import Set

from trl_grpo_ext.answers.find.hedges import is_hedged
from trl_grpo_ext.answers.read.moments import WEEKDAY
from trl_grpo_ext.answers.read.number_words import in_digits
from trl_grpo_ext.answers.read.quantities import known_words
from trl_grpo_ext.answers.read.signal_words import (
    DENIAL,
    DOUBT,
    THEREFORE,
    TURN,
    UNSETTLING,
    WRONG,
    any_of,
    contains_any,
)
from trl_grpo_ext.answers.read.units import is_unit
from trl_grpo_ext.answers.told_twice import told_once

# Characters at the end of a text in which a check begins, and before the check.
MAX_CHECK = 1_000
# Characters at the end of a text in which the formula begins that it used.
MAX_FORMULA = 80
_OPENING = (
    r"(?:(?:to|let['’]?s|let us|let me|we can|you can|as an?|now|please|just|also|by|quick|final"
    r"|sanity)\s+){0,3}"
)
_CHECKING = (
    r"(?:double[- ]?)?check(?:ing)?|verify(?:ing)?|verification|confirm(?:ing)?|proof"
)
_BEGUN = re.compile(
    rf"\W*{_OPENING}(?:{_CHECKING}|note|notice|observe|remember"
    r"|recall|keep in mind|bear in mind|indeed|plugging|substituting|putting (?:it|this|that|them) back"
    r"|for (?:example|instance)|as a (?:test|check)|(?:a )?(?:common|typical|frequent) (?:mistake|error)|by the way"
    r"|incidentally|fun fact|tip|test|(?:great|good|nice|well) (?:job|work|done)"
    r"|(?:this|that|it) is (?:(?:right|correct),? )?(?:because|since)"
    r"|(?:this|the|our) (?:result|calculation|solution) (?:is|seems|looks) (?:reasonable|plausible|complete|consistent)"
    r"|(?:this|that|it|the (?:result|answer)) (?:makes sense|checks out|(?:can|may) be (?:checked"
    r"|verified|confirmed))|(?:this|that) (?:matches|agrees|assumes|works(?! out)))\b",
    re.IGNORECASE,
)
_BECAUSE = re.compile(
    r"\W*(?:this|that|it) is (?:(?:right|correct),? )?(?:because|since)\b", re.IGNORECASE
)
# The label of a check: "**Verification:**", "### Check", "We can verify our answer:".
_CHECK = re.compile(
    rf"(?:(?<=\n)|(?<=[.!?] ))[^\w\n]{{0,8}}{_OPENING}(?:{_CHECKING})\b"
    r"(?: (?:this|that|it|these|them|of|by|in|with|back|the|our|my|your|original|answers?|results?|solutions?|values?"
    r"|work|calculations?|conditions?|equations?|problem)){0,5}[*_ ]*(?::|(?=\n))",
    re.IGNORECASE,
)
_CHECK_BEGUN = re.compile(rf"\W*{_OPENING}(?:{_CHECKING})\b", re.IGNORECASE)
# A check that fails, or turns to another value.
_FAILS = re.compile(
    rf"≠|!=|\\neq?(?![a-z])|[✗✘❌?]|\b(?:{DENIAL}|too|try|tries|fails?)\b", re.IGNORECASE
)
_LABELLED = re.compile(r"\b(?:answer|option|choice)\W{0,4}[:=]", re.IGNORECASE)
_PARAGRAPH = re.compile(r"\n\s*\n")
# 1. 12 + 3 = 15
_NUMBERING = re.compile(r"^\s*\d{1,2}[.)]\s", re.MULTILINE)
# Parts of a check: an equation, or a tick behind a claim.
_CLAIM = re.compile(r"[=≈✓✔✅]|\\approx")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
# A last part of a text that explains the answer before it.
_EXPLANATION = re.compile(
    r"\n\s*[#*_ ]*(?:explanation|reasoning|justification)[*_]*:[*_]*\s[\s\S]*\Z",
    re.IGNORECASE,
)
# A section at a text's end: "### Summary", and what it says.
_SECTION = re.compile(
    r"\n\s*#{1,6}[ \t]+(?P<title>[^\n#]{1,60})(?P<said>(?=\s*\S)(?:\n(?!\s*#)[^\n]*)+)\Z"
)
MAX_SECTIONS = 3
_CONCLUDES = any_of(
    UNSETTLING,
    THEREFORE,
    r"answers?|results?|solutions?|conclusions?|final|total|mistakes?|errors?|guess\w*|doubt\w*|should|must|ignore"
    r"|disregard|scratch|forget|unsure|uncertain|unclear|halve[sd]?|doubled?|half",
)
# What a section without an answer does not have.
_TELLS = re.compile(r"[\d=\\$<>#|]|\?\s*\Z")
# "the two numbers" are known
_KNOWN_COUNT = re.compile(
    r"\b(?:the|these|those|all|our|its|their)\s+\d+(?= [a-z])", re.IGNORECASE
)
_BRACKETED = re.compile(
    r"\((?!\s*(?:or|i\.e\.|that is|answer)\b)(?=[^()\\]*[a-z]{3})[^$]*\)[\s.!*]*",
    re.IGNORECASE,
)
# "so the answer is right" judges the answer before it.
_UNLESS_JUDGED = (
    rf"(?!\b(?:(?!\b(?:{DENIAL})\b)[^.!?\n\d]){{0,60}}"
    r"\b(?:right|correct|valid|verified|confirmed|consistent|works|holds|matches|checks out)[^\w\n]*(?:\n|[.!]|\Z))"
)
# A sentence that gives another answer is no remark, however it begins.
_GIVES_ANSWER = re.compile(
    rf"\b(?:{WRONG}|{TURN}|(?:{THEREFORE}|answer is){_UNLESS_JUDGED}|boxed|mistake|error|should)\b"
    r"|\bnot\s+\W*\d|[#<]",
    re.IGNORECASE,
)
# A closing sentence on what would have been: "Had they sold more, 25 would be left."
_UNREAL = re.compile(
    r"\W*(?:if|had|were|without)\s[^.]*(?:\bwould\b|['’]d\b)"
    r"|[^.]*\b(?:would|could)(?:\s+have|['’]ve)\s+(?:been|given|made|left|cost|taken|got|needed|[a-z]{3,}ed)\b"
    r"|[^.]*\d\S*\s(?:[a-z]+\s)?would\s+(?:need|require|mean|make|give)\b",
    re.IGNORECASE,
)
_CORRECTED = re.compile(
    r"(?:\s+not|n['’]t)\s+[^.;,]{1,30}?,?\s+but\s+(?:rather\s+|instead\s+)?(?=\W{0,3}\d)",
    re.IGNORECASE,
)
_OVERTURNED = re.compile(
    r"^.*,\s+but\s+(?=[^.;]*\b(?:actually|really|in fact)\b)"
    # a first thought
    r"|^(?:[^.]|\.(?=\d))*\b(?:(?:at )?(?:fir|1)st (?:glance|sight|thought|guess(?:ed)?)|I thought"
    r"|(?:I|we) (?:initially|originally|mistakenly|(?:fir|1)st)|(?:initially|originally|at (?:fir|1)st),? (?:I|we)"
    r"|(?:it|this|that) (?:may|might|could) (?:seem|look|appear)"
    r"|(?:you|we|one|I|people) (?:might|may|could|would) (?:\w+ )?(?:think|guess|expect|say|assume))\b"
    r"(?:[^.]|\.(?=\d))*,\s+but\s+(?=[^.]*\d)"
    r"|^\W*not\b.*,\s+but\s+(?:rather\s+|instead\s+)?",
    re.DOTALL | re.IGNORECASE,
)
_INSTEAD_OF = re.compile(
    r"(?<=\w),?\s+(?:and\s+)?(?:not|rather than|instead of)\s+"
    r"(?!(?:sure|certain|right|correct|mistaken)\b)(?:an?\s+)?[\w$.%]{1,12}(?=[.!\s]*\Z)"
)
# A reason and, behind a comma, a value that nothing denies or doubts.
_REASON_AND_VALUE = rf"[^,\n]{{1,160}},(?![^\n]*\b(?:{DENIAL}|{DOUBT})\b)[^,\n]*\d"
# A bracket or a reason at the end of a sentence.
_ASIDE = re.compile(
    rf"\s*(?<!\\)\((?!{WEEKDAY}\))"
    r"(?!\s*(?:or|i\.e\.|that is|answer|not|no|actually|wait|maybe|perhaps|in fact|should|mod|base|inclusive)\b)"
    r"(?![^()]*\b(?:actually|rather|precisely|exactly|correct\w*|wrong|mistake|really|not|maybe|or|wait|in fact|let me"
    r"|re-?(?:count|check|comput|calculat)\w*|sorry|oops|instead|guess\w*|answer|should|could|might|may|probably)\b)"
    r"(?=[^()]*(?:[A-Za-z²³]{2}|\d\s*[-+*/×÷−]\s*\\?[$€£]?\d))[^()]*\)[\s.!*]*$"
    # Not a sentence of its own that concludes: "x = 0 or x = 4. Since x = 0 is the start, it is 4."
    rf"|(?<!\band)(?<!,),?\s+(?!(?<=[.!]\s){_REASON_AND_VALUE})(?:because|since)\s(?!.*\b(?:{THEREFORE})\b).*$|,\s+as\s+\S*\d.*$",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"(?<=\w)\s+\([^()\d]*\d[^()]*\b(?:per|each|every|apiece)\b[^()]*\)[\s.!*]*$"
)
# Another amount behind the asked things, in a bracket with words: "12 boys (20 girls)"; no word restricts the value.
_OTHER_AMOUNT = re.compile(
    r"(?<=\d)(?P<unit>[^\d()\n]{0,40}[A-Za-z]{2}[^\d()\n]{0,40})\s\((?=[^()]*\d)(?=[^()]*[A-Za-z]{3})"
    rf"(?![^()]*\b(?:{UNSETTLING}|in|for|when|where|with|only|mod|base|times|multiplicity|remainder|left|over|rest"
    r"|i\.e\.|that is|answer|should|must|inclusive|re-?(?:count|check|comput|calculat)\w*|let me)\b)"
    r"(?P<other>[^()]*)\)[\s.!*]*$",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[A-Za-z]{2,}")
# `x + 1 (x ≠ 1)`
_RESTRICTED = re.compile(
    r"(?<=\w)\s*\((?:for |where |if |with )?[A-Za-z] ?(?:≠|\\neq?|!=) ?[-−]?\d{1,9}\)[\s.!*]*$"
)
# "5/6, or about 0.83": the exact value stands before it.
_APPROXIMATED = re.compile(
    r"(?<=[\w$}*])(?:(?<=\d)|(?<=pi)|(?<=π)|(?<=[$}*])),\s+(?:or|which is|i\.e\.,?)\s+"
    r"(?:about|approximately|roughly|around|nearly)\s+\S{1,20}(?:\s[a-z]+){0,3}[\s.!*]*$",
    re.IGNORECASE,
)
# "3.14 to 2 decimal places"
_TO_PLACES = re.compile(
    r"(?<=\w),?(?:\s(?:when\s)?rounded)?\s\(?(?:correct\s)?to\s(?:the\snearest\s[a-z]+"
    r"|(?:\d+|one)\s(?:decimals|decimal places?|significant (?:figures?|digits?)))\)?[\s.!*]*$",
    re.IGNORECASE,
)
_ROUNDED = re.compile(
    r"(?<=[\w$*}]) \(rounded(?: (?:off|up|down))?\)[\s.!*]*$", re.IGNORECASE
)
# Additions, each with parts of which a text contains one; this cheap test avoids the slow expressions.
_ADDITIONS = (
    (_RATE, ("(",)),
    (_RESTRICTED, ("(",)),
    (_APPROXIMATED, ("about", "approximately", "roughly", "around", "nearly")),
    (_TO_PLACES, ("nearest", "decimal", "significant")),
    (_ROUNDED, ("(rounded",)),
)
# The formula that was used: "40 cm², using A = l * w", "60 dollars by I = Prt"; letters on both sides
_BY_FORMULA = re.compile(
    r"(?<=[\w²³%°$}]),?\s(?:using|by|from|via)\s(?:the\s(?:formula|equation)\s)?\$?[A-Za-z]\s?=\s?"
    r"(?=\W*(?:\d\W*){0,2}[A-Za-z])(?![^=]*[a-z]{4})(?=[^=]*[A-Za-z]\W*[A-Za-z])[^=,;:?]{2,40}\$?\Z"
)
# The same as a part of a label: "Area (A = lw): "
_LABEL_FORMULA = re.compile(
    r"(?<=[A-Za-z])\s\([A-Za-z](?:\s?=[^=:\n]{1,40})?\)(?=[*_]*:\s)"
)
# A clause without numbers behind a value: "12, as required", "12, in total", "x = 12, and we are done".
_COMMENT = re.compile(
    r"(?<=[\w$}*)%°²³]), (?:(?:as|in|after|by|to|and (?:we|that|this|it)|not(?= [a-z]+ing\b)) "
    r"(?P<said>[a-z'’]{1,20}(?: [a-z'’]{1,20}){0,6})"
    r"|altogether|overall|respectively|exactly|precisely|indeed|obviously|clearly)[\s.!*]*$",
    re.IGNORECASE,
)
_CHANGES = any_of(
    UNSETTLING,
    r"guess\w*|mistake\w*|errors?|least|most|more|less|fewer|than|another|other",
)
# Questions for the least or the largest number, which "at least 5" or "at most 5" answers.
_ASKS_LEAST = re.compile(
    r"\b(?:minimum|least|fewest|smallest|lowest)\b"
    r"|\b(?:how (?:many|much)|what)\b.*\b(?:need\w*|requir\w+|must|have to|necessary)\b",
    re.IGNORECASE | re.DOTALL,
)
_ASKS_MOST = re.compile(
    r"\b(?:maximum|most|largest|greatest|highest)\b|\bhow many\b.*\b(?:can|could|able)\b",
    re.IGNORECASE | re.DOTALL,
)
_AT_LEAST = re.compile(
    r"\b(?:at least|no (?:fewer|less) than|a minimum of)\s+(?=\W{0,4}\d)", re.IGNORECASE
)
_AT_MOST = re.compile(
    r"\b(?:at most|no more than|up to|a maximum of)\s+(?=\W{0,4}\d)", re.IGNORECASE
)
# A bound with its number
_BOUNDED = re.compile(
    rf"(?:{_AT_LEAST.pattern}|{_AT_MOST.pattern})\W{{0,4}}(\d[\d,.]*(?<![.,]))",
    re.IGNORECASE,
)
# A denied verb; in a question the subject may stand before it: "didn't he spend"
_DENIES = re.compile(r"(?:\s+not|n['’]t)\s+([a-z]+)(?:\s+[a-z]+)?")
# The first character is of a set, for which `re` searches fast.
_SENTENCES = re.compile(r"[.!\n](?:(?<=\n)|(?<=[^\s.].)(?<!i\.e.)\s)")
# "Substituting back, y = 3."
_LETTER_VALUE = re.compile(
    r"(?:[,:]|\b(?:gives|yields|get|find|have|is))\s[$\\(*\s]{0,4}([a-z])\s*=[^,;]*\Z"
)


def restated(line: str) -> str:
    """Keep a restated value's last form: "not 3 but 4" gives 4, "3/10, or 30%" gives 30%.

    Examples:
        >>> restated("It is not 7 but 8."), restated("That is 3/10, or 30%."), restated("It is 5, or 6.")
        ('It is 8.', 'That is 30%.', 'It is 5, or 6.')
    """
    if " but " in line:
        line = _CORRECTED.sub(" ", _OVERTURNED.sub("", line))
    return told_once(_INSTEAD_OF.sub("", line))


def without_bound(line: str, question: str) -> str:
    """Remove "at least" or "at most" before an amount if the question asks for the least or the largest number.

    A bound of the question's own, "at least $50", asks for nothing, and stays in the answer.

    Examples:
        >>> without_bound("At least 5 buses are needed.", "How many buses are needed?")
        '5 buses are needed.'
        >>> without_bound("At least 5 buses are needed.", "How many buses can be filled?")
        'At least 5 buses are needed.'
        >>> without_bound("He needs at least 4 h for at least $50.", "How many hours must he work for at least $50?")
        'He needs 4 h for at least $50.'
    """
    given = set(_BOUNDED.findall(question))
    asked = _BOUNDED.sub("", question)
    for asks, bound in ((_ASKS_LEAST, _AT_LEAST), (_ASKS_MOST, _AT_MOST)):
        if bound.search(line) and asks.search(asked):
            line = bound.sub(lambda found: _bound_of(given, found), line)
    return line


def _bound_of(given: Set[str], bound: re.Match[str]) -> str:
    """Return a bound of the question's numbers; empty for another bound."""
    told = _BOUNDED.match(bound.string, bound.start())
    return bound[0] if told and told[1] in given else ""


def without_asked_denial(line: str, question: str) -> str:
    """Remove a denial that the question repeats: "He did not spend $215" answers "How much did he not spend?".

    Examples:
        >>> without_asked_denial("Rob did not spend $215.", "How much did he not spend?")
        'Rob did spend $215.'
        >>> without_asked_denial("Rob did not spend $215.", "How much did he spend?")
        'Rob did not spend $215.'
    """
    asked = _DENIES.search(question)
    told = _DENIES.search(line) if asked else None
    if asked is None or told is None or told[1] not in asked[0].split():
        return line
    return line[: told.start()] + " " + line[told.start(1) :]


def without_aside(sentence: str) -> str:
    """Remove a sentence's closing bracket or reason if the text before contains a digit.

    Examples:
        >>> without_aside("It is 22 m^2 (square metres)."), without_aside("He needs 8, because 8 * 6 = 48.")
        ('It is 22 m^2', 'He needs 8')
        >>> without_aside("It is 5 (or 6).")
        'It is 5 (or 6).'
    """
    may_have_aside = contains_any(sentence, ("(", "because", "since", " as "))
    aside = _ASIDE.search(sentence) if may_have_aside else None
    if aside is None:
        return sentence
    before = sentence[: aside.start()]
    has_number = any(map(str.isdigit, before))
    return before if has_number else sentence


def without_additions(text: str) -> str:
    """Remove what a text's end adds to its value.

    An addition is another amount, a rate or a restriction in a bracket, an approximation, a precision, a formula or a
    comment.

    Examples:
        >>> without_additions("So there are 160 students (20 per class)."), without_additions("12 (or 20 girls)")
        ('So there are 160 students', '12 (or 20 girls)')
        >>> without_additions("x + 1 (x ≠ 1)"), without_additions("5/6, or about 0.83.")
        ('x + 1', '5/6')
        >>> without_additions("Pi is 3.14 to 2 decimal places."), without_additions("It is 12, as required.")
        ('Pi is 3.14', 'It is 12')
        >>> without_additions("It is 40 using A = l * w."), without_additions("Area (A = lw): 40")
        ('It is 40', 'Area: 40')
    """
    text = _without_formula(text)
    other = _OTHER_AMOUNT.search(text) if "(" in text else None
    # An amount with a unit tells the value again: "120 km (75 miles)".
    if other and not any(map(is_unit, _WORDS.findall(other["other"]))):
        text = text[: other.end("unit")]
    for addition, parts in _ADDITIONS:
        if contains_any(text, parts):
            text = addition.sub("", text)
    return _without_comment(text)


def _without_formula(text: str) -> str:
    """Remove the formula in letters by which a text's end was worked out, and a formula in brackets in a label."""
    if "):" in text:
        text = _LABEL_FORMULA.sub("", text)
    if "=" not in text:
        return text
    used = _BY_FORMULA.search(text, max(0, len(text) - MAX_FORMULA))
    line = text[: used.start()].rpartition("\n")[2] if used else ""
    return text[: used.start()] if used and any(map(str.isdigit, line)) else text


def _without_comment(text: str) -> str:
    """Remove a clause in words at a text's end, unless its words change or doubt the number before it."""
    comment = _COMMENT.search(text)
    if comment is None or not any(map(str.isdigit, text[: comment.start()])):
        return text
    said = comment["said"] or ""
    # in thousands, in hours
    is_other = any(word in known_words("scaling") or is_unit(word) for word in said.split())
    return text if is_other or _CHANGES.search(said) else text[: comment.start()]


def _is_reason(sentence: str, before: str) -> bool:
    """Check whether an explanation calculates with a number of the line before it."""
    said = _NUMBER.findall(before.rstrip().rpartition("\n")[2])
    return bool(before.strip()) and (
        "=" not in sentence or not {*said}.isdisjoint(_NUMBER.findall(sentence))
    )


def _tells_new_letter(sentence: str, before: str) -> bool:
    """Check whether a sentence ends with the value of a letter that the text before gives no value."""
    told = _LETTER_VALUE.search(sentence)
    return told is not None and not re.search(rf"\b{told[1]}\s*=", before)


def _without_explanation(text: str) -> str:
    """Remove the explanation below an answer, unless it gives an answer itself."""
    explanation = _EXPLANATION.search(text)
    if explanation is None or _GIVES_ANSWER.search(explanation[0]):
        return text
    before = text[: explanation.start()]
    return before if _is_reason(explanation[0], before) else text


def without_sections(text: str) -> str:
    """Remove the sections at a text's end whose words below a heading neither tell nor change an answer.

    Examples:
        >>> [without_sections("12 fit.\\n### Note\\n" + said) for said in ("We added the two lengths.", "Or is it 5?")]
        ['12 fit.', '12 fit.\\n### Note\\nOr is it 5?']
    """
    kept = text
    for _ in range(MAX_SECTIONS):
        section = _SECTION.search(text, max(0, text.rfind("\n#") - 1))
        if section is None or _concludes(section["title"].strip("?"), section["said"]):
            break
        text = text[: section.start()].rstrip()
        if any(map(str.isdigit, text.rpartition("\n")[2])):
            kept = text
    return kept


def _concludes(title: str, said: str) -> bool:
    """Check whether a section may tell an answer, or change the answer before it."""
    told = in_digits(_NUMBERING.sub("", said.strip("\n")))
    texts = (title, _KNOWN_COUNT.sub("", told))
    return any(sign.search(text) for sign in (_TELLS, _CONCLUDES) for text in texts)


def without_check(text: str) -> str:
    """Remove the check below an answer: a label, and claims behind it that calculate with a number of the answer.

    Examples:
        >>> [without_check("He has 12." + rest) for rest in (" Check: 12 + 3 = 15.", " Check: 9 + 3 = 12.5.")]
        ['He has 12', 'He has 12. Check: 9 + 3 = 12.5.']
    """
    if not contains_any(text, ("check", "verif", "confirm", "proof")):
        return text
    for label in _CHECK.finditer(text, max(0, len(text) - MAX_CHECK)):
        start = label.start()
        before = text[max(0, start - MAX_CHECK) : start]
        if _is_check(text[label.end() :], before):
            return text[:start].rstrip().rstrip(".!")
    return text


def _is_check(said: str, before: str) -> bool:
    """Check whether one paragraph of claims is said below an answer, and nothing else that tells a value."""
    claimed, *behind = _PARAGRAPH.split(said.strip(" \n*_"))
    claims = []
    for part in _SENTENCES.split(_NUMBERING.sub("", claimed)):
        if any(map(str.isdigit, part)):
            claims.append(part)
    if any(map(str.isdigit, "".join(behind))) or not all(map(_CLAIM.search, claims)):
        return False
    turns = any(sign.search(said) for sign in (_GIVES_ANSWER, _FAILS, _LABELLED))
    is_open = turns or is_hedged(said) or _tells_new_letter(said, before)
    return not is_open and _is_reason(said, before)


def without_remarks(text: str) -> str:
    """Remove the remarks at the end of a text, unless nothing else is left.

    Examples:
        >>> without_remarks("So he has 12. Check: 12 + 3 = 15."), without_remarks("He has 9. (Indeed, 9 + 6 = 15.)")
        ('So he has 12', 'He has 9')
        >>> without_remarks("He has 12. This is because 3 * 4 = 12."), without_remarks("9\\nExplanation: He ate 3.")
        ('He has 12', '9')
        >>> without_remarks("So x = 4. Substituting, y = 7."), without_remarks("So x = 4. Substituting, 4 + 3 = 7.")
        ('So x = 4. Substituting, y = 7.', 'So x = 4')
        >>> without_remarks("So he has 12. Note that the answer is actually 31.")
        'So he has 12. Note that the answer is actually 31.'
    """
    text = without_check(_without_explanation(text))
    for stop in reversed(list(_SENTENCES.finditer(text))):
        before = text[: stop.start()]
        sentence = text[stop.end() :].lstrip()
        is_unreal = (
            contains_any(sentence, ("would", "could", "'d", "’d"))
            and _UNREAL.match(sentence)
            and any(map(str.isdigit, before))
        )
        begun = _BEGUN.match(sentence)
        is_remark = is_unreal or begun or _BRACKETED.fullmatch(sentence)
        told = sentence[begun.end() :] if begun else sentence
        # "instead" belongs to what would have been, or to the mistake
        if is_unreal or " instead of " in told:
            told = told.replace("instead", "")
        if _CHECK_BEGUN.match(sentence) and _FAILS.search(told):
            break
        if begun and _BECAUSE.match(sentence) and not _is_reason(sentence, before):
            break
        if (
            is_remark
            and not _GIVES_ANSWER.search(told)
            and not _tells_new_letter(told, before)
            and (is_unreal or not is_hedged(sentence))
        ):
            if not any(map(str.isalnum, before)):
                break
            text = before
        elif any(map(str.isdigit, sentence)):
            break
    return text
