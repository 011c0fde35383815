"""Version numbers of this package and of libraries with influence on a run's figures."""

from __future__ import annotations

__version__ = "0.1.0"

LIBRARIES = ("trl", "transformers", "datasets", "accelerate", "torch", "math-verify")


def versions() -> dict[str, str]:
    """Return the versions of this package, Python and `LIBRARIES`, by name."""
    import platform

    # Not at the top: it is slow to import, and workers import this module.
    from importlib.metadata import version

    found = {"trl_grpo_ext": __version__, "python": platform.python_version()}
    return found | {library: version(library) for library in LIBRARIES}
