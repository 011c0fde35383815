"""Find phrases that introduce an answer: "Answer: B", "the final answer is 5", GSM8K's "#### 42".

The phrases are English, except the usual endings of Chinese answers and the word for "answer" in some languages.

Each rule takes time linear in the length of the text: the search after a mark stops at the next mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from trl_grpo_ext.answers.find.marks import BESIDE, Mark
from trl_grpo_ext.answers.read.number_words import in_digits
from trl_grpo_ext.answers.read.signal_words import (
    CONDITION,
    CONTRAST,
    DENIAL,
    DOUBT,
    GUESS,
    SUMMING_UP,
    TURN,
    WRONG,
    any_of,
    contains_any,
)

# Marks that are examined, counted from the end of the text.
MAX_MARKS = 50
# Words of an answer that is marked by bold letters alone.
MAX_BOLD_WORDS = 4
# Characters at the end of a last line that are searched for the count of a list.
MAX_LINE = 500
_MARKUP = r"[*_` \t]{0,8}"
_ADVERB = r"(?:[ \t]*(?:therefore|thus|hence|clearly|indeed|definitely|simply|then)\b,?)?"
# The word for "answer" in other languages.
_ANSWER_ELSEWHERE = (
    "答案",
    "ответ",
    "antwort",
    "respuesta",
    "réponse",
    "resposta",
    "risposta",
)
# A deliberate mark: "Answer: B" on a line of its own, "final answer is B", GSM8K's "#### 42".
_FORMAL = re.compile(
    r"(?:^[ \t>*_#]*|(?<=[.!?;] ))(?:(?:the|my)[ \t]+)?(?:(?:final|correct|best)[ \t]+)?(?:answer|option|choice)"
    rf"{_MARKUP}(?:[:：=]|$){_MARKUP}"
    rf"|\b(?:(?:the|my)[ \t]+)?final[ \t]+answer{_MARKUP}(?:is\b|[:：=]){_ADVERB}{_MARKUP}:?"
    # Words with a text below are a heading: "#### Why this works".
    r"|(?<!#)####(?!#)(?!(?-i: [A-Z][a-z]*(?: [a-z]+){1,8})[?:]?[ \t]*\n\s*\S)[ \t]*(?=[^\s#])"
    rf"|^[ \t>*_#]*(?:{'|'.join(_ANSWER_ELSEWHERE)})[ \t*_]*[:：][ \t*_]*"
    r"|^[ \t>#]*\*\*(?=(?:yes|no|true|false)\b[^\w*\n]?\*\*)",
    re.IGNORECASE | re.MULTILINE,
)
# Every deliberate mark contains such a word; this cheap test avoids the slow expression.
_FORMAL_WORDS = (
    "answer",
    "option",
    "choice",
    "####",
    *_ANSWER_ELSEWHERE,
    "**yes",
    "**no",
    "**true",
    "**false",
)
_INFORMAL_WORDS = ("answer", "option", "choice", "答案", "故选")
# "This answer is reasonable" judges the answer before it.
_JUDGED = r"\s+(?:reasonable|plausible|verified|consistent|confirmed)\b"
# A sentence that states the answer: "so the correct answer is B".
_INFORMAL = re.compile(
    rf"\b(?:answer|(?:correct|right|best)[ \t]+(?:option|choice))(?:[ \t]+to[ \t][^\n.?!:]{{1,100}}?)?{_MARKUP}"
    rf"(?:is\b(?!{_JUDGED})|are\b|[:：=]|(?:should|must|would|will)[ \t]+be\b){_ADVERB}{_MARKUP}[:：]?{_MARKUP}"
    rf"|故选[:：]?|答案(?:应?[是为][:：]?|[:：]){_MARKUP}",
    re.IGNORECASE,
)
_AGAIN = re.compile(
    rf"(?:so,?[ \t]+)?(?:(?:the|my)[ \t]+)?(?:(?:final|correct|best)[ \t]+)?(?:{_INFORMAL.pattern})",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"(?:not|never|n't|neither|none)\b", re.IGNORECASE)
# "The wrong answer is 5", "another answer would be 5"
_OTHER = re.compile(
    rf"\b(?:{WRONG}|bad|worst|invalid|mistaken|erroneous|another|rejected|common|tempting|naive|previous"
    r"|student['’]s)[ \t]+$",
    re.IGNORECASE,
)
# "Let's check our answer: 15 * 18 = 270"
_CHECKED = re.compile(
    r"\b(?:check|verify|verif|confirm)(?:ing|ication)?[ \t]+(?:of[ \t]+)?(?:[a-z]+[ \t]+)?$",
    re.IGNORECASE,
)
_REACH = 20
_BETWEEN = re.compile(
    r"[\W_]*(?:so\b[\W_]*)?(?:(?:the|my|thus|therefore)\b[\W_]*)?", re.IGNORECASE
)
# Markup before an answer, and openings of formulas.
_NOTHING_YET = re.compile(r"(?:[*_`\s:]|\\[\[(]|\$\$)*")
# A list of at least two items, each on a line of its own.
_LIST = re.compile(r"\s*+((?:(?:[-*•‣]|\(?\d{1,3}[.)])[ \t]+[^\n]*+(?:\n\s*+|\Z)){2,})")
# A line ending in a colon, with text below it.
_ANNOUNCED = re.compile(r":[*_` \t]*\n\s*(?=\S)")
# Text below a list that says no more than what the list is: "These are all of them."
_OF_LIST = re.compile(r"\s*(?:(?:these|they|this|that|all)\b[^\n]*)?\s*\Z", re.IGNORECASE)
# Verbs between an introduction and its list, the surest kind first.
_LISTING_VERBS = (
    re.compile(r"\b(?:is|are|was|were)\b:?|:(?=\s)", re.IGNORECASE),
    re.compile(
        r"\b(?:includ(?:es?|ed|ing)|contain(?:s|ed)?|consist(?:s|ed)? of|compris(?:es?|ed)|mention(?:s|ed)?"
        r"|needs?|requires?|uses?|ha(?:s|ve|d))\b:?",
        re.IGNORECASE,
    ),
)
_JOINT = re.compile(r"[,;]|\band\b", re.IGNORECASE)
_ITEM_JOINT = re.compile(r",\s*(?:and\s+)?|\s+and\s+")
# The count of a list's items: "There are 3: 6, 12 and 18", "6 and 12, 2 in all", "6 and 12. That's 2 numbers."
_COUNT_BEFORE = re.compile(
    r"(?<![\w.,$-])(\d{1,2})((?:\s[A-Za-z-]+){0,5}[*_]*:[*_]*\s+)([^:]+)\Z"
)
_COUNT_BEHIND = re.compile(
    rf"(?:,\s+(\d{{1,2}})(?:\s[a-z]+){{0,3}}?\s(?:{SUMMING_UP})"
    r"|,\s+(?:for|making|giving)\s(?:a\stotal\sof\s)?(\d{1,2})(?:\s[a-z]+){0,3}"
    r"|[.;!]\s+(?:so\s+)?(?:that|this|there|these|they)(?:['’]s|\s[a-z]+)(?:\s[a-z]+){0,3}\s(\d{1,2})(?:\s[a-z]+){0,4}"
    r"|\s+[–—]\s+(\d{1,2})(?:\s[a-z]+){1,3}|\s*\((\d{1,2})(?:\s[a-z]+){1,3}\))[\s.!*_]*\Z",
    re.IGNORECASE,
)
# Words beside a list by which it is not, or not for sure, the answer.
_OPEN_LIST = any_of(
    f"{DENIAL}|{WRONG}|{GUESS}|{DOUBT}|{CONDITION}|{CONTRAST}|or|either|except|unsure|unlikely|likely|presumably",
    r"exclud\w+|reject\w+|eliminat\w+|discard\w+|ruled out|missing|absent",
)
# Words by which a sentence about a list changes it.
_CHANGES_LIST = any_of(f"{TURN}|only|also|first|last|plus|add\\w*|too|besides|another|more")
# An item's bullet or number, and its head before a description: "**Red**: warm", "Red - warm", "Red (warm)".
_BULLET = re.compile(r"(\s*)(?:[-*•‣]|\(?\d{1,3}[.)])\s+")
_BOLD_HEAD = re.compile(
    r"(\*\*|__)(?P<head>[^*_]{1,80}?):?\1(?P<sign>\s*):?\s*(?P<told>.*)"
)
_HEAD = re.compile(
    r"\*?(?P<head>[^*:()]{1,80}?)\*?(?P<sign>:(?=\s)|\s[-–—]{1,2}(?=\s)|—|\s\((?=[^()]*\)\W*$))\s*(?P<told>.*)"
)
# What makes an item's description a verdict on the item: "no", "not a colour", "maybe", "or blue".
_OPENS_VERDICT = re.compile(
    r"\s*(?:[/&]|,\s*\*\*)|\W*(?:(?:this|that|it|which)\s+)?(?:(?:is|are|was|were|has|have)\s+)?"
    rf"(?:not|never|nor|(?:no|neither)(?!\s\w)|(?:is|are|was|were)n['’]t|or|and|also|either|except|unsure|(?:un)?likely"
    rf"|presumably|{DOUBT}|{CONDITION}|{CONTRAST})\b",
    re.IGNORECASE,
)
_HAS_VERDICT = any_of(
    f"{WRONG}|{GUESS}|{TURN}|not sure|unsure",
    r"exclud\w+|reject\w+|eliminat\w+|discard\w+|ruled out",
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_BOLD = re.compile(r"\*\*([^*\n]{1,200})\*\*")
# A continuation after bold letters: more answers, a unit, or the rest of a formula.
_GOES_ON = re.compile(
    r"\s*(?:[,/%+*^=×\d]|[.-]\d|x\s|(?:\(\s*)?or\b|and\b|[^\W\d_]+\W*$)", re.IGNORECASE
)
_STOP = re.compile(r"(?<!\.)[.!?](?=[\s*_`\"')]|$)|。")
_CLAUSE = re.compile(r",?(?<!\s)\s+(?:because|since)\b|,\s+(?:which|so|as)\b")
# A formula of several lines.
_DISPLAY = re.compile(r"\s*\\begin\{((?:align|equation|gather)(?:ed)?\*?)\}")
_OTHER_MARK = re.compile(r"\\boxed|<answer", re.IGNORECASE)
_ABBREVIATIONS = frozenset(
    (
        "st",
        "dr",
        "mr",
        "ms",
        "mrs",
        "vs",
        "inc",
        "ltd",
        "jr",
        "sr",
        "mt",
        "ft",
        "prof",
        "gen",
    )
)
_INITIALS = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")


def formal(text: str) -> list[Mark]:
    """Find all deliberate marks with their answers: "Answer: B", "final answer is B", "#### 42".

    Examples:
        >>> [mark.content for mark in formal("Answer: 1. Hmm.\\nFinal answer: 3")], formal("The answer is 1.")
        (['1', '3'], [])
    """
    return _marks(_FORMAL, _FORMAL_WORDS, text)


def informal(text: str, begin: int = 0) -> list[Mark]:
    """Find the last sentence that states an answer, such as "the answer is 5"; ignore earlier sentences.

    A completion that reasons may correct itself.

    Args:
        text: A completion's text.
        begin: The index from which sentences are searched.

    Returns:
        A list with the mark, or an empty list.
    """
    marks = []
    for mark in map(_corrected, _marks(_INFORMAL, _INFORMAL_WORDS, text, begin)):
        before = text[max(0, mark.start - _REACH) : mark.start]
        label = text[mark.start : mark.start + _REACH]
        is_checked = ":" in label and _CHECKED.search(before)
        is_denied = _NEGATED.match(mark.content) or _OTHER.search(before) or is_checked
        if not is_denied and not _is_supposed(mark, text):
            marks.append(mark)
    return marks[-1:]


def _marks(
    pattern: re.Pattern[str], words: Sequence[str], text: str, begin: int = 0
) -> list[Mark]:
    """Find a pattern's marks with their answers.

    The search begins at the first line with one of `words`, since each match has such a word on its first line.
    """
    rest = text[begin:]
    if not contains_any(rest, words):
        return []
    for line in rest.split("\n"):
        if contains_any(line, words):
            break
        begin += len(line) + 1
    return _all_said(pattern.finditer(text, begin))


def _is_supposed(said: Mark, text: str) -> bool:
    """Check whether a mark answers a hypothetical case: "the answer would be 5 if Ann stays"."""
    return " if " in said.content and "would be" in text[said.start : said.end]


def _corrected(said: Mark) -> Mark:
    """Replace a denied answer of a mark by its correction: "not 7 but 12" gives `12`."""
    denied, _, meant = said.content.rpartition(" but ")
    return said._replace(content=meant) if _NEGATED.match(denied) else said


def without_mark(content: str) -> str:
    """Remove a phrase from the start of another mark's content: `<answer>The answer is 5.</answer>` gives `5`."""
    mark = _AGAIN.match(content.strip())
    if mark is None:
        return content
    said = _said(mark, len(mark.string))
    return said.content if said else content


