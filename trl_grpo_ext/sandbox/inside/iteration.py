"""Iterate over program objects: fetch items ahead, and note what a returned object gives; see `told`."""

from __future__ import annotations

from typing import Any

from trl_grpo_ext.sandbox.inside.told import note_item, note_items, told_by

_FIRST_PULLS = 8


def begin(whole: Any) -> Any:
    """Ask the program for an iterator over a stand-in's object; a returned object gives the same items again."""
    state = whole._remote_state
    told = None if state.standing else told_by(state).items
    if told is not None:
        return iter([*told])
    iterator = state.remote.request("iter", whole)
    if not state.standing and iterator is not whole and hasattr(iterator, "_remote_state"):
        iterator._remote_state.whole = state
        iterator._remote_state.given = []
        iterator._remote_state.began = state.remote.acts
    return iterator


def next_item(iterator: Any) -> Any:
    """Return an iterator's next item, or raise the program's exception that ends it."""
    state = iterator._remote_state
    if not state.ahead:
        _pull(iterator)
    item, error = state.ahead.popleft()
    if error is None:
        if _is_of_one_state(state):
            state.given.append(item)
            note_item(state.whole, len(state.given))
        return item
    if isinstance(error, StopIteration) and _is_of_one_state(state):
        note_items(state.whole, state.given)
    raise error


def _is_of_one_state(state: Any) -> bool:
    """Return whether an iterator is over a returned object that nothing could have changed since it began."""
    return state.whole is not None and state.began == state.remote.acts


def _pull(iterator: Any) -> None:
    """Fetch items ahead.

    The first items come singly, because a generator may never reach an item that nobody needs.
    """
    state = iterator._remote_state
    size = 1 << min(max(0, state.pulls - _FIRST_PULLS), 8) if getattr(type(iterator), "_ahead", False) else 1
    if state.whole is None:
        # The body of a generator may do anything.
        state.remote.acts += 1
    items, error = state.remote.request("next", iterator, size)
    state.pulls += 1
    state.ahead.extend((item, None) for item in items)
    if error is not None:
        state.ahead.append((None, error))
