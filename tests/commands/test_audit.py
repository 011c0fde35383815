"""The audit: probes, foreign reward functions, and the planted holes of benchmarks/planted_holes.py."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import planted_holes
import pytest
import yaml
from command_line import run_here

from trl_grpo_ext.cli.main import main
from trl_grpo_ext.commands.audit.attacked import Attack, Period
from trl_grpo_ext.commands.audit.printed import attack_sentence
from trl_grpo_ext.commands.audit.probes import ADVICE, PROBES, Said
from trl_grpo_ext.commands.audit.reward import (
    MOST_FAILED,
    FunctionReward,
    MixReward,
    check_attack,
    gold_columns,
    program_reader,
    reward_named,
)
from trl_grpo_ext.commands.audit.static import audit_reward, is_paid
from trl_grpo_ext.commands.audit.static import share as share_of
from trl_grpo_ext.commands.audit.task import Task, read_tasks
from trl_grpo_ext.commands.exit_status import FINE, FOUND, REFUSED
from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.recipe.arguments import RecipeArguments
from trl_grpo_ext.recipe.data import load_data
from trl_grpo_ext.recipe.file import load_recipe
from trl_grpo_ext.rewards.restyled import restyled
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status
from trl_grpo_ext.workers.pool import close_workers

ROWS = 2


@pytest.fixture(scope="module")
def tasks() -> dict[str, list[Task]]:
    return {
        kind: read_tasks(
            load_data(RecipeArguments(dataset_name=name))["train"]
            .select(range(ROWS))
            .to_list()
        )
        for kind, name in (("answer", "bundled:sums"), ("program", "bundled:functions"))
    }


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a folder for modules with reward functions; workers know only the folders of when they were started."""
    folder = tmp_path_factory.mktemp("modules")
    close_workers()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder


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
        (
            "equal_object",
            {"an object that equals everything"},
            {"an exit with status 0", "a constant"},
        ),
    ],
)
def test_the_probes_find_each_planted_hole_of_programs(
    reward: str, telling: set[str], closed: set[str], tasks: dict[str, list[Task]]
) -> None:
    found = holes(f"planted_holes:{reward}", tasks["program"])
    assert telling <= found
    assert not closed & found


@pytest.mark.parametrize(
    ("reward", "kind"),
    [("math", "answer"), ("numeric", "answer"), ("unit_test", "program")],
)
def test_our_verifiers_are_clean(
    reward: str, kind: str, tasks: dict[str, list[Task]]
) -> None:
    assert audit_reward(reward_named(reward), tasks[kind]).is_clean


def test_a_reward_is_asked_in_the_form_that_it_pays(tasks: dict[str, list[Task]]) -> None:
    tagged = audit_reward(
        reward_named("{verifier: math, mode: answer_tag}"), tasks["answer"]
    )
    assert (tagged.form, tagged.gold_score) == ("answer tag", 1.0)


def test_a_reward_that_pays_a_longer_number_with_the_golds_digits_in_it_is_found(
    modules: Path, tasks: dict[str, list[Task]]
) -> None:
    (modules / "digits_within.py").write_text(
        "def in_the_box(completions, solution, **_):\n"
        "    boxes = [one[-1]['content'].rpartition('boxed{')[2].partition('}')[0] for one in completions]\n"
        "    return [float(box.isdecimal() and gold in box) for box, gold in zip(boxes, solution)]\n"
    )
    assert "the gold in passing" in holes("digits_within:in_the_box", tasks["answer"])


def test_every_probe_says_something_that_is_not_the_gold(
    tasks: dict[str, list[Task]],
) -> None:
    """An unpaid probe never equals the completion that must be paid."""
    for kind, of_kind in tasks.items():
        said = Said(of_kind[0], "box" if kind == "answer" else "fence")
        for probe in PROBES[kind]:
            written = list(probe.write(said))
            assert written
            assert probe.pays or said.right not in written


@pytest.mark.parametrize(
    ("gold", "paid"),
    [(1.0, (False, False, True)), (0.2, (False, True, True)), (0.0, (True, True, True))],
)
def test_what_counts_as_paid_depends_on_what_the_gold_earns(
    gold: float, paid: tuple[bool, ...]
) -> None:
    assert tuple(is_paid(score, gold) for score in (0.0, 0.2, 0.8)) == paid