def _all_said(marks: Iterable[re.Match[str]]) -> list[Mark]:
    """Return each mark's answer: text up to the next mark."""
    found = list(marks)[-MAX_MARKS:]
    answers = []
    for place, mark in enumerate(found):
        is_last = place + 1 == len(found)
        end = len(mark.string) if is_last else found[place + 1].start()
        # "Final answer: The final answer is B" has two marks of one answer.
        if not is_last and _BETWEEN.fullmatch(mark.string, mark.end(), end):
            continue
        answer = _said(mark, end)
        if answer:
            answers.append(answer)
    return answers


def _said(mark: re.Match[str], end: int) -> Mark | None:
    """Return the first sentence after a mark, from the mark's line or else from the next line with text.

    A bulleted list right after the mark is returned whole. None if a box or an `<answer>` tag follows: other rules read
    these.
    """
    text = mark.string
    start = mark.end()
    stop = _line_end(text, start, end)
    if stop < end and _NOTHING_YET.fullmatch(text, start, stop):
        listed = _LIST.match(text, stop, end)
        if listed and not _OTHER_MARK.search(listed[1]):
            return Mark(mark.start(), listed.end(), listed[1].strip().rstrip("."))
        start = _NOTHING_YET.match(text, start, end).end()  # type: ignore[union-attr]  # it matches nothing as well
        stop = _line_end(text, start, end)
    if _OTHER_MARK.search(text, start, stop):
        return None
    display = _DISPLAY.match(text, start, stop)
    closed = text.find(rf"\end{{{display[1]}}}", stop, end) if display else -1
    if display and closed >= 0:
        return Mark(mark.start(), closed, text[display.end() : closed].strip())
    # "The sum is:" announces the answer on a later line.
    if text[start:stop].rstrip("*_` \t\r").endswith(":") and not text[start:stop].isspace():
        begin = _NOTHING_YET.match(text, stop, end).end()  # type: ignore[union-attr]
        if begin < end:
            start = begin
            stop = _line_end(text, begin, end)
            if _OTHER_MARK.search(text, start, stop):
                return None
    line = text[start:stop].rstrip("*_` \t\r:")
    stop = start + len(line)
    start = stop - len(line.lstrip("*_` \t\r:"))
    # "Final answer: The answer is B"
    again = _AGAIN.match(text, start, stop)
    start = again.end() if again else start
    stop = _sentence_end(text, start, _emphasis_end(text, start, stop))
    content = text[start:stop]
    if _is_bold(text, start):
        content = content.replace("**", "")
    return Mark(mark.start(), stop, unmarked(content))


