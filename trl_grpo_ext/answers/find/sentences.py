"""Find the value that an unmarked sentence concludes with."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trl_grpo_ext.answers.find.asked import (
    about_asked,
    question_of,
    task_of,
)
from trl_grpo_ext.answers.find.asked_values import stems
from trl_grpo_ext.answers.find.final_answer import after_thinking
from trl_grpo_ext.answers.find.hedges import doubted_before, is_hedged, is_refused, stated
from trl_grpo_ext.answers.find.rejections import only_rejects
from trl_grpo_ext.answers.find.remarks import (
    restated,
    without_additions,
    without_aside,
    without_asked_denial,
    without_bound,
    without_check,
    without_remarks,
    without_sections,
)
from trl_grpo_ext.answers.find.values import (
    FORMULA,
    OF_WHOLE,
    TYPED,
    concluded,
    has_formula,
    last_value,
)
from trl_grpo_ext.answers.read.answer import MAX_CHARS, read
from trl_grpo_ext.answers.read.number_words import in_digits
from trl_grpo_ext.answers.read.signal_words import (
    AS_REASON,
    CONDITION,
    CONTRAST,
    DENIAL,
    DOUBT,
    SUMMING_UP,
    THEREFORE,
    TURN,
    WRONG,
    any_of,
)
from trl_grpo_ext.answers.read.spelling import strip_delimiters, without_label
from trl_grpo_ext.answers.read.tree import (
    OF_OWN_TYPE,
    Apply,
    Collection,
    Node,
    Number,
    Opaque,
    Quantity,
    Range,
    Relation,
    Remainder,
    Words,
    children,
    walk,
)
from trl_grpo_ext.answers.steps import (
    BULLET,
    is_list_open,
    last_step,
    list_items,
    with_last_rows,
    with_rates,
)
from trl_grpo_ext.answers.told_twice import told_once, without_gloss

# Last lines of an unmarked completion that may tell nothing.
MAX_CLOSINGS = 3
# Characters at the end of an unmarked completion that are searched for its answer.
MAX_TAIL_CHARS = 1_000
# An unmarked answer in words has at most this many words.
MAX_NAMES = 3
# Characters of a whole-text answer that contains the end of a sentence.
MAX_WHOLE = 120
# Endings of a sentence that are tried as its value.
MAX_ENDS = 8
# A box or tag with more words holds sentences.
MAX_WORDS = 12

SENTENCE_STOP = re.compile(r"(?<=[^\s.])(?<!i\.e)\.(?:\s|$)|[!](?:\s|$)|[।。](?=\s|$)")
_CLAUSE = re.compile(
    r"(?<=[^\s\\])(?:,\s+(?!or\b|and\b|that is\b|equivalently\b|unless\b)(?=[a-z]{2,})"
    rf"|\s+\(?(?=(?:because|since|which|{AS_REASON}|so|not|rather)\b)|;\s)"
)
_IS = re.compile(
    r"\b(?:is|are|equals|gives|yields|simplifies to|evaluates to|comes to|exactly when|if and only if)\b|等于|[是为]"
)
_CONTRACTED = re.compile(r"\b(it|that|there|here)['’]s(?=\s)", re.IGNORECASE)
_THEREFORE = re.compile(
    r"(?:(?:[,;](?:\s+and)?|(?<=[\w$}])\s+and)\s+(?:so|thus|therefore|hence|i\.e\.)"
    r"|[,;]?\s+which\s+means(?:\s+that)?"
    r"|[,;]\s+which\s+(?:is|equals|gives|makes|rounds?(?:\s+(?:up|down|off))?\s+to"
    r"|(?:simplifies|reduces|comes)\s+to)),?\s+"
)
_NAME = re.compile(r"[A-Z][a-z]+(?: [A-Z][a-z]+)?")
_REPEATED = re.compile(
    r"\s((?:in|for|per|after|over|within|during)\s(?:the\s)?\d[\d,.]*\s[a-z]+)[\s.!]*$"
    r"|\s(from the (?:back|front|top|bottom|left|right|end))[\s.!]*$"
    r"|\s(?:from|of|out of|with|at|on)\s(?:the\s)?(\d[\d,.]*(?:\s[a-z]+){1,2}?)"
    r"(?:\s(?:each|apiece|in all|in total))?[\s.!]*$",
    re.IGNORECASE,
)
# 2024 is written as MMXXIV, 13 is expressed in binary as 1101
_WRITTEN_AS = re.compile(
    r"^(?!\W*(?i:if|since|because|as)\b).*\b(?:is|are|can be) (?:written|expressed|represented)\s(?:[^,;]*\s)??as\s+"
    r"((?=\S*[A-Z\d])[^,;]{1,40}?)(?:\s+in\s+[A-Za-z]+(?:\s[a-z]+)?)?$",
    re.DOTALL,
)
# "I settle on 2 hours" concludes, whatever it is about.
_DECIDES = re.compile(
    r"\bI(?:['’](?:d|ll)|\s[a-z]+)? (?:settle|decide|go|stick|choose|pick|take|say|conclude)\b"
)
_MAX_REPEATED = 3
_LETTER = re.compile(r"[A-Za-z]")
_INEQUALITY = re.compile(r"[<>≤≥]|\\[lg]eq?(?![A-Za-z])")
# A sentence with all words of a question answers the question, if these are at least as many.
_MIN_WORDS = 2
# A sentence that adds something about the person or the answer before: "She still needs $16."
_ADDS = re.compile(r"\W*(?:she|he|they|it|this|that)\b[^?]*\d", re.IGNORECASE)
# Characters at the end of a prompt in which repeated words are looked up.
MAX_PROMPT = 4_000
# Beginnings of a sentence that are not part of its value.
_SO = re.compile(
    r"^(?:∴|(?:so|thus|therefore|hence|then|finally|that is)\b|所以|因此|综上"
    rf"|(?:{SUMMING_UP})(?=,\s))[,:：，]?\s*",
    re.IGNORECASE,
)
# Working before a main clause: "Substituting x = 3, we get 7", "Using the formula, x = 7".
_MAIN = r"(?:we|you|I|it|this|that|the(?:\s[a-z]+){1,4}\s(?:is|gives|equals))\s"
# A sentence in short words: "so we end up with 42"
_OF_PEOPLE = re.compile(
    rf"\W*(?:(?:{THEREFORE}),?\s+)?(?:we|they|you|he|she)\s(?:[a-z]{{2,6}}\s){{1,4}}\W{{0,3}}\d[\d.,]*\W*\Z",
    re.IGNORECASE,
)
_LED_IN = re.compile(
    rf"^\W*(?:(?:{THEREFORE}),?\s+)?(?:at|with|after|for|by|from|given|using|when|(?!assum|suppos|guess)[a-z]+ing)\s"
    rf"(?:(?=[^,;:]*(?:[=×·⋅*/^√]|\w\(|(?<!['’])\b[b-z]\b))[^;:]{{1,160}}?,\s+(?={_MAIN})"
    rf"|[^\d=,;:]{{1,80}},\s+(?={_MAIN}|[a-z](?:\([a-z\d]\))?\s?=)"
    r"|[^;:]{1,160},\s+(?=(?-i:[A-Z]|[a-z]\([a-z\d]\))\s?=[^,;:]*$))"
    rf"(?!\D*\b(?:{DENIAL}|{DOUBT}|{CONDITION})\b)"
    # "For y = 6: 6^2 + 3(6) = 54": behind the substituted number, a calculation without letters
    r"|^\W*(?:at|with|for|given|when|if|let|put|set|take|using|substitut(?:e|ing))\s+\$?[a-z]\s?=\s?[-−]?\d[\d./]{0,9}\$?"
    r"[:,]\s+(?:then\s+)?(?=\$?[-−(\d][^A-Za-z=]{0,60}=)",
    re.IGNORECASE,
)
# "Thus, the number is 7": words for a thing, not for one of several
_IN_WORDS = re.compile(
    rf"\W*(?:(?:{THEREFORE}),?\s+)?(?:the|his|her|their|its)\s(?!other|fir|sec|third|next|1st|2nd)[a-z]{{3,}}"
    r"(?:\s[a-z]{2,}){0,4}\s(?:is|are|was|were)\s",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"^[\W_]*(?:[A-Za-z][A-Za-z ]{2,30}:[*_\s]*|[A-Za-z][A-Za-z\d ]{2,40}:[*_]*\s+)(?=\S)"
)
_ANSWER_PROMPT = re.compile(
    r"(?:answer|antwort|respuesta|réponse|resposta)\W*\Z", re.IGNORECASE
)
_FIRST_LETTER = re.compile(r"\W{0,3}([A-J])\W{0,3}\n")
# A list at the end of a text that a line before it announces.
_LISTED = re.compile(
    r":[ \t*]*\n\s*((?:(?:[-*•]|\d{1,2}[.)])[ \t]+[^\n]+(?:\n\s*|\Z)){2,})\Z"
)
_ITEM = re.compile(r"(?:[-*•]|\d{1,2}[.)])[ \t]+([^\n]+)")
ASKS_COUNT = re.compile(r"\bhow many\b|\bnumber of\b", re.IGNORECASE)
# 6 factors: 1, 2, 3, 4, 6 and 12
_SMALL_COUNT = re.compile(r"(?<![\w.,=+*/^$-])(?:[2-9]|[1-3]\d)(?![\w.])")
_LIST_BEHIND = re.compile(
    r"(?:(?:\s+[\w-]+){0,6}:|(?:\s+[A-Za-z-]{2,}){1,4}(?:,|\s[–—-])|(?:\s+[A-Za-z-]{2,}){0,4}\s\()"
    r"\s*(?:namely |they are )?([^:]*)$"
)
_ITEM_JOINT = re.compile(r",\s*(?:and\s+)?|\s+and\s+")
# A word that may precede a sentence's value: `the solutions are the pairs: x = 3, y = 2`.
_BEFORE_VALUE = re.compile(
    r"(?:\b(?!(?:except|not|minus|negative|than|least|most|twice|half|over|under|plus|times|mod|and|but|or|of|in|by|ln)\b)"
    r"[A-Za-z]{2,},?|(?<=\S):):?\s+(?:=\s*)?(?!(?!sin|cos|tan|log)[A-Za-z]{2,}\b|[-−+]\s)"
)
_WHERE = re.compile(r",?\s+(?:where|with|for (?:all|any|some|every))\b.*$", re.DOTALL)
# A sign of mathematics.
_SIGN = re.compile(r"[\d=\\^+∈$∞π√]")
# A unit without a space, which the reader would take for letters.
_ATTACHED = re.compile(r"\d(?:[mck]?m|g|kg|ft|s|h)[²³]?$")
# Marks of bold letters or code, not the power of `x**2`.
BOLD_MARKS = re.compile(r"(?<![\w)])\*\*|\*\*(?![\w(-])|(?<!`)`(?!`)")
_STRESSED = re.compile(r"\*\*([^*\n]{1,80})\*\*")
# A value in bold letters that is all of the first line, and a word below that may take the value back.
_OPENING = re.compile(r"\*\*([^*\n]*\d[^*\n]*)\*\*\.?[ \t]*\n")
_TAKES_BACK = any_of(
    TURN, WRONG, DENIAL, DOUBT, THEREFORE, CONTRAST, "mistake|error|answer"
)
# What a closing line does not have, if it tells nothing and leaves the answer before it.
_TELLS = re.compile(r"[\d=\\$<>#|]|\?\s*\Z")
_UNSETTLES = any_of(TURN, WRONG, DENIAL, DOUBT, CONTRAST, "mistake|error|guess|doubt")
_ANSWERS = frozenset(
    (
        "yes",
        "no",
        "true",
        "false",
        "even",
        "odd",
        "no solution",
        "no solutions",
        "divergent",
        "convergent",
        "infinity",
    )
)
# Text before a sentence's conclusion; only the conclusion must be firm: `it might be 10, but not 0; hence 9`.
_CONCLUSION = re.compile(rf"^.*[,;]\s+(?:{THEREFORE})\b", re.IGNORECASE | re.DOTALL)
_SAID_IN_WORDS = re.compile(
    r"^\W*(?:yes|no)(?=,)|\bdo(?:es)? not exist\b|\binfinitely many\b|\ban infinite number\b"
    r"|\bno (?:real |integer )?solutions?\b",
    re.IGNORECASE,
)  # at the end of what a text says
# "<answer>She has 3 pens.</answer>", "Answer: She has 3 pens.", at the end or before an explanation.
_MARKED_SENTENCE = re.compile(
    r"<answer>\s*([^<\n]{8,300}?)\s*</answer>\s*\Z"
    r"|\banswer(?:\sis)?[*_ \t]*(?::|\n)[\s*_:]*+(?!(?:not|never|neither)\b)([^<>\n]{8,300})"
    r"(?=\s*\Z|\n\s*\n\W*(?:explanation|reasoning|justification)\b)",
    re.IGNORECASE,
)
# A later mark, or the beginning of a correction.
_SAID_LATER = re.compile(
    r"answer|####|\\boxed|\b(?:wait|actually|mistake|wrong|correction)\b", re.IGNORECASE
)
_LONG_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")
_FENCE = re.compile(r"^```\w*\n(.*?)\n?```$", re.DOTALL)
_LEAD = re.compile(r"^(?:[A-Za-z]\s*:|=>|->|→|⇒|\\(?:implies|Rightarrow)(?![A-Za-z])|=)\s*")
# Words behind an amount that do not change it: `7/20 to go`, `15 percent off`.
_TO_GO = re.compile(r"(?<=[\w%])\s+(?:to go|off)(?=[\s.!]*$)")
# The label of the last of several lines: "**Step 3:** "
_STEP_LABEL = re.compile(
    r"(?<=\n)[ \t]*\**step \d{1,2}\**[:.][ \t*]*(?=[^\n]+\Z)", re.IGNORECASE
)
_FIGURE = r"(?:\\\$)?[-−]?\d(?:[\d,]|\.(?=\d)){0,15}(?:\\?%)?"
_CALCULATED = (
    rf"{_FIGURE}(?:\s?(?:[-−+*/=]|\\(?:cdot|times|div)(?![a-z]))\s?{_FIGURE}){{0,8}}"
)
# A formula of numbers alone: `$8$`, `$\$40$`, `\(35\%\)`, `$3 \cdot 12 = 36$`
_NUMBER_FORMULA = re.compile(
    rf"(?<![\\\w])\$({_CALCULATED})\$(?!\d)|\\\(\s?({_CALCULATED})\s?\\\)"
)
_OPERATORS = {r"\cdot": "*", r"\times": "×", r"\div": "÷", r"\%": "%", r"\$": "$"}
# GSM8K's solutions show a calculation beside each result.
_CALCULATION = re.compile(r"<<[^<>\n]*>>")


def said_unmarked(
    answer: str, prompt: str, *, closings: int = MAX_CLOSINGS
) -> tuple[str, str, str]:
    """Find the answer of a text without marks: the whole text, or the value of its last line.

    Up to `closings` last lines may tell nothing: "That is how we get the result."

    Returns:
        The answer, its mark (`whole_text` or `last_expression`), and the reason code if there is no firm answer.
    """
    answer = without_sections(with_rates(with_last_rows(answer[-MAX_CHARS:])))
    tail = without_remarks(answer[-MAX_TAIL_CHARS:].strip())
    # In LaTeX, `&` separates columns.
    if "\\" not in tail:
        tail = tail.replace(" & ", " and ")
    plain = in_digits(_written_out(_STEP_LABEL.sub("", BOLD_MARKS.sub("", tail).strip())))
    question = question_of(prompt)
    plain = stated(_LEAD.sub("", _FENCE.sub(r"\1", plain)).strip())
    plain = without_additions(told_once(without_gloss(plain, question or task_of(prompt))))
    count = _count_of_list(listed(plain) or plain, question)
    if count:
        return count, "last_expression", ""
    if _is_whole_answer(plain):
        return _SO.sub("", plain), "whole_text", ""
    values = list_value(plain)
    if values:
        return values, "last_expression", "hedged" if is_list_open(plain) else ""
    # A letter on the first line, with an explanation below it, answers a prompt that ends with "Answer:".
    first = _FIRST_LETTER.match(plain) if _ANSWER_PROMPT.search(prompt) else None
    if first:
        return first[1], "last_expression", ""
    stressed = _STRESSED.findall(tail.rpartition("\n")[2])
    # 20 is **25%** of 80
    if len(stressed) == 1 and _SIGN.search(stressed[0]) and is_value(stressed[0]):
        hedged = is_hedged(SENTENCE_STOP.split(plain)[-1]) or is_refused(
            stressed[0], plain.rpartition(stressed[0])[2]
        )
        return stressed[0], "last_expression", "hedged" if hedged else ""
    value, problem = _said_in_line(_last_line(plain), prompt)
    if problem == "no_answer":
        before = _opening_value(tail) or (_before_closing(tail) if closings else "")
        if before:
            return said_unmarked(before, prompt, closings=closings - 1)
    return value, "last_expression", problem


def _opening_value(text: str) -> str:
    """Return a first line's value in bold letters if the explanation below ends with none and takes none back."""
    opening = _OPENING.match(text)
    if opening is None or not is_value(opening[1]):
        return ""
    return "" if _TAKES_BACK.search(text, opening.end()) else opening[1]


