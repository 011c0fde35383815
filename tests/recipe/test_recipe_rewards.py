"""The `rewards:` list: YAML keys of a term, and their errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from planted import from_minus_one

from trl_grpo_ext.mix import Clip, Gate, Threshold, When, cosine, linear, piecewise, product
from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.rewards import RegexVerifier
from trl_grpo_ext.runs.run_settings import described_verifier, verifier_identity
from trl_grpo_ext.sample import Sample


def built(text: str) -> Any:
    return build_mix(yaml.safe_load(text))


def test_every_key_of_a_term_can_be_written() -> None:
    mix = built(
        """
        - {name: accuracy, verifier: math, column: answer, when: {task: [sums, algebra], level: 1}, on_unscored: zero}
        - {name: thinks, verifier: think_format, gate: accuracy, weight: {from: 0.3, to: 0.0, until: 0.4}}
        - name: numbered
          verifier: regex
          pattern: "^1[.]"
          weight: {from: 0, to: -1, begin: 10, until: 20, unit: step, curve: cosine}
          gate: {term: accuracy, at_least: 0.5, floor: -1}
          shape: [{clip: {low: -1, high: 1}}, planted.from_minus_one]
        - name: both
          combine: {product: [accuracy, thinks]}
          weight: {points: {0: 1.0, 0.5: 0.2}, curve: hold}
          shape: {threshold: {at: 0.5}}
        """
    )
    accuracy, thinks, numbered, both = mix.terms
    assert accuracy.when == When.parse({"task": ["sums", "algebra"], "level": 1})
    assert (accuracy.on_unscored, accuracy.verifier.column) == ("zero", "answer")
    assert (thinks.gate, thinks.weight) == (Gate("accuracy"), linear(0.3, 0.0, until=0.4))
    assert numbered.weight == cosine(0, -1, begin=10, until=20, unit="step")
    assert numbered.gate == Gate("accuracy", at_least=0.5, floor=-1)
    assert numbered.shapes == (Clip(-1, 1), from_minus_one)
    assert (both.combine, both.verifier) == (product("accuracy", "thinks"), None)
    assert both.weight == piecewise({0: 1.0, 0.5: 0.2}, curve="hold")
    assert both.shapes == (Threshold(0.5),)


def test_a_weight_may_be_a_function_in_the_current_folder(
    tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "my_weights.py").write_text(
        "def fading(progress):\n    return 1 - progress\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    mix = built("[{name: a, verifier: think_format, weight: my_weights.fading}]")
    assert mix.weights_at(0.25) == {"a": 0.75}


@pytest.mark.parametrize(
    ("message", "entry"),
    [
        (r"unknown key `form`. Did you mean `from`", "weight: {form: 1, to: 0}"),
        ("needs `to`", "weight: {from: 1}"),
        ("needs `until`", "weight: {from: 1, to: 0, unit: step}"),
        (r"no curve 'cos'. Did you mean `cosine`", "weight: {from: 1, to: 0, curve: cos}"),
        ("cannot end before it begins", "weight: {from: 1, to: 0, begin: 0.5, until: 0.2}"),
        ("map times to weights", "weight: {points: [1, 0]}"),
        ("finite number", "weight: high"),
        (r"'no_such_module\.f' cannot be imported", "weight: no_such_module.f"),
        (
            r"gate has an unknown key `atleast`. Did you mean `at_least`",
            "gate: {term: b, atleast: 1}",
        ),
        ("gate needs `term`", "gate: {at_least: 1}"),
        ("a gate is a term's name", "gate: 3"),
        (r"names the term 'c'", "gate: c"),
        ("no shape 'clipp'. Did you mean `clip`", "shape: clipp"),
        ("unknown key `max`", "shape: {clip: {max: 1}}"),
        ("needs `at`", "shape: threshold"),
        ("takes arguments by name", "shape: {clip: [0, 1]}"),
        ("a shape is a name", "shape: {clip: {high: 1}, threshold: {at: 1}}"),
        ("no shape 'sign' any more. Write a function", "shape: sign"),
        (
            "no shape 'affine' any more. Give the term another weight",
            "shape: {affine: {scale: 2}}",
        ),
        ("no shape 'table' any more", "shape: {table: {status: {incorrect: -0.5}}}"),
        ("has no 'nowhere'", "shape: planted.nowhere"),
        ("maps dataset columns", "when: math"),
        (r"Did you mean `zero`", "on_unscored: zeroo"),
    ],
)
def test_a_term_that_cannot_be_is_refused_with_its_entry_and_what_to_do(
    message: str, entry: str
) -> None:
    with pytest.raises(ValueError, match=message):
        built(
            f"[{{name: b, verifier: think_format}}, {{name: a, verifier: think_format, {entry}}}]"
        )


def test_a_weight_that_yaml_takes_for_a_text_is_a_number() -> None:
    assert built("[{name: a, verifier: think_format, weight: 1e-3}]").weights == [0.001]


@pytest.mark.parametrize(
    ("message", "entry"),
    [
        (r"Did you mean `math`", "{verifier: MathVerifier}"),
        (r"Did you mean `math`", "{verifier: math_reward}"),
        (
            r"unknown key `weight`. Valid are: `accept",
            "{verifier: all_of, verifiers: [{verifier: math, weight: 2}]}",
        ),
        ("takes no `verifier`", "{name: both, verifier: math, combine: {product: [a]}}"),
        ("takes no `column`", "{name: both, column: x, combine: {product: [a]}}"),
        ("needs a `name`", "{combine: {product: [a]}}"),
        (r"by 'sum'", "{name: both, combine: {sum: [a]}}"),
        ("list of the names", "{name: both, combine: {product: a}}"),
        ("mapping of one of", "{name: both, combine: [a]}"),
    ],
)
def test_a_verifier_or_combination_that_cannot_be_is_refused(
    message: str, entry: str
) -> None:
    with pytest.raises(ValueError, match=rf"rewards entry 2.*{message}"):
        built(f"[{{name: a, verifier: think_format}}, {entry}]")


def test_arguments_that_describe_verifiers_are_made_into_verifiers() -> None:
    mix = built(
        "[{name: all, verifier: planted.Wrapping, parts: [{verifier: regex, pattern: a}, {verifier: math}]}]"
    )
    assert mix.terms[0].verifier.parts[0] == RegexVerifier(pattern="a")
    with pytest.raises(ValueError, match=r"'regex' needs `pattern`"):
        built("[{name: all, verifier: planted.Wrapping, parts: [{verifier: regex}]}]")


PLAIN = """
def mentions(completions, gold, **_):
    return [float(right in completion[-1]["content"]) for completion, right in zip(completions, gold)]