def _is_bold(text: str, at: int) -> bool:
    """Check whether bold letters are open at an index, within its line."""
    line_start = text.rfind("\n", 0, at) + 1
    return text.count("**", line_start, at) % 2 == 1


def _emphasis_end(text: str, start: int, end: int) -> int:
    """Find the end of bold letters that are open at `start`: `The answer is **no**: there is none`.

    Returns `end` if no bold letters are open, or if the answer continues after them: `**4** km`, `**A** or **B**`.
    """
    if not _is_bold(text, start):
        return end
    closed = text.find("**", start, end)
    if closed <= start:
        return end
    behind = closed + len("**")
    rest = text[behind : _sentence_end(text, behind, end)]
    is_short = len(_WORD.findall(rest)) <= MAX_BOLD_WORDS or "**" in rest
    if is_short and _GOES_ON.match(rest):
        return end
    return closed


def emphasised(text: str) -> list[Mark]:
    """Find bold letters at the end of a text: `the time is **14:05**`; several joined by "or" form one mark.

    Examples:
        >>> emphasised("It is **1**. No.\\nIt is **2** or **3**.")[0].content, emphasised("**1** each")
        ('2 or 3', [])
    """
    begin = text.rstrip().rfind("\n") + 1
    found = list(_BOLD.finditer(text, begin))[-MAX_MARKS:]
    if not found:
        return []
    end = found[-1].end()
    # Words behind the bold letters go on, so that the bold letters conclude nothing.
    if any(map(str.isalnum, text[end:])):
        return []
    first = len(found) - 1
    while first and BESIDE.fullmatch(text, found[first - 1].end(), found[first].start()):
        first -= 1
    start = found[first].start()
    content = text[start:end].replace("**", "")
    if len(_WORD.findall(content)) > MAX_BOLD_WORDS:
        return []
    return [Mark(start, end, content)]