def _before_closing(text: str) -> str:
    """Return the text before a last line that tells and unsettles nothing: "Done!"; empty for another last line."""
    before, _, last = text.rstrip().rpartition("\n")
    if _TELLS.search(in_digits(last)) or _UNSETTLES.search(last):
        return ""
    return before.rstrip() if any(map(str.isdigit, before)) else ""


def _written_out(text: str) -> str:
    """Write "it's" as "it is"; the exclamation mark of "It's 5!" is no factorial then."""
    written = _CONTRACTED.sub(r"\1 is", text)
    return text if written == text else written.rstrip("!")


def _said_in_line(line: str, prompt: str) -> tuple[str, str]:
    """Return a line's concluded value, and a reason code unless the value is firm."""
    whole = line
    question = question_of(prompt)
    line = without_asked_denial(without_bound(line, question), question)
    line = restated(without_repeated(_TO_GO.sub("", _CALCULATION.sub("", line)), prompt))
    sentences = [part for part in SENTENCE_STOP.split(line.strip()) if part.strip()]
    if _is_about_another(sentences, prompt):
        sentences.pop()
        line = sentences[-1]
    if sentences:
        about = without_label(without_aside(about_asked(sentences[-1], prompt)))
        sentences[-1] = _spoken(_LED_IN.sub("", about))
    line = without_aside(line)
    last, problem = "", "no_answer"
    if sentences and sentences[-1]:
        ending = _SAID_IN_WORDS.search(re.split(r"[\d$]", sentences[-1])[-1])
        typed = not has_formula(sentences[-1]) and TYPED.search(sentences[-1])
        if not typed:
            in_words = ending[0] if ending else ""
            last = _value_that_is(sentences[-1]) or in_words or _value_before(sentences)
        if last:
            problem = ""
        else:
            last, problem = concluded(line, sentences, prompt)
    is_firm = not problem and not is_refused(last, whole.rpartition(last)[2])
    if not problem and (
        not is_firm
        or _is_doubted(last, sentences)
        or only_rejects(SENTENCE_STOP.split(whole.strip())[-1], question)
    ):
        problem = "hedged"
    return last, problem


