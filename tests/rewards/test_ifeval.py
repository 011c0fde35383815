"""Verifiable instructions: each with a correct answer and a near miss."""

import json
from typing import Any

import pytest

from trl_grpo_ext.rewards.ifeval.instructions import CHECKS, FUNCTIONS
from trl_grpo_ext.rewards.ifeval.verifier import (
    IFEvalVerifier,
    ifeval_reward,
    instructions_of,
)
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status

# instruction: settings, an answer that follows, answers that do not
CASES: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "keywords:existence": (
        {"keywords": ["cat", "C++"]},
        "A Cat in C++.",
        ("A catalogue, C++", "cat", "C+"),
    ),
    "keywords:frequency": (
        {"keyword": "cat", "frequency": 2, "relation": "at least"},
        "cat, cat",
        ("cat, concatenate", "cat"),
    ),
    "keywords:forbidden_words": (
        {"forbidden_words": ["bad idea"]},
        "A badger",
        ("A bad idea.", "BAD IDEA"),
    ),
    "keywords:letter_frequency": (
        {"letter": "x", "let_frequency": 3, "let_relation": "less than"},
        "xX",
        ("xxx",),
    ),
    "length_constraints:number_sentences": (
        {"num_sentences": 2, "relation": "at least"},
        "One 1.5. Two",
        ("One...", "One. !", "e.g.x"),
    ),
    "length_constraints:number_paragraphs": (
        {"num_paragraphs": 2},
        "One\n\n***\n\nTwo",
        ("One\n\nTwo", "One\n***\n", "a\n***\nb\n***\nc"),
    ),
    "length_constraints:number_words": (
        {"num_words": 3, "relation": "less than"},
        "well-known don't",
        ("one two three",),
    ),
    "length_constraints:nth_paragraph_first_word": (
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "beta"},
        "Alpha\n\n**Beta** is",
        ("Alpha\n\nBetamax", "Beta\n\nAlpha", "Alpha\nBeta", "A\n\nBeta\n\nC"),
    ),
    "detectable_content:number_placeholders": (
        {"num_placeholders": 2},
        "[name] at [date]",
        ("[name]", "[] [ ]"),
    ),
    "detectable_content:postscript": (
        {"postscript_marker": "P.S."},
        "Bye\n\nP.S. I wait",
        ("Bye P.S. I wait", "Bye\nP.S.", "Bye\nPS I wait"),
    ),
    "detectable_format:number_bullet_lists": (
        {"num_bullets": 2},
        "* one\n- two",
        ("* one", "* a\n* b\n* c", "*one*\n*two*", "***\n***"),
    ),
    "detectable_format:constrained_response": (
        {},
        "My answer is no.",
        ("My answer is no. Or My answer is yes.", "no"),
    ),
    "detectable_format:number_highlighted_sections": (
        {"num_highlights": 2},
        "*one* and **two**",
        ("*one*", "2 * 3 * 4 * 5", "** ** **"),
    ),
    "detectable_format:multiple_sections": (
        {"section_spliter": "Section", "num_sections": 2},
        "Section 1\na\n## Section 2\nb",
        ("Section 1\na", "Section\nSection"),
    ),
    "detectable_format:json_format": (
        {},
        '```json\n{"a": 1}\n```',
        ("{'a': 1}", '{"a": 1} or so', "[" * 9999),
    ),
    "detectable_format:title": ({}, "<<A song>>\nLa", ("<A song>", "<<>>", "<< >>")),
    "combination:two_responses": (
        {},
        "One\n******\nTwo",
        ("One\n******\nOne", "One\n******\n", "a******b******c"),
    ),
    "combination:repeat_prompt": (
        {"prompt_to_repeat": "Write a song."},
        "Write a song.\nLa",
        ("Write a song.", "Write the song.\nLa", "La. Write a song."),
    ),
    "startend:end_checker": (
        {"end_phrase": "Is that all?"},
        "La. Is that all?\n",
        ("Is that all? Yes", "is that all?"),
    ),
    "change_case:capital_word_frequency": (
        {"capital_frequency": 2, "capital_relation": "at least"},
        "VERY GOOD it is",
        ("VERY good", "Very Good"),
    ),
    "change_case:english_capital": ({}, "IT IS 5.", ("It is", "5")),
    "change_case:english_lowercase": ({}, "it is 5.", ("It is", "5")),
    "punctuation:no_comma": ({}, "Yes indeed.", ("Yes, indeed.", "Yes， indeed.")),
    "startend:quotation": ({}, '"Yes."', ("Yes.", '"Yes.', '""', '" "')),
    "language:response_language": (
        {"language": "de"},
        "Das ist ein ganz gewöhnlicher deutscher Satz, der lang genug ist, um erkannt zu werden.",
        (
            "This is a plain English sentence, which is long enough to be recognised as such.",
        ),
    ),
}


def judged(text: str, *ids: str, **settings: Any) -> Any:
    row = {"instruction_id_list": list(ids), "kwargs": [settings] * len(ids)}
    return IFEvalVerifier().verify(Sample(text=text, row=row))


def test_every_instruction_has_a_case() -> None:
    assert CASES.keys() == CHECKS.keys()
    assert {instruction for instruction, _ in FUNCTIONS.values()} == CHECKS.keys()


