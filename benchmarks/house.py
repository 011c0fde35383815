"""Measure the code base for a reader: files, lines, classes, and functions on a batch's way to disk.

Run it in two checkouts to compare them. Files are modules of the package and of `rewards/`. A public class has a name
without a leading underscore. Functions on a batch's way are our functions called at least once, recorded by
`sys.setprofile` from TRL's call for rewards until the batch is in parquet and in TRL's logs; a second count includes
the checks. The batch has two terms and comes from a real trainer on the bundled model.

    python benchmarks/house.py
"""

from __future__ import annotations

import ast
import logging
import os
import statistics
import sys
import tempfile
import warnings
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("trl_grpo_ext", "rewards")


def source_files() -> list[Path]:
    """List modules once each, without duplicates behind symlinks."""
    folders = [ROOT / name for name in SOURCES]
    links = {path for folder in folders for path in folder.iterdir() if path.is_symlink()}
    found = (path for folder in folders for path in folder.rglob("*.py"))
    return sorted(path for path in found if not links.intersection(path.parents))


def print_sizes(files: list[Path]) -> None:
    """Print counts of files, lines, classes and functions; `scripts/sizes.py` checks the limits."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    classes = [node.name for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    small = [path for path, count in lines.items() if count < 60 and not path.name.startswith("__")]
    print(f"files              {len(files)}")
    print(f"lines              {sum(lines.values())}")
    print(f"public classes     {len(classes)}")
    median = statistics.median((function.end_lineno or 0) - function.lineno + 1 for function in functions)
    print(f"functions          {len(functions)}, median {median:.0f} lines")
    print(f"files under 60     {len(small)}")


class CallTrace:
    """A context manager that records called functions."""

    def __init__(self) -> None:
        self.seen: set[CodeType] = set()

    def __enter__(self) -> CallTrace:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self.seen.add(frame.f_code)

    @property
    def ours(self) -> set[CodeType]:
        """Return recorded functions of the package, without comprehensions and lambdas."""
        return {
            code
            for code in self.seen
            if any(f"{os.sep}{name}{os.sep}" in code.co_filename for name in SOURCES)
            and "site-packages" not in code.co_filename
            and not code.co_name.startswith("<")
        }


def print_path() -> None:
    """Print the number of functions and files that a batch of two terms passes through, with and without checks."""
    for what, run_checks in (("path of a batch", False), ("with the checks", True)):
        codes = _path_of_a_batch(run_checks=run_checks)
        files = {Path(code.co_filename).resolve() for code in codes}
        print(f"{what:18} {len(codes)} functions in {len(files)} files")


def _path_of_a_batch(*, run_checks: bool) -> set[CodeType]:
    from datasets import load_dataset

    from trl_grpo_ext import RewardMix, RewardTerm, VerifiedGRPOConfig, VerifiedGRPOTrainer
    from trl_grpo_ext.assets import resolve
    from trl_grpo_ext.rewards import MathVerifier, ThinkFormatVerifier
    from trl_grpo_ext.trainer.console import keep_quiet

    path = CallTrace()

    class Traced(VerifiedGRPOTrainer):
        """A trainer that records calls for the second batch: the first batch imports modules and starts workers."""

        def _calculate_rewards(self, *arguments: Any) -> Any:
            if self.state.global_step == 0:
                return super()._calculate_rewards(*arguments)
            with path:
                return super()._calculate_rewards(*arguments)

        def _publish(self, card: Any) -> None:
            if self.state.global_step == 0:
                super()._publish(card)
                return
            with path:
                super()._publish(card)

    terms = [
        RewardTerm(name="accuracy", verifier=MathVerifier()),
        RewardTerm(name="thinks", verifier=ThinkFormatVerifier(), weight=0.1),
    ]
    with tempfile.TemporaryDirectory() as folder:
        settings = {"max_steps": 2, "max_completion_length": 24, "per_device_train_batch_size": 8, "num_generations": 4}
        config = VerifiedGRPOConfig(
            output_dir=folder,
            **settings,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            logging_strategy="no",
            write_report=False,
            run_checks=run_checks,
        )
        data = load_dataset(resolve("bundled:sums"))["train"]
        trainer = Traced(resolve("bundled:tiny_reasoner"), RewardMix(terms), config, data)
        keep_quiet(trainer)
        trainer.train()
    return path.ours


def main() -> None:
    """Print the table."""
    print_sizes(source_files())
    print_path()


if __name__ == "__main__":
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    main()
