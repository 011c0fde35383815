"""The judge's end of the calls: sends requests to the program's process and reads what it answers.

One request is outstanding at a time, apart from those that a callback makes, which nest. Each has the next number,
and one answer is taken for it. Anything else that comes ends the run, also if a test catches the exception: see
`fault`.
"""

from __future__ import annotations

from _thread import RLock  # not threading, which costs every fork
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from trl_grpo_ext.sandbox.inside.contained import demote
from trl_grpo_ext.sandbox.inside.crossing.binding import gets_whole
from trl_grpo_ext.sandbox.inside.crossing.classes import class_order
from trl_grpo_ext.sandbox.inside.crossing.decoder import Decoder
from trl_grpo_ext.sandbox.inside.crossing.encoder import Encoder
from trl_grpo_ext.sandbox.inside.crossing.printing import captured, print_here
from trl_grpo_ext.sandbox.inside.crossing.values import Json, MalformedError, Shared, checked, contents, reading
from trl_grpo_ext.sandbox.inside.given import USES
from trl_grpo_ext.sandbox.inside.remote_class import RemoteClass
from trl_grpo_ext.sandbox.inside.swallowing import expects_end
from trl_grpo_ext.sandbox.inside.translation import Translation
from trl_grpo_ext.workers.frames import Channel, FrameError

MAX_NESTING = 40

_RESULTS: dict[str, type] = {
    **dict.fromkeys(("eq", "isinstance", "issubclass"), bool),
    **dict.fromkeys(("hash", "start", "subclass"), int),
    **dict.fromkeys(("format", "repr", "str"), str),
    **dict.fromkeys(("dir", "names"), list),
    **dict.fromkeys(("next", "step"), tuple),
}


class Fault(BaseException):
    """The program's process is no longer to be asked anything. No test may catch this, nor undo it by doing so."""

    def __init__(self, ending: str, detail: str) -> None:
        super().__init__(ending, detail)
        self.ending = ending
        self.detail = detail


class Untouchable(BaseException):
    """The program was asked something while it may not be asked."""