@pytest.mark.slow
@pytest.mark.usefixtures("any_cpu_counts")
def test_a_function_that_breaks_is_a_finding(
    modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (modules / "broken_rewards.py").write_text(
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
    samples = [
        Sample(text=text, prompt="p", row={"solution": "x"}) for text in ("x", "hang", "c")
    ]

    def reasons(name: str) -> list[str]:
        return [
            one.reason or str(one.score)
            for one in FunctionReward("broken_rewards", name).judge_samples(samples)
        ]

    assert reasons("raises") == ["raised_RuntimeError"] * 3
    assert reasons("too_few") == ["wrong_number_of_scores"] * 3
    assert reasons("nan") == ["score_not_finite"] * 3
    assert reasons("none") == ["does_not_apply"] * 3
    assert reasons("needs") == ["raised_TypeError"] * 3
    assert reasons("waits") == ["1.0", "0.0", "0.0"]
    monkeypatch.setattr("trl_grpo_ext.commands.audit.reward.BATCH_SECONDS", 0.1)
    monkeypatch.setattr("trl_grpo_ext.commands.audit.reward.ONE_SECONDS", 1.0)
    assert reasons("hangs") == ["1.0", "hangs", "1.0"]
    (ended,) = FunctionReward("broken_rewards", "ends").judge_samples(samples[:1])
    assert ended.reason.startswith("raised_")


@pytest.mark.slow
def test_a_function_of_a_recipe_that_ends_its_process_does_not_end_the_audit(
    modules: Path,
) -> None:
    (modules / "ending_rewards.py").write_text(
        "def ends(completions, **_):\n"
        "    import os\n"
        "    if any('exit' in one for one in completions): os._exit(0)\n"
        "    return [1.0] * len(completions)\n"
    )
    reward = MixReward(build_mix([{"verifier": "ending_rewards.ends"}]), "recipe")
    samples = [Sample(text=text, prompt="p", row={}) for text in ("x", "exit", "c")]
    scores = [verdict.score for verdict in reward.judge_samples(samples)]
    assert scores == [1.0, None, 1.0]


@pytest.mark.slow
def test_conversations_are_passed_as_trl_passes_them() -> None:
    sample = Sample(
        text=r"\boxed{4}",
        prompt=[{"role": "user", "content": "2+2"}],
        row={"solution": "4"},
    )
    (verdict,) = FunctionReward("trl.rewards", "accuracy_reward").judge_samples([sample])
    assert (verdict.status, verdict.score) == (Status.SCORED, 1.0)


@pytest.mark.parametrize("name", ["planted_holes:substring", "planted_holes.substring"])
def test_a_function_is_named_with_a_colon_or_a_dot(name: str) -> None:
    reward = reward_named(name)
    assert isinstance(reward, FunctionReward)
    assert (reward.module, reward.attribute) == ("planted_holes", "substring")


@pytest.mark.slow
def test_gold_names_the_column_for_verifiers_and_functions_and_without_it_a_missing_column_is_told(
    tmp_path: Path, modules: Path
) -> None:
    (modules / "tutorial_reward.py").write_text(
        "def right(completions, answer, **_): return [float(a in c) for c, a in zip(completions, answer)]\n"
    )
    rows = [{"prompt": f"1+{second}?", "label": str(1 + second)} for second in range(4)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    told = run_here("audit", "tutorial_reward.right", cwd=tmp_path, expect=REFUSED).stderr
    assert (
        "takes `answer`, and the data has no such column; its columns are: `solution`"
        in told
    )
    assert "--gold COLUMN" in told
    for reward, status in (("tutorial_reward.right", FOUND), ("math", FINE)):
        audited = run_here(
            "audit",
            reward,
            "--data",
            "rows.jsonl",
            "--gold",
            "label",
            cwd=tmp_path,
            expect=status,
        )
        assert "Tried on 4 rows of rows.jsonl" in audited.stdout


def test_a_policy_never_writes_programs_for_a_function_without_a_sandbox() -> None:
    with pytest.raises(ValueError, match="sandbox"):
        check_attack(FunctionReward("planted_holes", "substring"), "program")
    check_attack(planted_holes.exit_status, "program")
    check_attack(FunctionReward("planted_holes", "substring"), "answer")


def test_tests_and_reference_solutions_are_read_where_the_reward_reads_them() -> None:
    rows = [
        {
            "prompt": f"Add {number}.",
            "tests": [f"assert add(1) == {1 + number}"],
            "right": f"def add(x):\n    return x + {number}",
        }
        for number in (1, 2)
    ]
    reward = reward_named("{verifier: unit_test, reference_column: right}")
    tasks = read_tasks(rows, programs=program_reader(reward))
    assert [task.gold for task in tasks] == [row["right"] for row in rows]
    with pytest.raises(ValueError, match="reference_column"):
        read_tasks(rows, programs=program_reader(reward_named("unit_test")))


def test_rows_that_cannot_be_probed_are_refused_with_the_columns() -> None:
    with pytest.raises(ValueError, match="`text`"):
        read_tasks([{"prompt": "a", "text": "b"}])
    assert (
        len(
            read_tasks(
                [{"q": 1, "label": "4"}, {"q": 2, "label": "5"}, {"q": 3, "label": None}],
                ("label",),
            )
        )
        == 2
    )


@pytest.mark.slow
def test_the_command_says_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text(
        "".join(
            json.dumps({"prompt": f"{n}+1", "solution": str(n + 1)}) + "\n"
            for n in range(20, 24)
        )
    )
    assert main(["audit", "planted_holes:first_tag", "--data", str(data)]) == FOUND
    shown = capsys.readouterr().out
    assert shown.startswith(
        "first_tag: it pays 2 of 14 kinds of wrong answers, up to 100% of a kind, and refuses 1 of 3 kinds of right "
        f"ones, up to 100% of a kind. Tried on 4 rows of {data}; a right answer, written as \\boxed{{...}}, earns 1."
    )
    table, advice = shown.split("What to do:\n")
    assert all(len(line) <= 80 for line in table.splitlines()[1:])
    assert (
        "- an answer taken back: judge one answer only, the last one, in its mark.\n"
        in advice
    )
    assert "- the gold in another form: compare values" in advice
    assert len(shown.splitlines()) <= 18
    assert "No, wait, that is wrong." not in shown
    assert re.search(r"REFUSED +the gold in another form +100% \[", table), (
        "it is refused each time"
    )
    assert "(21)" in table
    assert (
        main(["audit", "planted_holes:first_tag", "--data", str(data), "--cases"]) == FOUND
    )
    assert "No, wait, that is wrong." in capsys.readouterr().out
    assert main(["audit", "math", "--data", str(data), "--json"]) == FINE
    record = json.loads(capsys.readouterr().out)
    assert (
        record["static"]["clean"],
        record["static"]["gold_score"],
        record["attacks"],
    ) == (True, 1.0, [])
    assert (
        main(["audit", "planted_holes:first_tag", "--data", str(data), "--gold", "prompt"])
        == REFUSED
    )
    refused = capsys.readouterr()
    assert (
        f"first_tag pays 0 for a right answer of {data}, in any form, and 0 for an empty text"
        in refused.err
    )
    assert refused.out == ""
    assert main(["audit", "math", "--data", str(data), "--gold", "solutoin"]) == REFUSED
    assert (
        "There is no column `solutoin` (--gold). Did you mean `solution`?"
        in capsys.readouterr().err
    )


WEAK = {
    "prompt": "Write `def double(n)`.",
    "tests": ["assert double(2) == 4"],
    "reference": "def double(n):\n    return n * 2\n",
}
BAD = WEAK | {"reference": "def double(n):\n    return n * 3\n"}


def test_of_a_shipped_verifier_the_advice_is_on_the_rows_and_the_headline_has_shares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in (WEAK, WEAK, WEAK, BAD)))
    assert main(["audit", "unit_test", "--data", str(data)]) == FOUND
    shown = capsys.readouterr().out
    assert "refuses 2 of 2 kinds of right ones, up to 25% of a kind" in shown
    assert (
        "the tests of these rows refuse their own reference: see --cases, and check-data"
        in shown
    )
    assert "add tests, or drop these rows" in shown
    assert "(`unit_test`)" not in shown
    table = shown.partition("What to do:")[0]
    assert "…" not in table
    assert "with a comment" in " ".join(table.split()), "a long name is wrapped, not cut"


def test_a_probe_that_does_not_apply_is_left_out_of_what_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "exact.py").write_text(
        "from trl_grpo_ext import verifier\n\n\n@verifier\ndef exact(sample):\n"
        "    return sample.text.strip() == sample.row['solution']\n"
    )
    monkeypatch.chdir(tmp_path)
    audit = ["audit", "exact:exact", "--limit", "4"]
    assert main(audit) == FOUND
    assert "refuses 1 of 3 kinds of right ones" in capsys.readouterr().out
    assert main([*audit, "--skip", "the gold after some words"]) == FINE
    assert "and all 2 kinds of right ones" in capsys.readouterr().out
    assert main([*audit, "--skip", "the gold in a form"]) == REFUSED
    assert "(--skip). Did you mean `the gold in another form`?" in capsys.readouterr().err


