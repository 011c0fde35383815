"""The audit: probes, foreign reward functions, and what the planted holes of benchmarks/planted_holes.py show."""

import json
import subprocess
import sys
from pathlib import Path

import planted_holes
import pytest

from trl_grpo_ext.audit.attack import Attack, Period
from trl_grpo_ext.audit.probes import PROBES, Said
from trl_grpo_ext.audit.reward import FunctionReward, check_attack, reward_named
from trl_grpo_ext.audit.static import audit_reward, is_paid
from trl_grpo_ext.audit.static import share as share_of
from trl_grpo_ext.audit.task import Task, read_tasks
from trl_grpo_ext.cli.exit_status import FINE, FOUND, REFUSED
from trl_grpo_ext.cli.main import main
from trl_grpo_ext.recipe.arguments import RecipeArguments
from trl_grpo_ext.recipe.data import load_data
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status
from trl_grpo_ext.workers.pool import close_workers

ROWS = 8


@pytest.fixture(scope="module")
def tasks() -> dict[str, list[Task]]:
    return {
        kind: read_tasks(load_data(RecipeArguments(dataset_name=name))["train"].select(range(ROWS)).to_list())
        for kind, name in (("answer", "bundled:sums"), ("program", "bundled:functions"))
    }


def holes(reward: str, tasks: list[Task]) -> set[str]:
    return {probe.name for probe in audit_reward(reward_named(reward), tasks).holes}


@pytest.mark.parametrize(
    ("reward", "telling"),
    [
        ("substring", {"the gold in passing", "a hedge", "many candidates", "a denial"}),
        ("last_number", {"the gold in passing", "thinking without an end"}),
        ("longest", {"padding", "another row's gold"}),
        ("format_only", {"the form without an answer", "another row's gold"}),
        ("prompt_echo", {"the prompt as the answer"}),
        ("first_tag", {"an answer taken back"}),
    ],
)
def test_the_probes_find_each_planted_hole_of_answers(
    reward: str, telling: set[str], tasks: dict[str, list[Task]]
) -> None:
    assert telling <= holes(f"planted_holes:{reward}", tasks["answer"])


@pytest.mark.parametrize(
    ("reward", "telling", "closed"),
    [
        ("exit_status", {"an exit with status 0"}, {"a constant"}),
        ("equal_object", {"an object that equals everything"}, {"an exit with status 0", "a constant"}),
    ],
)
def test_the_probes_find_each_planted_hole_of_programs(
    reward: str, telling: set[str], closed: set[str], tasks: dict[str, list[Task]]
) -> None:
    found = holes(f"planted_holes:{reward}", tasks["program"])
    assert telling <= found
    assert not closed & found


@pytest.mark.parametrize(("reward", "kind"), [("math", "answer"), ("numeric", "answer"), ("unit_test", "program")])
def test_our_verifiers_are_clean(reward: str, kind: str, tasks: dict[str, list[Task]]) -> None:
    assert audit_reward(reward_named(reward), tasks[kind]).is_clean


def test_a_reward_is_asked_in_the_form_that_it_pays(tasks: dict[str, list[Task]]) -> None:
    tagged = audit_reward(reward_named("{verifier: math, mode: answer_tag}"), tasks["answer"])
    assert (tagged.form, tagged.gold_score) == ("answer tag", 1.0)


def test_every_probe_says_something_that_is_not_the_gold(tasks: dict[str, list[Task]]) -> None:
    """A completion that must not be paid is never the one that must be."""
    for kind, of_kind in tasks.items():
        said = Said(of_kind[0], "box" if kind == "answer" else "fence")
        for probe in PROBES[kind]:
            written = list(probe.write(said))
            assert written
            assert probe.pays or said.right not in written


@pytest.mark.parametrize(
    ("gold", "paid"), [(1.0, (False, False, True)), (0.2, (False, True, True)), (0.0, (True, True, True))]
)
def test_what_counts_as_paid_depends_on_what_the_gold_earns(gold: float, paid: tuple[bool, ...]) -> None:
    assert tuple(is_paid(score, gold) for score in (0.0, 0.2, 0.8)) == paid


