"""Iterate over program objects: fetch items ahead, and check their number against the reported length."""

from __future__ import annotations

from typing import Any

_FIRST_PULLS = 8


def begin(whole: Any) -> Any:
    """Ask the program for an iterator over a stand-in's object."""
    state = whole._remote_state
    iterator = state.remote.request("iter", whole)
    if state.length is not None and iterator is not whole and hasattr(iterator, "_remote_state"):
        iterator._remote_state.whole = whole
    return iterator


def next_item(iterator: Any) -> Any:
    """Return an iterator's next item, or raise the program's exception that ends it."""
    state = iterator._remote_state
    if not state.ahead:
        _pull(iterator)
    item, error = state.ahead.popleft()
    if error is None:
        state.items += 1
        return item
    if isinstance(error, StopIteration) and state.whole is not None:
        _check_length(state)
    raise error


def _pull(iterator: Any) -> None:
    """Fetch items ahead.

    The first items come singly, because a generator may never reach an item that nobody needs.
    """
    state = iterator._remote_state
    size = 1 << min(max(0, state.pulls - _FIRST_PULLS), 8) if getattr(type(iterator), "_ahead", False) else 1
    items, error = state.remote.request("next", iterator, size)
    state.pulls += 1
    state.ahead.extend((item, None) for item in items)
    if error is not None:
        state.ahead.append((None, error))


def _check_length(state: Any) -> None:
    """End the run if a returned object's length differs from its number of items.

    Otherwise `len(result) == 3` and a loop over `zip(result, expected)` could both pass. An object that the test has
    made is exempt, since its length may count something else.
    """
    whole = state.whole._remote_state
    if whole.standing or state.items == whole.length:
        return
    # Ask again, because iteration may remove items.
    told = whole.remote.request("special", state.whole, "__len__")
    if told != state.items:
        whole.remote.contradicted(f"{whole.name} has the length {told} and gives {state.items} items")