def _spoken(sentence: str) -> str:
    r"""Write formulas of numbers alone, `$8$` and `\(2 \cdot 4\)`, as text if a sentence has no others.

    A sentence concludes with one of its numbers, and not always with the last, as formulas do.
    """
    if "$" not in sentence and "\\(" not in sentence:
        return sentence
    spoken = _NUMBER_FORMULA.sub(_number_of, sentence)
    return sentence if has_formula(spoken) else spoken


def _number_of(formula: re.Match[str]) -> str:
    """Write a formula of numbers as plain text."""
    plain = formula[1] or formula[2]
    for command, sign in _OPERATORS.items():
        plain = plain.replace(command, sign)
    return plain


def _last_line(text: str) -> str:
    """Return a text's last line; the whole text if that line goes on with a formula above it."""
    last = text.rpartition("\n")[2].strip(f" {BULLET}")
    if "\n" not in text or not has_formula(text):
        return last if "\n" in text else text
    is_stated = is_sentence(last) or _IS.search(last) is not None
    is_sentence_of_its_own = is_stated and any(map(str.isdigit, last))
    return last if is_sentence_of_its_own and not has_formula(_spoken(last)) else text


def _value_before(sentences: Sequence[str]) -> str:
    """Return the formula that the last sentence with a sign of mathematics concludes with, if sentences follow it."""
    if _SIGN.search(sentences[-1]):
        return ""
    with_sign = [sentence for sentence in sentences if _SIGN.search(sentence)]
    value = _value_that_is(with_sign[-1]) if with_sign else ""
    return value if _LETTER.search(value) else ""


