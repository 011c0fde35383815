"""Iterate over objects of the program: fetch items ahead, and compare their number with the length of the object."""

from __future__ import annotations

from typing import Any

_FIRST_PULLS = 8


def begin(whole: Any) -> Any:
    """Return the iterator of a stand-in."""
    state = whole._remote_state
    iterator = state.remote.request("iter", whole)
    if state.length is not None and iterator is not whole and hasattr(iterator, "_remote_state"):
        iterator._remote_state.whole = whole
    return iterator


def next_item(iterator: Any) -> Any:
    """Return the next item of the stand-in for an iterator, or raise what ends it."""
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
    """Fetch the next items. The first come one by one, as a generator may never come to one that is not needed."""
    state = iterator._remote_state
    size = 1 << min(max(0, state.pulls - _FIRST_PULLS), 8) if getattr(type(iterator), "_ahead", False) else 1
    items, error = state.remote.request("next", iterator, size)
    state.pulls += 1
    state.ahead.extend((item, None) for item in items)
    if error is not None:
        state.ahead.append((None, error))


def _check_length(state: Any) -> None:
    """End the run if a returned object has told a length, and gives another number of items.

    Else `len(result) == 3` and a loop over `zip(result, expected)` would both be content. An object that the test has
    made may count something else than it gives.
    """
    whole = state.whole._remote_state
    if whole.standing or state.items == whole.length:
        return
    told = whole.remote.request("special", state.whole, "__len__")  # again, as items may go when they are given
    if told != state.items:
        whole.remote.contradicted(f"{whole.name} has the length {told} and gives {state.items} items")
