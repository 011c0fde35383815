"""Model and dataset names: local folders, or names on a possibly unreachable Hub."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from command_line import run_here
from places import TESTS

from trl_grpo_ext.recipe.hub import (
    OFFLINE,
    check_hub_takes_models,
    check_model_folder,
    go_offline_without_hub,
)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """Point the Hub's address at a local port without a listener, and return the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = int(server.getsockname()[1])
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{number}")
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    # Setting the variable first makes monkeypatch restore it in any case.
    monkeypatch.setenv(OFFLINE, "")
    monkeypatch.delenv(OFFLINE)
    return number


def test_a_name_on_a_hub_out_of_reach_is_looked_up_in_the_cache_only(
    port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_PROXY", "localhost")  # names no proxy
    go_offline_without_hub("bundled:tiny_reasoner", "openai/gsm8k")
    assert os.environ[OFFLINE] == "1"
    said = "The Hub at 127.0.0.1 cannot be reached (Connection refused): only what is cached here is used.\n"
    assert capsys.readouterr().err == said


def test_a_hub_that_answers_is_used(port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        go_offline_without_hub("openai/gsm8k")
    assert OFFLINE not in os.environ


@pytest.mark.parametrize("setting", ["HTTPS_PROXY", OFFLINE])
def test_behind_a_proxy_and_where_the_user_has_decided_nothing_is_tried(
    port: int, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(setting, "0")
    go_offline_without_hub("openai/gsm8k")
    assert os.environ.get(OFFLINE, "0") == "0"


def test_what_is_bundled_or_lies_here_needs_no_hub(port: int, tmp_path: Path) -> None:
    go_offline_without_hub("bundled:sums", str(tmp_path), None, "reasoning_gym:chain_sum")
    assert OFFLINE not in os.environ


def test_a_model_is_trained_for_a_hub_only_if_it_can_be_pushed_there(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_hub_takes_models(False)
    flags = ("--push_to_hub", "true", "--hub_model_id", "me/mine")
    said = run_here(
        "train", "--config", "quickstart", *flags, cwd=tmp_path, expect=2
    ).stderr
    assert (
        "(push_to_hub). The Hub at 127.0.0.1 cannot be reached (Connection refused). Take push_to_hub out"
        in said
    )
    with socket.create_server(("127.0.0.1", port)):
        check_hub_takes_models(True)
        monkeypatch.setenv(OFFLINE, "1")
        with pytest.raises(ValueError, match="HF_HUB_OFFLINE is set"):
            check_hub_takes_models(True)


@pytest.mark.parametrize(
    "name", ["./mine", "/no/such/model", "~/no/such/model", "runs/a/checkpoint-9"]
)
def test_a_path_without_a_folder_is_no_model(name: str) -> None:
    with pytest.raises(
        ValueError, match=f"There is no folder {name} to load the model from"
    ):
        check_model_folder(name, "--model")


def test_a_checkpoint_in_shards_is_no_model_that_can_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model_fsdp_0").mkdir()
    with pytest.raises(
        ValueError,
        match="has a model in shards, to resume from, and none that can be loaded",
    ):
        check_model_folder(str(tmp_path), "--model")


@pytest.mark.parametrize("name", ["gpt2", "openai/gsm8k", str(TESTS)])
def test_a_name_on_the_hub_and_a_folder_may_be_models(name: str) -> None:
    check_model_folder(name, "--model")