def _is_about_another(sentences: Sequence[str], prompt: str) -> bool:
    """Check whether the second-last sentence alone repeats the question's words: "The price is $34. You save $6."."""
    if len(sentences) < 2 or not prompt:
        return False
    before, last = sentences[-2:]
    asked = stems(question_of(prompt))
    if (
        len(asked) < (1 if _ADDS.match(last) else _MIN_WORDS)
        or asked & stems(last)
        or _SO.match(last.strip())
        or _DECIDES.search(last)
    ):
        return False
    return asked <= stems(before) and any(map(str.isdigit, before)) and "=" not in last


def _is_doubted(value: str, sentences: Sequence[str]) -> bool:
    """Check whether a value's sentence, or a later sentence, denies the value or leaves doubt."""
    places = reversed(range(len(sentences)))
    holding = next((place for place in places if value in sentences[place]), 0)
    ending_sentences = [_CONCLUSION.sub("", sentence) for sentence in sentences[holding:]]
    if any(map(is_hedged, ending_sentences)):
        return True
    # `is_hedged` looks for digits, and a formula may begin with a command: "It is not $\\frac{7}{3}$".
    holder = sentences[holding] if sentences else ""
    is_formula = FORMULA.search(holder) is not None or value.count("=") == 1
    return is_formula and doubted_before(holder.rpartition(value)[0])


