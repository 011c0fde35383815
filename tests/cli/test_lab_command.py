"""`trl-grpo-ext lab` as typed by users, and its written page."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import open_browser
from command_line import Said, run_here

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Status, Verdict
from trl_grpo_ext import lab as lab_module
from trl_grpo_ext.lab import ActionVerifier, PolicyHistory, double_peak, run_lab
from trl_grpo_ext.lab.page import lab_page, page_data
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.trainer.config import VerifiedGRPOConfig

UPDATES = 12
KNOWN = {field.name for field in dataclasses.fields(VerifiedGRPOConfig)}


def lab(*flags: str, cwd: Path, expect: int = 0) -> Said:
    return run_here("lab", *flags, cwd=cwd, expect=expect)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the command, and return its folder, with the output in `stdout` and `stderr`."""
    folder = tmp_path_factory.mktemp("lab")
    done = lab(
        "--landscape=double",
        f"--max_steps={UPDATES}",
        "--num_generations=4",
        "--output_dir=out",
        cwd=folder,
    )
    (folder / "stdout").write_text(done.stdout)
    (folder / "stderr").write_text(done.stderr)
    return folder


def data_of(page: Path) -> dict[str, Any]:
    text = page.read_text(encoding="utf-8")
    found = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL
    )
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


@pytest.mark.slow  # real runs
def test_the_command_trains_three_algorithms_and_says_where_the_page_is(
    folder: Path,
) -> None:
    printed = (folder / "stdout").read_text()
    for said in (
        "double peak at 3 and 8",
        "GRPO",
        "REINFORCE",
        "REINFORCE with baseline",
        "out/lab.html",
    ):
        assert said in printed
    assert (folder / "stderr").read_text() == ""
    for name, batches in (("grpo", 6), ("reinforce", 12), ("reinforce_baseline", 12)):
        run = RecordedRun(folder / "out" / name)
        assert run.settings["num_generations"] == 4
        assert len(list(run.cards())) == batches


@pytest.mark.slow  # its fixture is real runs
def test_the_pages_figures_are_those_of_the_saved_logits(folder: Path) -> None:
    data = data_of(folder / "out" / "lab.html")
    assert data["rewards"][2] == 0.7
    for run in data["runs"]:
        history = PolicyHistory(np.load(folder / "out" / run["name"] / "logits.npy"))
        assert np.array(run["probabilities"]) == pytest.approx(
            history.probabilities, rel=1e-5
        )
        for name in ("entropy", "kl", "max_probability"):
            assert run[name] == pytest.approx(getattr(history, name), rel=1e-5, abs=1e-6)
        assert run["expected_reward"] == pytest.approx(
            history.expected_reward(data["rewards"]), rel=1e-5
        )


@pytest.mark.slow  # its fixture is real runs
def test_the_pages_steps_are_the_recorded_completions_with_ratios_from_the_logits(
    folder: Path,
) -> None:
    for run in data_of(folder / "out" / "lab.html")["runs"]:
        cards = list(RecordedRun(folder / "out" / run["name"]).cards())
        logits = np.load(folder / "out" / run["name"] / "logits.npy")
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        updates_a_batch = UPDATES // len(cards)
        assert len(run["updates"]) == UPDATES
        for update, shown in enumerate(run["updates"]):
            card = cards[update // updates_a_batch]
            actions = [int(sample.text) for sample in card.samples]
            assert shown["sampled"] == card.step
            assert [sample[0] for sample in shown["samples"]] == actions
            assert [sample[2] for sample in shown["samples"]] == pytest.approx(
                list(card.totals), rel=1e-6
            )
            assert [sample[3] for sample in shown["samples"]] == pytest.approx(
                list(card.advantages or ()), rel=1e-6
            )
            ratios = [
                np.exp(logs[update, action - 1] - logs[card.step or 0, action - 1])
                for action in actions
            ]
            assert [sample[4] for sample in shown["samples"]] == pytest.approx(
                ratios, rel=1e-5
            )


@pytest.mark.slow  # its fixture is real runs
def test_the_page_loads_nothing_and_lets_nothing_load(folder: Path) -> None:
    page = html.unescape((folder / "out" / "lab.html").read_text(encoding="utf-8"))
    assert "default-src 'none'" in page
    assert not re.search(r'(?:src|href)\s*=\s*["\']?(?:https?:)?//', page)
    assert len(page) < 1_000_000


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("--peak=11", "invalid choice"),
        ("--num_generations=1", "2 or more"),
        ("--learning_rate=nan", "0.0 or more"),
        ("--beta=-1", "0.0 or more"),
        ("--max_steps=0", "1 or more"),
        ("--max_steps=many", "whole number"),
        (
            "--steps=10",
            "trl-grpo-ext lab: error: Unknown flag `--steps`. Did you mean `--max_steps`?",
        ),
        ("--output_dir=/dev/null/lab", "output_dir"),
        ("--learning_rate=1e30", "no longer finite"),
    ],
)
def test_what_cannot_be_run_ends_with_status_2_and_a_sentence(
    flag: str, says: str, tmp_path: Path
) -> None:
    failed = lab(flag, "--no_comparison", cwd=tmp_path, expect=2).stderr
    assert "error:" in failed
    assert says in failed
    assert "Traceback" not in failed


