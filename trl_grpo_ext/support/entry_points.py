"""Find objects that other packages register by name, as entry points; import an object only on request.

A package registers objects in its `pyproject.toml`; docs/verifiers.md shows this for verifiers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# Not imported at runtime: importlib.metadata is slow to import, and workers import the registry of verifiers.
if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints


def registered_names(group: str) -> list[str]:
    """Return the names registered in an entry point group, sorted."""
    return sorted(_entry_points(group).names)


def claims_on(group: str, name: str) -> list[str]:
    """Return the import path of each object registered under a name, with its package.

    The text for one object is `package.module.object of the package 'name'`.
    """
    found = _entry_points(group).select(name=name)
    # A package that is installed twice on the path has equal entries.
    return list(dict.fromkeys(map(_described, found)))


def load_registered(group: str, name: str) -> object:
    """Import a registered object by name; the group must have the name.

    Raises:
        ValueError: if several packages claim the name, or the object cannot be imported.
    """
    claims = claims_on(group, name)
    if len(claims) > 1:
        raise ValueError(
            f"several packages register {name!r} as one of {group}: {'; '.join(claims)}. Uninstall one."
        )
    entry_point, *_ = _entry_points(group).select(name=name)
    try:
        found: object = entry_point.load()
    except Exception as error:
        # Another package's module may raise any exception.
        raise ValueError(
            f"{name!r}, {claims[0]}, cannot be imported: {type(error).__name__}: {error}."
        ) from None
    return found


def _entry_points(group: str) -> EntryPoints:
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _described(entry_point: EntryPoint) -> str:
    path = entry_point.value.replace(":", ".")
    if entry_point.dist is None:
        return path
    return f"{path} of the package {entry_point.dist.name!r}"