@pytest.mark.parametrize("instruction", CASES)
def test_an_instruction_is_followed_or_not(instruction: str) -> None:
    settings, follows, others = CASES[instruction]
    if instruction.startswith("language"):
        pytest.importorskip("py3langid")
    assert judged(follows, instruction, **settings).status is Status.CORRECT
    for other in others:
        verdict = judged(other, instruction, **settings)
        assert (verdict.status, verdict.reason) == (Status.INCORRECT, instruction), other


@pytest.mark.parametrize("instruction", sorted(CASES))
def test_nothing_follows_nothing(instruction: str) -> None:
    assert (
        judged("<think>hm</think>\n", instruction, **CASES[instruction][0]).status
        is Status.UNPARSEABLE
    )


def test_all_are_asked_and_a_share_can_be_paid() -> None:
    row = {
        "instruction_id_list": ["punctuation:no_comma", "change_case:english_lowercase"],
        "kwargs": [{}, {}],
    }
    half = Sample(text="Yes indeed", row=row)
    assert IFEvalVerifier().verify(half).score == 0.0
    assert IFEvalVerifier(scoring="share").verify(half).score == 0.5
    assert IFEvalVerifier().verify(half).details["punctuation:no_comma"] == "followed"


@pytest.mark.parametrize(
    ("written", "follows", "fails"),
    [
        (
            {"func_name": "verify_keyword_frequency", "word": "cat", "N": 2},
            "cat cat",
            "cat cat cat",
        ),
        (
            {"func_name": "validate_word_constraint", "N": 30, "quantifier": "around"},
            "one " * 28,
            "one " * 26,
        ),
        (
            {"func_name": "validate_sections", "N": 1, "section_splitter": "PART"},
            "PART 1",
            "PART 1\nPART 2",
        ),
        (
            {"func_name": "validate_choice", "options": ["red", "blue"]},
            "red",
            "red or blue",
        ),
        (
            {
                "func_name": "validate_paragraphs",
                "N": 1,
                "first_word": "So",
                "i": 1,
                "options": None,
            },
            "So be it",
            "Be",
        ),
    ],
)
def test_rlvr_ifeval_is_read_as_a_mapping_or_as_json(
    written: dict[str, Any], follows: str, fails: str
) -> None:
    for ground_truth in (written, json.dumps(written)):
        assert ifeval_reward([follows, fails], ground_truth=[ground_truth] * 2) == [
            1.0,
            0.0,
        ]


@pytest.mark.parametrize(
    "row",
    [
        {"instruction_id_list": ["keywords:existence"], "kwargs": [{}]},
        {"instruction_id_list": ["keywords:existence"], "kwargs": []},
        {"instruction_id_list": ["no:such"], "kwargs": [{}]},
        {"instruction_id_list": [], "kwargs": []},
        {
            "instruction_id_list": ["keywords:letter_frequency"],
            "kwargs": [{"letter": "ab", "let_frequency": 1}],
        },
        {
            "instruction_id_list": ["keywords:existence"],
            "kwargs": [{"keywords": ["apple", ""]}],
        },
        {
            "instruction_id_list": ["keywords:forbidden_words"],
            "kwargs": [{"forbidden_words": ["Yes", ""]}],
        },
        {"ground_truth": '{"func_name": "no_such"}'},
        {"ground_truth": "4"},
        {"ground_truth": "{"},
        {},
    ],
)
def test_a_row_that_cannot_be_asked_is_the_datas_fault(row: dict[str, Any]) -> None:
    verdict = IFEvalVerifier().verify(Sample(text="Yes.", row=row))
    assert (verdict.status, verdict.score, verdict.reason) == (
        Status.SKIPPED,
        None,
        "instructions_invalid",
    )
    assert [problem.reason for problem in IFEvalVerifier().check_rows([row])] == [
        "instructions_invalid"
    ]


def test_datasets_fill_settings_with_none_and_floats() -> None:
    row = {
        "instruction_id_list": ["detectable_format:title"],
        "kwargs": [{"num_words": None, "language": None}],
    }
    assert instructions_of(row) == [("detectable_format:title", {})]
    assert (
        judged("* a\n* b", "detectable_format:number_bullet_lists", num_bullets=2.0).score
        == 1.0
    )


@pytest.mark.parametrize(
    "unit", ["[a", "<<a", ". ", "*a ", "\n ", "a'", '"', "....", "{", "* * *\n"]
)
def test_hostile_text_takes_no_time(unit: str) -> None:
    ids = [each for each in CASES if not each.startswith("language")]
    row = {"instruction_id_list": ids, "kwargs": [CASES[each][0] for each in ids]}
    IFEvalVerifier().verify(Sample(text=unit * (100_000 // len(unit)), row=row))


@pytest.mark.parametrize(
    ("instruction", "settings"),
    [
        ("detectable_format:constrained_response", {"options": "yes/no/maybe"}),
        ("keywords:existence", {"keywords": "apple"}),
        ("keywords:forbidden_words", {"forbidden_words": "apple"}),
    ],
)
def test_a_text_in_the_place_of_a_list_is_the_datas_fault_and_pays_for_none_of_its_letters(
    instruction: str, settings: dict[str, str]
) -> None:
    row = {"instruction_id_list": [[instruction]], "kwargs": [[settings]]}
    (verdict,) = ifeval_reward.judge(["e"], **row)
    assert (verdict.score, verdict.reason) == (None, "instructions_invalid")