def _is_whole_answer(text: str) -> bool:
    """Check that a whole text is an answer, without surrounding sentence."""
    # "Total = 4 * 5" and "Total = 20" on lines of their own are steps.
    names = [line.partition("=")[0].strip() for line in text.splitlines() if "=" in line]
    if len(names) > 1 and len(set(names)) == 1 and names[0].isalpha() and len(names[0]) > 1:
        return False
    # Reading a long text as a value would dominate the cost of finding answers.
    if len(text) > MAX_WHOLE and SENTENCE_STOP.search(text):
        return False
    if (
        not is_value(text)
        or _THEREFORE.search(text)
        or _LED_IN.match(text)
        or _OF_PEOPLE.match(text)
        or (OF_WHOLE.match(text) and "," in text)
        or _announces(text)
        or _sums_up(text)
        or last_step(_SO.sub("", text))
    ):
        return False
    return not TYPED.search(text) or isinstance(read(text).node, OF_OWN_TYPE)


def _sums_up(text: str) -> bool:
    """Check whether the last line tells in words what the equations above it give: "Thus, the number is 7."."""
    working, _, line = text.rpartition("\n")
    return "=" in working and "=" not in line and _IN_WORDS.match(line) is not None


def _announces(text: str) -> bool:
    """Check whether a text counts values before it lists them: "There are 2 solutions, x = 1 and x = 2"."""
    match read(text).node:
        case Collection("list", (Words(), *_)) if _IS.search(text):
            return True
        case Collection("list", (first, *others)):
            return _is_amount(first) and any(isinstance(item, Relation) for item in others)
    return False