def concluding_list(text: str) -> str:
    """Return the list that the end of a text introduces: lines below a colon, or one side of the last sentence's verb.

    Empty without an introduction, or if the words around the list deny or doubt it.

    Examples:
        >>> concluding_list("The ingredients are:\\n- flour\\n- eggs\\nThat is all.")
        '- flour\\n- eggs'
        >>> concluding_list("Look again. The ingredients are flour and eggs.")
        'flour and eggs.'
        >>> concluding_list("8, 12 and 20 are even."), concluding_list("The colours are not red, blue.")
        ('8, 12 and 20', '')
    """
    for colon in list(_ANNOUNCED.finditer(text))[-1:]:
        line = text[text.rfind("\n", 0, colon.start()) + 1 : colon.start()]
        below = _listed_below(text[colon.end() :])
        if below:
            return "" if is_open_list(line) else below
    return _bulleted(text) or _introduced(_last_sentence(text))


def is_open_list(beside: str) -> bool:
    """Check whether the words beside a list deny or doubt it."""
    return _OPEN_LIST.search(beside) is not None


def without_count(text: str, golds: Sequence[str]) -> str:
    """Remove the count of a closing list's items from a text's last line, if the golds are lists.

    Examples:
        >>> without_count("There are three: 6, 12 and 18.", ["6, 12, 18"])
        'There are: 6, 12 and 18.'
        >>> without_count("The numbers are 6, 12 and 18, three in all.", ["6, 12, 18"])
        'The numbers are 6, 12 and 18'
        >>> without_count("The numbers are 6 and 12. That's three.", ["6, 12, 18"])
        "The numbers are 6 and 12. That's three."
    """
    if any(_items(gold) < 2 for gold in golds):
        return text
    before, ending, line = text.rstrip().rpartition("\n")
    told = in_digits(line[-MAX_LINE:])
    shorter = _without_count_behind(told) or _without_count_before(told)
    return before + ending + line[:-MAX_LINE] + shorter if shorter else text


