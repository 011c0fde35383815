"""Check the sizes of the house: 40 lines a function, 20 files a folder.

A function's docstring is not counted, nor are its decorators. Files are Python files, each
`__init__.py` among them. There are no exceptions. Lines of a file have no limit: it made lines denser.

Usage::

    python scripts/sizes.py

It prints what is too large, and ends with status 1 if anything is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("trl_grpo_ext", "rewards")
FUNCTION_LINES = 40
FOLDER_FILES = 20

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Print files, functions and folders over their limit; return the exit status."""
    problems = list(too_large())
    print("\n".join(problems) or "Every function and folder keeps its size.")
    return int(bool(problems))


def too_large() -> Iterator[str]:
    """Yield a line per file, function or folder over its limit."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    for folder in sorted({path.parent for path in files}):
        count = sum(path.parent == folder for path in files)
        if count > FOLDER_FILES:
            yield f"{folder.relative_to(ROOT)}/: {count} files"
    for path in files:
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if (lines := code_lines(node)) > FUNCTION_LINES:
                yield f"{name}:{node.lineno} {node.name}: {lines} lines"


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count a function's lines without its docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