def listed(text: str) -> str:
    """Join the bulleted list at a text's end, after the line that announces it; empty without a list."""
    found = _LISTED.search(text)
    if found is None:
        return ""
    line = text[: found.start()].rpartition("\n")[2]
    items = [strip_delimiters(item[1].strip(" *.;,")) for item in _ITEM.finditer(found[1])]
    return f"{line}: {', '.join(items)}"


def _count_of_list(text: str, question: str) -> str:
    """Return the count before as many listed values at a text's end, if the question asks for a count.

    `It has 2 solutions: x = 3 and x = -3` gives `2` for "How many solutions".
    """
    if not ASKS_COUNT.search(question):
        return ""
    line = text.strip().rpartition("\n")[2]
    for count in _SMALL_COUNT.finditer(line):
        counted = _LIST_BEHIND.match(line, count.end())
        items = _ITEM_JOINT.split(counted[1].strip(" .$)")) if counted else []
        are_counted = len(items) == int(count[0]) and all(map(is_value, items))
        if are_counted and not is_hedged(line[: count.end()]):
            return count[0]
    return ""


def list_value(text: str) -> str:
    r"""Return a closing list's values, joined by commas, or the last of its steps; empty for other lists and texts.

    Examples:
        >>> list_value("They are\n• 2\n• 3"), list_value("• 3 * 4 = 12\n• 12 + 2 = 14")
        ('2, 3', '12 + 2 = 14')
        >>> list_value("• x = 2\n• y = 3")
        ''
    """
    announced = listed(text)
    items = announced.rpartition(": ")[2].split(", ") if announced else list_items(text)
    names = {item.partition("=")[0].strip() for item in items}
    has_several_names = len(names) > 1 and any("=" in item for item in items)
    if has_several_names or any(map(_INEQUALITY.search, items)):
        return last_step("\n".join(items))
    # Words below a line may be options; only a text that is all list gives them.
    is_all_list = text.lstrip().startswith(("*", BULLET))
    if all(is_value(item) and (is_all_list or _SIGN.search(item)) for item in items):
        return ", ".join(items)
    return ""