@pytest.fixture(scope="module")
def odd_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of a mix without a landscape: void rows, several groups, a single algorithm, one update."""
    folder = tmp_path_factory.mktemp("odd")
    lost = Verdict(status=Status.ERROR, score=None, blame=Blame.GRADER, reason="planted")
    verifier = ActionVerifier(dict.fromkeys(range(1, 6), lost), default=1.0)
    run = run_lab(
        RewardMix([RewardTerm(name="answer", verifier=verifier)]),
        folder,
        steps=1,
        groups=2,
        write_report=False,
    )
    page = folder / "odd.html"
    page.write_text(lab_page([run], "</title><script>alert(1)</script>"), encoding="utf-8")
    return page


def test_void_rows_and_unknown_rewards_are_null_on_the_page(odd_page: Path) -> None:
    data = data_of(odd_page)
    assert data["rewards"] is None
    assert data["runs"][0]["expected_reward"] is None
    samples = data["runs"][0]["updates"][0]["samples"]
    assert {sample[2] for sample in samples if sample[0] <= 5} == {None}
    assert {sample[1] for sample in samples} == {0, 1}
    assert "<script>alert" not in odd_page.read_text()


def test_a_page_of_no_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="one run or more"):
        page_data([], "nothing")


PLAYGROUND = Path(lab_module.__file__).parent.parent / "report" / "assets" / "playground.js"
# The behaviour of TRL versions without the setting `use_bias_correction_kl`.
OLD_KL = {"beta": 0.3, "epsilon": 0.1} | (
    {"use_bias_correction_kl": False} if "use_bias_correction_kl" in KNOWN else {}
)
ONE_UPDATE_A_LINE = """
const { reference, steps, settings } = JSON.parse(require("fs").readFileSync(0));
let logits = steps[0].logits;
const found = steps.map((step) => {
  const advantages = advantagesOf(step.rewards);
  const alone = updatedLogits(step.logits, reference, { ...step, advantages }, settings);
  const before = logSoftmax(step.is_new ? logits : steps.before);
  steps.before = step.is_new ? logits : steps.before;
  logits = updatedLogits(logits, reference, { ...step, advantages, before }, settings);
  return { advantages, alone, after: logits };
});
console.log(JSON.stringify(found));
"""


@pytest.mark.skipif(
    shutil.which("node") is None, reason="node runs the page's script without a page"
)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"beta": 0.3, "epsilon": 0.1}, marks=pytest.mark.slow),
        {"num_iterations": 3, "epsilon": 0.05},
        OLD_KL,
    ],
)
def test_an_update_of_the_page_is_that_of_trl(
    options: dict[str, Any], tmp_path: Path
) -> None:
    """Single updates from the trainer's logits agree to 1e-6, all updates in sequence (float32 errors sum) to 1e-5."""
    run = run_lab(double_peak(), tmp_path, steps=24, seed=3, write_report=False, **options)
    logits, logs = run.history.logits, run.history.log_probabilities
    steps, every = [], run.trainer.args.num_iterations
    for update in range(run.steps):
        card = run.cards[update // every]
        steps.append(
            {
                "logits": logits[update].tolist(),
                "is_new": update % every == 0,
                "before": logs[card.step or 0].tolist(),
                "actions": [int(sample.text) - 1 for sample in card.samples],
                "rewards": list(card.totals),
            }
        )
    settings = page_data([run], "")["runs"][0]["settings"]
    asked = json.dumps(
        {"reference": logs[0].tolist(), "steps": steps, "settings": settings}
    )
    script = PLAYGROUND.read_text(encoding="utf-8") + ONE_UPDATE_A_LINE
    done = subprocess.run(
        ["node", "-e", script], input=asked, capture_output=True, text=True, check=True
    )
    clipped = 0
    for update, found in enumerate(json.loads(done.stdout)):
        card = run.cards[update // every]
        assert found["advantages"] == pytest.approx(list(card.advantages or ()), abs=1e-6)
        assert np.abs(np.array(found["alone"]) - logits[update + 1]).max() < 1e-6
        assert np.abs(np.array(found["after"]) - logits[update + 1]).max() < 1e-5
        clipped += sum(
            one[5] for one in page_data([run], "")["runs"][0]["updates"][update]["samples"]
        )
    assert clipped > 0  # or clipping would not have been compared


@contextmanager
def opened(page: Path, scheme: str = "light") -> Iterator[tuple[Any, list[str]]]:
    """Open the page in headless Chromium, and yield the tab with its console messages."""
    with open_browser() as browser:
        tab = browser.new_context(color_scheme=scheme, offline=True).new_page()
        said: list[str] = []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.goto(page.as_uri())
        yield tab, said


@pytest.mark.slow  # a browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_slider_the_keys_and_the_algorithms_show_each_step_without_a_console_error(
    folder: Path, scheme: str
) -> None:
    data = data_of(folder / "out" / "lab.html")
    with opened(folder / "out" / "lab.html", scheme) as (tab, said):
        assert tab.locator("canvas").count() == 10
        tab.focus("#update")
        tab.keyboard.press("ArrowRight")
        tab.keyboard.press("ArrowRight")
        assert tab.inner_text("#where") == f"2 of {UPDATES}"
        for run in data["runs"]:
            tab.click(f"[data-run={run['name']}]")
            shown = tab.locator("#detail tbody tr").all_inner_texts()
            wanted = run["updates"][2]["samples"]
            assert [row.split()[0] for row in shown] == [
                str(sample[0]) for sample in wanted
            ]
            assert [
                f"{sample[4]:.3f}" in row for row, sample in zip(shown, wanted, strict=True)
            ] == [True] * 4
        tab.keyboard.press("Tab")
        tab.focus("#update")
        tab.keyboard.press("End")
        assert "Training is over" in tab.inner_text("#detail")
        tab.click("#play")
        tab.get_by_text(f"2 of {UPDATES}", exact=True).wait_for()
        tab.click("#play")
        tab.get_by_role("button", name="Change to the").click()
        tab.set_viewport_size({"width": 480, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert said == []


@pytest.mark.slow  # a browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_controls_change_a_run_of_the_pages_own_at_once(folder: Path, scheme: str) -> None:
    def largest(tab: Any) -> float:
        return float(tab.evaluate(f"own.run.max_probability[{UPDATES}]"))

    with opened(folder / "out" / "lab.html", scheme) as (tab, said):
        assert not tab.is_visible("#controls")
        tab.click("[data-run=own]")
        assert tab.locator("#own-landscape").input_value() == "double peak at 3 and 8"
        assert "Your own" in tab.inner_text("#entropy .legend")
        fast = largest(tab)
        assert (
            tab.evaluate("own.run.updates[0].samples.length") == 4
        )  # as in the run that the page is of
        tab.locator("#own-learning_rate").fill("-2")
        assert "0.01" in tab.inner_text("#controls")
        assert largest(tab) < 0.15 < fast
        tab.locator("#own-num_generations").fill("64")
        assert tab.locator("#detail tbody tr").count() == 64
        tab.select_option("#own-landscape", "linear")
        assert tab.evaluate("own.run.rewards")[9] == 1.0
        before = tab.inner_text("#detail")
        tab.get_by_role("button", name="New samples").click()
        assert tab.inner_text("#detail") != before
        tab.set_viewport_size({"width": 420, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        tab.click("[data-run=grpo]")
        assert not tab.is_visible("#controls")
        assert said == []


@pytest.mark.slow  # a browser
def test_an_odd_page_opens_too_and_its_title_is_text(odd_page: Path) -> None:
    with opened(odd_page) as (tab, said):
        assert tab.inner_text("h1") == "</title><script>alert(1)</script>"
        assert tab.locator("#comparison").count() == 0
        assert "void" in tab.inner_text("#detail")
        assert "group" in tab.inner_text("#detail thead")
        assert said == []
