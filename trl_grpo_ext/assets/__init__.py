"""What is shipped in the package: a tiny model and its data, so that a first run needs no download.

A recipe names them `bundled:tiny_reasoner` and `bundled:sums`.
"""

from __future__ import annotations

from pathlib import Path

from trl_grpo_ext.support.text import did_you_mean

PREFIX = "bundled:"
_FOLDER = Path(__file__).resolve().parent


def bundled_names() -> list[str]:
    """The names after `bundled:`."""
    return sorted(
        path.name
        for path in _FOLDER.iterdir()
        if path.is_dir() and path.name != "__pycache__"
    )


def resolve(name: str) -> str:
    """Return the path of a `bundled:` name, and other names unchanged.

    Raises:
        ValueError: for a bundled name that is not shipped.

    Examples:
        >>> resolve("Qwen/Qwen2.5-0.5B-Instruct")
        'Qwen/Qwen2.5-0.5B-Instruct'
    """
    if not name.startswith(PREFIX):
        return name
    wanted = name.removeprefix(PREFIX)
    if wanted not in bundled_names():
        raise ValueError(
            f"{name!r} is not bundled. {did_you_mean(name, [PREFIX + n for n in bundled_names()])}"
        )
    return str(_FOLDER / wanted)


def short_name(path: str) -> str:
    """Return the `bundled:` name of a shipped folder, and other paths unchanged.

    Examples:
        >>> short_name(resolve("bundled:tiny_reasoner")), short_name("models/mine")
        ('bundled:tiny_reasoner', 'models/mine')
    """
    return PREFIX + Path(path).name if Path(path).parent == _FOLDER else path