def without_repeated(line: str, prompt: str) -> str:
    """Remove words at a line's end that repeat the question: "in 4 weeks" of "7 dozens of eggs in 4 weeks"."""
    for _ in range(_MAX_REPEATED):
        repeated = _REPEATED.search(line)
        if repeated is None:
            break
        words = repeated[1] or repeated[2] or repeated[3]
        if words.casefold() not in in_digits(prompt[-MAX_PROMPT:]).casefold():
            break
        before = line[: repeated.start()]
        if not any(map(str.isdigit, before)):
            break
        line = before
    return line


def _value_that_is(sentence: str) -> str:
    """Return a sentence's mathematical value or chosen option: `the form is x^2 + 1`, `Area: 5`, `so a = 1 and b = 2`.

    Returns an empty string for a plain amount in a sentence: `conclusion` then decides by the words around it.
    """
    line = sentence.strip().rpartition("\n")[2]
    sentence = _LEAD.sub("", line.strip(f" {BULLET}"))
    _, *said_last = _IS.split(sentence)
    name = said_last[-1].strip(" *_`.") if said_last else ""
    # The fastest is Evelyn.
    if _NAME.fullmatch(name):
        return name
    written = _WRITTEN_AS.search(sentence.rstrip(" *_`."))
    if written and is_value(written[1]):
        return strip_delimiters(written[1])
    bare = "" if has_formula(sentence) else sentence
    ends = [bare[word.end() :] for word in _BEFORE_VALUE.finditer(bare)]
    sentence = _SO.sub("", _WHERE.sub("", sentence)).strip()
    step = last_step(sentence)
    if step:
        return step
    concluded = _THEREFORE.split(sentence)[-1]
    tail = _LABEL.sub("", _IS.split(concluded)[-1])
    clause = _CLAUSE.split(tail.strip(), maxsplit=1)[0]
    for part in (tail, clause, concluded, sentence, *ends[-MAX_ENDS:]):
        said = strip_delimiters(part.strip(" *_`:,。")).rstrip(".")
        # From 2x + 1 = 7 we get 2x = 6, and then x = 3
        said = (last_step(said) if bare else "") or said
        if said.casefold() in _ANSWERS:
            return said
        if not _is_value_alone(said):
            continue
        # The words around an amount tell whether the sentence concludes with it.
        is_amount = _is_amount(read(said).node) and not said.startswith("{")
        if bare and (is_amount or " per " in said or "$" in said):
            return ""
        # the 2 solutions
        if not bare and said.startswith("the ") and _is_amount(read(said).node):
            continue
        if not _announces(said) and not said.endswith((" and", " but", " or")):
            return said
    return ""


