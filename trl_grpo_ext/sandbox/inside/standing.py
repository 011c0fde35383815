"""What the judge knows of an object of the program, and where the object comes from."""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import Any, Protocol


class Requester(Protocol):
    """What a stand-in asks; see `proxy`, which imports what it makes."""

    quiet: bool
    has_made: bool
    asked: int

    def request(self, operation: str, /, *values: Any, **named: Any) -> Any: ...

    def get(self, target: Any, name: str) -> Any: ...


class Standing(IntEnum):
    """Where an object of the program comes from, which decides what it is asked."""

    RESULT = 0
    COMPUTED = 1
    """The result of an operator on objects that the test has made, or a constant of a class, such as `Color.RED`."""
    MADE = 2
    """The test has made it: it called a class, by a name with a capital letter."""


class State:
    """What the judge knows of one object of the program."""

    __slots__ = ("ahead", "born", "driver", "hash", "name", "number", "pulls", "remote", "standing")

    def __init__(self, remote: Requester, number: int, name: str) -> None:
        self.remote = remote
        self.number = number
        self.name = name
        self.standing = Standing.RESULT
        self.born = remote.asked  # by which request it became known
        self.hash: int | None = None
        self.ahead: deque[tuple[Any, BaseException | None]] = deque()
        self.pulls = 0
        self.driver: Any = None
