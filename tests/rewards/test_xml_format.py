"""XML: the score table, bombs, and paths."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Sample
from trl_grpo_ext.rewards.formats.xml_format import XmlVerifier

SOUP = "<recipe><title>Soup</title></recipe>"
TABLE = [
    (SOUP, 1, ""),
    (f"```xml\n{SOUP}\n```", 1, ""),
    (f"<think>x < 3</think>\n{SOUP}", 1, ""),
    (f'<?xml version="1.0" encoding="UTF-8"?>\n{SOUP}', 1, ""),
    ("<recipe><!-- hot --><title>Soup</title><?cook slowly?></recipe>", 1, ""),
    ("<recipe><title><![CDATA[x < 3]]></title></recipe>", 1, ""),
    ("<recipe><title><b/></title></recipe>", 1, ""),
    ("<recipe><title>Soup</recipe>", 0, "not_xml"),
    ("Soup", 0, "not_xml"),
    (f"Here: {SOUP}", 0, "not_xml"),
    (f"{SOUP}{SOUP}", 0, "not_xml"),
    ("<recipe><title>a & b</title></recipe>", 0, "not_xml"),
    ("<recipe><title>\x00</title></recipe>", 0, "not_xml"),
    ("<recipe><title>\ud800</title></recipe>", 0, "not_xml"),
    ("<recipe><title>&soup;</title></recipe>", 0, "not_xml"),
    ("<recipe>Soup</recipe>", 0, "missing_element"),
    ("<recipe><x><title>Soup</title></x></recipe>", 0, "missing_element"),
    ("<recipe><!-- <title>Soup</title> --></recipe>", 0, "missing_element"),
    ("<meal><title>Soup</title></meal>", 0, "wrong_root"),
    ("<recipe><title/></recipe>", 0, "empty_element"),
    ("<recipe><title><!-- Soup --></title></recipe>", 0, "empty_element"),
    (f"<!-- So I think that -->{SOUP}", 0, "comment_outside"),
    (f"{SOUP}\n<!-- I hope this helps -->", 0, "comment_outside"),
    (f"<?so I think that?>{SOUP}", 0, "comment_outside"),
    ("<recipe><title> \n </title></recipe>", 0, "empty_element"),
    (f"<!DOCTYPE recipe>{SOUP}", 0, "doctype"),
    ('<!DOCTYPE recipe [<!ENTITY a "a"><!ENTITY b "&a;&a;">]><recipe><title>&b;</title></recipe>', 0, "doctype"),
    ('<!DOCTYPE recipe SYSTEM "file:///etc/passwd"><recipe/>', 0, "doctype"),
    ("<a>" * 200 + "</a>" * 200, 0, "too_deep"),
    (f"```json\n{SOUP}\n```", 0, "wrong_fence"),
    ("<think>" + SOUP, 0, "unclosed_think"),
    ("", 0, "no_answer"),
]


@pytest.mark.parametrize(("text", "score", "reason"), TABLE)
def test_a_document_with_what_it_must_have_scores_1(text: str, score: float, reason: str) -> None:
    (verdict,) = XmlVerifier(required=["recipe/title"]).judge([text])
    assert (verdict.score, verdict.reason) == (score, reason)


def test_without_paths_any_document_will_do_that_holds_something() -> None:
    verdicts = XmlVerifier().judge(["<a>1</a>", "<a><b/></a>", "<a/>", "<a> </a>"])
    assert [verdict.reason for verdict in verdicts] == ["", "", "empty_element", "empty_element"]
    assert XmlVerifier(allow_empty=True)(["<a/>"]) == [1.0]


def test_comments_and_instructions_beside_the_root_may_be_allowed() -> None:
    text = f'<?xml version="1.0"?><!-- soup --><?xml-stylesheet href="a.css"?>{SOUP}<!-- end -->'
    assert XmlVerifier()([text]) == [0.0]
    assert XmlVerifier(comments_outside=True)([text]) == [1.0]


@pytest.mark.parametrize("path", ["r/step@number", "r/step/@number"])
def test_attributes_may_be_required(path: str) -> None:
    texts = ['<r><step number="1"/></r>', '<r><step number=" "/></r>', '<r number="1"><step/></r>']
    reasons = [verdict.reason for verdict in XmlVerifier(required=[path]).judge(texts)]
    assert reasons == ["", "empty_element", "missing_element"]


def test_one_of_several_elements_of_a_path_is_enough() -> None:
    assert XmlVerifier(required=["r/a/b"])(["<r><a/><a><b/><b>1</b></a></r>"]) == [1.0]


def test_a_fence_may_be_required_and_text_around_it_allowed() -> None:
    around = f"Here:\n```xml\n{SOUP}\n```\nEnjoy!"
    assert XmlVerifier(fence="required")([SOUP, around]) == [0.0, 0.0]
    assert XmlVerifier(fence="required", text_around=True)([SOUP, around]) == [0.0, 1.0]


def test_thinking_that_the_prompt_opened_does_not_count() -> None:
    assert XmlVerifier().verify(Sample(text=SOUP, prefill="<think>")).reason == "unclosed_think"


@given(st.text() | st.text("<>/a&;![]-'= \x00\ud800\n`xml?", max_size=40))
def test_any_text_scores_0_or_1(text: str) -> None:
    assert XmlVerifier(required=["a/a@a"])([text]) == [0.0]
    assert XmlVerifier()([text])[0] in (0.0, 1.0)


def test_text_of_any_length_is_read_in_a_time_that_grows_with_it() -> None:
    name = "n" * 100_000
    many = f"<{name}>" + "<b/>" * 200_000 + f"</{name}>"  # 20 GB, if each child's path were kept
    texts = [many, "<r>" * 300_000, "<r " + "a='1' " * 200_000 + "/>", "<r>" + "&amp;" * 200_000 + "</r>"]
    assert XmlVerifier()(texts) == [1.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"required": "a/b"}, "list of paths"),
        ({"required": ["/a"]}, "no path"),
        ({"required": ["a//b"]}, "no path"),
        ({"required": ["@a"]}, "no path"),
        ({"required": ["a/b", "c/d"]}, "one root"),
        ({"fence": "optionl"}, "Did you mean `optional`"),
        ({"fence": "forbidden", "text_around": True}, "fence='required'"),
    ],
)
def test_settings_that_cannot_be_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        XmlVerifier(**arguments)