def test_prompts_may_have_a_column_of_any_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text(
        "".join(
            json.dumps({"question": f"{n}+1", "solution": str(n + 1)}) + "\n"
            for n in range(20, 24)
        )
    )
    audit = ("audit", "planted_holes:prompt_echo", "--data", str(data))
    assert main([*audit, "--prompt", "question"]) == FOUND
    assert "the prompt as the answer" in capsys.readouterr().out
    assert main([*audit]) == REFUSED
    assert (
        "There is no column `prompt`: name that of the prompts (--prompt)."
        in capsys.readouterr().err
    )
    assert main(["audit", "--config", "quickstart", "--prompt", "question"]) == REFUSED
    assert "a recipe has `prompt_column`" in capsys.readouterr().err


def test_a_reward_that_does_not_look_at_the_gold_is_told_from_a_hole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["audit", "think_format", "--limit", "4"]) == FOUND
    assert "This reward does not look at the gold" in capsys.readouterr().out
    assert main(["audit", "planted_holes:substring", "--limit", "4"]) == FOUND
    assert "does not look at the gold" not in capsys.readouterr().out


def test_of_many_probes_with_one_advice_the_first_are_named(
    modules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (modules / "not_a_number.py").write_text(
        "def reward(completions, solution, **_):\n"
        "    return [1.0 if gold in str(text) else float('nan') for text, gold in zip(completions, solution)]\n"
    )
    assert main(["audit", "not_a_number:reward", "--limit", "4"]) == FOUND
    (advice,) = re.findall(
        r"^- (.*): an exception, a hang or NaN", capsys.readouterr().out, re.MULTILINE
    )
    assert re.search(
        r"^another row's gold, .* the prompt as the answer and \d+ more$", advice
    )


def test_of_a_function_that_fails_on_every_gold_the_audit_says_only_that(
    modules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (modules / "needs_more.py").write_text(
        "def reward(completions, **row):\n    return [1.0] * len(row['label'])\n"
    )
    assert main(["audit", "needs_more:reward"]) == REFUSED
    printed = capsys.readouterr()
    assert (
        "reward fails on every right answer of bundled:sums: KeyError: 'label' (needs_more.py:2)"
        in printed.err
    )
    assert "so nothing was audited. Give it rows that it can judge (--data)" in printed.err
    assert (printed.out, printed.err.count("KeyError")) == ("", 1)


OWN = """
from trl_grpo_ext import verifier

@verifier
def in_range(sample):
    return sample.row.get("lowest", "") == sample.text.strip("\\\\boxed{}") != ""

@verifier
def needs_range(sample):
    return sample.row["lowest"] in sample.text
"""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "in_range",
            "in_range pays 0 for a right answer of bundled:sums, in any form, and 0 for an empty text",
        ),
        (
            "needs_range",
            "needs_range fails on every right answer of bundled:sums: KeyError: 'lowest'",
        ),
    ],
)
def test_a_reward_that_cannot_be_attacked_on_the_bundled_data_is_told_so_before_a_training(
    name: str,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        "trl_grpo_ext.commands.audit.attacker.Policy.__init__", None
    )  # so that none can be trained
    (tmp_path / "own_ranges.py").write_text(OWN)
    rows = [{"prompt": f"above {n}", "lowest": f"q{n}", "gold": f"q{n}"} for n in "abcd"]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_ranges", raising=False)
    audit = [
        "audit",
        f"own_ranges:{name}",
        "--data",
        "rows.jsonl",
        "--gold",
        "gold",
        "--attack",
    ]
    status = main(audit)
    said = capsys.readouterr()
    assert status == (
        REFUSED if "HOLE" not in said.out and "REFUSED" not in said.out else FOUND
    )
    assert f"Not attacked: {why}" in said.err
    assert "The attack always trains on bundled:sums" in said.err
    assert "found" not in said.out
    assert main([*audit, "--json"]) == status
    record = json.loads(capsys.readouterr().out)
    assert record["not_attacked"].startswith(why)
    assert record["attacks"] == []
    assert main(audit[:2]) == REFUSED
    refused = capsys.readouterr()
    assert why in refused.err
    assert refused.out == ""


