"""Adapt found answers to known golds: decimal commas, options, several values or boxes, words beside a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile

from trl_grpo_ext.answers.find.asked import OF_REST, question_of
from trl_grpo_ext.answers.find.asked_values import stems
from trl_grpo_ext.answers.find.conclusions import Span, conclusion
from trl_grpo_ext.answers.find.final_answer import FinalAnswer, after_thinking
from trl_grpo_ext.answers.find.hedges import is_hedged
from trl_grpo_ext.answers.find.last_sentence import (
    MAX_SAID,
    answer_of,
    ending,
    last_sentence,
    without_bold,
)
from trl_grpo_ext.answers.find.marks import box_answers
from trl_grpo_ext.answers.find.named_values import (
    with_labelled_lines,
    with_named_values,
)
from trl_grpo_ext.answers.find.names import (
    with_listed_words,
    with_name,
    with_name_and_amount,
    without_figure,
)
from trl_grpo_ext.answers.find.options import with_letter, with_option_texts
from trl_grpo_ext.answers.find.phrases import is_open_list
from trl_grpo_ext.answers.find.rejections import without_rejections
from trl_grpo_ext.answers.find.sentences import MAX_PROMPT, without_repeated
from trl_grpo_ext.answers.find.values import last_value, listed_values, said_values
from trl_grpo_ext.answers.find.yes_no import with_leading_yes_or_no, with_yes_or_no
from trl_grpo_ext.answers.read.answer import MAX_CHARS, read
from trl_grpo_ext.answers.read.number_words import in_digits
from trl_grpo_ext.answers.read.outcomes import outcome_of
from trl_grpo_ext.answers.read.signal_words import (
    CONTRAST,
    DENIAL,
    DOUBT,
    TURN,
    any_of,
)
from trl_grpo_ext.answers.read.spelling import without_text_commands
from trl_grpo_ext.answers.read.tree import (
    Apply,
    Collection,
    Logic,
    Number,
    Quantity,
    Range,
    Relation,
    Remainder,
)
from trl_grpo_ext.answers.read.units import is_unit
from trl_grpo_ext.answers.steps import case_values

# A rule takes the found answer, the golds, the completion and the prompt.
_Rule = Callable[[FinalAnswer, Sequence[str], str, str], FinalAnswer]
_THOUSAND = 1000
# 3,75: a decimal comma, because thousands have three digits.
_COMMA = re.compile(r"^([^\d,]*\d+),(\d{1,2}(?!\d)|\d{4,})(?=[^\d,]*$)")
# 12.500
_POINTS = re.compile(r"^[^\d,.]*\d{1,3}(?:\.\d{3})+(?=[^\d,.]*$)")
# A word or an alphabet of a language that writes decimals with a comma.
_OF_COMMAS = re.compile(
    r"[\u0400-\u04ff]|\d,\d\d\s*€|\b(?:insgesamt|ergibt|beträgt|sind|eine|ist|und|der|das|est|les|une|donc|soit|los|las|una|por|es|il|che|sono|uma|são|het|een|jest)\b",
    re.IGNORECASE,
)
# The repeated name of "either x is 0 or x is 5".
_OR_NAMED = re.compile(r"\s+or\s+[a-z]\s+(?:is|equals)\s+")
_NAMED = re.compile(r"\b([A-Za-z])\s*=\s*(?=[-−\d])")
_BULLET = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+(?=\S)")
# "2/5 * 60 = " before its result
_CALCULATION = re.compile(
    r"(?<![\w.,)])[\d($](?=[^=]{0,40}[-−+*/×÷(])[\d.,()$\s*/×÷+−-]{1,60}(?<=[\d)])\s?=\s?(?=\$?\d)"
)
# Words that tell the ends of a range, the lower end first.
_LOW_TO_HIGH = re.compile(
    r"\b(?:from|between|(?:at )?(?:the )?(?:least|lowest|minimum|smallest)|no less than)\b.*\d.*"
    r"\b(?:to|and|(?:at )?(?:the )?(?:most|highest|maximum|largest)|no more than|up to)\b"
    r"|\d.*\bat (?:the )?least\b.*\d.*\bat (?:the )?most\b",
    re.IGNORECASE,
)
_UNIT_OF = re.compile(r"\s*([^\W\d_]+|°[CF])")
_ORDINAL = re.compile(r"\b\d+(?:st|nd|rd|th)\b")
_NOTHING = re.compile(
    r"\b(?:nothing|none|no (?!idea|doubt|answer|information|way)[a-z]+)\b"
    r"(?!\s+(?:but|except))[^.,;\d]*\b(?:left|remains?|over)\b[^\d]*$"
    r"|\b(?:no|without(?: a)?|zero) remainder\b[^\d]*$",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(r"\bhow many\b", re.IGNORECASE)
# "There are none", "It has no real solutions"
_NONE = re.compile(
    r"\b(?:none(?:\s+of\s+(?:them|these|those|the)\b)?|no\s+(?!one\b)((?:[a-z]+\s+){0,2}[a-z]+))\b[^\d?]*$",
    re.IGNORECASE,
)
# "None of them", "no apples"
_NONE_ALONE = re.compile(
    r"\W*(?:none(?:\s(?:of\s(?:them|these|those)|left|remain(?:s|ing)?))?|no\s([a-z]+))\W*",
    re.IGNORECASE,
)
_SEVERAL = re.compile(" or | and |,")
# Distinguishing words of a gold that the reader takes for a time of day or for counted things.
_TELLING = frozenset(("loss", "losses", "gains", "profits"))
_WORD = re.compile(r"[^\W\d_]+")
# The first value or its name is denied: "It is not Jack 12, Jill 24".
_DENIES_FIRST = re.compile(
    r"[^\d,;]{0,80}?(?:n['’]t|\b(?:not|never))\s(?!only\b|just\b)(?:[^\W\d_]+:?\s){0,2}[^\w,;]{0,3}\d",
    re.IGNORECASE,
)
# Up to three words behind an answer, unless a word such as "of" or "because" begins them.
_BEHIND = re.compile(
    r"[\s*$)}]{0,4}(?<![\w.])(?!(?:an?|and|are|as|at|because|but|by|each|every|for|from|if|in|is|it|of|on|or|per|since|so"
    r"|that|the|this|to|total|was|when|where|which|while|with)\b)((?:[^\W\d_]+\s?){1,3})"
)
_ENDS_LINE = re.compile(r"[\s$.,;*)\\\]]*(?:\n|$)")
_DOUBTED = any_of(DOUBT)
_CORRECTED = any_of(TURN, CONTRAST, DENIAL, r"check|correct\w*")
# A name or a month that does not begin the sentence.
_BEFORE = re.compile(r"(?<=[\w,]\s)([A-Z][a-z]+)\s[*$(]{0,3}$")


def with_known_golds(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str = ""
) -> FinalAnswer:
    """Take an answer of a kind that only the golds tell: yes or no, a name, several values, a rank, nothing left.

    The first rule that applies wins. Only an answer without a mark, or after a phrase, is replaced.

    Examples:
        >>> with_known_golds(FinalAnswer(problem="hedged"), ["2, 5"], "So x must be either two or 5.").answers
        ('2 or 5',)
        >>> with_known_golds(answer_of("$20"), ["10, 20"], "Ann gets $10 and Ben gets $20.").answers
        ('(10, 20)',)
        >>> with_known_golds(answer_of("1789"), ["18th"], "1789 is in the 18th century.").answers
        ('18th',)
    """
    text = (after_thinking(completion) or "").strip().removesuffix(".")
    if text in golds:
        return FinalAnswer((text,), ("whole_text",))
    known = _by_first(_RULES_OF_ALL, found, golds, completion, prompt)
    if known:
        return known
    marks = {*found.marks}
    if marks & {"phrase", "boxed", "answer_tag"}:
        found = with_leading_yes_or_no(found, golds, completion, prompt)
    if found.problem not in ("", "no_answer", "hedged") or marks & {"boxed", "answer_tag"}:
        return found
    rules: Sequence[_Rule] = _RULES
    if "phrase" in marks:
        rules = _RULES_OF_MARKED
    elif "emphasised" in marks:
        rules = _RULES_OF_EMPHASISED
    known = _by_first(rules, found, golds, completion, prompt)
    if known:
        return known
    # The gold itself may stand after the phrase: "The answer is 5 red, 3 blue".
    last = text.rpartition(" answer is ")[2]
    if last in golds and marks == {"phrase"} and found.answers[0] in last:
        return replace(found, answers=(last,))
    return found


def _by_first(
    rules: Sequence[_Rule],
    found: FinalAnswer,
    golds: Sequence[str],
    completion: str,
    prompt: str,
) -> FinalAnswer | None:
    """Return the answer by the first rule that applies; None if none does."""
    for rule in rules:
        known = rule(found, golds, completion, prompt)
        # A rule that does not apply returns the answer that it was given.
        if known is not found:
            return known
    return None


def _with_alternatives(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    """Take all values of "x is 2 or 5" if each gold has several values: then "or" leaves nothing open."""
    if found.problem != "hedged" or not all(map(_has_several, golds)):
        return found
    sentence = _OR_NAMED.sub(" or ", in_digits(last_sentence(ending(completion))))
    value = last_value(sentence)
    if " or " not in value or is_hedged(
        sentence.replace(value, "it").replace("either ", "")
    ):
        return found
    return answer_of(value)


def _with_cases(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    """Take the solutions that a completion tells case by case, if each gold has several."""
    if not all(map(_has_several, golds)):
        return found
    text = (after_thinking(completion) or "")[-MAX_CHARS:]
    # A candidate that is rejected is no solution.
    if without_rejections(text) != text:
        return found
    told = case_values(ending(completion))
    return answer_of(", ".join(told)) if told else found


def _with_all_values(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    """Take a sentence's values in order if a gold has equally many: `Ann gets $10 and Ben gets $20`."""
    sizes = _list_sizes(golds)
    is_open = found.problem == "hedged" or "whole_text" in found.marks
    if not sizes or is_open:
        return found
    known = in_digits(prompt[-MAX_PROMPT:])
    if any(_SEVERAL.search(answer) and answer not in known for answer in found.answers):
        return found
    sentence = _worked_out(last_sentence(ending(completion)))
    runs = []
    for run in listed_values(sentence):
        if len(run) in sizes and not _SEVERAL.search(run[0]):
            runs.append(run)
    # A list of values from the question is no answer beside a list with new values.
    new_runs = [run for run in runs if not all(value in known for value in run)]
    runs = new_runs or runs
    if len(runs) == 1 and not is_hedged(sentence):
        return answer_of(", ".join(runs[0]))
    values = said_values(sentence)
    is_denied = _DENIES_FIRST.match(sentence) is not None
    if len(values) not in sizes or is_hedged(sentence) or is_denied:
        return found
    if "emphasised" in found.marks and _DOUBTED.search(sentence):
        return found
    sentence_names = _NAMED.findall(sentence)
    is_of_one_name = len(sentence_names) == len(values) and len(set(sentence_names)) == 1
    if is_of_one_name or all("=" in value for value in values):
        return answer_of(", ".join(values))
    amounts = [value.strip("$") for value in values]
    return answer_of(f"({', '.join(amounts)})")


