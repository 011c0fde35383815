"""Read what an object of the program holds, and hold a returned object to what it has said.

Else a program could return an object that says what each question wants to hear: three items to `len(result) == 3`,
and none to a loop over `zip(result, expected)`. What a returned object has said holds until the tests do something by
which the program could change it, such as a call. An object that the tests have made is exempt: its length may count
something else than it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

_FIRST_PULLS = 8
_READING = frozenset(
    {"get", "eq", "hash", "str", "repr", "format", "iter", "next", "dir", "isinstance", "issubclass", "names"}
    | {"copy", "deepcopy"}
)
_READING_SPECIALS = frozenset(
    {"__len__", "__contains__", "__bool__", "__iter__", "__reversed__", "__str__", "__repr__"}
)
VIEWS = frozenset({"items", "keys", "values"})
"""Methods that give all that an object holds, and change nothing."""


def is_act(operation: str, values: tuple[Any, ...]) -> bool:
    """Return whether the program may change its objects by a request of the tests, as an honest program would.

    An index does not: a key may, since dicts with defaults make an entry for it.
    """
    if operation != "special":
        return operation not in _READING
    return values[1] not in _READING_SPECIALS and not (values[1] == "__getitem__" and type(values[2]) is int)


class Told:
    """The answers of one object since the tests last acted on the program.

    Attributes:
        acts: The number of acts of the tests before these answers.
        length: Its length.
        items: All its items, of an iteration that has come to its end.
        first_missing: The least index without an item, 0 or more, that was asked for.
        answers: Other answers, by the special method and its arguments.
    """

    __slots__ = ("acts", "answers", "first_missing", "items", "length")

    def __init__(self, acts: int) -> None:
        self.acts = acts
        self.length: int | None = None
        self.items: list[Any] | None = None
        self.first_missing: int | None = None
        self.answers: dict[tuple[Any, ...], Any] = {}


def told_by(state: Any) -> Told:
    """Return what an object has said since the tests last acted, by its `handle.State`."""
    if state.told is None or state.told.acts != state.remote.acts:
        state.told = Told(state.remote.acts)
    found: Told = state.told
    return found


def once(state: Any, question: tuple[str | int, ...], ask: Callable[[], Any]) -> Any:
    """Ask an object a question, or return what it has answered to it before."""
    answers = told_by(state).answers
    if question not in answers:
        answers[question] = ask()
    return answers[question]


def item_at(state: Any, index: int, ask: Callable[[], Any]) -> Any:
    """Ask an object for the item at an index; end the run if there is none below its length."""
    try:
        return once(state, ("__getitem__", index), ask)
    except IndexError:
        note_missing(state, index)
        raise


def view(state: Any, length: int, found: Any) -> Any:
    """Return what a method of `VIEWS` has given; end the run if it is less than the object's length."""
    # The call was no act.
    state.told.acts = state.remote.acts
    if isinstance(found, Sized) and len(found) < length:
        _contradict(state, f"gives {len(found)} of them")
    return found


def note_length(state: Any, length: int) -> int:
    """Note an object's length; end the run if it has given fewer items, or has none at an index below it."""
    told = told_by(state)
    told.length = length
    if told.items is not None and len(told.items) < length:
        _contradict(state, f"gives {len(told.items)} items")
    if told.first_missing is not None and told.first_missing < length:
        _contradict(state, f"has no item {told.first_missing}")
    return length


def note_item(state: Any, count: int) -> None:
    """End the run if an object gives its `count`th item, and has said that it has fewer."""
    length = told_by(state).length
    if length is not None and count > length:
        _contradict(state, "gives more items")


def note_items(state: Any, items: list[Any]) -> None:
    """Note all items of an object; end the run if it has said that it has more."""
    told = told_by(state)
    told.items = items
    if told.length is not None and len(items) < told.length:
        _contradict(state, f"gives {len(items)} items")
    # A queue may lose its items when it gives them.
    told.length = None


def note_missing(state: Any, index: int) -> None:
    """Note an index without an item; end the run if it is below the length."""
    if index < 0:
        return
    told = told_by(state)
    told.first_missing = index if told.first_missing is None else min(index, told.first_missing)
    if told.length is not None and index < told.length:
        _contradict(state, f"has no item {index}")


def _contradict(state: Any, detail: str) -> None:
    state.remote.contradicted(f"{state.name} has the length {told_by(state).length} and {detail}")


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
