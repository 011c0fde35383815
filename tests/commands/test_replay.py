"""Replays: unchanged rewards change nothing, new rewards change the expected verdicts, gaps are reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planted import MODE_NAMES, MODES, rich_mix
from planted import term as planted
from replay_harness import (
    HOLDS,
    MOODY,
    NUMBER,
    Holds,
    new_rewards,
    nothing_changed,
    record,
    term,
)

from trl_grpo_ext import RewardMix, RewardTerm, VerifiedGRPOTrainer
from trl_grpo_ext.commands.replay.changes import is_other
from trl_grpo_ext.commands.replay.recorded_batches import Selection, parse_steps
from trl_grpo_ext.commands.replay.replayed_run import replay_run
from trl_grpo_ext.diagnostics.diagnosis import recent_drivers
from trl_grpo_ext.figures.logged import logged_figures
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.rewards import MathVerifier, ThinkFormatVerifier
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.verdict import as_verdict

Make = Callable[..., Any]


# `test_replay_advantages` compares the formulas of all modes with TRL's.
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(
            mode, id=name, marks=[pytest.mark.slow] if name in ("batch", "none") else []
        )
        for mode, name in zip(MODES, MODE_NAMES, strict=True)
    ],
)
def test_the_same_rewards_reproduce_the_recorded_advantages_and_change_nothing(
    tiny_model: str, sums: Any, config: Make, mode: dict[str, Any]
) -> None:
    args = config(max_steps=3, **mode)
    trainer = VerifiedGRPOTrainer(tiny_model, rich_mix(), args, sums["train"])
    trainer.train()
    run = RecordedRun(Path(args.output_dir))
    rewards = new_rewards(rich_mix(), **mode)
    taken = replay_run(run, rewards)
    judged = replay_run(run, rewards, rescore=True)
    for replayed in (taken, judged):
        nothing_changed(replayed)
        assert replayed.comparison.batches == 3
        assert replayed.comparison.largest_difference < 1e-5
        assert replayed.comparison.advantages.correlation == pytest.approx(1.0)
        assert replayed.notes == []
        assert replayed.comparison.new.shares == replayed.comparison.old.shares
        assert replayed.comparison.old.others_share == pytest.approx(0.0, abs=1e-6)
    assert set(taken.sources.values()) == {"recorded", "combined", "judged again"}
    assert [name for name, source in taken.sources.items() if source == "judged again"] == [
        "brief",
        "various",
    ]
    assert set(judged.sources.values()) == {"combined", "judged again"}
    record = taken.comparison.to_record()["terms"]["short"]
    assert record["old"] == record["new"]
    assert record["old"]["last_weight"] == pytest.approx(0.5 - 0.8 / 3)


@pytest.mark.slow
def test_so_do_evaluations_and_runs_that_count_epochs(
    tiny_model: str, sums: Any, config: Make
) -> None:
    args = config(
        max_steps=-1,
        num_train_epochs=2,
        num_generations_eval=2,
        per_device_train_batch_size=4,
    )
    trainer = VerifiedGRPOTrainer(
        tiny_model,
        rich_mix(),
        args,
        sums["train"].select(range(2)),
        sums["test"].select(range(4)),
    )
    trainer.evaluate()
    trainer.train()
    run = RecordedRun(Path(args.output_dir))
    assert run.settings["max_steps"] == -1
    train, evaluated = (
        replay_run(run, new_rewards(rich_mix()), Selection(mode=mode))
        for mode in ("train", "eval")
    )
    for replayed in (train, evaluated):
        nothing_changed(replayed)
        assert replayed.notes == []
    assert (train.comparison.batches, evaluated.comparison.batches) == (4, 1)
    weights = train.comparison.to_record()["terms"]["short"]["new"]
    assert (weights["first_weight"], weights["last_weight"]) == pytest.approx((0.5, 0.2))


def by_place(completions: list[Any], **_: Any) -> list[float]:
    return [0.25 * (index % 4) for index in range(len(completions))]


def test_functions_beside_the_mix_stay_in_the_totals_as_they_were_recorded(
    tiny_model: str, sums: Any, config: Make
) -> None:
    args = config()
    VerifiedGRPOTrainer(tiny_model, [rich_mix(), by_place], args, sums["train"]).train()
    run = RecordedRun(Path(args.output_dir))
    same = replay_run(run, new_rewards(rich_mix()))
    nothing_changed(same)
    assert any(
        "beside the mix (by_place) cannot be replayed" in note for note in same.notes
    )
    zero = new_rewards(RewardMix([planted("right", 0), planted("form", 0, weight=0.0)]))
    replayed = replay_run(run, zero)
    assert replayed.comparison.groups.shares()["live"][1] == 1.0  # by_place alone
    assert any("2 completions that were void" in note for note in replayed.notes), (
        replayed.notes
    )


def test_driver_shares_are_the_means_of_the_batches_as_the_logs_have_them(
    tmp_path: Path,
) -> None:
    """The second batch weighs a hundredth of the first, since `none` keeps advantages on the rewards' scale."""
    nothing = ["1 no", "1 no", "1 no", "1 no"]
    batches = [
        ["1 no", "0 no", "1 no", "0 no"],
        ["0.1 no", "0 yes", "0.1 no", "0 yes"],
        nothing,
    ]
    run = record(
        tmp_path,
        [term("right", NUMBER), term("says", HOLDS, word="yes", weight=0.0)],
        batches,
    )
    new = [term("right", NUMBER), term("says", HOLDS, word="yes", weight=0.3)]
    shares = replay_run(run, new_rewards(new, scale_rewards="none")).to_record()["drivers"]
    assert shares["old"]["terms"] == {"right": pytest.approx(1.0), "says": 0.0}
    # By hand: advantages by `right` alone, then of -+0.1, made of +-0.05 by `right` and of -+0.15 by `says`.
    assert shares["new"]["terms"] == pytest.approx(
        {"right": (1 - 0.5) / 2, "says": (0 + 1.5) / 2}
    )
    assert shares["new"]["others"] == pytest.approx(0.0)
    assert shares["new"]["terms"] == pytest.approx(recent_drivers(logs_of(run, new)))