def test_an_exception_on_some_completions_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "from trl_grpo_ext import verifier\n@verifier\ndef boxed(sample):\n"
    (tmp_path / "own_boxed.py").write_text(
        source + "    return sample.text.split('boxed{')[1][:-1] == sample.row['solution']"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "own_boxed:boxed", "--limit", "4"]) == FOUND
    said = capsys.readouterr().out
    assert "; it breaks on 4 (raised_IndexError). Tried on 4 rows" in said
    assert (
        "return 0 for what cannot be read. It was: IndexError: list index out of range (own_boxed.py:4)\n"
        in said
    )


def test_a_function_that_has_failed_often_still_pays_the_other_completions_of_a_later_batch() -> (
    None
):
    reward = FunctionReward("isolated_verifiers", "fails_on_odd")
    failing = [Sample(text="odd") for _ in range(MOST_FAILED)]
    assert {verdict.reason for verdict in reward.judge_samples(failing)} == {
        "raised_ValueError"
    }
    scores = [
        verdict.score
        for verdict in reward.judge_samples([Sample(text="odd"), Sample(text="even")])
    ]
    assert scores == [None, 1.0]


def test_every_probe_has_advice() -> None:
    assert {probe.name for probes in PROBES.values() for probe in probes} == set(ADVICE)