class ProgramProxy:
    """The program under test, as the judge sees it.

    Attributes:
        fault: Why it can no longer be asked, or None.
        untouchable: Whether to refuse to ask it anything for now.
        missed: Whether it was asked something while it was untouchable.
        quiet: Whether handles describe themselves without asking it.
        last_error: The last exception that came from it.
        last_call: What was called last, the arguments, and what it returned.
        sources: The tests' source code by the file name that it was compiled with.
        has_made: Whether the tests have made an object that is asked for more than what it holds.
        asked: How many requests there have been.
        before: Called before each request; it may make requests itself.
    """

    def __init__(self, channel: Channel, sources: dict[str, str]) -> None:
        self.fault: Fault | None = None
        self.untouchable = False
        self.missed = False
        self.quiet = False
        self.last_error: BaseException | None = None
        self.last_call: tuple[Any, tuple[Any, ...], dict[str, Any], Any] | None = None
        self.sources = sources
        self.has_made = False
        self.before: Callable[[], None] | None = None
        self._channel = channel
        self._lock = RLock()
        self.asked = 0
        self._nesting = 0
        self._shared = Shared()
        self._open = 0
        self._translation = Translation(self)

    def loaded(self) -> dict[str, str] | None:
        """Wait until the program is loaded; how it ended if it could not be."""
        message = self._receive()
        if message == {"loaded": True}:
            return None
        failed = message.get("failed")
        if not isinstance(failed, dict) or failed.get("ending") not in ("compile_error", "error", "memory"):
            self._end("protocol", "no word of whether the program was loaded")
        return {"ending": failed["ending"], "detail": str(failed.get("detail", ""))[:500]}

    def request(self, operation: str, /, *values: Any, **named: Any) -> Any:
        """What the program answers.

        Raises:
            Fault: if its reply is not an answer, or does not come.
            BaseException: what it raised.
        """
        with self._lock:
            if self.untouchable:
                self.missed = True
                raise Untouchable
            if self.fault is not None:
                raise Fault(self.fault.ending, self.fault.detail)
            if self.before is not None:
                self.before()
            if operation == "subclass":
                made, *values_of_class = values
                return self._ask(operation, class_order(*values_of_class), {}, made)
            result = self._ask(operation, values, named)
        if operation == "call":
            self.last_call = (values[0], values[1:], named, result)
        return result

    def get(self, target: Any, name: str) -> Any:
        """An attribute of an object of the program."""
        value = self.request("get", target, name)
        _note_name(name, value)
        return value

    def look_up(self, names: list[str]) -> dict[str, list[Any]]:
        """What the program has by each of these global names: a list of one, or none."""
        found = self.request("names", *names)
        if len(found) != len(names) or not all(type(each) is list and len(each) <= 1 for each in found):
            self._end("protocol", "a malformed answer to names")
        for name, each in zip(names, found, strict=True):
            for value in each:
                _note_name(name, value)
        return dict(zip(names, found, strict=True))

    def end(self) -> tuple[str, str] | None:
        """Take the program's last word, and wait for its end; how the run ends after all, if it says anything more."""
        with suppress(BaseException):
            self.request("end")
        if self.fault is None and not self._channel.ends_silently():
            self._note("protocol", "an answer that nobody asked for")
        return (self.fault.ending, self.fault.detail) if self.fault and self.fault.ending == "protocol" else None

    def contradicted(self, detail: str) -> NoReturn:
        """End the run, since an object has said two things that cannot both be true."""
        self._end("protocol", detail)

    def check_silence(self) -> None:
        """End the run if the program has spoken without being asked."""
        if self.fault is None and self._channel.pending():
            self._note("protocol", "an answer that nobody asked for")

    def _note(self, ending: str, detail: str) -> Fault:
        self.fault = self.fault or Fault(ending, detail)
        return self.fault

    def _end(self, ending: str, detail: str) -> NoReturn:
        raise self._note(ending, detail)

    def _ask(self, operation: str, values: tuple[Any, ...], named: dict[str, Any], adopted: Any = None) -> Any:
        self.check_silence()
        if self.fault is not None:
            raise self.fault
        number = self.asked
        message: dict[str, Json] = {"id": number, "do": operation}
        forget = self._open == 0 and self._shared.is_full
        if forget:
            message["forget"] = True
        self._write(message, "values", lambda encoder: encoder.encode_all((*values, *named.values())))
        if named:
            message["names"] = list(named)
        self.asked += 1
        self._send(message)
        self._open += 1
        try:
            return self._reply(operation, number, adopted)
        finally:
            self._open -= 1
            if forget:
                self._shared = Shared()

    def _write(self, message: dict[str, Json], key: str, encode: Callable[[Encoder], Json]) -> None:
        Encoder(self._shared, self._translation.write, self._translation.first).write(message, key, encode)

    def _reply(self, operation: str, number: int, adopted: Any) -> Any:
        """Answer callbacks until the reply to a request comes; it is the number of `adopted`, a class of the tests."""
        while "callback" in (message := self._receive()):
            self._call_back(message)
        if type(message.get("id")) is not int or message["id"] != number:
            self._end("protocol", "an answer that nobody asked for")
        try:
            value, error = reading(self._read_reply, message, adopted)
        except MalformedError as fault:
            self._end("protocol", f"a malformed answer: {fault}")
        if error is not None:
            if isinstance(error, StopIteration | StopAsyncIteration) and not expects_end(self.sources):
                error = RuntimeError(f"the program raised {type(error).__name__}")
            self.last_error = error
            raise error
        if type(value) is not _RESULTS.get(operation, type(value)):
            self._end("protocol", f"a malformed answer to {operation}")
        return value

    def _read_reply(self, message: dict[str, Json], adopted: Any) -> tuple[Any, BaseException | None]:
        decoder = Decoder(self._shared, self._translation.read)
        value, error = None, None
        if "raise" in message:
            error = self._translation.read_raised(decoder, message["raise"])
            if not isinstance(error, BaseException):
                raise MalformedError("no exception")
        else:
            value = decoder.decode(message["value"])
            if adopted is not None:  # what else has changed may hold the class
                self._translation.classes[checked(value, int)] = adopted
        self._finish(decoder, message, [value, vars(error) if error is not None else None])
        return value, error

    def _finish(self, decoder: Decoder, message: dict[str, Json], received: list[Any]) -> None:
        changed = decoder.finish(message)
        if self.has_made:
            demote([received, *map(contents, changed)])
        if "printed" in message:
            print_here(message["printed"])

    def _call_back(self, message: dict[str, Json]) -> None:
        """Use an object of the tests as the program asks, and tell it what came of it."""
        try:
            use, args, kwargs = reading(self._read_callback, message)
        except MalformedError as fault:
            self._end("protocol", f"a malformed callback: {fault}")
        self._nesting += 1
        answer: dict[str, Json] = {}
        printed: dict[str, str] = {}
        try:
            if self._nesting > MAX_NESTING:
                raise RecursionError("too many nested calls between the tests and the program")
            with captured(message.get("redirected", []), printed):
                result = use(*args, **kwargs)
            self._write(answer, "answer", lambda encoder: encoder.encode(result))
        except (Fault, Untouchable):
            raise
        except BaseException as error:
            refused = error
            answer = {}
            self._write(answer, "raise", lambda encoder: self._translation.write_refusal(encoder, refused))
        finally:
            self._nesting -= 1
        if printed:
            answer["printed"] = printed
        self._send(answer)

    def _read_callback(self, message: dict[str, Json]) -> tuple[Callable[..., Any], list[Any], dict[str, Any]]:
        target = self._translation.given.at(message["callback"])
        read = self._translation.read if gets_whole(target) else self._translation.read_closed
        decoder = Decoder(self._shared, read)
        use = USES[checked(message["do"], str)]
        values, names = decoder.decode_all(message["values"]), checked(message.get("names", []), list)
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
        except (MemoryError, RecursionError):
            self._end("protocol", "too much data")
        if type(message) is not dict:
            self._end("protocol", "a message that is not an object")
        found: dict[str, Json] = message
        return found


def _note_name(name: str, value: Any) -> None:
    """Remember by which kind of name the tests have a class: PEP 8 gives classes capitals, and functions none.

    A program may define a class where the tests expect a function. What it returns is a result, then.
    """
    if isinstance(value, RemoteClass):
        if name.lstrip("_")[:1].isupper():
            value._remote_class.capital = True
        else:
            value._remote_class.small = True
