"""Recipes: shipped recipes, typos, and errors before any model is loaded."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from datasets import Dataset
from trl import GRPOConfig, ModelConfig, ScriptArguments, TrlParser

from trl_grpo_ext.cli.main import main
from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.recipe.arguments import RecipeArguments
from trl_grpo_ext.recipe.data import load_data
from trl_grpo_ext.recipe.file import (
    DATACLASSES,
    field_types,
    load_recipe,
    set_environment,
    shipped_recipes,
)
from trl_grpo_ext.recipe.recipe import Recipe, parse_recipe
from trl_grpo_ext.recipe.run import make_trainer, set_up
from trl_grpo_ext.rewards import MathVerifier, RegexVerifier
from trl_grpo_ext.trainer.config import VerifiedGRPOConfig
from trl_grpo_ext.trainer.trl_settings import BATCH_DEFAULTS, check_batches

MINIMAL: dict[str, Any] = {
    "model_name_or_path": "bundled:tiny_reasoner",
    "dataset_name": "bundled:sums",
    "rewards": [{"verifier": "math"}],
    "use_cpu": True,
    "bf16": False,
}


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Write a recipe from MINIMAL with changes; None removes a key."""

    def write(**changes: Any) -> Path:
        path = tmp_path / "recipe.yaml"
        keys = {
            key: value for key, value in (MINIMAL | changes).items() if value is not None
        }
        path.write_text(yaml.safe_dump({"output_dir": str(tmp_path / "run")} | keys))
        return path

    return write


def parse(path: Path, *flags: str) -> Recipe:
    return parse_recipe(load_recipe(str(path)), flags)


@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_every_shipped_recipe_says_what_it_is_and_is_valid(name: str) -> None:
    if name == "puzzles":  # its verifier needs the extra
        pytest.importorskip("reasoning_gym")
    file = load_recipe(name)
    assert 20 < len(file.summary) < 120
    parse_recipe(file, ["--use_cpu", "true", "--bf16", "false"])


@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_every_flag_that_a_recipes_header_names_can_be_added_and_of_a_cpu_all_that_it_needs(
    name: str,
) -> None:
    """CPU flags are added to GPU flags, since this machine has no GPU."""
    if name in ("puzzles", "smollm2"):  # their data need the extra
        pytest.importorskip("reasoning_gym")
    text = load_recipe(name).path.read_text(encoding="utf-8")
    header = text.partition("\n\n")[0].replace("\n#  ", "")
    for line in header.splitlines():
        flags = re.findall(
            r"--(?!config|model\b|limit|samples|split)[\w-]+ (?!--)[^\s,;)(]+", line
        )
        given = [word for flag in flags for word in flag.split()]
        if "trl-grpo-ext eval" in line or "pip install" in line or not given:
            continue
        of_a_cpu = (
            []
            if "Without a GPU" in line
            else ["--use_cpu", "true", "--bf16", "false", "--use_vllm", "false"]
        )
        training = parse_recipe(load_recipe(name), [*given, *of_a_cpu]).training
        assert (training.use_cpu, training.bf16) == (True, False)


def test_keys_and_flags_reach_trls_dataclasses_and_flags_win(write: Any) -> None:
    path = write(learning_rate="1e-4", beta=0.04, lora_r=4)
    recipe = parse(
        path, "--learning_rate", "2e-5", "--num-generations=4", "--no_shuffle_dataset"
    )
    assert recipe.training.learning_rate == 2e-5
    assert recipe.training.beta == 0.04
    assert recipe.training.num_generations == 4
    assert recipe.training.shuffle_dataset is False
    assert recipe.model.lora_r == 4


def test_every_field_of_trls_dataclasses_is_a_flag(write: Any) -> None:
    classes = (GRPOConfig, ModelConfig, ScriptArguments)
    names = {
        field.name for one in classes for field in dataclasses.fields(one) if field.init
    }
    flags = [text for name in sorted(names) for text in (f"--{name}", "x")]
    with pytest.raises(
        ValueError, match="Unknown flag `--certainly_unknown`"
    ):  # and none before it
        parse(write(), *flags, "--certainly_unknown", "1")


@pytest.mark.parametrize(
    ("flag", "nearest"),
    [
        ("--learning_rat", "--learning_rate"),
        ("--learning_rat=1", "--learning_rate"),
        ("--num_generation", "--num_generations"),
        ("--promt_column", "--prompt_column"),
        ("--lr", "--learning_rate"),
    ],
)
def test_an_unknown_flag_names_the_nearest_even_if_it_abbreviates_a_valid_one(
    write: Any, flag: str, nearest: str
) -> None:
    with pytest.raises(ValueError, match=f"Did you mean `{nearest}`"):
        parse(
            write(bf16=True), flag, "1"
        )  # and though bf16 on a CPU is an error of its own


