"""Recipes with environments and tools: early errors for typos, training, evaluation, data checks, scores."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from environment_run import scored_by_environments, tool_tokenizer

from trl_grpo_ext.cli.main import main
from trl_grpo_ext.mix.data_check import try_verifiers
from trl_grpo_ext.recipe.data import load_data
from trl_grpo_ext.recipe.file import load_recipe
from trl_grpo_ext.recipe.recipe import Recipe, parse_recipe
from trl_grpo_ext.recipe.run import _refuse_useless
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.trainer.guarded import untouched_outcome

pytestmark = [
    scored_by_environments,
    pytest.mark.filterwarnings("ignore:You are using 'environment_factory'"),
]

MODULE = '''
from trl_grpo_ext import verifier
from trl_grpo_ext.protocol import DataProblem


class Game:
    """Is won by a row whose solution is even."""

    def reset(self, **row):
        self.solution = row["solution"]
        if self.solution == "down":
            raise ConnectionError("no server")

    def look(self, place: str) -> str:
        """Look somewhere.

        Args:
            place: Where to look.
        """
        return f"nothing in {place}"

    def get_reward(self):
        return int(self.solution) % 2 == 0

    @property
    def state(self):
        return {"solution": self.solution}


class Checked(Game):
    """Finds each row too easy."""

    def _check_rows(self, rows, *, thorough=False):
        return [
            DataProblem(row=number, reason="too_easy", value=row["prompt"], advice="Take another.")
            for number, row in enumerate(rows)
        ]


def make_checked():
    return Checked()


class Asking(Game):
    """Reads the question."""

    def reset(self, **row):
        self.solution = row["question"]


class Silent(Game):
    """Never has a reward."""

    def get_reward(self):
        return None


class Unfinished:
    """Cannot be reset."""


class Untold(Game):
    def move(self, place) -> str:
        """Move somewhere."""
        return place


class Unscored:
    def reset(self, **row):
        return None


def search(words: str) -> str:
    """Search.

    Args:
        words: The words.
    """
    return words


def silent(words: str) -> str:
    return words


@verifier
def is_known(sample) -> bool:
    return sample.outcome.state["solution"] == sample.row["solution"]


def parameters(words: str) -> str:
    """Search.

    Parameters:
        words: The words.
    """
    return words


NUMBER = 3
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Change to a folder with the module `my_games`."""
    (tmp_path / "my_games.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("my_games", None)


@pytest.fixture
def model(folder: Path, tiny_model: str) -> str:
    """Copy the bundled model, with a template for tool calls."""
    shutil.copytree(tiny_model, folder / "model")
    tool_tokenizer(tiny_model).save_pretrained(folder / "model")
    return str(folder / "model")


SOLVED = {"name": "solved", "verifier": "environment"}


def write(folder: Path, **changes: Any) -> str:
    keys = {
        "model_name_or_path": "bundled:tiny_reasoner", "dataset_name": "bundled:sums", "output_dir": "run",
        "environment": "my_games.Game", "rewards": [SOLVED, {"verifier": "my_games.is_known", "weight": 0.1}],
        "use_cpu": True, "bf16": False, "max_steps": 1, "per_device_train_batch_size": 8, "num_generations": 4,
        "max_completion_length": 16, "rows": 16, "report_to": "none", "torch_threads": 1,
    }  # fmt: skip
    written = {key: value for key, value in (keys | changes).items() if value is not None}
    (folder / "agent.yaml").write_text(yaml.safe_dump(written))
    return "agent.yaml"


def parse(path: str) -> Recipe:
    return parse_recipe(load_recipe(path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"environment": "my_games.Gane"},
            "`environment`: the module 'my_games' has no 'Gane'. Did you mean `Game`?",
        ),
        (
            {"environment": "my_gams.Game"},
            "`environment`: 'my_gams.Game' cannot be imported",
        ),
        ({"environment": "Game"}, "`environment`: 'Game' is no path of a module"),
        ({"environment": ["my_games.Game"]}, "`environment` is the path of a class"),
        (
            {"environment": {"a": "my_games.Gane"}},
            "`environment: a`: the module 'my_games' has no 'Gane'",
        ),
        ({"environment": "my_games.NUMBER"}, "`environment`: my_games.NUMBER is a int"),
        (
            {"environment": "my_games.Unfinished"},
            "the class my_games.Unfinished has no method `reset`",
        ),
        (
            {"environment": "my_games.Untold"},
            "`environment`, the tool 'move' has no type hint for `place`",
        ),
        (
            {"environment": "my_games.Unscored"},
            "no environment of the recipe has a `get_reward`",
        ),
        (
            {"environment": None},
            "The reward term 'solved' judges outcomes of environments, and the recipe names none",
        ),
        ({"tools": "my_games.search"}, "`tools` is a list of paths of functions"),
        (
            {"tools": ["my_games.serch"]},
            "`tools`: the module 'my_games' has no 'serch'. Did you mean `search`?",
        ),
        ({"tools": ["my_games.silent"]}, "`tools`, my_games.silent has no docstring"),
        (
            {"tools": ["my_games.parameters"]},
            "`tools`, my_games.parameters has a docstring or type hints that transformers refuses",
        ),
        ({"tools": ["my_games.NUMBER"]}, "`tools`: my_games.NUMBER is a int"),
        ({"environmnt": "my_games.Game"}, "Unknown key `environmnt`"),
    ],
)
def test_typos_are_told_before_a_model_is_loaded(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError) as caught:  # the message is looked at
        parse(write(folder, **changes))
    assert message in str(caught.value)