def _is_value_alone(said: str) -> bool:
    """Check whether a text is a value in digits or formulas, without words and without half a formula."""
    whole = _SIGN.search(said) and not _ATTACHED.search(said) and said.count("$") % 2 == 0
    if not whole or not is_value(said):
        return False
    return not any(isinstance(one, Words) for one in walk(read(said).node))


def _is_amount(node: Node) -> bool:
    match node:
        case Number() | Quantity(Number()) | Range() | Remainder() | Apply("%", _):
            return True
        case Collection("list", items):
            return all(map(_is_amount, items))
    return False


def is_paragraph(answer: str) -> bool:
    """Check whether a box or tag holds sentences; then the last sentence gives the answer."""
    if len(_LONG_WORD.findall(answer)) <= MAX_WORDS:
        return False
    found = read(answer)
    return bool(found.stray) or isinstance(found.node, Opaque | Words)


def is_sentence(text: str) -> bool:
    """Check whether bold text has several long words; a word or a value with unit has fewer."""
    return len(_LONG_WORD.findall(text)) > 1


def marked_sentence(text: str) -> str:
    r"""Return the sentence behind the last mark after the thinking, if nothing later takes its place.

    Empty for values, and for marks before other text than an explanation.

    Examples:
        >>> marked_sentence("5 - 2 = 3\n\n**Answer:** She has 3 pens left."), marked_sentence("Answer: 3 pens")
        ('She has 3 pens left.', '')
        >>> marked_sentence("Answer: She has 3 pens left.\n\nWait, that is wrong.")
        ''
    """
    said = without_check((after_thinking(text) or "")[-MAX_TAIL_CHARS:])
    marked = list(_MARKED_SENTENCE.finditer(said))
    if not marked or _SAID_LATER.search(said, marked[-1].end()):
        return ""
    sentence = (marked[-1][1] or marked[-1][2]).strip()
    return sentence if is_sentence(sentence) and not is_value(sentence) else ""


def last_sentence_value(paragraph: str) -> str:
    """Return the last value in a paragraph's last sentence."""
    return last_value(SENTENCE_STOP.split(paragraph.strip())[-1] or paragraph)


_YES_OR_NO = re.compile(r"\W*(yes|no)\s*[,;]\s", re.IGNORECASE)
_COUNTED = re.compile(r"\d[\d,.]* +(?!(?:is|are|was|were)\b)[a-z]+\b", re.IGNORECASE)


def value_said(sentence: str) -> str:
    r"""Return a sentence's value: the whole sentence, text after "is", or the last formula or number.

    Examples:
        >>> [value_said(text) for text in ("the volume of the box is $5$ cm", "I would say 7", "Paris")]
        ['$5$ cm', '7', 'Paris']
    """
    sentence = without_additions(in_digits(SENTENCE_STOP.split(sentence, maxsplit=1)[0]))
    # no, 91 is 7 times 13
    told = _YES_OR_NO.match(sentence)
    if told:
        return told[1]
    # mean = 4, variance = 2; (1; 2]
    if (sentence.count("=") > 1 or ";" in sentence) and is_value(sentence):
        return sentence
    sentence = _CLAUSE.split(sentence, maxsplit=1)[0].strip(" *_`:,")
    parts = [sentence, _IS.split(sentence)[-1].strip(" *_`:,")]
    # 290 seats are taken
    if _COUNTED.match(sentence) and isinstance(read(parts[1]).node, Words):
        parts = [sentence]
    for part in parts:
        if part and is_value(part):
            return part
    value, _ = concluded(sentence, [sentence])
    return value or sentence


def is_value(text: str) -> bool:
    """Check that a text is a bare value, or at most `MAX_NAMES` words, without surrounding sentence."""
    found = read(text)
    for node in (found.node, *children(found.node)):
        if isinstance(node, Words) and len(node.text.split()) > MAX_NAMES:
            return False
    if isinstance(found.node, Words):
        return not any(map(str.isdigit, text))
    return not found.stray and not isinstance(found.node, Opaque)
