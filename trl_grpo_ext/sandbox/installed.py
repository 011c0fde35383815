"""Installed packages, found as the trainer's own `import` finds them, without importing one.

A package is known by its import name, `dateutil`; a distribution is what pip installs, `python-dateutil`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from inspect import getmodulename
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_METADATA = (".dist-info", ".egg-info")
_LIBRARIES = ".libs"  # where auditwheel puts the shared libraries of a wheel, beside its packages
_NAME = re.compile(r"\w+")  # compiled packages may bring a module whose name begins with a digit
_SITE = ("site-packages", "dist-packages")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder or a file that programs may be shown, and the name that Python looks for: `six.py`, `numpy.libs`."""

    name: str
    path: Path


def find(name: str) -> tuple[Place, ...]:
    """Return the places of a package: its folder, its only file, or the portions of a namespace; none if not installed.

    Python's own modules are not packages. A folder without an `__init__.py` is one only if a distribution says so.
    """
    spec = _spec(name)
    if spec is None:
        return ()
    folders = spec.submodule_search_locations
    if folders is not None:
        is_namespace = spec.origin is None
        found = [(name, Path(folder)) for folder in folders if not is_namespace or distributions_of(name)]
    else:
        found = [(Path(spec.origin).name, Path(spec.origin))] if spec.origin and spec.has_location else []
    places = [Place(shown_as, path.resolve()) for shown_as, path in found if path.exists()]
    return tuple(place for place in places if not _is_of_a_project(place.path))


def is_installed(name: str) -> bool:
    """Return whether a package is installed. Modules of the folder that the trainer was started in are not."""
    return any(place.path.parent not in _folders_of_the_run() for place in find(name))


def names() -> list[str]:
    """Return the import names of all distributions."""
    return sorted(_by_import_name(tuple(sys.path)))


def distributions_of(name: str) -> tuple[Distribution, ...]:
    """Return the distributions that a package comes from: several of a namespace, none if it is only a folder."""
    own = named(name)
    if own is not None and name in import_names(own):
        return (own,)  # as nearly always; to read all of them takes a tenth of a second
    found = _by_import_name(tuple(sys.path)).get(name)
    return tuple(found or ([own] if own else []))  # an editable install may not say which packages it has


def named(name: str) -> Distribution | None:
    """Return the distribution of that name, None if it is not installed."""
    try:
        return distribution(name)
    except (PackageNotFoundError, ValueError):
        return None


def required(found: Iterable[Distribution]) -> dict[str, Distribution]:
    """Return these distributions and those that they require, by name, as far as they are installed."""
    reached: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(each, "") for each in found]
    while waiting:
        one, extra = waiting.pop()
        name = plain_name(one.name)
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
    """Return the one spelling of a distribution's name, with underscores: `Scikit-Learn` is `scikit_learn`."""
    return re.sub(r"[-_.]+", "_", name).lower()


def _requirements(one: Distribution, extra: str) -> Iterator[Requirement]:
    if not one.requires:
        return
    # Here, since walls are tried out by users who may read nothing that is installed; and it is slow to import.
    from packaging.requirements import InvalidRequirement, Requirement

    for text in one.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:  # of old packages
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def beside(found: Distribution) -> Iterator[Place]:
    """Yield the shared libraries and the metadata of a distribution."""
    for path in Path(str(found.locate_file(""))).glob(f"*{_LIBRARIES}"):
        if plain_name(path.stem) == plain_name(found.name):
            yield Place(path.name, path.resolve())
    metadata = getattr(found, "_path", None)  # importlib.metadata says it nowhere else
    if isinstance(metadata, Path) and metadata.suffix in _METADATA and metadata.is_dir():
        yield Place(metadata.name, metadata.resolve())


def import_names(found: Distribution) -> list[str]:
    """Return the import names of a distribution."""
    declared = (found.read_text("top_level.txt") or "").split()
    if declared:
        return declared
    tops = set[str | None]()
    for line in (found.read_text("RECORD") or "").splitlines():  # by hand: `files` makes an object of each, slowly
        top, is_below, _ = line.strip('"').partition("/")
        tops.add(top if is_below else getmodulename(top.partition(",")[0]))
    return sorted(name for name in tops if name and _NAME.fullmatch(name) and not name.startswith("__"))


@lru_cache(maxsize=4)
def _by_import_name(_path: tuple[str, ...]) -> Mapping[str, Sequence[Distribution]]:
    """The distributions of each import name on this path. Of two of one name, the first counts, as for `import`."""
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
    """How this process would load a module. `importlib.util.find_spec` believes whatever stands in `sys.modules`."""
    if not _NAME.fullmatch(name) or name in sys.stdlib_module_names:
        return None
    for finder in sys.meta_path:
        look = getattr(finder, "find_spec", None)  # an editable install may bring a finder of its own
        spec: ModuleSpec | None = look(name, None) if look else None
        if spec is not None:
            return spec
    return None


def _is_of_a_project(path: Path) -> bool:
    """Whether a folder is more than a package: a repository, the working directory, or a folder that packages lie in.

    This package itself is none either, nor what it links to.
    """
    if any(path.is_relative_to(own) or own.is_relative_to(path) for own in _own_folders()):
        return True
    on_path = {Path(each).resolve() for each in sys.path if each}
    return path in on_path or Path.cwd().is_relative_to(path) or (path / ".git").exists()


@cache
def _own_folders() -> tuple[Path, ...]:
    own = Path(__file__).resolve().parents[1]
    return (own, *(each.resolve() for each in own.iterdir() if each.is_symlink()))


def _folders_of_the_run() -> set[Path]:
    """The folders that modules of the user's project lie in: the working directory and that of the script."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    folders = [Path.cwd(), *([Path(script).parent] if script else [])]
    return {each.resolve() for each in folders if each.name not in _SITE}