@pytest.mark.parametrize("gold", ["217.99.195.228", "2026-11-23", "5 apples"])
def test_dollars_are_put_around_mathematics_only(gold: str) -> None:
    """A verifier of addresses or dates may refuse `$10.0.0.7$`, with dollars as part of the text."""
    assert not any(
        "$" in text for _, text in restyled(rf"\boxed{{{gold}}}", gold, concludes=False)
    )
    assert (
        r"\boxed{$x^2 + 0.5$}" in dict(restyled(r"\boxed{x^2 + 0.5}", "x^2 + 0.5")).values()
    )


@pytest.mark.parametrize(
    ("written", "columns"),
    [
        ("math", ("solution", "answer")),
        ("{verifier: math, column: label}", ("label",)),
        (
            "{verifier: any_of, verifiers: [{verifier: math, column: a}, {verifier: exact_text, column: b}]}",
            ("a", "b"),
        ),
        ("think_format", ("solution", "answer")),
    ],
)
def test_the_column_of_right_answers_is_the_rewards_own(
    written: str, columns: tuple[str, ...]
) -> None:
    assert gold_columns(reward_named(written)) == columns


def test_a_recipe_that_names_the_column_of_the_gold_needs_no_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"prompt": f"{n}+1", "label": str(n + 1)} for n in range(20, 24)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = yaml.safe_load(load_recipe("quickstart").path.read_text())
    recipe |= {
        "dataset_name": str(tmp_path),
        "rewards": [{"verifier": "numeric", "column": "label"}],
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    assert main(["audit", "--config", str(tmp_path / "recipe.yaml")]) == FINE
    assert f"Tried on 4 rows of {tmp_path}; a right answer" in capsys.readouterr().out


def test_what_takes_long_says_how_far_it_has_got(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tasks: dict[str, list[Task]],
) -> None:
    monkeypatch.setattr("trl_grpo_ext.support.progress_bar.SECONDS_BETWEEN_LINES", 0.0)
    audit_reward(reward_named("math"), tasks["answer"])
    assert "probing: 1 of 17 kinds of completions\n" in capsys.readouterr().err


def test_a_hole_that_chance_has_left_in_the_end_is_found_in_the_whole() -> None:
    """If a hole pays no more than honest answers, a policy may leave the hole by chance."""

    def wrong(share: float, groups: int) -> Period:
        counted = share_of([(group, group < share * groups) for group in range(groups)])
        return Period(paid=counted, right=None, wrongly_paid=counted)

    def attack(whole: Period, last: Period, variants: float = 0.0) -> Attack:
        figures = {
            "whole": whole,
            "first": whole,
            "last": last,
            "variants": wrong(variants, 64),
        }
        return Attack(
            data="bundled:sums", seed=0, tokens=28, steps=32, patterns=(), **figures
        )

    assert attack(wrong(0.08, 256), wrong(0.04, 64)).found_a_hole
    assert attack(wrong(0.03, 256), wrong(0.12, 64)).found_a_hole
    assert not attack(wrong(0.03, 256), wrong(0.04, 64)).found_a_hole
    assert not attack(wrong(0.0, 256), wrong(0.0, 64)).found_a_hole
    assert attack(wrong(0.0, 256), wrong(0.0, 64), variants=0.2).found_a_hole
    assert attack_sentence(attack(wrong(0.08, 256), wrong(0.04, 64))).startswith(
        "The attack on bundled:sums (seed 0"
    )
    unjudged = Period(paid=None, right=None, wrongly_paid=None)
    assert "says nothing: the reward could judge none" in attack_sentence(
        attack(unjudged, unjudged)
    )


@pytest.mark.slow
def test_a_recipe_is_audited_as_the_sum_that_is_trained_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["audit", "--config", "quickstart", "--limit", "4"]) == FINE
    assert "quickstart (1 accuracy + 0.1 thinks)" in capsys.readouterr().out


