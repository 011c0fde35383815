"""The keys and flags of a recipe, checked by name before TRL is imported, which takes seconds."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from trl_grpo_ext.recipe.file import RecipeFile
from trl_grpo_ext.support.lazy import find_object
from trl_grpo_ext.support.text import did_you_mean

# Keys of the file that are not flags: nested, or done before the flags are read.
FILE_ONLY_KEYS = ("rewards", "datasets", "when", "few_shot", "env")
# What people write from memory, and no comparison of letters finds.
SHORT = {
    "lr": "learning_rate",
    "model": "model_name_or_path",
    "model_name": "model_name_or_path",
    "dataset": "dataset_name",
    "epochs": "num_train_epochs",
    "steps": "max_steps",
    "batch_size": "per_device_train_batch_size",
}
# The dataclasses that a recipe fills. They are named as text, as importing them would import TRL.
DATACLASSES = (
    ("trl_grpo_ext.recipe.arguments", "RecipeArguments"),
    ("trl_grpo_ext.trainer.config", "VerifiedGRPOConfig"),
    ("trl", "ModelConfig"),
)


def check_names(file: RecipeFile, flags: Sequence[str]) -> None:
    """Raise a ValueError for an unknown key or flag that names the nearest valid one."""
    fields = {name for module, class_name in DATACLASSES for name in field_names(module, class_name)}
    keys = fields | set(FILE_ONLY_KEYS)
    for key in file.keys:
        if key not in keys:
            nearest = f"Did you mean `{SHORT[key]}`?" if key in SHORT else did_you_mean(key, keys)
            raise ValueError(f"Unknown key `{key}` in the recipe {file.path}. {nearest}")
    written = {f"--{prefix}{name}" for name in fields for prefix in ("", "no_")}
    written |= {f"--{name[2:].replace('_', '-')}" for name in written}
    for flag in flags:
        if flag.startswith("--") and flag.partition("=")[0] not in written:
            raise ValueError(_unknown_flag(flag.partition("=")[0].removeprefix("--"), written))


def _unknown_flag(name: str, written: set[str]) -> str:
    if name in FILE_ONLY_KEYS:
        return f"`--{name}` is not a flag: `{name}` is set in the recipe's file."
    nearest = f"Did you mean `--{SHORT[name]}`?" if name in SHORT else did_you_mean(f"--{name}", written)
    return f"Unknown flag `--{name}`. {nearest}"


def field_names(module: str, class_name: str) -> Iterable[str]:
    """The fields of a dataclass, read from its source; where that does not say them, the dataclass is imported.

    Examples:
        >>> "lora_r" in field_names("trl", "ModelConfig")
        True
    """
    try:
        return set(_written_fields(module, class_name))
    except LookupError:
        return {field.name for field in dataclasses.fields(find_object(module, class_name)) if field.init}  # type: ignore[arg-type]


def _written_fields(module: str, class_name: str) -> Iterator[str]:
    """The fields that stand in a class and those that it extends; an import is followed to where the class is."""
    path = _path(module)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            yield from (line.target.id for line in node.body if _is_field(line))  # type: ignore[attr-defined]
            for base in node.bases:
                yield from _written_fields(module, ast.unparse(base))
            return
        if isinstance(node, ast.ImportFrom):
            names = {alias.asname or alias.name: alias.name for alias in node.names}
            if class_name in names:
                yield from _written_fields(_imported_from(node, module, path), names[class_name])
                return
    raise LookupError(f"The source of {module} does not say where {class_name} is.")


def _path(module: str) -> Path:
    top, *rest = module.split(".")
    found = find_spec(top)  # of a top package, which is not imported for it
    for folder in (found and found.submodule_search_locations) or ():
        place = Path(folder, *rest)
        for path in (place / "__init__.py", place.with_suffix(".py")):
            if path.is_file():
                return path
    raise LookupError(f"The source of {module} is not there.")


def _imported_from(node: ast.ImportFrom, module: str, path: Path) -> str:
    """The module that an import names, which may be relative to its own."""
    if not node.level:
        return node.module or ""
    package = [*module.split("."), ""] if path.name == "__init__.py" else module.split(".")
    return ".".join([*package[: -node.level], *(node.module or "").split(".")]).rstrip(".")


def _is_field(line: ast.stmt) -> bool:
    if not (isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)):
        return False
    constructor = ast.unparse(line.value) if line.value else ""
    return "ClassVar" not in ast.unparse(line.annotation) and "init=False" not in constructor