def test_a_function_that_breaks_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_rewards.py").write_text(
        "def raises(completions, **_): raise RuntimeError('no model')\n"
        "def too_few(completions, **_): return [1.0]\n"
        "def nan(completions, **_): return [float('nan')] * len(completions)\n"
        "def none(completions, **_): return [None] * len(completions)\n"
        "def needs(completions, label, **_): return [1.0] * len(completions)\n"
        "def hangs(completions, **_):\n"
        "    while any('hang' in one for one in completions): pass\n"
        "    return [1.0] * len(completions)\n"
        "async def waits(completions, solution, **_): return [float(g in c) for c, g in zip(completions, solution)]\n"
        "def ends(completions, **_): import os; os._exit(0)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    close_workers()  # which know only the folders of when they were started
    monkeypatch.setattr("trl_grpo_ext.audit.reward.BATCH_SECONDS", 1.0)
    monkeypatch.setattr("trl_grpo_ext.audit.reward.ONE_SECONDS", 1.0)
    samples = [Sample(text=text, prompt="p", row={"solution": "x"}) for text in ("x", "hang", "c")]

    def reasons(name: str) -> list[str]:
        return [one.reason or str(one.score) for one in FunctionReward("broken_rewards", name).judge_samples(samples)]

    assert reasons("raises") == ["raised_RuntimeError"] * 3
    assert reasons("too_few") == ["1_scores_for_3_completions"] * 3
    assert reasons("nan") == ["score_not_finite"] * 3
    assert reasons("none") == ["returned_none"] * 3
    assert reasons("needs") == ["raised_TypeError"] * 3
    assert reasons("hangs") == ["1.0", "hangs", "1.0"]
    assert reasons("waits") == ["1.0", "0.0", "0.0"]
    (ended,) = FunctionReward("broken_rewards", "ends").judge_samples(samples[:1])
    assert ended.reason.startswith("raised_")


def test_conversations_are_passed_as_trl_passes_them() -> None:
    sample = Sample(text=r"\boxed{4}", prompt=[{"role": "user", "content": "2+2"}], row={"solution": "4"})
    (verdict,) = FunctionReward("trl.rewards", "accuracy_reward").judge_samples([sample])
    assert verdict.status is Status.CORRECT


def test_a_policy_never_writes_programs_for_a_function_without_a_sandbox() -> None:
    with pytest.raises(ValueError, match="sandbox"):
        check_attack(FunctionReward("planted_holes", "substring"), "program")
    check_attack(planted_holes.exit_status, "program")
    check_attack(FunctionReward("planted_holes", "substring"), "answer")


def test_rows_that_cannot_be_probed_are_refused_with_the_columns() -> None:
    with pytest.raises(ValueError, match="`text`"):
        read_tasks([{"prompt": "a", "text": "b"}])
    assert len(read_tasks([{"q": 1, "label": "4"}, {"q": 2, "label": "5"}, {"q": 3, "label": None}], "label")) == 2


def test_the_command_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps({"prompt": f"{n}+1", "solution": str(n + 1)}) + "\n" for n in range(20, 24)))
    assert main(["audit", "planted_holes:first_tag", "--data", str(data)]) == FOUND
    shown = capsys.readouterr().out
    assert shown.startswith(
        "first_tag: 2 of 14 probes that must not be paid were; 1 of 3 that must be paid were refused."
    )
    assert len(shown.splitlines()) <= 15
    assert all(len(line) <= 80 for line in shown.splitlines()[1:])
    assert "No, wait, that is wrong." not in shown
    assert main(["audit", "planted_holes:first_tag", "--data", str(data), "--cases"]) == FOUND
    assert "No, wait, that is wrong." in capsys.readouterr().out
    assert main(["audit", "math", "--data", str(data), "--json"]) == FINE
    record = json.loads(capsys.readouterr().out)
    assert (record["static"]["clean"], record["static"]["gold_score"], record["attacks"]) == (True, 1.0, [])
    assert main(["audit", "planted_holes:first_tag", "--data", str(data), "--gold", "prompt"]) == FOUND
    assert "THIS REWARD DOES NOT PAY THE GOLD" in capsys.readouterr().out
    assert main(["audit", "math", "--data", str(data), "--gold", "solutoin"]) == REFUSED
    assert "There is no column `solutoin` (--gold). Did you mean `solution`?" in capsys.readouterr().err


