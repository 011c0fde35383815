"""The versions of the package, and of the libraries that a run's figures depend on."""

from __future__ import annotations

__version__ = "0.1.0"

LIBRARIES = ("trl", "transformers", "datasets", "accelerate", "torch", "math-verify")


def versions() -> dict[str, str]:
    """The versions of this package, Python and the libraries, by name."""
    import platform
    from importlib.metadata import version  # workers import this module, and importlib.metadata imports much

    found = {"trl_grpo_ext": __version__, "python": platform.python_version()}
    return found | {library: version(library) for library in LIBRARIES}
