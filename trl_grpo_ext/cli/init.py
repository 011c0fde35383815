"""`trl-grpo-ext init`: create a small project that trains unchanged."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trl_grpo_ext.assets import resolve
from trl_grpo_ext.commands.exit_status import FINE, print_text, refusing

TEMPLATE = Path(__file__).parent / "project"
PLACEHOLDER = "PROJECT"
ROWS = {"train": 500, "test": 100}
NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)

HELP = "make a project to begin with: data, a verifier and its test, a recipe, scripts"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "init",
        description="Make a folder with a small project that trains as it is, on a CPU and without a download, to be "
        "changed into your own.",
    )
    parser.add_argument(
        "folder",
        type=Path,
        metavar="NAME",
        help="the project's folder; its last part is its name",
    )


def run(arguments: argparse.Namespace) -> int:
    folder = arguments.folder.expanduser()
    # `absolute`, so that `init .` has the name of the current folder.
    name = folder.absolute().name
    with refusing():
        if not NAME.fullmatch(name):
            raise ValueError(
                f"A project cannot be called {name!r}: take letters, digits, `-`, `_` and `.`."
            )
        # An empty folder is taken: nothing in it can be overwritten.
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(
                f"{folder} is there already, and not empty. Name a folder that is not there."
            )
        for path, text in _files(name):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    print_text(f"{folder} is ready. Its README.md says what is in it. To train:\n")
    print_text(f"  cd {folder}\n  trl-grpo-ext train --config recipe.yaml")
    return FINE


def _files(name: str) -> Iterator[tuple[Path, str]]:
    """Yield the project's files: path inside the project folder, and text."""
    for path in sorted(TEMPLATE.rglob("*")):
        # pip compiles the template's Python files, too, when it installs the package.
        if path.is_file() and path.parent.name != "__pycache__":
            text = path.read_text(encoding="utf-8").replace(PLACEHOLDER, name)
            yield path.relative_to(TEMPLATE), text
    for split, count in ROWS.items():
        bundled = Path(resolve("bundled:sums")) / f"{split}.jsonl"
        written = []
        for line in bundled.read_text(encoding="utf-8").splitlines()[:count]:
            row = json.loads(line)
            # The bundled prompts are conversations; a project's data begins with plain questions.
            question = row["prompt"][-1]["content"]
            written.append(json.dumps({"question": question, "answer": row["solution"]}))
        yield Path("data", f"{split}_prompts.jsonl"), "\n".join(written) + "\n"