def test_prompts_may_have_a_column_of_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps({"question": f"{n}+1", "solution": str(n + 1)}) + "\n" for n in range(20, 24)))
    audit = ("audit", "planted_holes:prompt_echo", "--data", str(data))
    assert main([*audit, "--prompt", "question"]) == FOUND
    assert "the prompt as the answer" in capsys.readouterr().out
    assert main([*audit]) == REFUSED
    assert "There is no column `prompt`: name that of the prompts (--prompt)." in capsys.readouterr().err
    assert main(["audit", "--config", "quickstart", "--prompt", "question"]) == REFUSED
    assert "a recipe has `prompt_column`" in capsys.readouterr().err


def test_a_reward_that_does_not_look_at_the_gold_is_told_from_a_hole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "think_format", "--limit", "4"]) == FOUND
    assert "This reward does not look at the gold" in capsys.readouterr().out
    assert main(["audit", "planted_holes:substring", "--limit", "4"]) == FOUND
    assert "does not look at the gold" not in capsys.readouterr().out


def test_of_a_function_that_fails_on_every_gold_the_audit_says_only_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "needs_more.py").write_text("def reward(completions, label, **_):\n    return [1.0] * len(label)\n")
    monkeypatch.chdir(tmp_path)
    close_workers()  # which would look for it elsewhere
    assert main(["audit", "needs_more:reward"]) == FOUND
    printed = capsys.readouterr().out
    assert "it failed on the gold of each of 50 rows (raised_TypeError), so it was not audited" in printed
    assert "NOT PAY" not in printed
    assert "BROKE" not in printed


def test_a_hole_that_chance_has_left_in_the_end_is_found_in_the_whole() -> None:
    """Where a hole pays no more than the honest way, nothing holds a policy in it."""

    def wrong(share: float, groups: int) -> Period:
        counted = share_of([(group, group < share * groups) for group in range(groups)])
        return Period(paid=counted, right=None, wrongly_paid=counted)

    def attack(whole: Period, last: Period) -> Attack:
        return Attack(seed=0, tokens=28, steps=32, whole=whole, first=whole, last=last, patterns=())

    assert attack(wrong(0.08, 256), wrong(0.04, 64)).found_a_hole
    assert attack(wrong(0.03, 256), wrong(0.12, 64)).found_a_hole
    assert not attack(wrong(0.03, 256), wrong(0.04, 64)).found_a_hole
    assert not attack(wrong(0.0, 256), wrong(0.0, 64)).found_a_hole


def test_a_recipe_is_audited_as_the_sum_that_is_trained_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--config", "quickstart", "--limit", "4"]) == FINE
    assert "quickstart (1 accuracy + 0.1 thinks)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("mathh",),
        ("json:loads_nothing",),
        ("math", "--data", "nowhere.jsonl"),
        ("math", "--limit", "1"),
        ("planted_holes:substring", "--data", "bundled:functions", "--attack"),
    ],
)
def test_what_cannot_be_audited_is_refused(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *arguments]) == REFUSED
    assert "error" in capsys.readouterr().err


@pytest.mark.slow
def test_an_attack_tells_a_hole_from_honest_learning() -> None:
    """In a process of its own, since a training sets seeds and threads."""
    code = (
        "from trl_grpo_ext.audit.attack import attack_reward\n"
        "from trl_grpo_ext.audit.reward import reward_named\n"
        "print([one.found_a_hole for one in attack_reward(reward_named('planted_holes:substring'), 'answer')])\n"
        "print([one.found_a_hole for one in attack_reward(reward_named('math'), 'answer')])\n"
    )
    here = Path(planted_holes.__file__).parent
    done = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True)
    hacked, honest = done.stdout.splitlines()
    assert "True" in hacked, done.stderr
    assert "True" not in honest
