"""Recipe files: find and read them, and check their keys and flags by name.

This module does not import TRL, which takes seconds: `trl-grpo-ext recipes` and typos are answered at once.
"""

from __future__ import annotations

import ast
import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from trl_grpo_ext.support.lazy import find_object
from trl_grpo_ext.support.text import did_you_mean, nearest
from trl_grpo_ext.workers.executor import choose_executor


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """A recipe file: name, path and keys."""

    name: str
    path: Path
    keys: Mapping[str, Any]

    @property
    def summary(self) -> str:
        """Return the file's first line if it is a comment, without `#`; else an empty string."""
        first = self.path.read_text(encoding="utf-8").splitlines()[0]
        if not first.startswith("#"):
            return ""
        return first.removeprefix("#").strip()


def shipped_recipes() -> dict[str, Path]:
    """Return paths of the package's recipes by name."""
    folder = Path(str(resources.files("trl_grpo_ext.recipes")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def load_recipe(name_or_path: str) -> RecipeFile:
    """Read a recipe: a shipped recipe by name, or any file by path.

    Raises:
        ValueError: if the recipe does not exist, or its file is no YAML mapping.
    """
    shipped = shipped_recipes()
    path = shipped.get(name_or_path, Path(name_or_path))
    if not path.is_file():
        raise ValueError(
            f"There is no recipe {name_or_path!r}: it is neither a file nor a shipped recipe. "
            f"{did_you_mean(name_or_path, shipped)}"
        )
    try:
        keys = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506  # a safe loader
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        # PyYAML calls any text that it gets `<unicode string>`; the message names the file.
        said = str(error).replace(' in "<unicode string>",', " in")
        raise ValueError(f"The recipe {path} is not valid YAML: {said}") from None
    # YAML reads a key `on` as True and a key `1` as a number; no setting has such a name.
    if not isinstance(keys, dict) or not all(isinstance(key, str) for key in keys):
        raise ValueError(f"The recipe {path} must be a YAML mapping of names to values.")
    return RecipeFile(name=path.stem, path=path, keys=keys)


class _Loader(yaml.SafeLoader):
    """A safe YAML loader that refuses duplicate keys; PyYAML's own silently takes the last."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Any, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            # A list or a mapping as a key: PyYAML refuses it by itself.
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in lines:
                raise yaml.YAMLError(
                    f"the key `{key.value}` in line {line} is already in line {lines[key.value]}."
                )
            lines[key.value] = line
        return super().construct_mapping(node, deep=deep)


def set_environment(file: RecipeFile) -> None:
    """Set the environment variables of a recipe's `env`, and choose its `executor`.

    Call it before libraries are imported: some read their variables on import.

    Raises:
        ValueError: if `env` is no mapping, or the executor is unknown.
    """
    variables = file.keys.get("env") or {}
    if not isinstance(variables, dict):
        raise ValueError(
            "`env` in a recipe is a mapping of environment variables to their values."
        )
    # YAML reads `1` as a number, and the environment takes texts only.
    for name, value in variables.items():
        os.environ[str(name)] = str(value)
    choose_executor(file.keys.get("executor"))


# Keys without a flag: their values are nested, or are used before flags are parsed.
FILE_ONLY_KEYS = (
    "rewards",
    "datasets",
    "when",
    "rate",
    "few_shot",
    "environment",
    "tools",
    "env",
)
_WORD = re.compile(r"\w+")
# Common names from other tools, too unlike the valid key for a comparison of letters.
SHORT = {
    "lr": "learning_rate",
    "model": "model_name_or_path",
    "model_name": "model_name_or_path",
    "dataset": "dataset_name",
    "epochs": "num_train_epochs",
    "steps": "max_steps",
    "batch_size": "per_device_train_batch_size",
}
# Dataclasses filled by a recipe, named as text because their import would import TRL.
DATACLASSES = (
    ("trl_grpo_ext.recipe.arguments", "RecipeArguments"),
    ("trl_grpo_ext.trainer.config", "VerifiedGRPOConfig"),
    ("trl", "ModelConfig"),
)


def flags_of_fields() -> set[str]:
    """Return every spelling of every configuration flag, such as `--use_vllm`, `--use-vllm` and `--no_use_vllm`."""
    spellings = set()
    for field in _all_fields():
        for name in (field, f"no_{field}"):
            dashed = name.replace("_", "-")
            spellings |= {f"--{name}", f"--{dashed}"}
    return spellings


def check_names(file: RecipeFile, flags: Sequence[str]) -> None:
    """Raise a ValueError for an unknown key or flag; its message suggests the nearest valid name."""
    fields = _all_fields()
    keys = {*fields, *FILE_ONLY_KEYS}
    for key in file.keys:
        if key not in keys:
            meant = did_you_mean(key, keys)
            if key in SHORT:
                meant = f"Did you mean `{SHORT[key]}`?"
            raise ValueError(f"Unknown key `{key}` in the recipe {file.path}. {meant}")
    written = flags_of_fields()
    for flag in flags:
        name, _, _ = flag.partition("=")
        if name.startswith("--") and name not in written:
            raise ValueError(unknown_flag(name.removeprefix("--"), written))


def check_numbers(written: Mapping[str, Any]) -> None:
    """Raise a ValueError if a field for numbers holds a value of another type.

    Examples:
        >>> check_numbers({"max_steps": "three"})
        Traceback (most recent call last):
        ValueError: `max_steps` must be a number, got 'three'.
    """
    types = _all_fields()
    for name, value in written.items():
        # Annotations are texts, such as `int | None` or `Optional[float]`: every word must be a kind of number.
        allowed = set(_WORD.findall(types.get(name, ""))) - {"Optional"}
        takes_numbers = bool(allowed) and allowed <= {"int", "float", "None"}
        # True is an int in Python, and no number in a recipe.
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if takes_numbers and not is_number and value is not None:
            raise ValueError(f"`{name}` must be a number, got {value!r}.")


@cache
def _all_fields() -> Mapping[str, str]:
    """Map field names to types; cached, since parsing the sources of TRL and transformers is slow."""
    types: dict[str, str] = {}
    for module, class_name in DATACLASSES:
        types.update(field_types(module, class_name))
    return types


def unknown_flag(name: str, written: set[str]) -> str:
    """Return the error message for an unknown flag, with the nearest valid flag."""
    if name in FILE_ONLY_KEYS:
        return f"`--{name}` is not a flag: `{name}` is set in the recipe's file."
    near = nearest(f"--{name}", written)
    short = nearest(name, SHORT, likeness=0.8)
    if short:
        near = f"--{SHORT[short]}"
    hint = "The command's own flags are listed by --help; all others are fields of TRL's configurations."
    if near:
        hint = f"Did you mean `{near}`?"
    return f"Unknown flag `--{name}`. {hint}"


def field_types(module: str, class_name: str) -> dict[str, str]:
    """Map a dataclass's field names to type annotations, read from source code; import the class only if that fails.

    Examples:
        >>> field_types("trl", "ModelConfig")["lora_r"]
        'int'
    """
    try:
        return dict(_written_fields(module, class_name))
    except LookupError:
        fields = dataclasses.fields(find_object(module, class_name))  # type: ignore[arg-type]
        return {field.name: str(field.type) for field in fields if field.init}


def _written_fields(module: str, class_name: str) -> Iterator[tuple[str, str]]:
    """Yield field names and types from a class's source, base classes first; follow imports to the class."""
    path = _path(module)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    # The module holds the class, or imports it from another module.
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            # Base classes first: a field that a subclass annotates anew gets the subclass's type.
            for base in node.bases:
                yield from _written_fields(module, ast.unparse(base))
            for line in filter(_is_field, node.body):
                yield line.target.id, ast.unparse(line.annotation)  # type: ignore[attr-defined]
            return
        # TRL's `__init__.py` imports its classes only under `if TYPE_CHECKING`, which `walk` enters, too.
        if isinstance(node, ast.ImportFrom):
            names = {alias.asname or alias.name: alias.name for alias in node.names}
            if class_name in names:
                source = _imported_from(node, module, path)
                yield from _written_fields(source, names[class_name])
                return
    raise LookupError(f"The source of {module} does not say where {class_name} is.")


def _path(module: str) -> Path:
    top, *rest = module.split(".")
    # Unlike a submodule's, the spec of a top package is found without its import.
    found = find_spec(top)
    folders = None
    if found is not None:
        folders = found.submodule_search_locations
    for folder in folders or ():
        place = Path(folder, *rest)
        for path in (place / "__init__.py", place.with_suffix(".py")):
            if path.is_file():
                return path
    raise LookupError(f"The source of {module} is not there.")


def _imported_from(node: ast.ImportFrom, module: str, path: Path) -> str:
    """Resolve an import's module name; a relative import is relative to `module`."""
    name = node.module or ""
    if not node.level:
        return name
    package = module.split(".")
    # The first dot means the module's package; an `__init__.py` is its package itself.
    ups = node.level - 1 if path.name == "__init__.py" else node.level
    parents = package[: len(package) - ups]
    # `from . import name` has no module after its dots.
    return ".".join([*parents, name]).rstrip(".")


def _is_field(line: ast.stmt) -> bool:
    if not (isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)):
        return False
    # A field that is no argument of the class has no flag.
    constructor = ast.unparse(line.value) if line.value else ""
    return (
        "ClassVar" not in ast.unparse(line.annotation) and "init=False" not in constructor
    )
