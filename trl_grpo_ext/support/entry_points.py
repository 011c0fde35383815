"""Objects that other packages register by name, in a group of entry points. Nothing is imported before it is asked for.

A package names them in its `pyproject.toml`, as docs/verifiers.md shows for verifiers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # importlib.metadata imports much, and workers import the registry of verifiers
    from importlib.metadata import EntryPoint, EntryPoints


def registered_names(group: str) -> list[str]:
    """Return the names in a group, in order."""
    return sorted(_entry_points(group).names)


def claims_on(group: str, name: str) -> list[str]:
    """Return the import paths that packages register under a name, each with its package."""
    return [*dict.fromkeys(_described(each) for each in _entry_points(group).select(name=name))]


def load_registered(group: str, name: str) -> object:
    """Import the object that a package registers under a name that the group has.

    Raises:
        ValueError: if several packages claim the name, or the object cannot be imported.
    """
    claims = claims_on(group, name)
    if len(claims) > 1:
        raise ValueError(f"several packages register {name!r} as one of {group}: {'; '.join(claims)}. Uninstall one.")
    (entry_point, *_) = _entry_points(group).select(name=name)
    try:
        found: object = entry_point.load()
    except Exception as error:  # the module is another package's, and may fail in any way
        raise ValueError(f"{name!r}, {claims[0]}, cannot be imported: {type(error).__name__}: {error}.") from None
    return found


def _entry_points(group: str) -> EntryPoints:
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _described(entry_point: EntryPoint) -> str:
    owner = f" of the package {entry_point.dist.name!r}" if entry_point.dist else ""
    return f"{entry_point.value.replace(':', '.')}{owner}"
