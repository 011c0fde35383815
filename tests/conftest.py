"""What every test shares: no network, one thread, and a real trainer on the bundled model."""

from __future__ import annotations

import os

# Before any import of torch or datasets, which read these once.
os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")

import gc
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import ADVICE, NO_BROWSER
from filelock import FileLock
from hypothesis import HealthCheck, settings

from trl_grpo_ext.assets import resolve

# A busy machine is slow, which is no fault of the code. `make test` takes the profile with fewer examples.
settings.register_profile("thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=25)
settings.load_profile("thorough")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave what is imported out of all garbage collections: Accelerate's, one a training, took half a second."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say at the end what was left out for want of a browser, and what to do about it."""
    skipped = terminalreporter.stats.get("skipped", [])
    if any(NO_BROWSER in str(report.longrepr) for report in skipped):
        terminalreporter.section("pictures not tested", yellow=True)
        terminalreporter.write_line(ADVICE)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], None]], Path]:
    """Makes a folder once a test run, whichever of its processes asks first; tests read it and leave it as it is.

    The others wait until it is there. A folder whose maker has failed is made again for whoever asks next.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def make_once(name: str, make: Callable[[Path], None]) -> Path:
        folder, done = shared / name, shared / f"{name}.done"
        with FileLock(shared / f"{name}.lock"):
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return make_once


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk() -> Iterator[None]:
    """What a machine that loses its power leaves is not tested; on some disks each file written takes milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def tiny_model() -> str:
    """The folder of the bundled model."""
    return resolve("bundled:tiny_reasoner")


@pytest.fixture(scope="session")
def sums() -> Any:
    """The bundled data: columns `prompt` (a conversation) and `solution`, splits `train` and `test`."""
    from datasets import load_dataset

    return load_dataset(resolve("bundled:sums"))


@pytest.fixture
def no_cached_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `load_dataset` read what is there: it takes folders with the same name and card for the same dataset."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))  # of a process that is started


@pytest.fixture
def any_cpu_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever CPU time a worker gets counts as having used up its deadline, so that other processes change nothing.

    For tests of what becomes of answers that compute for ever; test_workers.py has those of a worker that is starved.
    """
    monkeypatch.setattr("trl_grpo_ext.workers.worker.BUSY_SHARE", 0.01)


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Any]:
    """Makes a small `VerifiedGRPOConfig` for a CPU: two prompts of four completions, two steps."""
    import torch

    from trl_grpo_ext import VerifiedGRPOConfig

    torch.set_num_threads(1)

    def make(**changes: Any) -> Any:
        settings = {
            "output_dir": str(tmp_path / "run"),
            "per_device_train_batch_size": 8,
            "per_device_eval_batch_size": 8,
            "num_generations": 4,
            "max_completion_length": 24,
            "max_steps": 2,
            "learning_rate": 1e-4,
            "use_cpu": True,
            "bf16": False,
            "report_to": "none",
            "save_strategy": "no",
            "logging_steps": 1,
            "disable_tqdm": True,
            "write_report": False,  # a second a test
        }
        return VerifiedGRPOConfig(**(settings | changes))

    return make