def _with_item_values(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    """Take the values of a closing list in order, one of each item: "- Ann gets $10" and "- Ben gets $20"."""
    sizes = _list_sizes(golds)
    if not sizes:
        return found
    lines = without_bold(ending(completion)[-MAX_SAID:]).strip().splitlines()
    items = [_BULLET.sub("", line) for line in takewhile(_BULLET.match, reversed(lines))]
    before = "".join(lines[: -len(items)][-1:])
    if len(items) not in sizes or any(map(is_hedged, items)) or is_open_list(before):
        return found
    values = []
    for item in reversed(items):
        told = said_values(_worked_out(item))
        if len(told) != 1 or _DENIES_FIRST.match(item):
            return found
        values.append(told[0].strip("$"))
    return answer_of(f"({', '.join(values)})")


def _worked_out(text: str) -> str:
    """Remove the calculations before their results: `Ann gets 24` for "Ann gets 2/5 * 60 = 24"."""
    return _CALCULATION.sub("", in_digits(text))


def _with_range(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    """Join two bounds into a range for range golds: "at least 40, at most 50 minutes" gives `40 to 50 minutes`."""
    if not all(isinstance(read(gold).node, Range) for gold in golds):
        return found
    sentence = in_digits(last_sentence(ending(completion)))
    values = said_values(sentence)
    has_range = any(isinstance(read(value).node, Range) for value in values)
    if (
        has_range
        or len(values) != 2
        or not _LOW_TO_HIGH.search(sentence)
        or is_hedged(sentence)
    ):
        return found
    low, high = values
    bounds = f"{low} to {high}"
    unit = _UNIT_OF.search(sentence, sentence.rfind(high) + len(high))
    if unit and is_unit(unit[1]):
        return answer_of(f"{bounds} {unit[1]}")
    return answer_of(bounds)


def _with_remainder(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    """Take the two values of "8 packs can be filled and 3 cans remain" if each gold is a quotient with remainder."""
    if not all(isinstance(read(gold).node, Remainder) for gold in golds):
        return found
    sentence = in_digits(last_sentence(ending(completion)))
    values = said_values(sentence)
    if len(values) != 2 or is_hedged(sentence):
        return found
    quotient, rest = values
    start = sentence.rfind(rest)
    # The sentence calls only the second value a remainder.
    if OF_REST.search(sentence, 0, start) or not OF_REST.search(sentence, start):
        return found
    return answer_of(f"{quotient} remainder {rest}")


def _with_rank(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    """Take the last sentence's only ordinal if each gold is an ordinal: `1789 falls in the 18th century`."""
    if not all(map(_ORDINAL.fullmatch, golds)):
        return found
    sentence = without_repeated(in_digits(last_sentence(ending(completion))), prompt)
    ranks = [Span(*rank.span()) for rank in _ORDINAL.finditer(sentence)]
    if len(ranks) != 1 or is_hedged(sentence) or conclusion(sentence, ranks).problem:
        return found
    return answer_of(sentence[slice(*ranks[0])])


def _with_zero(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    """Take 0 as answer if each gold is 0 and the last clause says that nothing is left, or none of what is asked."""
    question = question_of(prompt)
    if not all(gold == "0" for gold in golds):
        return found
    sentence = last_sentence(ending(completion))
    if OF_REST.search(question) and _NOTHING.search(sentence):
        return answer_of("0")
    none = _NONE.search(sentence[-MAX_SAID:])
    if none is None or not _HOW_MANY.search(question) or is_hedged(sentence):
        return found
    is_of_question = not none[1] or bool(stems(none[1]) & stems(question))
    return answer_of("0") if is_of_question else found


def _with_marked_zero(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    """Take 0 as answer if each gold is 0, a count is asked, and the only marked answer is "none" or "no apples"."""
    if len(found.answers) != 1 or not all(gold == "0" for gold in golds):
        return found
    none = _NONE_ALONE.fullmatch(without_text_commands(found.answers[0]))
    if none is None or not _HOW_MANY.search(question_of(prompt)):
        return found
    is_of_question = not none[1] or bool(stems(none[1]) & stems(question_of(prompt)))
    return replace(found, answers=("0",)) if is_of_question else found


def _with_outcome(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    """Take the outcome that the last sentence states if each gold is an outcome: "The limit does not exist"."""
    outcomes = {outcome_of(gold) for gold in golds}
    if "" in outcomes:
        return found
    sentence = last_sentence(ending(completion))
    outcome = outcome_of(sentence[-MAX_SAID:])
    return answer_of(outcome) if outcome and not is_hedged(sentence) else found


_RULES_OF_ALL = (with_listed_words, with_name_and_amount, _with_marked_zero)
_RULES_OF_MARKED = (_with_outcome, with_named_values, with_labelled_lines, with_name)
# A sentence in bold letters may say yes or no in words.
_RULES_OF_EMPHASISED = (
    with_yes_or_no,
    _with_cases,
    *_RULES_OF_MARKED,
    _with_all_values,
    _with_item_values,
)
_RULES = (
    with_letter,
    with_yes_or_no,
    _with_cases,
    *_RULES_OF_MARKED,
    _with_alternatives,
    _with_range,
    _with_remainder,
    _with_all_values,
    _with_item_values,
    _with_rank,
    _with_zero,
)


def _list_sizes(golds: Sequence[str]) -> set[int]:
    """Return the numbers of values of the golds that list several."""
    nodes = [read(gold).node for gold in golds]
    return {
        len(node.items) for node in nodes if isinstance(node, Collection) and _is_list(node)
    }


def _is_list(node: Collection) -> bool:
    return node.kind in ("list", "()") and all(
        isinstance(one, Number | Quantity | Relation) for one in node.items
    )


def _has_several(gold: str) -> bool:
    match read(gold).node:
        case Collection("list" | "{}", (_, _, *_)) | Logic("or", _) | Apply("+-", _):
            return True
    return False


def with_surroundings(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    r"""Read an answer with the text around it: its language, the question's options, other boxes, words beside it.

    Examples:
        >>> with_surroundings(FinalAnswer(("3,75",), ("text",)), ["15/4"], "L'aire est 3,75", "").answers
        ('3.75',)
        >>> with_surroundings(FinalAnswer(("(B)",), ("boxed",)), ["2"], "", "Which is prime? (A) 1 (B) 2").answers
        ('2',)
        >>> said = "The minimum is \\boxed{2}.\nThe maximum is \\boxed{7}."
        >>> with_surroundings(FinalAnswer(("7",), ("boxed",)), ["2, 7"], said, "").answers
        ('2, 7',)
        >>> with_surroundings(FinalAnswer(("20%",), ("phrase",)), ["20% loss"], "It is a 20% profit.", "").answers
        ('20% profit',)
    """
    found = with_option_texts(
        _with_points(found, golds, f"{prompt} {completion}"), golds, prompt
    )
    found = _without_figures(found, golds)
    if all(map(outcome_of, golds)):
        told = (outcome_of(without_text_commands(one)) or one for one in found.answers)
        found = replace(found, answers=tuple(told))
    return _with_words(_with_parts(found, golds, completion), golds, completion)


def _without_figures(found: FinalAnswer, golds: Sequence[str]) -> FinalAnswer:
    r"""Remove the figure behind a name that is marked, if each gold is a name: `\boxed{\text{Bob (13.8 s)}}`."""
    is_marked = {*found.marks} & {"boxed", "answer_tag", "emphasised"}
    if not is_marked or any(any(map(str.isdigit, gold)) for gold in golds):
        return found
    answers = []
    for answer in found.answers:
        texts = {without_figure(without_text_commands(answer), gold) for gold in golds}
        answers.append(texts.pop() if len(texts) == 1 else answer)
    return replace(found, answers=tuple(answers))


def _with_points(found: FinalAnswer, golds: Sequence[str], text: str) -> FinalAnswer:
    """Replace decimal commas by points if all golds are numbers and the text's language writes decimal commas.

    If all golds are at least 1000, remove points between thousands.
    """
    has_signs = any(
        _COMMA.search(answer) or _POINTS.search(answer) for answer in found.answers
    )
    if not has_signs or not _OF_COMMAS.search(text):
        return found
    are_large = True
    for gold in golds:
        node = read(gold).node
        number = node.amount if isinstance(node, Quantity) else node
        if not isinstance(number, Number):
            return found
        are_large = are_large and abs(number.value) >= _THOUSAND
    answers = [_COMMA.sub(r"\1.\2", answer) for answer in found.answers]
    if are_large:
        answers = [
            _POINTS.sub(lambda point: point[0].replace(".", ""), answer)
            for answer in answers
        ]
    return replace(found, answers=tuple(answers))


def _with_parts(found: FinalAnswer, golds: Sequence[str], text: str) -> FinalAnswer:
    r"""Join all boxes that end lines if a gold has equally many parts and no box is corrected."""
    nodes = [read(gold).node for gold in golds]
    sizes = {len(node.items) for node in nodes if isinstance(node, Collection)}
    if not sizes or found.marks != ("boxed",):
        return found
    said = after_thinking(text) or ""
    boxed = box_answers(said)
    if len(boxed) < 2 or len(boxed) not in sizes:
        return found
    if _CORRECTED.search(said, boxed[0].end):
        return found
    if not all(_ENDS_LINE.match(said, box.end) for box in boxed):
        return found
    return replace(found, answers=(", ".join(box.content for box in boxed),))


def _with_words(found: FinalAnswer, golds: Sequence[str], text: str) -> FinalAnswer:
    """Add the words beside an answer if the gold has distinguishing words that the answer's line lacks."""
    telling = set(_TELLING)
    for gold in golds:
        telling |= read(gold).stray
    own = _words(" ".join(golds)) & telling
    is_marked = {*found.marks} & {"boxed", "answer_tag", "whole_text"}
    if (
        is_marked
        or len(found.answers) != 1
        or not own
        or not any(map(str.isdigit, golds[0]))
    ):
        return found
    answer = found.answers[0]
    at = text.rfind(answer)
    if at < 0:
        return found
    begin = text.rfind("\n", 0, at) + 1
    line = text[begin:].partition("\n")[0]
    if own <= _words(line):
        return found
    before = _BEFORE.search(text[begin:at])
    behind = _BEHIND.match(text, at + len(answer))
    beside = [answer]
    if before:
        beside.insert(0, before[1])
    if behind:
        beside.append(behind[1].strip())
    return replace(found, answers=(" ".join(beside),))


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text))