def test_a_sum_whose_terms_pay_wrong_answers_is_told_with_what_they_earn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "sum.yaml"
    recipe.write_text(
        "model_name_or_path: bundled:tiny_reasoner\ndataset_name: bundled:sums\n"
        "rewards:\n  - {name: boxed, verifier: boxed}\n  - {name: accuracy, verifier: numeric}\n"
    )
    assert main(["audit", "--config", str(recipe), "--limit", "4"]) == FINE
    assert "Wrong answers earn up to 1 of 2 (" in capsys.readouterr().out
    gated = recipe.read_text().replace("verifier: boxed", "verifier: boxed, gate: accuracy")
    recipe.write_text(gated)
    assert main(["audit", "--config", str(recipe), "--limit", "4"]) == FINE
    assert "Wrong answers earn" not in capsys.readouterr().out


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
def test_what_cannot_be_audited_is_refused(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", *arguments]) == REFUSED
    assert "error" in capsys.readouterr().err


@pytest.mark.slow
def test_an_attack_tells_a_hole_from_honest_learning() -> None:
    """The attack runs in a subprocess, since training sets seeds and threads."""
    code = (
        "from trl_grpo_ext.commands.audit.attack import attack_reward\n"
        "from trl_grpo_ext.commands.audit.reward import reward_named\n"
        "print([one.found_a_hole for one in attack_reward(reward_named('planted_holes:substring'), 'answer')])\n"
        "print([one.found_a_hole for one in attack_reward(reward_named('math'), 'answer')])\n"
    )
    here = Path(planted_holes.__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=here, capture_output=True, text=True
    )
    hacked, honest = done.stdout.splitlines()
    assert "True" in hacked, done.stderr
    assert "True" not in honest
    assert "showing the policy what is paid: " in done.stderr
    assert re.search(
        r"^attacking, 28 tokens: \d+ of 32 steps, \d+% paid so far$",
        done.stderr,
        re.MULTILINE,
    )