REFUSED_EARLY: list[tuple[dict[str, Any], list[str], str]] = [
    ({"learning_rat": 1}, [], "Unknown key `learning_rat` in the recipe"),
    ({"learning_rat": 1}, [], "Did you mean `learning_rate`"),
    ({}, ["--learning_rat", "1"], "Did you mean `--learning_rate`"),
    ({}, ["--rewards", "math"], "set in the recipe's file"),
    ({"rewards": [{"verifier": "maths"}]}, [], "Did you mean `math`"),
    ({"rewards": [{"verifier": "unit_test", "timeot": 1}]}, [], "Did you mean `timeout`"),
    ({"rewards": [{"verifier": "math", "gate": "fromat"}]}, [], "fromat"),
    ({"rewards": [{"verifier": "math", "weight": {"from": 1}}]}, [], "needs `to`"),
    ({"model_name_or_path": None}, [], "names no model"),
    ({"dataset_name": "no_such.jsonl"}, [], "no file or folder 'no_such.jsonl'"),
    ({}, ["--dataset-name=./no_such"], "no file or folder './no_such'"),
    ({}, ["--dataset_name", "bundled:sum"], "Did you mean `bundled:sums`"),
    ({"learning_rate": -1}, [], "`learning_rate` must be 0 or more"),
    ({}, ["--temperature=0"], "`temperature` must be above 0, got 0."),
    (
        {"per_device_train_batch_size": 12},
        [],
        "Set num_generations: 6, or per_device_train_batch_size: 16.",
    ),
    ({"num_generations": 1}, [], "`num_generations` must be 2 or more"),
    ({"max_steps": "three"}, [], "`max_steps` must be a number, got 'three'."),
    (
        {},
        ["--num-generations", "eight"],
        "`num_generations` must be a number, got 'eight'.",
    ),
    ({"rows": True}, [], "`rows` is a number of 1 or more"),
]


def test_what_the_file_alone_tells_is_refused_before_trl_is_imported(
    write: Any, tmp_path: Path
) -> None:
    """All commands run in one process, one after another."""
    code = (
        "import json, sys\n"
        "from trl_grpo_ext.cli.main import main\n"
        "def status(arguments):\n"
        "    try:\n"
        "        return main(arguments)\n"
        "    except SystemExit as ended:\n"
        "        return ended.code\n"
        "assert {status(arguments) for arguments in json.load(sys.stdin)} == {2}\n"
        "assert not {'torch', 'transformers', 'trl', 'datasets'} & set(sys.modules)"
    )
    commands = [
        [
            "train",
            "--config",
            str(write(**changes).rename(tmp_path / f"{number}.yaml")),
            *flags,
        ]
        for number, (changes, flags, _) in enumerate(REFUSED_EARLY)
    ]
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for said, (_, _, message) in zip(done.stderr.splitlines(), REFUSED_EARLY, strict=True):
        assert message in said


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"gradient_accumulation_steps": 4},
        {"gradient_accumulation_steps": 4, "steps_per_generation": 2},
        {"generation_batch_size": 24},
        {"eval_strategy": "steps", "per_device_eval_batch_size": 4},
        {
            "eval_strategy": "steps",
            "per_device_eval_batch_size": 9,
            "num_generations_eval": 3,
        },
    ],
)
def test_a_batch_without_whole_groups_is_refused_exactly_where_trl_refuses_it(
    more: dict[str, Any],
) -> None:
    def refusal(make: Callable[[], object]) -> str:
        try:
            make()
        except ValueError as error:
            return str(error)
        return ""

    for batch, group in itertools.product((2, 6, 8, 12), (2, 3, 8)):
        settings = {"per_device_train_batch_size": batch, "num_generations": group} | more
        by_trl = refusal(
            partial(GRPOConfig, output_dir="x", use_cpu=True, bf16=False, **settings)
        )
        if "global batch size" in by_trl:  # the one that is left to TRL
            continue
        said = refusal(partial(check_batches, settings, 1))
        assert bool(said) is bool(by_trl), (settings, by_trl)
        for name, value in re.findall(r"(\w+): (\d+)", said.partition(" Set ")[2]):
            refused = (
                "per_device_train" if "per_device_train" in said else "per_device_eval"
            )
            assert refused not in refusal(
                partial(check_batches, settings | {name: int(value)}, 1)
            ), settings


def test_the_sizes_that_count_where_none_is_written_are_trls() -> None:
    config = GRPOConfig(output_dir="x", use_cpu=True, bf16=False)
    assert {name: getattr(config, name) for name in BATCH_DEFAULTS} == dict(BATCH_DEFAULTS)


def test_the_fields_that_the_sources_say_are_those_of_the_dataclasses() -> None:
    for (module, class_name), imported in zip(
        DATACLASSES, (RecipeArguments, VerifiedGRPOConfig, ModelConfig), strict=True
    ):
        assert class_name == imported.__name__
        assert set(field_types(module, class_name)) == {
            each.name for each in dataclasses.fields(imported) if each.init
        }


def test_the_help_of_our_flags_is_what_the_docstrings_say() -> None:
    text = " ".join(TrlParser((RecipeArguments, VerifiedGRPOConfig)).format_help().split())
    assert "in at most 0.1 % of a step's time. (default: True)" in text
    assert "Put before every prompt. (default: None)" in text


