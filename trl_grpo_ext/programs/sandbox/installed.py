"""Find installed packages as the trainer's `import` would, without importing any.

A package is known by its import name, such as `dateutil`; a distribution is a unit that pip installs, such as
`python-dateutil`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.machinery import ModuleSpec
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distribution,
    distributions,
)
from inspect import getmodulename
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_METADATA = (".dist-info", ".egg-info")
# auditwheel puts the shared libraries of a wheel into a folder with this ending, beside the packages.
_LIBRARIES = ".libs"
# A digit may come first: some compiled packages bring a module with such a name.
_NAME = re.compile(r"\w+")
_SITE = ("site-packages", "dist-packages")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder or file to show to programs, with the name that Python looks for: `six.py`, `numpy.libs`."""

    name: str
    path: Path


def find(name: str) -> tuple[Place, ...]:
    """Return the places of a package: its folder, its single file, or all portions of a namespace package.

    The result is empty if the package is not installed. Modules of Python itself do not count as packages. A folder
    without an `__init__.py` counts only if a distribution lists it.
    """
    spec = _spec(name)
    if spec is None:
        return ()
    places = []
    for place in _places_of(name, spec):
        if place.path.exists():
            real = Place(place.name, place.path.resolve())
            if not _is_of_a_project(real.path):
                places.append(real)
    return tuple(places)


def _places_of(name: str, spec: ModuleSpec) -> Iterator[Place]:
    """Yield the folders or the file of an import spec."""
    if spec.submodule_search_locations is not None:
        is_namespace = spec.origin is None
        if not is_namespace or distributions_of(name):
            for folder in spec.submodule_search_locations:
                yield Place(name, Path(folder))
    elif spec.origin and spec.has_location:
        path = Path(spec.origin)
        yield Place(path.name, path)


def is_installed(name: str) -> bool:
    """Return whether a package is installed.

    Modules beside the user's script or in the working directory do not count.
    """
    return any(place.path.parent not in _folders_of_the_run() for place in find(name))


def names() -> list[str]:
    """Return the import names of all installed distributions, sorted."""
    return sorted(_by_import_name(tuple(sys.path)))


def distributions_of(name: str) -> tuple[Distribution, ...]:
    """Return the distributions that provide a package.

    A namespace package may have several; a folder on the path that no distribution lists has none.
    """
    own = named(name)
    # The usual case. Reading the metadata of all distributions takes a tenth of a second.
    if own is not None and name in import_names(own):
        return (own,)
    found = _by_import_name(tuple(sys.path)).get(name)
    # An editable install may not list its packages.
    return tuple(found or ([own] if own else []))


def named(name: str) -> Distribution | None:
    """Return a distribution by its name; None if not installed."""
    try:
        return distribution(name)
    except (PackageNotFoundError, ValueError):
        return None


def required(found: Iterable[Distribution]) -> dict[str, Distribution]:
    """Return distributions and all their installed requirements, direct and indirect, by plain name."""
    reached: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(each, "") for each in found]
    while waiting:
        one, extra = waiting.pop()
        name = plain_name(one.name)
        # The extra belongs to the key: `a[b]` requires more than `a`.
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        reached[name] = one
        for requirement in _requirements(one, extra):
            other = named(requirement.name)
            if other is not None:
                waiting += [(other, each) for each in ("", *requirement.extras)]
    return reached


def plain_name(name: str) -> str:
    """Return the canonical spelling of a distribution name: `Scikit-Learn` becomes `scikit_learn`."""
    return re.sub(r"[-_.]+", "_", name).lower()


def _requirements(one: Distribution, extra: str) -> Iterator[Requirement]:
    if not one.requires:
        return
    # Imported late: it is slow, and processes that test walls run as users who cannot read installed packages.
    from packaging.requirements import InvalidRequirement, Requirement

    for text in one.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            # Old packages may state malformed requirements.
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def beside(found: Distribution) -> Iterator[Place]:
    """Yield folders of shared libraries and the metadata folder of a distribution."""
    for path in Path(str(found.locate_file(""))).glob(f"*{_LIBRARIES}"):
        if plain_name(path.stem) == plain_name(found.name):
            yield Place(path.name, path.resolve())
    # importlib.metadata has no public name for this path.
    metadata = getattr(found, "_path", None)
    if isinstance(metadata, Path) and metadata.suffix in _METADATA and metadata.is_dir():
        yield Place(metadata.name, metadata.resolve())


def import_names(found: Distribution) -> list[str]:
    """Return the import names of a distribution."""
    declared = (found.read_text("top_level.txt") or "").split()
    if declared:
        return declared
    tops = set[str | None]()
    # RECORD is parsed by hand: `files` creates an object per line, which is slow.
    for line in (found.read_text("RECORD") or "").splitlines():
        top, is_below, _ = line.strip('"').partition("/")
        tops.add(top if is_below else getmodulename(top.partition(",")[0]))
    # RECORD also lists scripts under `..`, metadata folders and `__pycache__`; no import finds them.
    return sorted(
        name
        for name in tops
        if name and _NAME.fullmatch(name) and not name.startswith("__")
    )


@lru_cache(maxsize=4)
def _by_import_name(_path: tuple[str, ...]) -> Mapping[str, Sequence[Distribution]]:
    """Map each import name to its distributions.

    Of several distributions with the same name, the first on the path counts, as for `import`.

    Args:
        _path: `sys.path`; a changed path makes a new cache entry.
    """
    first: dict[str, Distribution] = {}
    for each in distributions():
        if each.metadata["Name"]:
            first.setdefault(plain_name(each.name), each)
    found: dict[str, list[Distribution]] = {}
    for each in first.values():
        for name in import_names(each):
            found.setdefault(name, []).append(each)
    return found


def _spec(name: str) -> ModuleSpec | None:
    """Find the import spec of a top-level module; None for Python's own modules.

    `importlib.util.find_spec` would trust entries of `sys.modules`, which may be stale or fake.
    """
    if not _NAME.fullmatch(name) or name in sys.stdlib_module_names:
        return None
    for finder in sys.meta_path:
        # An editable install may bring a finder without `find_spec`.
        look = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = look(name, None) if look else None
        if spec is not None:
            return spec
    return None


def _is_of_a_project(path: Path) -> bool:
    """Return whether a path is part of a project rather than a plain package.

    Projects are this package itself and its symbolic links, folders on `sys.path`, parents of the working directory,
    and git repositories.
    """
    if any(path.is_relative_to(own) or own.is_relative_to(path) for own in _own_folders()):
        return True
    on_path = {Path(each).resolve() for each in sys.path if each}
    return path in on_path or Path.cwd().is_relative_to(path) or (path / ".git").exists()


@cache
def _own_folders() -> tuple[Path, ...]:
    own = Path(__file__).resolve().parents[2]
    return (own, *(each.resolve() for each in own.iterdir() if each.is_symlink()))


def _folders_of_the_run() -> set[Path]:
    """Return folders that hold modules of the user's project: the working directory and the script's folder."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    folders = [Path.cwd(), *([Path(script).parent] if script else [])]
    return {each.resolve() for each in folders if each.name not in _SITE}