async def late(completions, **_):
    return [None, 0.5]

def short(completions, **_):
    return [1.0]

def forgets(completions, **_):
    [1.0 for _ in completions]

def nan(completions, **_):
    return [float("nan"), 1.0]

def narrow(completions):
    return [1.0 for _ in completions]
def says(completions, **_):
    return ["good" for _ in completions]
"""


def test_a_plain_trl_function_is_a_term_whose_numbers_are_scores_and_says_that_it_has_no_verdicts(
    tmp_path: Path, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "plain_rewards.py").write_text(PLAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ("mentions", "late", "short", "forgets", "nan", "says")
    mix = built(
        "\n".join(f"- {{verifier: plain_rewards.{name}, weight: 0.5}}" for name in names)
    )
    samples = [
        Sample(text=text, prompt=[{"role": "user", "content": "2+2?"}], row={"gold": "4"})
        for text in ("4", "5")
    ]
    card = mix.score(samples)
    assert list(card.terms) == list(names)
    assert card.values["mentions"] == (1.0, 0.0)
    assert card.values["late"] == (None, 0.5)
    assert card.verdicts["late"][0] is None  # as in TRL, it does not apply
    assert [verdict.reason for verdict in card.verdicts["short"]] == [
        "wrong_number_of_scores"
    ] * 2
    assert "is a `return` missing?" in card.verdicts["forgets"][0].details["error"]
    assert card.verdicts["says"][0].reason == "returned_str"
    assert (
        "returned 'good', a str, in its list, and TRL expects numbers"
        in card.verdicts["says"][0].details["error"]
    )
    assert [verdict.score for verdict in card.verdicts["nan"]] == [None, 1.0]
    assert described_verifier(mix.terms[0].verifier)["verifier"] == "plain_rewards.mentions"
    assert verifier_identity(mix.terms[0].verifier) != verifier_identity(
        mix.terms[1].verifier
    )
    named = ", ".join(f"plain_rewards.{name}" for name in names)
    assert caplog.text.count(f"plain reward functions: {named}. Their numbers count") == 1
    assert caplog.text.count("plain reward functions") == 1
    with pytest.raises(ValueError, match="takes no arguments, got `threshold`"):
        built("[{verifier: plain_rewards.mentions, threshold: 1}]")
    with pytest.raises(ValueError, match=r"got `wieght`\. Did you mean `weight`\?"):
        built("[{verifier: plain_rewards.mentions, wieght: 1}]")
    with pytest.raises(ValueError, match=r"'narrow' has no \*\*kwargs"):
        built("[{verifier: plain_rewards.narrow}]").check_columns(["prompt"])