def test_env_is_set_before_the_libraries_are_imported(write: Any, tmp_path: Path) -> None:
    path = write(
        env={"HF_HUB_OFFLINE": 1, "TRL_GRPO_EXT_TEST": "on"}, dataset_name="/no/such/data"
    )
    code = (
        "import sys; from trl_grpo_ext.cli.main import main; main(sys.argv[1:]); "
        "import os, huggingface_hub.constants as c; "
        "print(os.environ['TRL_GRPO_EXT_TEST'], c.HF_HUB_OFFLINE)"
    )
    environment = {
        key: value for key, value in os.environ.items() if key != "HF_HUB_OFFLINE"
    }
    command = [sys.executable, "-c", code, "train", "--config", str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == "on True\n"
    with pytest.raises(ValueError, match="mapping of environment variables"):
        set_environment(load_recipe(str(write(env=["A=1"]))))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": None}, "needs a `rewards:` list"),
        ({"rewards": []}, "needs a `rewards:` list"),
        ({"rewards": "math"}, "needs a `rewards:` list"),
        ({"rewards": ["math"]}, "rewards entry 1 must be a mapping"),
        ({"rewards": [{"name": "a"}]}, r"rewards entry 1 \(a\): `verifier` must name"),
        ({"rewards": [{"verifier": "no_such_module.v"}]}, "cannot be imported"),
        (
            {"rewards": [{"verifier": "trl_grpo_ext.rewards.math.MathVerifie"}]},
            "Did you mean `MathVerifier`",
        ),
        ({"rewards": [{"verifier": "os.getcwd"}]}, "make one of a function with @verifier"),
        (
            {"rewards": [{"verifier": "math", "colum": "gold"}]},
            "unknown key `colum`. Did you mean `column`",
        ),
        ({"rewards": [{"verifier": "math", "wieght": 1}]}, "Did you mean `weight`"),
        ({"rewards": [{"verifier": "regex"}]}, "pattern"),
        (
            {"rewards": [{"verifier": "math", "weight": "-.1x"}]},
            r"`weight` is a number.*'-.1x'",
        ),
        ({"rewards": [{"verifier": "math", "timeout": 0}]}, "above 0"),
        (
            {"rewards": [{"verifier": "math"}, {"verifier": "math"}]},
            "Two reward terms have the name 'math'",
        ),
        (
            {"rewards": [{"verifier": "math", "weight": 0}]},
            "Every reward has weight 0 when training starts",
        ),
        ({"dataset_name": None}, "names no data"),
        (
            {"model_name_or_path": "bundled:tiny_reasonr"},
            "Did you mean `bundled:tiny_reasoner`",
        ),
        ({"halt_on": 5}, "wrong type"),
        ({"num_generations": [8]}, r"`num_generations` must be a number, got \[8\]"),
        ({"torch_threads": 0}, "must be 1 or more"),
        ({"learning_rate": float("nan")}, "`learning_rate` must be"),
        ({"max_steps": 0}, "`max_steps` must be 1 or more.*num_train_epochs: 0"),
        ({"top_k": -3}, "`top_k` must be 0 or more"),
        ({"top_p": 2.0}, "`top_p` must be above 0, and 1 at most"),
        (
            {"per_device_train_batch_size": 0},
            "`per_device_train_batch_size` must be 1 or more",
        ),
        ({"system_prompt": [1, 2]}, "`system_prompt` must be text"),
        ({"prompt_template": 5}, "`prompt_template` must be text"),
        (
            {"prompt_template": "{q}", "prompt_column": "text"},
            "not both; a template has the column at `{text}`",
        ),
        ({"prompt_template": "What is it?"}, "no place for a column"),
        (
            {"prompt_template": "{q.__class__}"},
            r"cannot have '\{q.__class__\}': a place is `\{column\}`",
        ),
        ({"prompt_template": "{q[0].x}"}, "cannot have"),
        ({"prompt_template": "{q!r}"}, "cannot have"),
        ({"prompt_template": "{q:>9}"}, "cannot have"),
        ({"prompt_template": "{}"}, "cannot have"),
        ({"prompt_template": "{q} }"}, "a brace itself is `{{`"),
        (
            {"resume_from_checkpoint": "/no/such/checkpoint"},
            "no checkpoint '/no/such/checkpoint'",
        ),
        ({"resume_from_checkpoint": True}, "no checkpoint in"),
        ({"rewards": [{"verifier": "regex", "pattern": 5}]}, "must be text"),
        ({"rewards": [{"verifier": "math", "timeout": "fast"}]}, "above 0"),
        (
            {"rewards": [{"verifier": "broken_module.v"}]},
            "cannot be imported: RuntimeError: as planted",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(
    write: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    message: str,
) -> None:
    (tmp_path / "broken_module.py").write_text("raise RuntimeError('as planted')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        parse(write(**changes))


@pytest.mark.parametrize(
    ("entry", "package", "extra"),
    [
        ({"verifier": "language"}, "py3langid", "language"),
        ({"verifier": "json", "schema": {"type": "object"}}, "jsonschema", "json"),
        (
            {"verifier": "llm_judge", "model": "m", "base_url": "http://localhost"},
            "openai",
            "llm-judge",
        ),
        ({"verifier": "reasoning_gym"}, "reasoning_gym", "reasoning-gym"),
        (
            {"verifier": "all_of", "verifiers": [{"verifier": "language"}]},
            "py3langid",
            "language",
        ),
    ],
)
def test_a_verifier_whose_extra_is_not_installed_is_refused_when_the_recipe_is_read(
    write: Any,
    monkeypatch: pytest.MonkeyPatch,
    entry: dict[str, Any],
    package: str,
    extra: str,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ValueError, match=rf"rewards entry 1.*pip install 'trl-grpo-ext\[{extra}\]'"
    ):
        parse(write(rewards=[entry]))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine can")
def test_bf16_that_this_machine_cannot_is_refused(write: Any) -> None:
    with pytest.raises(ValueError, match="bf16"):
        parse(write(use_cpu=False, bf16=True))


def test_threads_that_may_wait_for_each_other_on_a_cpu_are_warned_of(
    write: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    set_up(parse(write(torch_threads=1)))
    assert not caplog.messages
    set_up(parse(write()))
    assert "on the CPU, in 2 threads" in caplog.text
    assert "torch_threads: 1" in caplog.text


def test_a_first_reward_of_negative_weight_is_warned_of(
    write: Any, caplog: pytest.LogCaptureFixture
) -> None:
    penalty = {"name": "penalty", "verifier": "repetition", "weight": -1}
    fading = {"from": 1, "to": -1, "until": 10, "unit": "step"}
    parse(write(rewards=[{"verifier": "math", "weight": fading}, penalty]))
    assert not caplog.records
    shadow = {"name": "shadow", "verifier": "math", "weight": 0}
    for rewards in ([penalty, {"verifier": "math"}], [shadow, penalty]):
        caplog.clear()
        parse(write(rewards=rewards))
        assert "trained away from what it counts as right" in caplog.text


def test_a_verifier_that_takes_any_settings_gets_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "any_settings.py").write_text(
        "from trl_grpo_ext import Verifier\n"
        "class Kept(Verifier):\n"
        "    def __init__(self, **settings):\n"
        "        super().__init__()\n"
        "        self.kept = settings\n"
        "    def verify(self, sample): return True\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    mix = build_mix([{"verifier": "any_settings.Kept", "depth": 3, "settings": 4}])
    [(_, verifier)] = mix.verifiers
    assert vars(verifier)["kept"] == {"depth": 3, "settings": 4}


def test_a_verifier_may_be_a_class_an_instance_or_a_function_by_dotted_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_rewards.py").write_text(
        "import re\nfrom trl_grpo_ext import Sample, verifier\n"
        "@verifier\ndef polite(sample): return 'please' in sample.text\n"
    )
    monkeypatch.chdir(tmp_path)
    mix = build_mix(
        [
            {"verifier": "my_rewards:polite"},  # a colon does as well, as in an entry point
            {"verifier": "trl_grpo_ext.rewards.math_reward"},
            {"verifier": "trl_grpo_ext.rewards.RegexVerifier", "pattern": "a", "weight": 0},
            {
                "name": "strict",
                "verifier": "math",
                "column": "gold",
                "timeout": 2.0,
                "weight": -0.5,
            },
        ]
    )
    assert [term.name for term in mix.terms] == ["polite", "math_reward", "regex", "strict"]
    assert mix.weights == [1.0, 1.0, 0.0, -0.5]
    assert mix.terms[2].verifier == RegexVerifier(pattern="a")
    assert mix.terms[3].verifier == MathVerifier(column="gold", timeout=2.0)
    with pytest.raises(ValueError, match="takes no arguments"):
        build_mix([{"verifier": "my_rewards.polite", "column": "x"}])
    with pytest.raises(ValueError, match=r"has no 'polit'. Did you mean `polite`"):
        build_mix([{"verifier": "my_rewards.polit"}])
    with pytest.raises(ValueError, match=r"has no 'nope'. Valid are: `polite`\.$"):
        build_mix([{"verifier": "my_rewards.nope"}])
    with pytest.raises(
        ValueError, match=r"has no 'MathVerifyer'. Did you mean `MathVerifier`"
    ):
        build_mix([{"verifier": "trl_grpo_ext.rewards.MathVerifyer"}])
    with pytest.raises(
        ValueError, match=re.escape(f"are looked for in the current folder, {tmp_path}.")
    ):
        build_mix([{"verifier": "no_rewards.polite"}])


def test_a_dataset_that_is_nearly_a_folder_here_is_said_to_be_looked_for_on_the_hub(
    write: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "prompts").mkdir()
    monkeypatch.chdir(tmp_path)
    path = write(dataset_name="prompt")
    monkeypatch.setattr(
        "datasets.load_dataset",
        lambda **_: {"train": Dataset.from_list([{"prompt": "1+1?"}])},
    )
    load_data(parse(path).data)
    assert (
        "There is no 'prompt' here, only 'prompts': the dataset is looked for on the Hub."
        in caplog.text
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- a\n- b\n", "YAML mapping"),
        ("a: [", "not valid YAML"),
        ("beta: 0\n\nbeta: 1\n", "the key `beta` in line 3 is already in line 1"),
        (
            "rewards:\n- name: a\n  name: b\n",
            "the key `name` in line 3 is already in line 2",
        ),
        (
            "rewards: [{name: a, weight: 1, name: b}]",
            "the key `name` in line 1 is already in line 1",
        ),
    ],
)
def test_a_file_that_is_no_mapping_is_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        load_recipe(str(path))


def test_a_recipe_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(
        ValueError, match=r"neither a file nor a shipped recipe. Did you mean `quickstart`"
    ):
        load_recipe("quikstart")


def jsonl(folder: Path, split: str, *rows: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{split}.jsonl").write_text("\n".join(rows))


def test_the_current_folder_is_a_dataset(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jsonl(tmp_path / "data", "train", '{"prompt": "2+2?", "solution": "4"}')
    path = write(dataset_name=".")
    monkeypatch.chdir(tmp_path / "data")
    assert load_data(parse(path).data)["train"][0]["solution"] == "4"


def test_a_column_and_a_system_prompt_become_conversations(
    write: Any, tmp_path: Path
) -> None:
    jsonl(tmp_path / "data", "train", '{"question": "2+2?", "answer": "#### 4"}')
    path = write(
        dataset_name=str(tmp_path / "data"),
        prompt_column="question",
        system_prompt="Think.",
    )
    rows = load_data(parse(path).data)["train"]
    assert rows.column_names == ["answer", "prompt"]
    assert rows[0]["prompt"] == [
        {"role": "system", "content": "Think."},
        {"role": "user", "content": "2+2?"},
    ]


@pytest.mark.parametrize(
    ("template", "prompt"),
    [
        (
            "{text} It must pass {tests[0]}.",
            "Return {x}. It must pass assert f({1}) == '{tests}'.",
        ),
        ("{tests[1]}{tests[1]}", "assert f(2)assert f(2)"),
        ("{text}\n{tests}", "Return {x}.\nassert f({1}) == '{tests}'\nassert f(2)"),
        ("{info[level]}: {{text}} {info[tags][1]}", "7: {text} b"),
        ("{text}{nothing}", "Return {x}."),
        ("{ text }", "Return {x}."),
    ],
)
def test_a_template_is_filled_from_the_columns_which_stay_as_they_are(
    write: Any, tmp_path: Path, template: str, prompt: str
) -> None:
    row = {
        "text": "Return {x}.",
        "tests": ["assert f({1}) == '{tests}'", "assert f(2)"],
        "nothing": None,
    }
    row |= {"info": {"level": 7, "tags": ["a", "b"]}, "prompt": "an older one"}
    jsonl(tmp_path / "data", "train", json.dumps(row))
    path = write(
        dataset_name=str(tmp_path / "data"),
        prompt_template=template,
        system_prompt="Think.",
    )
    (mapped,) = load_data(parse(path).data)["train"]
    assert mapped == row | {
        "prompt": [
            {"role": "system", "content": "Think."},
            {"role": "user", "content": prompt},
        ],
    }


@pytest.mark.parametrize(
    "mapping", [{"prompt_column": "question"}, {"prompt_template": "{question}"}]
)
def test_prompts_can_be_plain_text(
    write: Any, tmp_path: Path, mapping: dict[str, str]
) -> None:
    jsonl(tmp_path / "data", "train", '{"question": "2+2?", "answer": "4"}')
    flags = {"dataset_name": str(tmp_path / "data"), "plain_prompts": True} | mapping
    assert load_data(parse(write(**flags)).data)["train"]["prompt"][:] == ["2+2?"]
    assert load_data(parse(write(**flags, system_prompt="Think.")).data)["train"]["prompt"][
        :
    ] == ["Think.\n\n2+2?"]


SHOWN = [{"prompt": "1+1?", "completion": "2"}, {"prompt": "1+2?", "completion": "3"}]


def test_worked_examples_stand_between_the_system_prompt_and_the_prompt(
    write: Any, tmp_path: Path
) -> None:
    jsonl(tmp_path / "data", "train", '{"question": "2+2?"}')
    keys = {
        "dataset_name": str(tmp_path / "data"),
        "prompt_column": "question",
        "few_shot": SHOWN,
    }
    (row,) = load_data(parse(write(**keys, system_prompt="Think.")).data)["train"]
    assert [message["content"] for message in row["prompt"]] == [
        "Think.",
        "1+1?",
        "2",
        "1+2?",
        "3",
        "2+2?",
    ]
    roles = ["system", "user", "assistant", "user", "assistant", "user"]
    assert [message["role"] for message in row["prompt"]] == roles
    (row,) = load_data(parse(write(**keys, plain_prompts=True)).data)["train"]
    assert row["prompt"] == "1+1?\n2\n\n1+2?\n3\n\n2+2?"


def test_worked_examples_come_after_a_conversations_own_system_prompt(
    write: Any, tmp_path: Path
) -> None:
    own = [{"role": "system", "content": "Own."}, {"role": "user", "content": "2+2?"}]
    jsonl(tmp_path / "data", "train", json.dumps({"prompt": own}))
    (row,) = load_data(
        parse(write(dataset_name=str(tmp_path / "data"), few_shot=SHOWN[:1])).data
    )["train"]
    assert [message["content"] for message in row["prompt"]] == [
        "Own.",
        "1+1?",
        "2",
        "2+2?",
    ]


LEVELS = [json.dumps({"prompt": f"{number}?", "level": number % 5}) for number in range(50)]


def test_rows_are_those_that_apply_and_at_most_so_many_by_seed(
    write: Any, tmp_path: Path
) -> None:
    jsonl(tmp_path / "data", "train", *LEVELS)
    keys: dict[str, Any] = {
        "dataset_name": str(tmp_path / "data"),
        "when": {"level": [3, 4]},
    }

    def prompts(*flags: str, **more: Any) -> list[str]:
        return list(load_data(parse(write(**keys, **more), *flags).data)["train"]["prompt"])

    assert prompts() == [f"{number}?" for number in range(50) if number % 5 >= 3]
    assert prompts("--rows", "5") == prompts(rows=5) and len(set(prompts(rows=5))) == 5
    assert set(prompts(rows=5)) < set(prompts())
    assert prompts(rows=5) != prompts("--rows_seed", "1", rows=5)
    assert len(prompts(rows=1000)) == 20
    streamed = load_data(parse(write(**keys, rows=5, dataset_streaming=True)).data)["train"]
    assert {row["prompt"] for row in streamed} < set(prompts()) and len(list(streamed)) == 5


def test_rows_to_test_on_are_set_aside_by_seed_and_never_trained_on(
    write: Any, tmp_path: Path
) -> None:
    jsonl(tmp_path / "data", "train", *LEVELS)
    data = load_data(parse(write(dataset_name=str(tmp_path / "data"), test_rows=10)).data)
    again = load_data(parse(write(dataset_name=str(tmp_path / "data"), test_rows=10)).data)
    assert len(data["test"]) == 10 and list(data["test"]["prompt"]) == list(
        again["test"]["prompt"]
    )
    assert sorted([*data["train"]["prompt"], *data["test"]["prompt"]]) == sorted(
        f"{number}?" for number in range(50)
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 0}, "`rows` is a number of 1 or more, got 0"),
        ({"test_rows": True}, "`test_rows` is a number of 1 or more, got True"),
        ({"when": ["level"]}, "`when` maps dataset columns to the values"),
        ({"when": {"levle": 1}}, "`levle`, which is not there. Did you mean `level`"),
        ({"when": {"level": 7}}, "no rows to train on"),
        ({"test_rows": 50}, "50 rows to train on, so 50 cannot be set aside"),
        ({"test_rows": 5, "dataset_test_split": "train"}, "has a split 'train' to test on"),
        (
            {"test_rows": 5, "dataset_streaming": True},
            "Rows of a stream cannot be set aside",
        ),
        ({"few_shot": "2+2?"}, "`few_shot` is a list"),
        (
            {"few_shot": [{"prompt": "2+2?", "answer": "4"}]},
            "a text `prompt` and a text `completion`",
        ),
    ],
)
def test_a_selection_of_rows_that_cannot_be_is_refused_with_what_to_do(
    write: Any, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    jsonl(tmp_path / "data", "train", *LEVELS)
    with pytest.raises(ValueError, match=message):
        load_data(parse(write(**({"dataset_name": str(tmp_path / "data")} | changes))).data)


def test_without_a_mapping_the_data_is_left_as_it_is(write: Any) -> None:
    data = load_data(parse(write()).data)
    assert data["train"][0]["prompt"][0]["role"] == "user"
    assert set(data) == {"train", "test"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt_column": "qestion"}, r"no column `qestion`.*Did you mean `question`"),
        (
            {"prompt_column": "text"},
            r"no column `text`.*The columns are: `question`, `result`, `info`",
        ),
        ({"prompt_column": None}, "no `prompt` column"),
        (
            {"dataset_name": "bundled:sums", "plain_prompts": True},
            "plain_prompts makes prompts of text",
        ),
        (
            {"prompt_template": "{qestion}"},
            r"no column `qestion`.*\(prompt_template\). Did you mean `question`",
        ),
        (
            {"prompt_template": "{result[1]}"},
            r"nothing at `\{result\[1\]\}` .*: `result` is '4'",
        ),
        ({"prompt_template": "{question[0]}"}, r"nothing at `\{question\[0\]\}`"),
        ({"prompt_template": "{info[levle]}"}, r"nothing at `\{info\[levle\]\}`"),
        (
            {"prompt_template": "{info}"},
            r"has the keys level: name one of them, as in `\{info\[level\]\}`",
        ),
        (
            {"prompt_column": "question", "rewards": [{"verifier": "math"}]},
            "needs the dataset column",
        ),
        (
            {"prompt_column": "question", "dataset_train_split": "trian"},
            "Did you mean `train`",
        ),
        (
            {"prompt_column": "question", "evaluate_before_and_after": True},
            "no split 'test' to evaluate on",
        ),
    ],
)
def test_data_that_does_not_fit_is_refused_before_the_model_is_loaded(
    write: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    message: str,
) -> None:
    jsonl(
        tmp_path / "data",
        "train",
        '{"question": "2+2?", "result": "4", "info": {"level": 7}}',
    )
    rewards = [{"verifier": "math", "column": "result"}]
    path = write(**({"dataset_name": str(tmp_path / "data"), "rewards": rewards} | changes))
    assert (
        main(["train", "--config", str(path), "--model_name_or_path", str(tmp_path)]) == 2
    )  # no model is there
    error = capsys.readouterr().err
    assert re.search(message, error)
    assert "Traceback" not in error


def test_data_of_less_than_a_batch_of_prompts_is_refused_since_no_step_would_be_trained(
    write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jsonl(
        tmp_path / "data", "train", *[json.dumps({"prompt": "2+2?", "solution": "4"})] * 3
    )
    path = write(
        dataset_name=str(tmp_path / "data"),
        num_generations=2,
        per_device_train_batch_size=8,
    )
    assert main(["train", "--config", str(path)]) == 2
    assert (
        "has 3 rows to train on, and TRL generates for 4 prompts at a time"
        in capsys.readouterr().err
    )


def test_a_resume_at_the_last_step_is_refused_and_writes_nothing(
    write: Any, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "run" / "checkpoint-3"
    checkpoint.mkdir(parents=True)
    (checkpoint / "trainer_state.json").write_text('{"global_step": 3}')
    resumed = {"resume_from_checkpoint": True, "max_steps": 3}
    with pytest.raises(ValueError, match="is at step 3 of 3, so nothing is left to train"):
        make_trainer(parse(write(**resumed)))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["checkpoint-3"]
    parse(
        write(**resumed, max_completion_length=8)
    )  # the recipe itself is fine, as `eval` and `check-data` need it


@pytest.mark.parametrize("wanted", [True, "checkpoint-6"])
def test_a_checkpoint_that_was_cut_while_it_was_saved_is_refused_and_a_whole_one_named(
    write: Any, tmp_path: Path, wanted: bool | str
) -> None:
    folder = tmp_path / "run"
    for name in ("checkpoint-4", "checkpoint-6"):
        (folder / name).mkdir(parents=True)
    (folder / "checkpoint-4" / "trainer_state.json").write_text("{}")
    resumed = wanted if wanted is True else str(folder / "checkpoint-6")
    with pytest.raises(
        ValueError, match=r"checkpoint-6' has no trainer_state\.json"
    ) as refused:
        parse(write(resume_from_checkpoint=resumed))
    assert f"or resume from '{folder / 'checkpoint-4'}', which is whole" in str(
        refused.value
    )


@pytest.mark.slow
def test_a_new_run_renames_the_checkpoints_of_an_earlier_one_which_it_could_not_go_on_from(
    write: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    for name in ("checkpoint-4", "checkpoint-8", "checkpoint-8.1", "checkpoints"):
        (folder / name).mkdir(parents=True)
    make_trainer(parse(write()))
    assert {path.name for path in folder.glob("checkpoint*")} == {
        "checkpoint-4.1",
        "checkpoint-8.1",
        "checkpoint-8.2",
        "checkpoints",
    }
    with pytest.raises(ValueError, match="no checkpoint in"):
        parse(write(resume_from_checkpoint=True))


@pytest.mark.slow
def test_a_new_run_moves_the_saved_model_of_an_earlier_one_aside_whole(
    write: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    earlier = make_trainer(parse(write()))
    earlier.save_model(str(folder))
    (folder / "notes.txt").write_text("mine")
    make_trainer(parse(write()))
    assert not list(folder.glob("*.safetensors"))
    assert (folder / "notes.txt").exists()
    moved = str(folder / "saved_model.1")
    again = make_trainer(
        parse(write(model_name_or_path=moved, output_dir=str(tmp_path / "again")))
    )
    assert all(
        torch.equal(before, after)
        for before, after in zip(
            earlier.model.parameters(), again.model.parameters(), strict=True
        )
    )


def test_a_run_that_begins_with_the_model_of_its_own_folder_leaves_it_there(
    write: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    make_trainer(parse(write())).save_model(str(folder))
    make_trainer(parse(write(model_name_or_path=str(folder))))
    assert (folder / "model.safetensors").exists()


def test_an_output_folder_that_cannot_be_written_is_refused(
    write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    path = write(output_dir=str(tmp_path / "file" / "run"))
    assert (
        main(["train", "--config", str(path), "--model_name_or_path", str(tmp_path)]) == 2
    )  # no model is there
    assert "cannot be written to" in capsys.readouterr().err


def test_a_start_that_is_refused_leaves_no_empty_folder(write: Any, tmp_path: Path) -> None:
    path = write(output_dir=str(tmp_path / "runs" / "new"), prompt_column="no_such_column")
    assert main(["train", "--config", str(path)]) == 2
    assert not (tmp_path / "runs").exists()


ROWS = {
    "data.jsonl": '{"prompt": "2+2?", "solution": "4"}\n{"prompt": "1+1?", "solution": "2"}\n',
    "data.json": '[{"prompt": "2+2?", "solution": "4"}, {"prompt": "1+1?", "solution": "2"}]',
    "data.csv": "prompt,solution\n2+2?,4\n1+1?,2\n",
}


@pytest.mark.parametrize("name", [*ROWS, "data.parquet"])
def test_a_local_file_is_the_split_to_train_on(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if name in ROWS:
        Path(name).write_text(ROWS[name])
    else:
        Dataset.from_list(json.loads(ROWS["data.json"])).to_parquet(name)
    data = load_data(parse(write(dataset_name=name, dataset_config="main")).data)
    assert [row["prompt"] for row in data["train"]] == ["2+2?", "1+1?"]
    assert list(
        load_data(parse(write(dataset_name=name, dataset_train_split="mine")).data)
    ) == ["mine"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data/of/mine", None, "no file or folder 'data/of/mine'"),
        ("data.txt", "2+2?", "ends in .jsonl, .json, .csv, .parquet"),
        ("data.jsonl", "", "has no rows to train on"),
        ("data.jsonl", "\n", "has no rows to train on"),
        ("data.json", "[]", "has no rows to train on"),
        ("data.csv", "", "has no rows to train on"),
        ("data.csv", "prompt,solution\n", "has no rows to train on"),
    ],
)
def test_data_that_is_not_there_is_refused_by_what_it_lacks(
    write: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: str | None,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(name).write_text(content)
    assert main(["check-data", "--config", str(write(dataset_name=name))]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize("content", ["", "{not json", '{"prompt": 5, "solution": "4"}'])
def test_data_that_cannot_be_read_is_refused_in_one_line(
    write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    jsonl(tmp_path / "data", "train", content)
    assert main(["train", "--config", str(write(dataset_name=str(tmp_path / "data")))]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert (
        "cannot be loaded" in error
        or "no rows" in error
        or "texts or lists of messages" in error
    )


def test_of_a_folder_with_runs_beside_the_data_the_error_names_the_way_out(
    write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("train", "test"):
        jsonl(tmp_path, name, '{"prompt": "2+2?", "solution": "4"}')
    run = tmp_path / "runs/first"
    run.mkdir(parents=True)
    (run / "evaluation.json").write_text('{"rows": {"judged": 1}}', encoding="utf-8")
    assert main(["check-data", "--config", str(write(dataset_name=str(tmp_path)))]) == 2
    assert (
        "name a file instead, or a folder that holds data alone" in capsys.readouterr().err
    )


def test_a_cache_that_cannot_be_written_to_is_told_with_the_way_to_another(
    write: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jsonl(tmp_path, "train", '{"prompt": "2+2?", "solution": "4"}')
    (tmp_path / "file").touch()
    monkeypatch.setattr(
        "datasets.config.HF_DATASETS_CACHE", str(tmp_path / "file" / "cache")
    )
    assert (
        main(
            [
                "check-data",
                "--config",
                str(write(dataset_name=str(tmp_path / "train.jsonl"))),
            ]
        )
        == 2
    )
    assert "file/cache; HF_HOME names another place)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model_name_or_path", "/no/such/model"], "There is no folder /no/such/model"),
        (["--report_to", "no_such_tracker"], "no_such_tracker"),
        (
            ["--report_to", "clearml", "--model_name_or_path", "no/model"],
            "The tracker 'clearml' (report_to) is not installed",
        ),
        (["--temperature", "0"], "temperature"),
        (
            ["--model_name_or_path", "bundled:tiny_coder"],
            "no chat template to write them with",
        ),
    ],
)
def test_a_start_that_fails_leaves_what_an_earlier_run_has_recorded_where_it_is(
    write: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    message: str,
) -> None:
    earlier = tmp_path / "run" / "scorecards" / "log.jsonl"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("")
    assert main(["train", "--config", str(write(prompt_column=None)), *flags]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in earlier.parent.parent.iterdir()] == ["scorecards"]
    assert earlier.exists()


def test_a_run_in_which_nothing_can_be_judged_says_so_and_why_in_its_summary(
    write: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "colours.py").write_text(
        "from trl_grpo_ext import verifier\n"
        "@verifier\n"
        "def colour(sample): return sample.text != 'I do not know.' and sample.row['colour'] in sample.text\n"
    )
    monkeypatch.chdir(tmp_path)
    path = write(
        rewards=[{"verifier": "colours.colour"}],
        max_steps=1,
        max_completion_length=4,
        num_generations=4,
        per_device_train_batch_size=8,
        dtype="float32",
        write_report=False,
    )
    main(["train", "--config", str(path)])
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    why = "None of the 8 completions could be judged: mostly `raised_KeyError` of `colour` (8), the grader's fault."
    assert summary["nothing_learned"] == why


def test_a_model_that_cannot_be_saved_costs_the_model_and_not_what_the_run_came_to(
    write: Any, tmp_path: Path
) -> None:
    (tmp_path / "run" / "model.safetensors" / "in_the_way").mkdir(parents=True)
    path = write(
        max_steps=1,
        max_completion_length=4,
        num_generations=4,
        per_device_train_batch_size=8,
    )
    with pytest.raises(RuntimeError, match=r"The model could not be saved to .*run: .*"):
        main(
            [
                "train",
                "--config",
                str(path),
                "--dtype",
                "float32",
                "--write_report",
                "false",
            ]
        )
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 1


def test_a_console_that_is_gone_ends_no_training(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # as where `| head` has ended
    path = write(
        max_steps=1,
        max_completion_length=4,
        num_generations=4,
        per_device_train_batch_size=8,
    )
    with open(writing, "w", buffering=1) as gone:
        monkeypatch.setattr("sys.stdout", gone)
        monkeypatch.setattr("sys.stderr", gone)
        status = main(
            [
                "train",
                "--config",
                str(path),
                "--dtype",
                "float32",
                "--write_report",
                "false",
            ]
        )
        monkeypatch.undo()
        with pytest.raises(BrokenPipeError):
            gone.write("x\n")
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), writing
        )  # what is still to be written when it is closed
    assert status == 0 and (tmp_path / "run" / "model.safetensors").is_file()


def test_a_folder_in_which_a_run_is_under_way_is_refused(
    write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    holding = "import sys; from trl_grpo_ext.support.files import claim; claim(sys.argv[1]); print(); input()"
    command = [sys.executable, "-c", holding, str(tmp_path / "run")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "\n"
        assert main(["train", "--config", str(write(max_steps=1))]) == 2
        other.communicate("\n")
    assert "Another run writes to" in capsys.readouterr().err


def test_problems_of_reasoning_gym_are_made_on_the_spot_with_test_apart_from_train(
    write: Any,
) -> None:
    pytest.importorskip("reasoning_gym")
    name = "reasoning_gym:chain_sum?max_terms=3&train_size=50&test_size=10"
    data = load_data(parse(write(dataset_name=name, prompt_column="question")).data)
    asked = {
        split: {row["prompt"][0]["content"] for row in rows} for split, rows in data.items()
    }
    assert len(data["test"]) == 10
    assert asked["train"] and not asked["train"] & asked["test"]
    assert len(asked["test"]) == len(data["test"])
    mix = build_mix([{"verifier": "reasoning_gym"}])
    row = data["train"][0]
    assert mix.terms[0].verifier(
        [f"<answer>{row['answer']}</answer>"], entry=[row["entry"]]
    ) == [1.0]  # type: ignore[misc]
    with pytest.raises(ValueError, match="Did you mean `chain_sum`"):
        load_data(
            parse(
                write(dataset_name="reasoning_gym:chain_sun", prompt_column="question")
            ).data
        )
    with pytest.raises(ValueError, match="max_termz"):
        load_data(
            parse(
                write(
                    dataset_name="reasoning_gym:chain_sum?max_termz=3",
                    prompt_column="question",
                )
            ).data
        )
