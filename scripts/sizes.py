"""Check the sizes of the house, 40 lines a function and 20 files a folder, and refuse three dense expressions.

A function's docstring is not counted, nor are its decorators. Files are Python files, each
`__init__.py` among them. There are no exceptions. Lines of a file have no limit: it made lines denser.

Refused are a conditional in a conditional (`a if x else b if y else c`), a name that a later condition of
its comprehension sets (`[y for x in xs if (y := f(x))]`), and a loop over one item (`for y in [f(x)]`).

Usage::

    python scripts/sizes.py

It prints what is too large or too dense, and ends with status 1 if anything is.
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
    problems = [*too_large(), *too_dense()]
    print(
        "\n".join(problems)
        or "Every function and folder keeps its size, and no expression is too dense."
    )
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


def too_dense() -> Iterator[str]:
    """Yield a line per expression that a reader must read twice."""
    for path in sorted(
        path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            why = why_dense(node)
            if why:
                yield f"{path.relative_to(ROOT)}:{node.lineno} {why}"  # type: ignore[attr-defined]


def why_dense(node: ast.AST) -> str:
    """Say why an expression is too dense; empty if it is not."""
    if isinstance(node, ast.IfExp):
        within = [each for part in ast.iter_child_nodes(node) for each in ast.walk(part)]
        return (
            "a conditional in a conditional"
            if any(isinstance(each, ast.IfExp) for each in within)
            else ""
        )
    if not isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        return ""
    conditions = [
        each for loop in node.generators for test in loop.ifs for each in ast.walk(test)
    ]
    set_late = {each.target.id for each in conditions if isinstance(each, ast.NamedExpr)}
    results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    used = {
        each.id
        for result in results
        for each in ast.walk(result)
        if isinstance(each, ast.Name)
    }
    if set_late & used:
        return "a name that a later condition sets"
    loops = [
        loop.iter for loop in node.generators if isinstance(loop.iter, ast.List | ast.Tuple)
    ]
    lets = [
        each
        for each in loops
        if len(each.elts) == 1 and not isinstance(each.elts[0], ast.Starred)
    ]
    return "a loop over one item" if lets else ""


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count a function's lines without its docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
