"""Objects by their names."""

from __future__ import annotations

import importlib


def find_object(module: str, qualname: str) -> object:
    """The object of that qualified name; raises ImportError or AttributeError."""
    found: object = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found
