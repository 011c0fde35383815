"""Version numbers of this package and of libraries with influence on a run's figures."""

from __future__ import annotations

from functools import cache

__version__ = "0.1.0"

LIBRARIES = ("trl", "transformers", "datasets", "accelerate", "torch", "math-verify")


def versions() -> dict[str, str]:
    """Return the versions of this package, Python and `LIBRARIES`, by name."""
    import platform

    found = {"trl_grpo_ext": __version__, "python": platform.python_version()}
    return found | {library: _version_of(library) for library in LIBRARIES}


# The version of what is imported does not change, and is read from a long file.
@cache
def _version_of(library: str) -> str:
    # Not at the top: it is slow to import, and workers import this module.
    from importlib.metadata import version

    return version(library)