def test_environments_and_tools_are_found_in_the_current_folder(folder: Path) -> None:
    recipe = parse(
        write(folder, environment={"even": "my_games:Game"}, tools=["my_games.search"])
    )
    assert list(recipe.agent["environment_factory"]) == ["even"]
    assert [tool.__name__ for tool in recipe.agent["tools"]] == ["search"]


def test_rows_that_choose_an_environment_that_is_not_there_are_told_before_training(
    folder: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(folder, environment={"even": "my_games.Game"}, model_name_or_path=model)
    assert main(["train", "--config", path]) == 2
    assert (
        "train_dataset no column `environment` that chooses one for each row: 'even'"
        in capsys.readouterr().err
    )


@pytest.mark.slow  # trains and evaluates
def test_an_agent_is_trained_evaluated_and_replayed_by_its_recipe(
    folder: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(folder, model_name_or_path=model, tools=["my_games.search"])
    assert main(["train", "--config", path]) in (0, 1)
    (card,) = RecordedRun(folder / "run").cards("train")
    for row, sample in enumerate(card.samples):
        assert sample.outcome is not None
        assert sample.outcome.state == {"solution": sample.row["solution"]}
        assert card.values["solved"][row] == float(int(sample.row["solution"]) % 2 == 0)
    assert card.values["is_known"] == (1.0,) * len(card)
    capsys.readouterr()
    command = [
        "eval",
        "--model",
        "run",
        "--config",
        path,
        "--limit",
        "4",
        "--samples",
        "2",
        "--json",
    ]
    assert main(command) == 0
    terms = json.loads(capsys.readouterr().out)["models"][0]["terms"]
    assert terms["is_known"]["statuses"]["correct"] == 8
    assert main(["replay", "run", "--config", path]) == 0


def test_check_data_resets_an_environment_and_hands_its_outcome_to_verifiers(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check-data", "--config", write(folder)]) == 0
    said = capsys.readouterr().out
    told = "Rows of Game are judged only in a rollout: one row was reset."
    assert f"train: 16 rows, and the verifiers find no fault. {told}" in said
    rows = [{"prompt": "2+2?", "solution": "down"}]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert (
        main(
            ["check-data", "--config", write(folder, dataset_name="rows.jsonl", rows=None)]
        )
        == 1
    )
    said = capsys.readouterr().out
    assert (
        "the environment fails on line 1 of rows.jsonl: Game.reset raised ConnectionError: no server"
        in said
    )


@pytest.mark.parametrize(
    ("environment", "when", "lines"),
    [
        ("my_games.Checked", None, "lines 1, 2"),
        ("my_games.make_checked", None, "lines 1, 2"),
        ({"old": "my_games.Game", "new": "my_games.Checked"}, None, "line 2"),
        ("my_games.Checked", {"environment": "old"}, "line 1"),
    ],
)
def test_an_environment_tells_which_of_the_rows_that_it_judges_cannot_be_judged(
    environment: Any,
    when: Any,
    lines: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [
        {"prompt": "2+2?", "solution": "4", "environment": name} for name in ("old", "new")
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reward = SOLVED | ({"when": when} if when else {})
    path = write(
        folder,
        environment=environment,
        rewards=[reward],
        dataset_name="rows.jsonl",
        rows=None,
    )
    assert main(["check-data", "--config", path]) == 1
    said = capsys.readouterr().out
    assert f"solved: too_easy in {len(lines.split(','))} row" in said
    assert f"{lines} of rows.jsonl, such as '2+2?'" in said


def test_an_environment_that_lacks_a_column_is_told_the_columns_and_where_the_prompts_column_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rows.jsonl").write_text(json.dumps({"question": "2+2?", "solution": "4"}))
    data = {"dataset_name": "rows.jsonl", "rows": None, "prompt_column": "question"}
    assert (
        main(
            ["check-data", "--config", write(folder, environment="my_games.Asking", **data)]
        )
        == 1
    )
    said = capsys.readouterr().out
    had = "the row has `solution`, `prompt` (made of `question` by prompt_column)"
    assert re.search(
        rf"the environment fails on line 1 .*KeyError: 'question'.*; {re.escape(had)}", said
    )
    assert re.search(
        rf"the verifier of 'solved' fails on line 1 .*; {re.escape(had)}", said
    )


def test_an_environment_that_rewards_no_episode_without_a_call_is_told_and_not_refused_before_training(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(folder, environment="my_games.Silent")
    assert main(["check-data", "--config", path]) == 0
    said = capsys.readouterr().out
    assert "'solved' has no verdict on line" in said
    assert "where nothing was submitted: get_reward gave None" in said
    assert "set unsubmitted: 0.0" in said
    recipe = parse(path)
    rows = load_data(recipe.data)["train"]
    outcome = untouched_outcome(recipe.agent["environment_factory"], rows[0])
    (failure,) = try_verifiers(recipe.mix, rows, outcome)
    _refuse_useless(recipe.mix, failure)  # raises for a verifier that fails on everything


def test_an_environment_that_fails_on_the_first_row_alone_says_nothing_of_the_other_rows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The recipe's seed draws the last row first.
    golds = ["4", "5", "down"]
    rows = [json.dumps({"prompt": "Play.", "solution": gold}) for gold in golds]
    (folder / "some.jsonl").write_text("\n".join(rows))
    known = {"name": "known", "verifier": "my_games.is_known"}
    path = write(folder, dataset_name="some.jsonl", rewards=[known])
    assert main(["check-data", "--config", path]) == 1
    said = capsys.readouterr().out
    assert "the environment fails on line 3 of some.jsonl: Game.reset raised" in said
    assert said.splitlines()[-1] == "the environment fails on train"


def test_a_reward_that_fails_once_is_asked_for_again_before_training() -> None:
    class Stumbling:
        """A game whose reward service fails at first."""

        asked = 0

        def reset(self, **_: object) -> None:
            """Begin."""

        def get_reward(self) -> float:
            """Return the reward, from the second request on."""
            Stumbling.asked += 1
            if Stumbling.asked == 1:
                raise ConnectionError("try again")
            return 0.5

    outcome = untouched_outcome(Stumbling, {"prompt": "Play."})
    assert outcome is not None
    assert (outcome.reward, outcome.error) == (0.5, "")


def test_score_goes_by_a_recorded_outcome_and_a_row_without_one_is_void(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    won = {
        "environment": "Game",
        "verdict": {"status": "correct", "score": 1.0},
        "state": {"solution": "4"},
    }
    rows = [
        {"completion": "I won.", "solution": "4", "outcome": won},
        {"completion": "I won.", "solution": "4", "outcome": json.dumps(won)},
        {"completion": "I won.", "solution": "4", "outcome": "a column of another kind"},
    ]
    (folder / "said.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert (
        main(
            [
                "score",
                "said.jsonl",
                "--config",
                write(folder),
                "--output",
                "verdicts.jsonl",
                "--json",
            ]
        )
        == 1
    )
    assert json.loads(capsys.readouterr().out)["void"] == 1
    verdicts = [
        json.loads(line) for line in (folder / "verdicts.jsonl").read_text().splitlines()
    ]
    assert [verdict["reason"] for verdict in verdicts if verdict["term"] == "solved"] == [
        "",
        "",
        "no_outcome",
    ]
