"""Load a recipe's environments and tools from dotted paths, and check them before TRL's import."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from types import MethodType
from typing import Any

from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.rewards.environment import judges_outcomes
from trl_grpo_ext.rewards.registry import import_named

# Public methods of an environment that TRL does not offer to the model as tools.
NO_TOOLS = ("reset", "get_reward")
EXAMPLE = "such as my_module.Game"


def agent_arguments(keys: Mapping[str, Any], mix: RewardMix) -> dict[str, Any]:
    """Return the trainer's arguments `environment_factory` and `tools`; a key absent from the recipe is absent here.

    Raises:
        ValueError: for a path without an object, a class without `reset`, a tool without a description for the model,
            and an `EnvironmentReward` term without an environment reward.
    """
    found: dict[str, Any] = {}
    if keys.get("environment") is not None:
        found["environment_factory"] = _environments(keys["environment"])
    if keys.get("tools") is not None:
        found["tools"] = _tools(keys["tools"])
    _check_terms(found.get("environment_factory"), mix)
    return found


def _environments(written: object) -> Any:
    if not isinstance(written, Mapping) or not written:
        return _environment(written, "`environment`")
    factories = {}
    for name, path in written.items():
        factories[str(name)] = _environment(path, f"`environment: {name}`")
    return factories


def _environment(path: object, where: str) -> Any:
    if not isinstance(path, str):
        raise ValueError(
            f"{where} is the path of a class, {EXAMPLE}, or a mapping of names to paths; got {path!r}. Rows choose by "
            f"name in their column `environment`."
        )
    factory = _imported(path, where)
    if not callable(factory):
        raise ValueError(
            f"{where}: {path} is a {type(factory).__name__}; it must be a class, or a function that makes one."
        )
    # The environments of a function have no class to look at yet.
    if isinstance(factory, type):
        if not callable(getattr(factory, "reset", None)):
            raise ValueError(
                f"{where}: the class {path} has no method `reset`, which TRL calls before each rollout."
            )
        _check_methods(factory, where)
    return factory


def _check_methods(environment: type, where: str) -> None:
    """Check all methods that TRL offers to the model as tools."""
    # Inherited methods are among them: the model is offered these, too.
    for name, method in inspect.getmembers(environment, predicate=inspect.isfunction):
        is_tool = name not in NO_TOOLS and not name.startswith("_")
        if is_tool:
            _check_tool(method, f"{where}, the tool {name!r}")


def _tools(written: object) -> list[Any]:
    if not isinstance(written, list) or not all(isinstance(path, str) for path in written):
        raise ValueError(
            f"`tools` is a list of paths of functions, such as [my_module.search]; got {written!r}."
        )
    found = []
    for path in written:
        tool = _imported(path, "`tools`")
        if not inspect.isroutine(tool):
            raise ValueError(
                f"`tools`: {path} is a {type(tool).__name__}; it must be a function."
            )
        _check_tool(tool, f"`tools`, {path}")
        found.append(tool)
    return found


def _imported(path: str, where: str) -> Any:
    if "." not in path and ":" not in path:
        raise ValueError(
            f"{where}: {path!r} is no path of a module and a name in it, {EXAMPLE}."
        )
    try:
        return import_named(path)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _check_tool(tool: Callable[..., Any], where: str) -> None:
    """Raise a ValueError if a tool lacks the docstring or type hints that TRL needs to describe it to the model.

    TRL itself would fail only at its first batch.
    """
    lacks = next(_lacking(tool), None) or _refused(tool)
    if lacks is not None:
        raise ValueError(
            f"{where} has {lacks}. The model is told of a tool by its docstring, with a section `Args:`, and by its "
            f"type hints; a method that is no tool has a name that begins with an underscore."
        )


def _lacking(tool: Callable[..., Any]) -> Iterator[str]:
    said = inspect.getdoc(tool) or ""
    if not said:
        yield "no docstring"
    for name, parameter in inspect.signature(tool).parameters.items():
        if name == "self":
            continue
        if parameter.annotation is parameter.empty:
            yield f"no type hint for `{name}`"
        # transformers describes an argument to the model by its line below `Args:`, such as `name: text`.
        if not re.search(rf"^\s+{re.escape(name)}\b.*:", said, re.MULTILINE):
            yield f"no line for `{name}` in its docstring"


def _refused(tool: Callable[..., Any]) -> str | None:
    """Return the error of transformers, which TRL has describe a tool to the model; None without one."""
    # A second of imports, which only recipes with tools pay.
    from transformers.utils import get_json_schema

    described = tool
    if next(iter(inspect.signature(tool).parameters), "") == "self":
        # TRL describes the method of an environment's instance.
        described = MethodType(tool, object())
    try:
        get_json_schema(described)
    # transformers raises errors of its own, and those of its parser.
    except Exception as error:
        return f"a docstring or type hints that transformers refuses ({error})"
    return None


def _check_terms(factory: Any, mix: RewardMix) -> None:
    """Raise a ValueError if no environment supplies rewards for an `EnvironmentReward` term."""
    names = (term.name for term, verifier in mix.verifiers if judges_outcomes(verifier))
    named = next(names, None)
    if named is None:
        return
    if factory is None:
        raise ValueError(
            f"The reward term {named!r} judges outcomes of environments, and the recipe names none: set environment to "
            f"the path of a class, {EXAMPLE}."
        )
    factories = factory.values() if isinstance(factory, Mapping) else [factory]
    if not any(map(_may_reward, factories)):
        raise ValueError(
            f"The reward term {named!r} judges outcomes of environments, and no environment of the recipe has a "
            f"`get_reward`."
        )


def _may_reward(factory: Any) -> bool:
    # The environments of a function are known only once it makes one.
    return not isinstance(factory, type) or hasattr(factory, "get_reward")