def logs_of(run: RecordedRun, rewards: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Compute a trainer's logs for the batches of a run under new rewards."""
    mix = build_mix(rewards)
    cards = [mix.score(card.samples, step=card.step) for card in run.cards()]
    return [logged_figures(reduce_card(card, {"scale_rewards": "none"})) for card in cards]


def test_what_stands_beside_the_mix_has_the_rest_of_the_drivers_share(
    tiny_model: str, sums: Any, config: Make
) -> None:
    args = config(max_steps=1)
    VerifiedGRPOTrainer(
        tiny_model, [RewardMix([planted("right", 1, 0, 0)]), by_place], args, sums["train"]
    ).train()
    replayed = replay_run(
        RecordedRun(Path(args.output_dir)), new_rewards(RewardMix([planted("right", 0.0)]))
    )
    old, new = replayed.comparison.old, replayed.comparison.new
    assert (new.shares, new.others_share) == ({"right": 0.0}, pytest.approx(1.0))
    right = old.shares["right"]
    assert right is not None
    assert 0 < right < 1
    assert old.others_share == pytest.approx(1 - right)


def test_a_weight_that_moves_otherwise_than_in_the_run_is_said_to(tmp_path: Path) -> None:
    moving = term("right", NUMBER, weight={"from": 1.0, "to": 0.0})
    steady = term("says", HOLDS, word="yes")
    run = record(tmp_path, [moving, steady], [TEXTS] * 4)
    same = replay_run(run, new_rewards([moving, steady]))
    nothing_changed(same)
    assert same.notes == []
    (note,) = replay_run(run, new_rewards([term("right", NUMBER), steady])).notes
    assert note.startswith(
        "The weight of 'right' moves with training: each batch is compared under the weights of its"
    )


def test_a_weight_that_is_another_and_does_not_move_needs_no_note(tmp_path: Path) -> None:
    run = record(tmp_path, [term("says", HOLDS, word="yes")], [TEXTS] * 2)
    assert (
        replay_run(run, new_rewards([term("says", HOLDS, word="yes", weight=2.0)])).notes
        == []
    )


TEXTS = ["1 yes", "0 yes", "0 no", "0 no", "1 yes", "1 no", "1 yes", "1 no"]


def test_an_edited_weight_changes_the_signs_that_it_must(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        [term("right", NUMBER), term("says", HOLDS, word="yes", weight=0.1)],
        [TEXTS],
    )
    replayed = replay_run(
        run,
        new_rewards(
            [
                term("right", NUMBER, weight=0.1),
                term("says", HOLDS, word="yes", weight=-1.0),
            ]
        ),
    )
    found = replayed.comparison
    assert found.changed == 6  # all but the two that have nothing of either
    assert found.advantages.sign_changes == 7
    first, second = found.advantages.examples
    assert (first["old_advantage"], first["new_advantage"]) == pytest.approx(
        (1.494, -0.773), abs=1e-3
    )
    assert (second["old_advantage"], second["new_advantage"]) == pytest.approx(
        (0.865, -0.866), abs=1e-3
    )


def test_groups_come_alive_and_die(tmp_path: Path) -> None:
    texts = [
        "1 a",
        "1 b",
        "1 b",
        "1 b",
        "0 a",
        "1 a",
        "0 a",
        "1 a",
        "0 a",
        "1 b",
        "0 a",
        "1 b",
    ]
    run = record(tmp_path, [term("right", NUMBER)], [texts])
    replayed = replay_run(run, new_rewards([term("says", HOLDS, word="b")]))
    groups = replayed.comparison.groups
    assert (groups.come_alive, groups.die) == (1, 1)
    assert groups.changes == [
        {"step": 0, "group": 0, "from": "all_right", "to": "live"},
        {"step": 0, "group": 1, "from": "live", "to": "all_wrong"},
    ]
    shares = groups.shares()
    assert (shares["live"], shares["all_right"], shares["all_wrong"]) == (
        (2 / 3, 2 / 3),
        (1 / 3, 0),
        (0, 1 / 3),
    )
    assert replayed.sources == {"says": "judged"}
    assert replayed.comparison.to_record()["terms"]["right"]["new"] is None


def test_verdicts_that_change_are_told_by_kind_with_examples(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        [term("says", HOLDS, word="yes"), term("right", NUMBER, weight=0)],
        [TEXTS, TEXTS],
    )
    replayed = replay_run(
        run, new_rewards([term("says", HOLDS, word="no"), term("right", NUMBER, weight=0)])
    )
    changes = replayed.comparison.to_record()["terms"]["says"]
    assert (changes["verdicts"], changes["changed"]) == (16, 16)
    assert [(kind["from"], kind["to"], kind["count"]) for kind in changes["kinds"]] == [
        ("correct", "incorrect", 8),
        ("incorrect", "correct", 8),
    ]
    example = changes["kinds"][0]["examples"][0]
    assert (example["text"], example["prompt"], example["step"], example["group"]) == (
        "1 yes",
        "?",
        0,
        0,
    )
    assert (example["from"]["score"], example["to"]["score"]) == (1.0, 0.0)
    assert len(changes["kinds"][0]["examples"]) == 2


def test_a_verdict_of_the_same_status_with_another_score_has_changed() -> None:
    assert is_other(as_verdict(0.25), as_verdict(0.75))
    assert not is_other(as_verdict(0.25), as_verdict(0.25 + 1e-15))


def test_recorded_verdicts_are_taken_over_unless_the_verifier_is_another_or_the_user_asks(
    tmp_path: Path,
) -> None:
    run = record(tmp_path, [term("says", HOLDS, word="yes")], [TEXTS])

    def asked(rewards: list[dict[str, Any]], **options: Any) -> tuple[int, dict[str, str]]:
        before = Holds.asked
        replayed = replay_run(run, new_rewards(rewards), **options)
        return Holds.asked - before, dict(replayed.sources)

    assert asked([term("says", HOLDS, word="yes", weight=3.0)]) == (0, {"says": "recorded"})
    assert asked([term("renamed", HOLDS, word="yes")]) == (
        0,
        {"renamed": "recorded as says"},
    )
    assert asked([term("says", HOLDS, word="no")]) == (8, {"says": "judged again"})
    assert asked([term("says", HOLDS, word="yes")], rescore=True) == (
        8,
        {"says": "judged again"},
    )


def test_a_verifier_that_does_not_say_the_same_twice_is_noticed_when_it_is_asked_again(
    tmp_path: Path,
) -> None:
    run = record(tmp_path, [term("moody", MOODY)], [TEXTS])
    assert replay_run(run, new_rewards([term("moody", MOODY)])).notes == []
    (note,) = replay_run(run, new_rewards([term("moody", MOODY)]), rescore=True).notes
    assert "verdicts of 'moody' change, though its verifier is the same" in note


def test_a_verifier_whose_code_has_changed_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    code = "from trl_grpo_ext import verifier\n@verifier\ndef long_enough(sample):\n    return len(sample.text) > {}\n"
    (tmp_path / "my_edited_rewards.py").write_text(code.format(5))
    rewards = [term("long", "my_edited_rewards.long_enough")]
    run = record(tmp_path / "run", rewards, [TEXTS])
    assert replay_run(run, new_rewards(rewards)).sources == {"long": "recorded"}
    (tmp_path / "my_edited_rewards.py").write_text(code.format(50))
    assert replay_run(run, new_rewards(rewards)).sources == {"long": "judged again"}


def test_sessions_that_had_other_verifiers_under_one_name_are_judged_again(
    tmp_path: Path,
) -> None:
    record(tmp_path, [term("says", HOLDS, word="no"), term("right", NUMBER)], [TEXTS])
    run = record(
        tmp_path,
        [term("says", HOLDS, word="yes"), term("right", NUMBER)],
        [TEXTS],
        first_step=1,
    )
    replayed = replay_run(
        run, new_rewards([term("says", HOLDS, word="yes"), term("right", NUMBER)])
    )
    assert replayed.sources == {"says": "judged again", "right": "recorded"}
    assert replayed.comparison.terms["says"].changed == 8  # those of the first session


def test_rows_that_a_recorded_term_was_not_for_are_judged(tmp_path: Path) -> None:
    entry = term("says", HOLDS, word="yes", when={"task": "sum"})
    rewards = [entry, term("right", NUMBER)]
    run = record(tmp_path, rewards, [TEXTS], row={"task": "talk"})
    replayed = replay_run(
        run, new_rewards([term("says", HOLDS, word="yes"), term("right", NUMBER)])
    )
    kinds = replayed.comparison.to_record()["terms"]["says"]["kinds"]
    assert [(kind["from"], kind["to"], kind["count"]) for kind in kinds] == [
        ("no verdict", "correct", 4),
        ("no verdict", "incorrect", 4),
    ]
    assert kinds[0]["examples"][0]["from"] is None


def test_a_void_row_that_gets_an_advantage_counts_as_a_change(tmp_path: Path) -> None:
    run = record(tmp_path, [term("right", NUMBER)], [["1 a", "0 a", "broken b", "0 b"]])
    replayed = replay_run(run, new_rewards([term("says", HOLDS, word="b")]))
    found = replayed.comparison
    assert found.advantages.sign_changes == 3
    assert (found.old.void, found.new.void) == (1, 0)
    all_void = replay_run(record(tmp_path / "void", [term("right", NUMBER)], [["x", "y", "z", "w"]]), new_rewards(
        [term("right", NUMBER)]
    ))  # fmt: skip
    assert all_void.comparison.old.reward is all_void.comparison.new.reward is None
    assert all_void.comparison.advantages.correlation is None
    json.dumps(all_void.to_record(), allow_nan=False)


def test_verdicts_of_a_row_that_is_void_on_both_sides_do_not_count_as_changed(
    tmp_path: Path,
) -> None:
    says = term("says", HOLDS, word="b")
    run = record(
        tmp_path, [term("right", NUMBER), says], [["1 a", "0 b", "broken b", "0 b"]]
    )
    replayed = replay_run(
        run, new_rewards([term("right", NUMBER), says | {"gate": "right"}])
    )
    found = replayed.comparison
    assert (found.old.void, found.new.void, found.void) == (1, 1, 1)
    assert found.terms["says"].changed == 0
    assert found.to_record()["totals"]["void"] == {"old": 1, "new": 1, "both": 1}


def test_a_term_that_would_end_the_run_is_said_to(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        [term("says", HOLDS, word="a")],
        [["1 a", "0 a", "0 b", "0 b"], ["1 a", "x", "0 b", "0 b"]],
    )
    replayed = replay_run(run, new_rewards([term("right", NUMBER, on_unscored="raise")]))
    assert any(
        "'right' could not judge a completion of step 1" in note for note in replayed.notes
    )
    assert replayed.comparison.batches == 2


def test_steps_and_the_limit_choose_whole_batches(tmp_path: Path) -> None:
    run = record(tmp_path, [term("right", NUMBER)], [TEXTS] * 10)

    def chosen(**selection: Any) -> tuple[int, tuple[int, int] | None]:
        replayed = replay_run(
            run, new_rewards([term("right", NUMBER)]), Selection(**selection)
        )
        return replayed.comparison.batches, replayed.steps

    assert chosen(first_step=3, end_step=5) == (2, (3, 4))
    assert chosen(limit=30) == (3, (0, 9))
    assert chosen(limit=1) == (1, (0, 0))
    assert chosen(first_step=8, limit=1000) == (2, (8, 9))
    with pytest.raises(
        ValueError, match=r"no batches of the steps that were asked for.*0 to 9"
    ):
        chosen(first_step=10)
    for text in ("5", "a:b", "5:3:1", "-1:2"):
        with pytest.raises(ValueError, match="range such as 10:20"):
            parse_steps(text)
    with pytest.raises(ValueError, match="no steps from 5"):
        Selection(first_step=5, end_step=5)


def test_a_run_that_is_going_on_is_replayed_as_far_as_it_has_come(tmp_path: Path) -> None:
    run = record(tmp_path, [term("right", NUMBER)], [TEXTS], ended=False)
    replayed = replay_run(run, new_rewards([term("right", NUMBER)]))
    (note,) = replayed.notes
    assert note.startswith("The run is going on, or was stopped before its end")
    nothing_changed(replayed)


def test_a_resumed_run_that_is_going_on_is_not_taken_for_the_one_that_ended(
    tmp_path: Path,
) -> None:
    from trl_grpo_ext.runs.recorder import LogRecorder

    run = record(tmp_path, [term("right", NUMBER)], [TEXTS])
    assert replay_run(run, new_rewards([term("right", NUMBER)])).notes == []
    LogRecorder(tmp_path).on_log(2, {"loss": 0.5})
    assert any(
        "going on" in note
        for note in replay_run(run, new_rewards([term("right", NUMBER)])).notes
    )
    (tmp_path / "scorecards/log.jsonl").write_text('{"step": 1}\n3\nnull\n')
    assert any(
        "going on" in note
        for note in replay_run(run, new_rewards([term("right", NUMBER)])).notes
    )


def test_rewards_too_large_for_single_precision_break_nothing(tmp_path: Path) -> None:
    run = record(
        tmp_path, [term("right", NUMBER)], [["1e300 a", "0 a", "1e-300 b", "-1e300 b"]]
    )
    for mode in MODES:
        replayed = replay_run(run, new_rewards([term("right", NUMBER, weight=1e8)], **mode))
        assert replayed.comparison.changed == 2  # 1e-292 is as good as 1e-300


def test_without_the_runs_length_a_weight_over_the_progress_is_said_to_stand_still(
    tmp_path: Path,
) -> None:
    run = record(tmp_path, [term("right", NUMBER)], [TEXTS] * 2, ended=False)
    settings = json.loads((tmp_path / "scorecards/run.json").read_text()) | {
        "max_steps": -1
    }
    (tmp_path / "scorecards/run.json").write_text(json.dumps(settings))
    moving = [term("right", NUMBER, weight={"from": 1.0, "to": 0.5})]
    assert any(
        "The length of the run is unknown" in note
        for note in replay_run(run, new_rewards(moving)).notes
    )
    (tmp_path / "checkpoint-1").mkdir()
    (tmp_path / "checkpoint-1/trainer_state.json").write_text('{"max_steps": 2}')
    replayed = replay_run(run, new_rewards(moving))
    assert not any("The length of the run" in note for note in replayed.notes)
    assert replayed.comparison.to_record()["terms"]["right"]["new"]["last_weight"] == 0.75


def test_advantages_that_do_not_follow_from_the_values_are_noticed(tmp_path: Path) -> None:
    run = record(tmp_path, [term("right", NUMBER)], [TEXTS], scale_rewards="none")
    settings = json.loads((tmp_path / "scorecards/run.json").read_text()) | {
        "scale_rewards": "group"
    }
    (tmp_path / "scorecards/run.json").write_text(json.dumps(settings))
    (note,) = replay_run(run, new_rewards([term("right", NUMBER)])).notes
    assert "In 1 of 1 batches the recorded advantages are not those" in note


def test_a_run_without_advantages_or_settings_is_compared_all_the_same(
    tmp_path: Path,
) -> None:
    run = record(tmp_path, [term("right", NUMBER)], [TEXTS], with_advantages=False)
    (tmp_path / "scorecards/run.json").write_text('{"scale_rew')
    replayed = replay_run(run, new_rewards([term("right", NUMBER, weight=-1.0)]))
    assert replayed.comparison.advantages.correlation == pytest.approx(-1.0)
    assert replayed.sources == {"right": "judged again"}
    assert any("no run.json" in note for note in replayed.notes)
    assert any("no recorded advantages" in note for note in replayed.notes)


def test_completions_without_group_numbers_are_compared_by_verdict_and_total_only(
    tmp_path: Path,
) -> None:
    from trl_grpo_ext.runs.recorder import Recorder

    run = record(tmp_path, [term("right", NUMBER)], [TEXTS])
    (card,) = run.cards()
    (tmp_path / "bare").mkdir()
    samples = tuple(replace(sample, group=None, step=None) for sample in card.samples)
    Recorder(tmp_path / "bare").on_batch(replace(card, samples=samples, advantages=None))
    replayed = replay_run(
        RecordedRun(tmp_path / "bare"), new_rewards([term("right", NUMBER, weight=2.0)])
    )
    assert replayed.comparison.changed == 5
    assert (replayed.steps, replayed.comparison.groups.groups) == (None, 0)
    assert any("no group numbers" in note for note in replayed.notes)
    json.dumps(replayed.to_record(), allow_nan=False)


def test_torn_parts_are_left_out_and_said(tmp_path: Path) -> None:
    run = record(tmp_path, [term("right", NUMBER)], [TEXTS] * 3)
    (tmp_path / "scorecards/verdicts-00000001.parquet").unlink()
    replayed = replay_run(run, new_rewards([term("right", NUMBER)]))
    assert replayed.comparison.batches == 2
    assert any(
        "1 batches cannot be read and were left out: 1." in note for note in replayed.notes
    )
    for number in (0, 2):
        (tmp_path / f"scorecards/verdicts-{number:08d}.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(
        ValueError, match=r"None of the batches that are meant can be read.*0, 1, 2"
    ):
        replay_run(run, new_rewards([term("right", NUMBER)]))


def test_a_run_without_batches_of_this_kind_is_refused_with_the_reason(
    tmp_path: Path,
) -> None:
    run = record(tmp_path / "eval", [term("right", NUMBER)], [TEXTS], mode="eval")
    with pytest.raises(ValueError, match="no batches of training; --mode eval replays"):
        replay_run(run, new_rewards([term("right", NUMBER)]))
    nothing_changed(
        replay_run(run, new_rewards([term("right", NUMBER)]), Selection(mode="eval"))
    )
    empty = record(tmp_path / "empty", [term("right", NUMBER)], [], ended=True)
    with pytest.raises(ValueError, match="no scorecards yet"):
        replay_run(empty, new_rewards([term("right", NUMBER)]))


def test_a_run_of_plain_functions_is_replayed_under_the_recipe_alone(
    tiny_model: str, sums: Any, config: Make
) -> None:
    def constant(completions: list[Any], **_: Any) -> list[float]:
        return [1.0] * len(completions)

    args = config(max_steps=1)
    VerifiedGRPOTrainer(tiny_model, constant, args, sums["train"]).train()
    replayed = replay_run(
        RecordedRun(Path(args.output_dir)), new_rewards([term("right", NUMBER)])
    )
    assert replayed.comparison.old.shares.keys() == {"constant"}
    assert replayed.comparison.new.others_share in (None, 0.0)
    assert replayed.comparison.groups.shares()["tied"][0] == 1.0


def test_rewards_that_need_a_column_that_was_not_there_are_refused(tmp_path: Path) -> None:
    run = record(tmp_path, [term("right", NUMBER)], [TEXTS], row={"question": "?"})
    mix = RewardMix([RewardTerm(name="math", verifier=MathVerifier(column="gold"))])
    with pytest.raises(
        ValueError,
        match=r"'math'.*`gold`.*the columns are: `question`.*columns that the run had",
    ):
        replay_run(run, new_rewards(mix))


def test_a_new_format_term_is_judged_on_the_recorded_text_and_prefill(
    tiny_model: str, sums: Any, config: Make
) -> None:
    args = config(max_steps=1)
    both = RewardMix(
        [
            RewardTerm(name="right", verifier=MathVerifier()),
            RewardTerm(name="thinks", verifier=ThinkFormatVerifier(), weight=0.2),
        ]
    )
    VerifiedGRPOTrainer(tiny_model, both, args, sums["train"]).train()
    run = RecordedRun(Path(args.output_dir))
    (card,) = run.cards()
    replayed = replay_run(run, new_rewards(both), rescore=True)
    nothing_changed(replayed)
    assert replayed.comparison.old.reward == pytest.approx(
        sum(t or 0.0 for t in card.totals) / len(card)
    )