def _without_count_behind(line: str) -> str:
    """Return the line before the count of its list; empty without such a count."""
    counted = _COUNT_BEHIND.search(line)
    if counted is None or is_open_list(counted[0]):
        return ""
    before = line[: counted.start()]
    sides = _LISTING_VERBS[0].split(_last_sentence(before))
    count = int(next(filter(None, counted.groups())))
    return before if count in map(_items, sides) else ""


def _without_count_before(line: str) -> str:
    """Return a line without the count that introduces its list; empty without such a count."""
    counted = _COUNT_BEFORE.search(line)
    if counted is None or is_open_list(line):
        return ""
    count, words, listed = counted.groups()
    is_of_list = _items(listed) == int(count)
    return line[: counted.start()].rstrip() + words + listed if is_of_list else ""


def _items(listed: str) -> int:
    """Count the items that commas and "and" join."""
    return len(_ITEM_JOINT.split(listed))


def described_items(listed: str) -> list[tuple[str, str]]:
    r"""Split each item of a bulleted list into head and description, if all descriptions have one form.

    An item stands in bold letters, or before a colon, a dash or a bracket. Lines with a deeper bullet describe the item
    above. Empty for other lists, and if a description denies or doubts its item.

    Examples:
        >>> described_items("- Red: warm\n- Blue: cool"), described_items("1. **Red** (warm)\n2. **Blue** - cool")
        ([('Red', 'warm'), ('Blue', 'cool')], [('Red', '(warm)'), ('Blue', '- cool')])
        >>> described_items("- Red: warm\n- Blue"), described_items("- Red: yes\n- Blue: no")
        ([], [])
    """
    items = _items_with_notes(listed)
    described = _split_items(items, _BOLD_HEAD) or _split_items(items, _HEAD) or items
    is_open = any(_is_verdict(told) for _, told in described)
    return [] if is_open else described


def _split_items(
    items: Sequence[tuple[str, str]], form: re.Pattern[str]
) -> list[tuple[str, str]]:
    """Split each item into its head and its description; empty unless all items have the form and one sign."""
    found = [(form.match(item), notes) for item, notes in items]
    described = [
        (head["head"].strip(), f"{head['told']} {notes}".strip())
        for head, notes in found
        if head
    ]
    signs = {head["sign"].strip() for head, _ in found if head}
    return described if len(described) == len(items) and len(signs) == 1 else []


