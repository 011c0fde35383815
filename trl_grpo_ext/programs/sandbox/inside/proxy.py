"""Send requests to the program's process and read its answers, in the judge.

Everything that arrives is hostile until checked. A single request is outstanding at a time, apart from requests that a
callback makes, which nest. Requests are numbered, and each gets exactly one answer. Any other message ends the
run, even if a test catches the exception: see `fault`.
"""

from __future__ import annotations

import re

# An import of threading would slow every fork.
from _thread import RLock
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from trl_grpo_ext.programs.sandbox.inside.contained import demote, reserve
from trl_grpo_ext.programs.sandbox.inside.crossing.awaiting import (
    Tender,
    running_loop,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.binding import gets_whole
from trl_grpo_ext.programs.sandbox.inside.crossing.classes import class_order
from trl_grpo_ext.programs.sandbox.inside.crossing.encoder import Encoder
from trl_grpo_ext.programs.sandbox.inside.crossing.printing import captured, print_here
from trl_grpo_ext.programs.sandbox.inside.crossing.values import (
    Json,
    MalformedError,
    Shared,
    checked,
    contents,
    reading,
)
from trl_grpo_ext.programs.sandbox.inside.given import use_of
from trl_grpo_ext.programs.sandbox.inside.guard.judge_decoder import JudgeDecoder
from trl_grpo_ext.programs.sandbox.inside.handle import Stub
from trl_grpo_ext.programs.sandbox.inside.iteration import is_act
from trl_grpo_ext.programs.sandbox.inside.remote_class import RemoteClass
from trl_grpo_ext.programs.sandbox.inside.swallowing import expects_end
from trl_grpo_ext.programs.sandbox.inside.translation import Translation
from trl_grpo_ext.workers.frames import Channel, FrameError

MAX_NESTING = 200

_RESULTS: dict[str, type] = {
    **dict.fromkeys(("eq", "go_on", "isinstance", "issubclass"), bool),
    **dict.fromkeys(("hash", "start", "subclass"), int),
    **dict.fromkeys(("format", "repr", "str"), str),
    **dict.fromkeys(("dir", "names"), list),
    **dict.fromkeys(("next", "step"), tuple),
}


class Fault(BaseException):
    """A fault that ends all requests; tests that catch it cannot undo it."""

    def __init__(self, ending: str, detail: str) -> None:
        super().__init__(ending, detail)
        self.ending = ending
        self.detail = detail


class Untouchable(BaseException):
    """A test asked the program something while requests were forbidden."""


class ProgramProxy:
    """The program under test, seen from the judge.

    Attributes:
        fault: Reason why the program can no longer be asked, or None.
        untouchable: Whether requests are forbidden for now.
        missed: Whether a request was attempted while requests were forbidden.
        refused: The first question of the running test that the program may not answer, in a sentence, or None.
        quiet: Whether stand-ins describe themselves without asking the program.
        last_error: The last exception that came from the program.
        last_call: The last call: target, positional arguments, keyword arguments, result.
        sources: Source code of the tests by the file name of its compilation.
        has_made: Whether the tests have made an object of a program class that may answer judgements.
        asked: Number of requests so far.
        acts: Number of requests so far by which the program could change its objects; see `iteration`.
        before: Called before each request; it may make requests itself.
    """

    def __init__(self, channel: Channel, sources: dict[str, str]) -> None:
        self.fault: Fault | None = None
        self.untouchable = False
        self.missed = False
        self.refused: str | None = None
        self.quiet = False
        self.last_error: BaseException | None = None
        self.last_call: tuple[Any, tuple[Any, ...], dict[str, Any], Any] | None = None
        self.sources = sources
        self.has_made = False
        self.before: Callable[[], None] | None = None
        self._channel = channel
        self._lock = RLock()
        self.asked = 0
        self.acts = 0
        self._nesting = 0
        self._refuted: AssertionError | None = None
        self._shared = Shared()
        self._open = 0
        self._words: frozenset[str] | None = None
        self._translation = Translation(self, self._is_named)
        self._tender = Tender(self.request)

    def has_changed(self) -> bool:
        """Test whether the tests changed a container that the program has, since the last request."""
        return self._shared.has_changed()

    def loaded(self) -> dict[str, str] | None:
        """Wait until the program is loaded.

        Returns:
            None on success, otherwise a dict with keys `ending` and `detail`.

        Raises:
            Fault: if the program sends anything else.
        """
        message = self._receive()
        if message == {"loaded": True}:
            return None
        failed = message.get("failed")
        if not isinstance(failed, dict) or failed.get("ending") not in (
            "compile_error",
            "error",
            "memory",
        ):
            self._end("protocol", "no word of whether the program was loaded")
        return {"ending": failed["ending"], "detail": str(failed.get("detail", ""))[:500]}

    def request(self, operation: str, /, *values: Any, **named: Any) -> Any:
        """Ask the program to perform an operation and return its answer.

        Raises:
            Untouchable: if requests are forbidden for now.
            Fault: if no valid answer arrives.
            BaseException: any exception that the operation raised in the program.
        """
        with self._lock:
            if self.untouchable:
                self.missed = True
                raise Untouchable
            if self.fault is not None:
                raise Fault(self.fault.ending, self.fault.detail)
            if self.before is not None:
                self.before()
            self.acts += is_act(operation, values)
            if operation == "subclass":
                made, *values_of_class = values
                return self._ask(operation, class_order(*values_of_class), {}, made)
            result = self._ask(operation, values, named)
        if operation == "call":
            self.last_call = (values[0], values[1:], named, result)
        if operation in ("call", "get", "special") and isinstance(values[0], Stub):
            # A reserved object could give another object that answers in its place, so that one is reserved too.
            names = values[0]._remote_state.reserved
            if names:
                reserve(result, names)
        return result

    def get(self, target: Any, name: str) -> Any:
        """Return an attribute of a program object."""
        value = self.request("get", target, name)
        _note_name(name, value)
        return value

    def look_up(self, names: list[str]) -> dict[str, list[Any]]:
        """Look up global names of the program.

        Returns:
            A dict that maps each name to a list of its value, or to an empty list if the program lacks the name.
        """
        found = self.request("names", *names)
        are_lists = all(type(each) is list and len(each) <= 1 for each in found)
        if len(found) != len(names) or not are_lists:
            self._end("protocol", "a malformed answer to names")
        for name, each in zip(names, found, strict=True):
            for value in each:
                _note_name(name, value)
        return dict(zip(names, found, strict=True))

    def end(self) -> tuple[str, str] | None:
        """End requests and wait for the program to close; return (ending, detail) if it breaks the protocol."""
        # A program that is gone by now has answered all tests; only a breach of the protocol counts.
        with suppress(BaseException):
            self.request("end")
        if self.fault is None and not self._channel.ends_silently():
            self._note("protocol", "an answer that nobody asked for")
        return (
            (self.fault.ending, self.fault.detail)
            if self.fault and self.fault.ending == "protocol"
            else None
        )

    def contradicted(self, detail: str) -> NoReturn:
        """End the run, because an object made two contradictory statements."""
        self._end("protocol", detail)

    def begin_test(self) -> None:
        """Clear the last call, the last error and the refusal of the previous test."""
        self.last_call = self.last_error = self.refused = None

    def refuse(self, detail: str) -> NoReturn:
        """Record a question that the program may not answer; the running test then fails.

        Raises:
            TypeError: always; a test that expects it of the program, or a library that tries, may catch it.
        """
        self.refused = self.refused or detail
        raise TypeError(detail)

    def check_silence(self) -> None:
        """End the run if an unrequested message has arrived."""
        if self.fault is None and self._channel.pending():
            self._note("protocol", "an answer that nobody asked for")

    def _is_named(self, name: str) -> bool:
        """Test if a name is a word of the tests' source."""
        if self._words is None:
            self._words = frozenset(re.findall(r"\w+", " ".join(self.sources.values())))
        return name in self._words

    def _note(self, ending: str, detail: str) -> Fault:
        self.fault = self.fault or Fault(ending, detail)
        return self.fault

    def _end(self, ending: str, detail: str) -> NoReturn:
        raise self._note(ending, detail)

    def _ask(
        self,
        operation: str,
        values: tuple[Any, ...],
        named: dict[str, Any],
        adopted: Any = None,
    ) -> Any:
        self.check_silence()
        if self.fault is not None:
            raise self.fault
        number = self.asked
        message: dict[str, Json] = {"id": number, "do": operation}
        # While a request is open, both ends still need the numbers of its values.
        forget = self._open == 0 and self._shared.is_full
        if forget:
            message["forget"] = True
        self._write(
            message,
            "values",
            lambda encoder: encoder.encode_all((*values, *named.values())),
        )
        if named:
            message["names"] = list(named)
        loop = running_loop()
        if loop is not None:
            message["loop"] = True
            self._tender.tend(loop)
        self.asked += 1
        self._send(message)
        self._open += 1
        try:
            return self._reply(operation, number, adopted)
        finally:
            self._open -= 1
            if forget:
                self._shared = Shared()

    def _write(
        self, message: dict[str, Json], key: str, encode: Callable[[Encoder], Json]
    ) -> None:
        Encoder(self._shared, self._translation.write, self._translation.first).write(
            message, key, encode
        )

    def _reply(self, operation: str, number: int, adopted: Any) -> Any:
        """Serve callbacks until a request's reply arrives, and return its value.

        Args:
            operation: Name of the operation, which fixes the type of its result.
            number: The request's number.
            adopted: For `subclass`: a class of the tests, to be known by the number in the reply.

        Raises:
            Fault: if the reply is malformed.
            AssertionError: the last failed assertion of a test's callback if the program has caught it. A program could
                otherwise try one value after the other until the callback asserts nothing.
            BaseException: any exception that the operation raised in the program.
        """
        while "callback" in (message := self._receive()):
            self._call_back(message)
        # An exact type, because `True == 1`.
        if type(message.get("id")) is not int or message["id"] != number:
            self._end("protocol", "an answer that nobody asked for")
        try:
            value, error = reading(self._read_reply, message, adopted)
        except MalformedError as fault:
            self._end("protocol", f"a malformed answer: {fault}")
        refuted, self._refuted = self._refuted, None
        if error is not None:
            if isinstance(error, StopIteration | StopAsyncIteration) and not expects_end(
                self.sources
            ):
                error = RuntimeError(f"the program raised {type(error).__name__}")
            self.last_error = error
            raise error
        if type(value) is not _RESULTS.get(operation, type(value)):
            self._end("protocol", f"a malformed answer to {operation}")
        if refuted is not None and not _ended_with_error(operation, value):
            raise refuted
        return value

    def _read_reply(
        self, message: dict[str, Json], adopted: Any
    ) -> tuple[Any, BaseException | None]:
        decoder = JudgeDecoder(self._shared, self._translation.read)
        value, error = None, None
        if "raise" in message:
            error = self._translation.read_raised(decoder, message["raise"])
            if not isinstance(error, BaseException):
                raise MalformedError("no exception")
        else:
            value = decoder.decode(message["value"])
            if adopted is not None:
                # Changed containers, read next, may hold the class.
                self._translation.classes[checked(value, int)] = adopted
        self._finish(decoder, message, [value, vars(error) if error is not None else None])
        return value, error

    def _finish(
        self, decoder: JudgeDecoder, message: dict[str, Json], received: list[Any]
    ) -> None:
        changed = decoder.finish(message)
        if self.has_made:
            demote([received, *map(contents, changed)])
        if "printed" in message:
            print_here(message["printed"])

    def _call_back(self, message: dict[str, Json]) -> None:
        """Perform a use of a test object for the program, and send its result or exception."""
        try:
            use, args, kwargs = reading(self._read_callback, message)
        except MalformedError as fault:
            self._end("protocol", f"a malformed callback: {fault}")
        self._nesting += 1
        asked = self.asked
        answer: dict[str, Json] = {}
        printed: dict[str, str] = {}
        try:
            if self._nesting > MAX_NESTING:
                raise RecursionError(
                    "too many nested calls between the tests and the program"
                )
            with captured(message.get("redirected", []), printed):
                result = use(*args, **kwargs)
            if message["do"] == "step":
                # An awaited callback hands its exception over.
                self._note_refuted(message, asked, result[-1])
            self._write(answer, "answer", lambda encoder: encoder.encode(result))
        # These belong to the judge: the program must not get to catch them.
        except (Fault, Untouchable):
            raise
        except BaseException as error:
            refused = error
            self._note_refuted(message, asked, error)
            # A result that could be encoded only in part is not sent beside the exception.
            answer = {}
            self._write(
                answer,
                "raise",
                lambda encoder: self._translation.write_refusal(encoder, refused),
            )
        finally:
            self._nesting -= 1
        if printed:
            answer["printed"] = printed
        self._send(answer)

    def _note_refuted(
        self, message: dict[str, Json], asked: int, error: BaseException | None
    ) -> None:
        """Note a failed assertion of a test object that was used with values of the program, or asked the program.

        An AssertionError that the program itself has raised meanwhile is one of its results.

        Args:
            message: The program's message, which names the use.
            asked: Number of requests before the use.
            error: The exception that the use raised, or None.
        """
        only_names = {"call": 0, "step": 0}.get(message["do"], 1)
        has_values = len(message["values"]) > only_names
        has_asked = self.asked > asked and error is not self.last_error
        if isinstance(error, AssertionError) and (has_values or has_asked):
            self._refuted = error

    def _read_callback(
        self, message: dict[str, Json]
    ) -> tuple[Callable[..., Any], list[Any], dict[str, Any]]:
        target = self._translation.given.at(message["callback"])
        read = (
            self._translation.read if gets_whole(target) else self._translation.read_closed
        )
        decoder = JudgeDecoder(self._shared, read)
        use = use_of(checked(message["do"], str), self.sources)
        values, names = (
            decoder.decode_all(message["values"]),
            checked(message.get("names", []), list),
        )
        self._finish(decoder, message, values)
        first = len(values) - len(names)
        return use, [target, *values[:first]], dict(zip(names, values[first:], strict=True))

    def _send(self, message: dict[str, Json]) -> None:
        try:
            self._channel.send(message)
        except OSError:
            self._end("killed", "the program ended")

    def _receive(self) -> dict[str, Json]:
        try:
            message = self._channel.receive()
        except EOFError:
            self._end("killed", "the program ended")
        except FrameError as error:
            self._end("protocol", str(error))
        # The JSON parser raises these for a message that is too large or nests too deeply.
        except (MemoryError, RecursionError):
            self._end("protocol", "too much data")
        if type(message) is not dict:
            self._end("protocol", "a message that is not an object")
        found: dict[str, Json] = message
        return found


def _ended_with_error(operation: str, value: Any) -> bool:
    """Return whether an awaited or iterated object's answer holds the exception that ended it."""
    return operation in ("next", "step") and isinstance(value[-1], BaseException)


def _note_name(name: str, value: Any) -> None:
    """Record whether the tests name a class with a capital letter; PEP 8 gives functions small letters.

    A program may define a class where tests expect a function; its objects then count as returned results.
    """
    if isinstance(value, RemoteClass):
        if name.lstrip("_")[:1].isupper():
            value._remote_class.capital = True
        else:
            value._remote_class.small = True
