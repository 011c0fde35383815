"""Install a fake package with entry points into a folder on Python's path."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, package: str, group: str, entry_points: str) -> None:
    """Write package metadata with these entry point lines in a group."""
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{entry_points}\n")
