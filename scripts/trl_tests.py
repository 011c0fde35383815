"""Run TRL's own tests of its GRPO trainer, first with that trainer, then with `VerifiedGRPOTrainer` in its place.

TRL's tests are not in its packages. They come from a copy of its repository, at the tag of the TRL that is installed::

    git clone --depth 1 --branch v1.16.0 https://github.com/huggingface/trl ../trl
    python scripts/trl_tests.py ../trl

What they would fetch from the Hub is made here (`trl_stand_ins.py`), so no network is needed. Left out are the tests
that need models which read images, or a GPU; those of tools need `pip install jmespath`. Each trains one epoch, without
bf16, which a CPU has no fast way for. Arguments after the folder go to pytest. Everything is written under
build/trl-tests.

It prints how many tests pass with each trainer and names those that end differently. The exit status is 1 if there are
any.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from trl_stand_ins import make_models

HERE = Path(__file__).resolve().parent
WORK = HERE.parent / "build" / "trl-tests"
TESTS = "tests/test_grpo_trainer.py"
# Leaves out test classes that need vision models or a GPU.
LEFT_OUT = "not VLM and not Slow"
TRAINERS = {"trl": "TRL's GRPOTrainer", "verified": "VerifiedGRPOTrainer"}


def main() -> int:
    """Run the tests with both trainers, and compare results; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "source",
        type=Path,
        help="a copy of TRL's repository, at the tag of the TRL that is installed",
    )
    arguments, for_pytest = parser.parse_known_args()
    if not (arguments.source / TESTS).is_file():
        parser.error(
            f"{arguments.source} has no {TESTS}: it must be a copy of TRL's repository (see --help)"
        )
    # Copy the tests only: next to TRL's source, they would import the source instead of the installed TRL.
    shutil.rmtree(WORK / "tests", ignore_errors=True)
    shutil.copytree(arguments.source / "tests", WORK / "tests")
    make_models(WORK / "hub")
    results = {trainer: outcomes(trainer, for_pytest) for trainer in TRAINERS}
    for trainer, of_test in results.items():
        counts = Counter(of_test.values())
        print(
            f"{TRAINERS[trainer]:20}",
            ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()),
        )
    both = [
        test
        for test, ends in results["trl"].items()
        if ends == results["verified"].get(test) == "failed"
    ]
    print("".join(f"fails with both: {test}\n" for test in both), end="")
    differing = [
        test
        for test in results["trl"]
        if results["trl"][test] != results["verified"].get(test)
    ]
    for test in differing:
        ours = results["verified"].get(test, "not run")
        print(
            f"differs: {test}: {results['trl'][test]} with TRL's own, {ours} with VerifiedGRPOTrainer"
        )
    print(f"{len(differing)} of {len(results['trl'])} tests end differently.")
    return int(bool(differing) or not results["trl"])


def outcomes(trainer: str, for_pytest: list[str]) -> dict[str, str]:
    """Run the tests with a trainer, and return each test's result: passed, failed, error or skipped."""
    report = WORK / f"{trainer}.xml"
    report.unlink(missing_ok=True)
    settings = {
        "TRL_TESTS_WITH": trainer,
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_CACHE": str(WORK / "hub"),
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)]),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        TESTS,
        "-c",
        os.devnull,
        "--rootdir",
        str(WORK),
        "-p",
        "trl_stand_ins",
    ]
    command += [
        "-p",
        "no:cacheprovider",
        "-k",
        LEFT_OUT,
        "-q",
        "-W",
        "ignore",
        "--tb=short",
        "--show-capture=no",
    ]
    print(f"TRL's tests with {TRAINERS[trainer]}:", flush=True)
    subprocess.run(
        [*command, f"--junitxml={report}", *for_pytest],
        cwd=WORK,
        env=os.environ | settings,
        check=False,
    )
    cases = ElementTree.parse(report).iter("testcase")  # noqa: S314  # pytest has just written it
    return {f"{case.get('classname')}::{case.get('name')}": outcome(case) for case in cases}


def outcome(case: ElementTree.Element) -> str:
    """Read a test's result from its entry in pytest's report."""
    ends = {"failure": "failed", "error": "error", "skipped": "skipped"}
    return next((ends[child.tag] for child in case if child.tag in ends), "passed")


if __name__ == "__main__":
    raise SystemExit(main())
