"""Fixtures and settings for all tests: no network, one thread, and a real trainer on the bundled model."""

from __future__ import annotations

import os

# Set before torch and datasets are imported, which read these variables once.
os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")

import gc
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from browser import ADVICE, NO_BROWSER
from filelock import FileLock
from hypothesis import HealthCheck, settings

from trl_grpo_ext.assets import resolve
from trl_grpo_ext.trainer import report_listener

# A slow example on a busy machine is no fault of the code. `make test` uses the profile with fewer examples.
settings.register_profile(
    "thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=25)
settings.load_profile("thorough")


# How many modules were imported when garbage was last collected.
_MODULES = pytest.StashKey[int]()
# Of further modules, so many make another collection worth its time: a trainer imports thousands.
_MANY_MODULES = 100


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Exclude imported modules from garbage collection: Accelerate's collection took half a second per training."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    session.stash[_MODULES] = len(sys.modules)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Exclude also the modules that tests have imported since, such as torch and TRL."""
    if len(sys.modules) < item.session.stash[_MODULES] + _MANY_MODULES:
        return
    gc.collect()
    gc.freeze()
    item.session.stash[_MODULES] = len(sys.modules)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Report tests skipped for lack of a browser, with advice."""
    skipped = terminalreporter.stats.get("skipped", [])
    if any(NO_BROWSER in str(report.longrepr) for report in skipped):
        terminalreporter.section("pictures not tested", yellow=True)
        terminalreporter.write_line(ADVICE)


@pytest.fixture(scope="session")
def made_once(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, Callable[[Path], None]], Path]:
    """Make a folder once per test run, in the first process that asks; tests may only read the folder.

    Other processes wait until the folder is complete. If `make` fails, the next request makes the folder again.
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
    """Disable `os.fsync`: no test loses power, and on some disks each sync takes milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _reports_at_usual_priority() -> Iterator[None]:
    """Write reports at the usual priority: other tests would leave a process of the lowest one no processor time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            report_listener,
            "_PROGRAM",
            report_listener._PROGRAM.replace("os.nice(19)\n", ""),
        )
        yield


@pytest.fixture(scope="session")
def _installed_once() -> Iterator[None]:
    """Ask once whether a package is installed: Accelerate reads the answer from disk five times per step."""
    from accelerate.utils import imports

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            imports, "_is_package_available", cache(imports._is_package_available)
        )
        yield


@pytest.fixture(scope="session")
def tiny_model() -> str:
    """Return the folder of the bundled model."""
    return resolve("bundled:tiny_reasoner")


@pytest.fixture(scope="session")
def one_layer(
    made_once: Callable[[str, Callable[[Path], None]], Path], tiny_model: str
) -> str:
    """Return the folder of the bundled model without two of its three layers, for trainings with planted rewards.

    It trains in half the time, and answers nothing right: a test of what a model has answered takes `tiny_model`.
    """
    from first_layer import first_layer

    return str(made_once("one_layer", lambda folder: first_layer(tiny_model, folder)))


@pytest.fixture(scope="session")
def vlm(made_once: Callable[[str, Callable[[Path], None]], Path], tiny_model: str) -> str:
    """Make a tiny vision language model once, and return its folder."""
    from tiny_vlm import make_vlm

    return str(made_once("vlm", lambda folder: make_vlm(tiny_model, folder)))


@pytest.fixture(scope="session")
def sums() -> Any:
    """Load the bundled data: columns `prompt` (a conversation) and `solution`, splits `train` and `test`."""
    from datasets import load_dataset

    return load_dataset(resolve("bundled:sums"))


@pytest.fixture
def no_cached_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give `load_dataset` an empty cache: it would take two folders with equal name and card for one dataset."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    # For processes that the test starts.
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def any_cpu_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count any CPU time of a worker as a used-up deadline, so that a busy machine changes no verdict.

    Use it in tests of answers that compute forever; test_workers.py tests workers that get too little CPU time.
    """
    monkeypatch.setattr("trl_grpo_ext.workers.worker.BUSY_SHARE", 0.01)


@pytest.fixture
def config(tmp_path: Path, _installed_once: None) -> Callable[..., Any]:
    """Make a small `VerifiedGRPOConfig` for a CPU: two prompts with four completions each, two steps."""
    import torch

    from trl_grpo_ext import VerifiedGRPOConfig

    torch.set_num_threads(1)

    def make(**changes: Any) -> Any:
        settings = {
            "output_dir": str(tmp_path / "run"),
            "per_device_train_batch_size": 8,
            "per_device_eval_batch_size": 8,
            "num_generations": 4,
            "max_completion_length": 12,
            "max_steps": 2,
            "learning_rate": 1e-4,
            "use_cpu": True,
            "bf16": False,
            # TRL's default computes every forward pass twice.
            "gradient_checkpointing": False,
            "report_to": "none",
            "save_strategy": "no",
            "logging_steps": 1,
            "disable_tqdm": True,
            # Writing the report takes a second per test.
            "write_report": False,
        }
        return VerifiedGRPOConfig(**(settings | changes))

    return make
