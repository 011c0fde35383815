"""Read the contents of a program's object, and end the run if a returned object contradicts itself.

Without this check, a returned object could give each question the expected answer: three items to `len(result) == 3`,
none to a loop over `zip(result, expected)`. A returned object's answers stay binding until the tests act on the
program in a way that could change the object, such as a call, or change a container that both ends know. An object
made by the tests is exempt: its length may differ from the number of its items.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

# After so many single items, each pull asks for twice as many as the last, up to 256.
_FIRST_PULLS = 8
_MOST_DOUBLINGS = 8
_READING = frozenset(
    {
        "get",
        "eq",
        "hash",
        "str",
        "repr",
        "format",
        "iter",
        "next",
        "dir",
        "isinstance",
        "issubclass",
        "names",
    }
    | {"copy", "deepcopy"}
)
_READING_SPECIALS = frozenset(
    {
        "__len__",
        "__contains__",
        "__bool__",
        "__iter__",
        "__reversed__",
        "__str__",
        "__repr__",
    }
)
VIEWS = frozenset({"items", "keys", "values"})
"""Methods that return an object's whole contents without changing it."""


def is_act(operation: str, values: tuple[Any, ...]) -> bool:
    """Return whether a request may make an honest program change its objects.

    Reading an item by index or a slice does not. Reading by key may: a dict with defaults adds an entry.
    """
    if operation == "getitem":
        return type(values[1]) not in (int, slice)
    if operation != "special":
        return operation not in _READING
    return values[1] not in _READING_SPECIALS and not (
        values[1] == "__getitem__" and type(values[2]) in (int, slice)
    )


class Told:
    """An object's answers since the tests last acted on the program.

    Attributes:
        acts: Number of the tests' acts before these answers.
        length: The object's length; None if not asked.
        items: All items from a complete iteration; None without a complete iteration.
        first_missing: Smallest requested index, 0 or more, without an item; None if no index was missing.
        views: Number of items that each method of `VIEWS` has given.
        answers: Other answers, by special method and arguments.
    """

    __slots__ = ("acts", "answers", "first_missing", "items", "length", "views")

    def __init__(self, acts: int) -> None:
        self.acts = acts
        self.length: int | None = None
        self.items: list[Any] | None = None
        self.first_missing: int | None = None
        self.answers: dict[tuple[Any, ...], Any] = {}
        self.views: dict[str, int] = {}


def length_of(state: Any, ask: Callable[[], int]) -> int:
    """Request an object's length; a returned object repeats its earlier answer."""
    if state.standing:
        return ask()
    told = told_by(state).length
    return note_length(state, ask()) if told is None else told


def told_by(state: Any) -> Told:
    """Return the answers of an object, given its `handle.State`, since the tests last acted."""
    # Lists and other containers that both ends know may be parts of the object.
    if state.told is not None and state.remote.has_changed():
        state.remote.acts += 1
    if state.told is None or state.told.acts != state.remote.acts:
        state.told = Told(state.remote.acts)
    found: Told = state.told
    return found


def once(state: Any, question: tuple[str | int, ...], ask: Callable[[], Any]) -> Any:
    """Ask an object a question; a returned object repeats its earlier answer."""
    if state.standing:
        return ask()
    answers = told_by(state).answers
    if question not in answers:
        answers[question] = ask()
    return answers[question]


def item_at(state: Any, index: int, ask: Callable[[], Any]) -> Any:
    """Request the item at an index; end the run if a returned object has no item at an index below its length."""
    try:
        return once(state, ("__getitem__", index), ask)
    except IndexError:
        if not state.standing:
            note_missing(state, index)
        raise


def items_at(state: Any, places: slice, found: Any) -> Any:
    """Return an object's slice; end the run if a whole slice of a returned object has fewer items than its length."""
    if not state.standing and places == slice(None) and isinstance(found, Sized):
        note_missing(state, len(found))
    return found


def view(state: Any, name: str, found: Any) -> Any:
    """Return the result of a method of `VIEWS`; end the run if other answers promise more items than it gives."""
    told: Told = state.told or told_by(state)
    # Calling a method of `VIEWS` does not count as an act.
    told.acts = state.remote.acts
    if not isinstance(found, Sized):
        return _followed(state, found, name)
    told.views[name] = len(found)
    _check_views(state, told)
    return found


def _check_views(state: Any, told: Told) -> None:
    """End the run if `items` or `values` give fewer items than `keys`, an iteration or the length."""
    promised = max(told.length or 0, len(told.items or ()), told.views.get("keys", 0))
    for name, count in told.views.items():
        # The keys may be fewer than an iteration gives.
        least = promised if name != "keys" else told.length or 0
        if count < least:
            state.remote.contradicted(
                f"{state.name} has {promised} items, and {name}() gives {count} of them"
            )