def _items_with_notes(listed: str) -> list[tuple[str, str]]:
    """Return a bulleted list's items, each with the text below it that has deeper bullets; empty for other texts."""
    lines = [line for line in listed.rstrip().split("\n") if line.strip()]
    bullets = [_BULLET.match(line) for line in lines]
    if len(lines) < 2 or not all(bullets):
        return []
    # The first line may have lost its indentation.
    depths = [0, *(len(bullet[1]) for bullet in bullets[1:] if bullet)]
    outer = min(depths[1:])
    items: list[tuple[str, str]] = []
    for line, depth in zip(lines, depths, strict=True):
        said = _BULLET.sub("", line, count=1).strip()
        if depth <= outer:
            items.append((said, ""))
        else:
            item, notes = items[-1]
            items[-1] = (item, f"{notes} {said}")
    return items


def _is_verdict(told: str) -> bool:
    """Check whether an item's description is empty, or denies or doubts the item."""
    if not any(map(str.isalnum, told)) or "?" in told:
        return True
    return bool(_OPENS_VERDICT.match(told) or _HAS_VERDICT.search(told))


def has_listing_verb(text: str) -> bool:
    """Check whether a text has a colon or a verb that may introduce a list."""
    return any(verbs.search(text) for verbs in _LISTING_VERBS)


def _listed_below(text: str) -> str:
    """Return the list below a line with a colon: bullets, or all lines unless they are sentences."""
    if _LIST.match(text):
        return _bulleted(text)
    *before, _ = text.strip().split("\n")
    has_sentence = any(_STOP.search(line) or ":" in line for line in before)
    return "" if has_sentence or is_open_list(text) else text.strip()


def _bulleted(text: str) -> str:
    """Return the bulleted list that begins a text if only a sentence about it follows."""
    listed = _LIST.match(text)
    if listed is None:
        return ""
    rest = text[listed.end() :]
    is_changed = is_open_list(rest) or _CHANGES_LIST.search(rest)
    return listed[1].strip() if _OF_LIST.match(rest) and not is_changed else ""


def _introduced(sentence: str) -> str:
    """Return the side of a sentence's verb that lists something; of two lists the one behind it."""
    if is_open_list(sentence):
        return ""
    for verbs in _LISTING_VERBS:
        verb = verbs.search(sentence)
        if verb is None:
            continue
        before = sentence[: verb.start()].strip()
        behind = sentence[verb.end() :].strip()
        if " and " in before and not _JOINT.search(behind):
            return before
        # "as follows: red, blue"
        opening, _, rest = behind.partition(": ")
        if before and behind:
            return behind if _JOINT.search(opening) else rest or behind
    return ""


def _last_sentence(text: str) -> str:
    """Return a text's last sentence with letters or digits, within its last line."""
    text = text.strip()
    start = text.rfind("\n") + 1
    stops = [stop.start() for stop in _STOP.finditer(text, start)]
    for at in reversed(stops):
        is_inside = any(map(str.isalnum, text[at : at + _REACH]))
        if is_inside and _ends_sentence(text[max(start, at - 40) : at]):
            return text[at + 1 :].strip()
    return text[start:]


def _line_end(text: str, start: int, end: int) -> int:
    found = text.find("\n", start, end)
    if found < 0:
        return end
    return found


def _sentence_end(text: str, start: int, end: int) -> int:
    clause = _CLAUSE.search(text, start, end)
    if clause:
        end = clause.start()
    for stop in _STOP.finditer(text, start, end):
        at = stop.start()
        # The last word is enough to tell an abbreviation.
        before = text[max(start, at - 40) : at]
        if _ends_sentence(before):
            return at
    return end


def _ends_sentence(before: str) -> bool:
    """Check whether a full stop after `before` ends a sentence, not an abbreviation or an initial: `St.`, `J.`, `U.S.`.

    An option's letter counts as an initial: the option's text follows it.
    """
    word = before.rpartition(" ")[2].lstrip("*_`(\"'")
    is_letter = len(word) == 1 and word.isalpha()
    if is_letter or word.casefold() in _ABBREVIATIONS:
        return False
    return bool(word) and not _INITIALS.fullmatch(word)


def unmarked(line: str) -> str:
    """Remove enclosing Markdown and the final full stop from a text.

    Examples:
        >>> [unmarked(line) for line in ("**Paris**.", "Paris**", "2 * 3")]
        ['Paris', 'Paris', '2 * 3']
    """
    line = line.strip().rstrip(".。").strip()
    for mark in ("**", "__", "`", "*"):
        if len(line) > 2 * len(mark) and line.startswith(mark) and line.endswith(mark):
            line = line[len(mark) : -len(mark)].strip()
        # The other half of the mark stands before the phrase, or after the sentence.
        elif line.count(mark) == 1:
            line = line.removeprefix(mark).removesuffix(mark).strip()
    return line.rstrip(".").strip()
