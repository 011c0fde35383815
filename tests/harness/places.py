"""Where the repository and the tests' own files are."""

from __future__ import annotations

from pathlib import Path

HARNESS = Path(__file__).resolve().parent
"""Modules that tests share, and scripts that they start."""
TESTS = HARNESS.parent
DATA = TESTS / "data"
ROOT = TESTS.parent