def note_length(state: Any, length: int) -> int:
    """Record an object's length; end the run if fewer items were given, or if an item below the length was missing."""
    told = told_by(state)
    told.length = length
    if told.items is not None and len(told.items) < length:
        _contradict(state, f"gives {len(told.items)} items")
    if told.first_missing is not None and told.first_missing < length:
        _contradict(state, f"has no item {told.first_missing}")
    return length


def note_item(state: Any, count: int) -> None:
    """End the run if an object gives item number `count` although its length is smaller."""
    length = told_by(state).length
    if length is not None and count > length:
        _contradict(state, "gives more items")


def note_items(state: Any, items: list[Any]) -> None:
    """Record all items of an object; end the run if its length is larger."""
    told = told_by(state)
    told.items = items
    if told.length is not None and len(items) < told.length:
        _contradict(state, f"gives {len(items)} items")
    _check_views(state, told)
    # Iteration may empty a queue, so its length may change.
    told.length = None


def note_missing(state: Any, index: int) -> None:
    """Record an index without item; end the run if the length exceeds the index."""
    if index < 0:
        return
    told = told_by(state)
    if told.first_missing is None or index < told.first_missing:
        told.first_missing = index
    if told.length is not None and index < told.length:
        _contradict(state, f"has no item {index}")


def _contradict(state: Any, detail: str) -> None:
    state.remote.contradicted(
        f"{state.name} has the length {told_by(state).length} and {detail}"
    )


def begin(whole: Any) -> Any:
    """Request an iterator over a stand-in's object; a returned object repeats its earlier items."""
    state = whole._remote_state
    told = None if state.standing else told_by(state).items
    if told is not None:
        return iter([*told])
    return _followed(state, state.remote.request("iter", whole), "iter")


def backwards(whole: Any) -> Any:
    """Request an iterator over a stand-in's object from its end."""
    state = whole._remote_state
    return _followed(
        state, state.remote.request("special", whole, "__reversed__"), "reversed"
    )


def _followed(state: Any, iterator: Any, way: str) -> Any:
    """Make an iterator over a returned object compare the number of its items with the object's other answers.

    Args:
        state: The object's state, which is also the iterator's if the object iterates itself.
        iterator: What the program gave as an iterator.
        way: `iter`, `reversed` or a name in `VIEWS`.
    """
    if state.standing or not hasattr(iterator, "_remote_state"):
        return iterator
    its = iterator._remote_state
    # `iter(iterator)` goes on with the object that the iterator came from.
    if its is state and its.whole not in (None, state):
        return iterator
    its.whole, its.way, its.given = state, way, []
    its.began, its.promised = state.remote.acts, told_by(state).length
    return iterator


def next_item(iterator: Any) -> Any:
    """Return an iterator's next item, or raise the exception with which the program ended the iteration."""
    state = iterator._remote_state
    if not state.ahead:
        _pull(iterator)
    item, error = state.ahead.popleft()
    if error is None:
        if _is_of_one_state(state):
            state.given.append(item)
            # A mapping may have several items for a key.
            if state.way not in VIEWS:
                note_item(state.whole, len(state.given))
        return item
    if isinstance(error, StopIteration) and _is_of_one_state(state):
        _note_end(state)
    raise error


def _note_end(state: Any) -> None:
    """End the run if an iterator, given its state, gave fewer items than its object promises."""
    whole, count = state.whole, len(state.given)
    if state.way in VIEWS:
        told_by(whole).views[state.way] = count
        _check_views(whole, told_by(whole))
    elif state.way == "iter" and whole is not state:
        note_items(whole, state.given)
    elif state.promised is not None and count < state.promised:
        state.remote.contradicted(
            f"{whole.name} has the length {state.promised} and gives {count} items"
        )
    else:
        note_missing(whole, count)


def _is_of_one_state(state: Any) -> bool:
    """Return whether an iterator reads a returned object that no act could have changed since iteration began."""
    return state.whole is not None and state.began == state.remote.acts


def _pull(iterator: Any) -> None:
    """Fetch items ahead.

    The first items come singly, because a generator may never reach an item that nobody needs.
    """
    state = iterator._remote_state
    size = 1
    if getattr(type(iterator), "_remote_ahead", False):
        doublings = max(0, state.pulls - _FIRST_PULLS)
        size = 1 << min(doublings, _MOST_DOUBLINGS)
    if state.whole in (None, state):
        # The body of a generator may do anything, and an object that iterates itself changes.
        state.remote.acts += 1
        state.began += 1
    items, error = state.remote.request("next", iterator, size)
    state.pulls += 1
    for item in items:
        state.ahead.append((item, None))
    if error is not None:
        state.ahead.append((None, error))
