"""What the judge knows of an object of the program, and where the object comes from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Protocol


class Requester(Protocol):
    """What a stand-in asks."""

    quiet: bool
    has_made: bool
    before: Callable[[], None] | None
    sources: dict[str, str]

    @property
    def asked(self) -> int:
        """How many requests there have been."""

    def request(self, operation: str, /, *values: Any, **named: Any) -> Any:
        """What the program answers, or the exception that it raised."""

    def get(self, target: Any, name: str) -> Any:
        """An attribute of an object of the program."""

    def look_up(self, names: list[str]) -> dict[str, list[Any]]:
        """What the program has by each of these global names: a list of one, or none."""


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
