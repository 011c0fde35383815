"""The report in a browser: no errors, no harm by hostile texts, working filters and keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import report_runs as runs
from browser import open_browser

from trl_grpo_ext import RewardMix, RewardTerm, VerifiedGRPOTrainer
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.report.write import write_report
from trl_grpo_ext.rewards import MathVerifier, ThinkFormatVerifier
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.run_settings import write_settings

pytestmark = pytest.mark.slow  # a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as chromium:
        yield chromium


# Finds the steps where the length chart shows the colour of unparseable completions.
DRAWN_AT = """(steps) => {
  const { plot } = drawn.find(({ spec }) => spec.id === "length");
  const wanted = color("--unparseable").match(/[0-9]+/g).map(Number);
  const { width, height } = plot.ctx.canvas;
  const { data } = plot.ctx.getImageData(0, 0, width, height);
  const is = (pixel) => wanted.every((part, band) => Math.abs(data[4 * pixel + band] - part) < 12);
  const isAbove = (x) => [...Array(height).keys()].some((y) => is(y * width + x));
  return steps.filter((step) => isAbove(Math.round(plot.valToPos(step, "x", true))));
}"""


class Opened:
    """An opened page with its errors and requests."""

    def __init__(
        self, browser: Any, path: Path, *, scheme: str = "light", width: int = 1280
    ) -> None:
        self.problems: list[str] = []
        self.page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        # Long enough for a busy machine.
        self.page.set_default_timeout(120_000)
        self.page.on(
            "console",
            lambda message: self.problems.append(f"{message.type}: {message.text}"),
        )
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on(
            "dialog", lambda dialog: (self.problems.append("dialog"), dialog.dismiss())
        )
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.requests: list[str] = []
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("footer")

    def check(self) -> None:
        """Assert no errors, no further requests, and no script run from data."""
        assert self.problems == []
        assert len(self.requests) == 1
        assert self.page.evaluate("window.pwned") is None
        assert self.page.evaluate("document.scripts.length") == 2

    def found(self) -> int:
        """Read the number of completions from the note above the list."""
        told = self.page.locator(".left .note").inner_text().replace(",", "")
        return 0 if told == "None fits." else int(re.findall("[0-9]+", told)[-1])

    def filter(self, name: str, value: str) -> None:
        self.page.select_option(f"[data-filter={name}]", value)

    def view(self, name: str) -> None:
        self.page.click(f"[data-view={name}]")


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.rich_run(tmp_path_factory.mktemp("rich") / "run", groups=4)


@pytest.fixture
def report(browser: Any, rich: Path) -> Iterator[Opened]:
    opened = Opened(browser, write_report([rich]))
    yield opened
    opened.check()
    opened.page.close()


def planted(step: int, *completions: tuple[str, Any], advantages: Sequence[float]) -> Any:
    """Make a batch of one group and one term, from texts with verdicts."""
    samples = [
        runs.Sample(
            text=text,
            row={"x": verdict},
            group=step,
            step=step,
            completion_ids=[1] * len(text),
        )
        for text, verdict in completions
    ]
    mix = RewardMix([RewardTerm(name="x", verifier=runs.Planted("x"))])
    return mix.score(samples, step=step).with_advantages(advantages)


def members(folder: Path, mode: Any = "train") -> list[tuple[Any, int]]:
    """List (batch, index) of every completion of a run, in training or in evaluations."""
    return [
        (card, index)
        for card in RecordedRun(folder).cards(mode)
        for index in range(len(card))
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_of_a_trained_run_opens_without_an_error_and_answers(
    browser: Any, tiny_model: str, sums: Any, config: Any, scheme: str
) -> None:
    mix = RewardMix(
        [
            RewardTerm(name="accuracy", verifier=MathVerifier()),
            RewardTerm(name="thinks", verifier=ThinkFormatVerifier(), weight=0.1),
        ]
    )
    args = config(max_steps=2)
    VerifiedGRPOTrainer(tiny_model, mix, args, sums["train"]).train()
    opened = Opened(browser, write_report([args.output_dir]), scheme=scheme)
    assert opened.page.locator("h1").inner_text()
    assert opened.page.locator("canvas").count() >= 6
    assert opened.found() == 16
    opened.page.click("nav button")  # the other colours
    opened.check()


@pytest.mark.parametrize("kind", runs.ODD_RUNS)
def test_the_report_of_any_run_opens_without_an_error(
    browser: Any, tmp_path: Path, kind: str
) -> None:
    opened = Opened(browser, write_report([runs.ODD_RUNS[kind](tmp_path / "run")]))
    assert opened.page.locator("h1").inner_text()
    opened.check()


def test_two_runs_side_by_side_open_without_an_error_and_leave_completions_to_the_report_of_each(
    browser: Any, rich: Path, tmp_path: Path
) -> None:
    other = runs.ODD_RUNS["one step"](tmp_path / "other")
    opened = Opened(browser, write_report([rich, other], tmp_path / "two.html"))
    assert "At the end of training" in opened.page.locator("h1").first.inner_text()
    assert opened.page.locator("#both .legend .name").count() == 2
    sections = [link.inner_text() for link in opened.page.locator("nav .links a").all()]
    assert sections == [
        "Findings",
        "Reward",
        "Verdicts",
        "Groups",
        "Length",
        "Policy",
        "Settings",
    ]
    opened.check()


def test_a_chart_that_one_of_two_runs_lacks_moves_no_other(
    browser: Any, rich: Path, tmp_path: Path
) -> None:
    other = runs.record(
        tmp_path / "other",
        *(planted(step, ("x", runs.RIGHT), advantages=[0.0]) for step in range(2)),
    )
    opened = Opened(browser, write_report([other, rich], tmp_path / "two.html"))
    for place, side in enumerate(("left", "right")):
        panels = opened.page.locator(f".grid > [id$='-{place}']").all()
        assert {
            "left" if panel.bounding_box()["x"] < 600 else "right" for panel in panels
        } == {side}
    opened.check()


def test_every_completion_can_be_read_and_none_does_harm(
    report: Opened, rich: Path
) -> None:
    page = report.page
    report.filter("mode", "")
    page.locator("[role=listbox]").focus()
    for _ in range(report.found() - 1):
        page.keyboard.press("ArrowDown")
    assert "None" not in page.locator(".detail .text.main").inner_text()
    assert (
        page.evaluate(
            "document.querySelectorAll('.detail script, .detail img, .detail svg, .detail style').length"
        )
        == 0
    )
    assert page.evaluate("getComputedStyle(document.body).display") != "none"


def test_the_page_refuses_markup_from_text(report: Opened) -> None:
    refused = report.page.evaluate(
        "() => { try { document.body.innerHTML = '<b>'; return 'taken'; } catch (error) { return error.name; } }"
    )
    assert refused == "TypeError"
    report.problems.clear()  # the browser has complained, as it should


def test_views_show_what_they_say(report: Opened, rich: Path) -> None:
    everything = members(rich)
    assert report.found() == len(everything)
    report.view("void")
    assert report.found() == sum(card.void[index] for card, index in everything)
    report.view("hack")
    hacks = [
        (card, index)
        for card, index in everything
        if card.verdicts["accuracy"][index].reason == "passes_naively"
    ]
    assert report.found() == len(hacks) > 0
    report.view("cut")
    assert report.found() == sum(
        bool(card.samples[index].truncated) for card, index in everything
    )
    report.view("disagrees")
    differing = [
        (card, index)
        for card, index in everything
        if card.verdicts["accuracy"][index].status == "correct"
        and card.verdicts["strict"][index].status != "correct"
    ]
    assert report.found() == len(differing) > 0
    report.view("advantage")
    best = max(advantage for card, _ in everything for advantage in card.advantages)
    assert float(
        report.page.locator(".row .n").first.inner_text().lstrip("+")
    ) == pytest.approx(best, rel=1e-2)
    report.view("long")
    longest = max(len(card.samples[index].completion_ids) for card, index in everything)
    assert f"{longest:,}" in report.page.locator(".detail .facts").inner_text()


def test_filters_by_term_and_verdict_show_exactly_those(report: Opened, rich: Path) -> None:
    everything = members(rich)
    for term in ("accuracy", "strict", "short"):
        report.filter("term", term)
        for status in (
            "correct",
            "incorrect",
            "partial",
            "unparseable",
            "timeout",
            "error",
            "skipped",
        ):
            report.filter("status", status)
            wanted = sum(
                card.verdicts[term][index].status == status for card, index in everything
            )
            assert report.found() == wanted, (term, status)


def test_the_list_is_of_training_and_evaluations_are_a_choice(
    report: Opened, rich: Path
) -> None:
    def upwards() -> int:
        return int(report.page.locator("[data-view=advantage] .count").inner_text())

    sizes = {mode: len(members(rich, mode)) for mode in ("train", "eval", None)}
    gained = {
        mode: sum(card.advantages[index] > 0 for card, index in members(rich, mode))
        for mode in ("train", "eval", None)
    }
    assert len(set(sizes.values())) == 3
    assert (report.found(), upwards()) == (sizes["train"], gained["train"])
    assert "eval" not in report.page.locator(".rows").inner_text()
    report.filter("mode", "eval")
    assert (report.found(), upwards()) == (sizes["eval"], gained["eval"])
    report.filter("mode", "")
    assert (report.found(), upwards()) == (sizes[None], gained[None])


def test_an_evaluation_in_the_chart_of_the_reward_has_the_interval_over_its_prompts(
    report: Opened, rich: Path
) -> None:
    *_, last = (card for card in RecordedRun(rich).cards() if card.mode == "eval")
    figures = reduce_card(last, {})
    told = report.page.locator("#total .legend b").last.inner_text()
    value, margin = map(float, told.split(" \u00b1 "))
    assert value == pytest.approx(figures.rewards.numbers.mean, abs=0.01)
    assert margin == pytest.approx(1.96 * figures.rewards.groups.error, abs=0.01)


def test_of_a_completion_that_called_tools_the_calls_and_their_results_stand_before_it(
    browser: Any, tmp_path: Path
) -> None:
    calls = [
        {"role": "assistant", "tool_calls": [{"function": {"name": "add"}}]},
        {"role": "tool", "content": "42"},
    ]
    card = planted(0, ("It is 42.", 1.0), ("No.", 0.0), advantages=[1.0, -1.0])
    said = [*calls, {"role": "assistant", "content": "It is 42."}]
    card = replace(card, samples=(replace(card.samples[0], messages=said), card.samples[1]))
    opened = Opened(
        browser,
        write_report([runs.record(tmp_path / "run", card, logs=False, findings=False)]),
    )
    opened.page.click(".rows [role=option] >> text=It is 42.")
    assert "add" in opened.page.locator(".detail .call summary").inner_text()
    assert opened.page.locator(".detail .role").all_inner_texts()[1].lower() == "tool"
    told = opened.page.locator(".detail").inner_text()
    assert told.index("add") < told.index("42") < told.index("It is 42.")
    opened.check()


def test_the_list_of_a_run_that_was_only_evaluated_is_of_evaluations(
    browser: Any, tmp_path: Path
) -> None:
    folder = runs.ODD_RUNS["eval only"](tmp_path / "run")
    opened = Opened(browser, write_report([folder]))
    assert opened.found() == len(members(folder, "eval")) > 0
    assert "in evaluations" in opened.page.locator("#prompts .lead").inner_text()
    assert not opened.page.locator(
        "[data-view=advantage], option[value=up]"
    ).count()  # nothing was pushed
    opened.check()


def test_siblings_that_are_the_same_have_one_row_and_rounding_is_no_advantage(
    browser: Any, tmp_path: Path
) -> None:
    dead = planted(
        0, *[("right", runs.RIGHT)] * 4, advantages=[-7.4e-5, 7.4e-5, -7.4e-5, 7.4e-5]
    )
    live = planted(
        1,
        *[("right", runs.RIGHT)] * 3,
        ("wrong", runs.WRONG),
        advantages=[0.5, 0.5, 0.5, -1.5],
    )
    opened = Opened(browser, write_report([runs.record(tmp_path / "run", dead, live)]))
    rows = opened.page.locator(".row .line")
    shown = [text.split("\n") for text in rows.all_inner_texts()]
    assert [(row[-1], "\u00d7" in " ".join(row)) for row in shown] == [
        ("+0.5", True),
        ("\u22121.5", False),
        ("0", True),
    ]
    assert opened.found() == 8
    opened.page.locator("[role=listbox]").focus()
    opened.page.keyboard.press("ArrowRight")  # a sibling in the same row
    assert opened.page.locator(".row[aria-selected=true]").inner_text().endswith("right")
    opened.page.keyboard.press("ArrowDown")
    assert opened.page.locator(".detail .text.main").inner_text() == "wrong"
    opened.view("advantage")
    assert opened.found() == 3
    opened.check()


def test_a_line_breaks_where_a_verdict_does_not_occur_and_a_value_alone_is_a_dot(
    browser: Any, tmp_path: Path
) -> None:
    rare = {3, 18, *range(6, 16)}
    cards = [
        planted(
            step,
            ("a long text", runs.UNREAD) if step in rare else ("text", runs.WRONG),
            ("text", runs.RIGHT),
            advantages=[-1.0, 1.0],
        )
        for step in range(20)
    ]
    opened = Opened(browser, write_report([runs.record(tmp_path / "run", *cards)]))
    drawn = opened.page.evaluate(
        DRAWN_AT, [2.97, 3.03, 4.5, 5, 6.5, 10.5, 14.5, 16.5, 17, 18.03]
    )
    assert drawn == [2.97, 3.03, 6.5, 10.5, 14.5, 18.03]
    opened.check()


def test_what_is_known_at_one_step_only_is_said_and_not_drawn(
    browser: Any, tmp_path: Path
) -> None:
    opened = Opened(browser, write_report([runs.ODD_RUNS["one step"](tmp_path / "run")]))
    assert opened.page.locator("#entropy canvas").count() == 0
    said = opened.page.locator("#entropy").inner_text().split()
    assert " ".join(said) == "Entropy Nats a token. entropy 0.5 Known at step 0 only."
    opened.page.click("nav button")  # the other colours
    opened.check()


def test_a_run_of_which_nothing_could_be_judged_says_so_where_its_rewards_would_be(
    browser: Any, tmp_path: Path
) -> None:
    cards = [
        planted(step, ("text", runs.NO_GOLD), ("text", runs.NO_GOLD), advantages=[0.0, 0.0])
        for step in range(4)
    ]
    opened = Opened(browser, write_report([runs.record(tmp_path / "run", *cards)]))
    assert opened.page.locator("#total canvas").count() == 0
    assert (
        "No completion could be judged, so none has a reward."
        in opened.page.locator("#total").inner_text()
    )
    opened.check()


def test_the_top_tells_the_completions_of_training_from_those_of_evaluations(
    report: Opened, rich: Path
) -> None:
    sizes = {mode: len(members(rich, mode)) for mode in ("train", "eval")}
    assert (
        f"{sizes['train']} completions + {sizes['eval']} of evaluation"
        in report.page.locator(".answers").inner_text()
    )


def test_a_narrow_page_cuts_no_table(browser: Any, tmp_path: Path) -> None:
    folder = runs.rich_run(tmp_path / "run")
    write_settings(folder, {"model": "m" * 200})
    opened = Opened(browser, write_report([folder]), width=420)
    opened.page.click("#settings summary")
    for status in ("unparseable", "error", "incorrect"):
        opened.filter("status", status)
        wide, seen = opened.page.evaluate(
            "[document.querySelector('.detail .scroll')].flatMap((table) => [table.scrollWidth, table.clientWidth])"
        )
        assert wide == seen
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 420
    matrix = "document.querySelector('.matrix')"
    box = opened.page.evaluate(f"getComputedStyle({matrix}.parentElement).overflowX")
    inside = f"{matrix}.parentElement.getBoundingClientRect().right <= innerWidth"
    assert (box, opened.page.evaluate(inside)) == ("auto", True)
    opened.check()


def test_the_search_finds_text(report: Opened, rich: Path) -> None:
    report.page.fill("[type=search]", "WINDOW.PWNED")
    report.page.wait_for_function(
        "!document.querySelector('.left .note').textContent.includes(',')"
    )
    wanted = sum(
        "window.pwned" in card.samples[index].text for card, index in members(rich)
    )
    report.page.wait_for_timeout(300)
    assert report.found() == wanted > 0


def test_a_completion_shows_its_prompt_what_was_extracted_why_and_its_siblings(
    report: Opened,
) -> None:
    page = report.page
    report.view("hack")
    assert page.locator(".siblings button").count() == runs.GROUP
    detail = page.locator(".detail").inner_text()
    for said in ("What is ", "exit(0)", "passes_naively", "system", "strict", "shadow"):
        assert said in detail
    before = page.locator(".siblings [aria-current]").get_attribute("title")
    page.locator("[role=listbox]").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".siblings [aria-current]").get_attribute("title") != before


def test_the_gold_of_the_row_stands_open_beside_the_completion(
    browser: Any, tmp_path: Path
) -> None:
    card = planted(0, ("I say 5", 0.0), ("I say 4", 1.0), advantages=[-1.0, 1.0])
    samples = tuple(
        replace(each, row={**each.row, "answer": "the gold: 4"}) for each in card.samples
    )
    opened = Opened(
        browser, write_report([runs.record(tmp_path, replace(card, samples=samples))])
    )
    assert "the gold: 4" in opened.page.locator(".detail").inner_text()
    opened.check()
    opened.page.close()


def test_of_a_long_text_the_start_is_shown_and_the_rest_on_demand(report: Opened) -> None:
    page = report.page
    page.fill("[type=search]", "wwwwwwwww")
    page.wait_for_timeout(400)
    shown = "document.querySelector('.detail .text.main').textContent.length"
    assert page.evaluate(shown) < 10_000
    page.click("text=Show all 200,000 characters")
    assert page.evaluate(shown) == 200_000


def test_control_characters_and_marks_of_direction_are_shown_by_name(
    report: Opened,
) -> None:
    page = report.page
    page.fill("[type=search]", "right to left")
    page.wait_for_timeout(400)
    text = page.locator(".detail .text.main").inner_text()
    assert "U+202E" in text
    assert "\u202e" not in text
    page.fill("[type=search]", "bell")
    page.wait_for_timeout(400)
    assert "\u2400" in page.locator(".detail .text.main").inner_text()


def test_a_cell_of_a_shadows_table_opens_the_completions_that_it_counts(
    report: Opened,
) -> None:
    cell = report.page.locator("table.two button.differ").first
    wanted = int(cell.locator("span").inner_text().replace(",", ""))
    cell.click()
    assert report.found() == wanted > 0


def test_a_prompt_opens_its_completions_in_training(report: Opened, rich: Path) -> None:
    assert (
        "Evaluations are not counted" in report.page.locator("#prompts .lead").inner_text()
    )
    row = report.page.locator(".prompts tbody tr").first
    asked = row.locator("button").inner_text()
    row.locator("button").click()
    in_training = [
        card.samples[index].prompt[-1]["content"] for card, index in members(rich)
    ]
    assert report.found() == in_training.count(asked) > 0
    report.page.click("button.extra")
    assert report.found() == len(in_training)


def test_a_prompt_none_of_whose_completions_are_in_the_page_opens_nothing(
    browser: Any, tmp_path: Path
) -> None:
    cards = [runs.card(step, runs.any_verdict, groups=3) for step in range(6)]
    opened = Opened(
        browser,
        write_report(
            [runs.record(tmp_path / "run", *cards, findings=False)], completions=4
        ),
    )
    rows = opened.page.locator(".prompts tbody tr")
    assert rows.count() > rows.locator("button").count() > 0
    opened.check()


def test_a_finding_opens_what_the_documentation_says_of_it(report: Opened) -> None:
    finding = report.page.locator(".findings li", has_text="unparseable_flood")
    assert not finding.locator("details p").first.is_visible()
    finding.locator("summary").click()
    assert "Say in the prompt which form" in finding.locator("details").inner_text()


def test_a_report_for_which_there_was_little_time_says_so_at_the_top(
    browser: Any, tmp_path: Path
) -> None:
    folder = runs.record(
        tmp_path / "run", *(runs.card(step, runs.any_verdict) for step in range(5))
    )
    opened = Opened(browser, write_report([folder], seconds=0.0))
    assert (
        "4 batches, spread over the run, left out"
        in opened.page.locator(".answers").inner_text()
    )
    opened.check()


def test_terms_may_have_any_name(browser: Any, tmp_path: Path) -> None:
    names = ["__proto__", "constructor", "gr\u00f6\u00dfe", "a.b-c", "toString"]
    mix = RewardMix(
        [
            RewardTerm(name=name, verifier=runs.Planted("x"), weight=float(place != 1))
            for place, name in enumerate(names)
        ]
    )
    samples = [
        runs.Sample(text="x", row={"x": verdict}, group=0, step=0)
        for verdict in (runs.RIGHT, runs.WRONG)
    ]
    opened = Opened(
        browser, write_report([runs.record(tmp_path / "run", mix.score(samples, step=0))])
    )
    said = opened.page.locator("#verdicts").inner_text()
    assert all(name in said for name in names)
    assert opened.page.locator(".detail .verdicts tbody tr").count() == len(names)
    opened.filter("term", "__proto__")
    opened.filter("status", "correct")
    assert opened.found() == 1
    opened.check()


def test_five_thousand_completions_open(browser: Any, tmp_path: Path) -> None:
    texts = [
        f"<think>{'so we add the two and carry the one ' * 40}{place}</think>"
        for place in range(101)
    ]
    cards = [
        runs.card(step, runs.any_verdict, groups=50, texts=texts) for step in range(25)
    ]
    opened = Opened(browser, write_report([runs.record(tmp_path / "run", *cards)]))
    assert opened.found() == 5000
    assert opened.page.locator(".row").count() <= 100
    opened.view("disagrees")
    opened.check()
