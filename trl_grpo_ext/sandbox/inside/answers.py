"""The program's end of the calls: does what the judge asks of the program's objects.

Nothing here is trusted: it shares a process with the program, which may break it or speak in its place. It then
fails, or its words are taken for the program's own, which they may as well be.
"""

from __future__ import annotations

import sys
from _thread import RLock  # not threading, which costs every fork
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum, EnumMeta
from types import FunctionType, ModuleType
from typing import Any

from trl_grpo_ext.sandbox.inside.decoder import Decoder
from trl_grpo_ext.sandbox.inside.encoder import Encoder, has_methods, is_plain_type
from trl_grpo_ext.sandbox.inside.exceptions import Exceptions
from trl_grpo_ext.sandbox.inside.handle import flags_of
from trl_grpo_ext.sandbox.inside.operations import OPERATIONS, on_names
from trl_grpo_ext.sandbox.inside.program import PRINTED, Capture, load, new_module
from trl_grpo_ext.sandbox.inside.values import MISSING, Json, MalformedError, Shared, Table, plain_scalar
from trl_grpo_ext.workers.frames import Channel

_BUILTINS = dict(vars(__import__("builtins")))


class Callback:
    """A function of the tests, which runs at the other end."""

    __name__: str

    def __init__(self, answers: Answers, number: int) -> None:
        self._answers = answers
        self._number = number

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._answers.call_back(self._number, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind like a function, which it stands for."""
        return self if instance is None else lambda *args, **kwargs: self(instance, *args, **kwargs)


class CallbackIterator(Callback):
    """An iterator of the tests."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self()


class Answers:
    """Answers requests until the judge closes the channel.

    Args:
        channel: To the judge.
        module: The program.
        printed: Takes what the program prints.
    """

    def __init__(self, channel: Channel, module: ModuleType, printed: Capture) -> None:
        self._channel = channel
        self._namespace = module.__dict__
        self._printed = printed
        self._lock = RLock()
        self._shared: Shared | None = None
        self._handles = Table()
        self._callbacks: dict[int, Callback] = {}
        self._exceptions = Exceptions()
        self._own_operations = {**on_names(self._namespace, self._keep_methods), "call": self._call}

    def serve(self) -> None:
        """Answer until the channel is closed."""
        while True:
            try:
                message = self._channel.receive()
            except EOFError:
                return
            self._shared = Shared()
            try:
                self._answer(self._shared, message)
            finally:
                self._shared = None

    def call_back(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What function `number` of the tests returns, or raises."""
        with self._lock:
            shared = self._shared
            if shared is None:
                raise RuntimeError("a function of the tests was called after the call that it was passed to")
            mark, encoder = shared.mark(), Encoder(shared, self._write, self._known)
            try:
                message: dict[str, Json] = {"callback": number}
                message["values"] = encoder.encode_all((*args, *kwargs.values()))
                message["names"] = list(kwargs)
                message["changed"] = encoder.changes(shared.within(encoder.touched))
            except BaseException:
                shared.rewind(mark)
                raise
            shared.remember(shared.within([*args, *kwargs.values()]))
            self._add_printed(message)
            self._channel.send(message)
            return self._answer_to_callback(shared)

    def _answer_to_callback(self, shared: Shared) -> Any:
        """Answer the requests that a callback makes until its own answer comes."""
        while "do" in (message := self._channel.receive()):
            self._answer(shared, message)
        decoder = Decoder(shared, self._read)
        new = self._new_instances(shared, message)
        value = decoder.decode(message["raise"] if "raise" in message else message["answer"])
        changed = decoder.apply_changes(message.get("changed", []))
        decoder.fill_instances(new, message.get("new", []))
        shared.remember([*changed, *shared.within(decoder.touched)])
        if "raise" in message:
            raise value
        return value

    def _answer(self, shared: Shared, message: dict[str, Json]) -> None:
        reply: dict[str, Json] = {"id": message["id"]}
        try:
            result = self._do(shared, message)
            self._put(shared, reply, "value", result)
        except BaseException as error:
            error.__traceback__ = None  # it holds what the program would have let go of
            self._put_error(shared, reply, error)
        if shared.containers.objects or shared.instances.objects:
            self._put_changes(shared, reply)
        self._add_printed(reply)
        self._channel.send(reply)

    def _do(self, shared: Shared, message: dict[str, Json]) -> Any:
        decoder = Decoder(shared, self._read)
        new = self._new_instances(shared, message)
        values = decoder.decode_all(message["values"])
        if new:
            decoder.fill_instances(new, message["new"])
        if decoder.touched:
            shared.remember([value for value in decoder.touched if shared.knows(value)])
        if new:
            shared.remember(new)
        names = message.get("names", ())
        first = len(values) - len(names)
        named = dict(zip(names, values[first:], strict=True)) if names else {}
        do = message["do"]
        return (self._own_operations.get(do) or OPERATIONS[do])(*values[:first], **named)

    def _put(self, shared: Shared, reply: dict[str, Json], key: str, value: Any) -> None:
        mark, encoder = shared.mark(), Encoder(shared, self._write, self._known)
        try:
            reply[key] = encoder.encode(value)
        except BaseException:
            shared.rewind(mark)
            raise

    def _put_error(self, shared: Shared, reply: dict[str, Json], error: BaseException) -> None:
        reply.pop("value", None)
        try:
            self._put(shared, reply, "raise", error)
        except BaseException:
            self._put(shared, reply, "raise", RuntimeError(f"{type(error).__name__}, which cannot be sent"))

    def _put_changes(self, shared: Shared, reply: dict[str, Json]) -> None:
        mark, encoder = shared.mark(), Encoder(shared, self._write, self._known)
        try:
            if changes := encoder.changes(shared.everything()):
                reply["changed"] = changes
        except BaseException as error:
            shared.rewind(mark)
            if "value" in reply:
                self._put_error(shared, reply, error)

    def _add_printed(self, message: dict[str, Json]) -> None:
        try:
            if printed := self._printed.take():
                message["printed"] = printed
        except ValueError:  # the program has closed it
            return

    def _call(self, target: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = target(*args, **kwargs)
        if isinstance(target, type):
            self._keep_methods(result)
        return result

    def _keep_methods(self, value: Any) -> None:
        """Send `value` as a handle, though it is a list, a dict and so on, if its class has methods of its own."""
        if not is_plain_type(type(value)) and not isinstance(value, type | Enum) and has_methods(type(value)):
            self._number(value)

    def _number(self, value: Any) -> int:
        number = self._handles.number(value)
        return self._handles.add(value) if number is None else number

    def _known(self, value: Any) -> Json | None:
        number = self._handles.number(value)
        return None if number is None else self._handle(value)

    def _write(self, encoder: Encoder, value: Any) -> Json:
        """The JSON for an object that is not plain data."""
        if isinstance(value, Callback):
            return {"iterator" if isinstance(value, CallbackIterator) else "callback": value._number}
        if isinstance(value, type) and issubclass(value, BaseException):
            return self._exceptions.encode_class(value)
        if isinstance(value, BaseException):
            number = self._shared.errors.number(value) if self._shared is not None else None
            return self._exceptions.encode_error(value, encoder) if number is None else {"my_error": number}
        plain = plain_scalar(value)
        return self._handle(value) if plain is MISSING else encoder.encode(plain)

    def _handle(self, value: Any) -> Json:
        kind = type(value)
        name = value.__name__ if isinstance(value, type | FunctionType) else None
        return {"handle": [self._number(value), flags_of(value), name if type(name) is str else kind.__name__]}

    def _new_instances(self, shared: Shared, message: dict[str, Json]) -> list[Any]:
        new = [self._blank(name) for name, _ in message.get("new", ())]
        for value in new:
            shared.instances.add(value)
        return new

    def _blank(self, name: str) -> Any:
        """An object without attributes of the program's class of that name, or of one made for it."""
        kind = self._namespace.get(name)
        try:
            if isinstance(kind, type):
                return object.__new__(kind)
        except TypeError:
            pass
        self._made = getattr(self, "_made", {})
        if name not in self._made:
            self._made[name] = type(name, (), {"__module__": "solution"})
        return object.__new__(self._made[name])

    def _read(self, decoder: Decoder, tag: str, data: Json) -> Any:
        """What a tag stands for that is not a tag of plain data."""
        if tag == "remote":
            return self._handles.objects[data]
        if tag in ("function", "callback", "iterator"):
            return self._read_callback(decoder, tag, data)
        if tag == "builtin":
            return _BUILTINS[data]
        if tag == "enum":
            kind, value = self._namespace.get(data[0]), decoder.decode(data[2])
            return kind.__members__.get(data[1], value) if isinstance(kind, EnumMeta) else value
        if tag == "error":
            return self._exceptions.decode_error(data, decoder, self._shared or Shared())
        if tag in ("exception", "my_exception"):
            return self._exceptions.decode_class(tag, data)
        if tag == "ndarray":
            import numpy

            kind, shape, items = data
            return numpy.array(decoder.decode_all(items), dtype=kind).reshape(shape)
        raise MalformedError(tag)

    def _read_callback(self, decoder: Decoder, tag: str, data: Json) -> Callback:
        number, *described = decoder.decode_all(data) if tag == "function" else (data,)
        if number not in self._callbacks:
            self._callbacks[number] = (CallbackIterator if tag == "iterator" else Callback)(self, number)
        if described:
            self._callbacks[number].__name__, self._callbacks[number].__doc__ = described
        return self._callbacks[number]


_printed = Capture(PRINTED)  # made before the fork, which costs each child less


def serve(control: int, rpc: int) -> None:
    """Load the program that comes by `control`, then answer the judge's calls until it closes `rpc`.

    Args:
        control: The channel to the trainer, which is told that the program is about to run.
        rpc: The channel to the judge, which is told first whether the program was loaded.
    """
    trainer, judge = Channel(control), Channel(rpc)
    trainer.send({"ready": True})
    source = trainer.receive()["program"]
    sys.stdout = _printed
    module = new_module("solution")
    failed = load(source, module.__dict__)
    if failed is not None:
        judge.send({"failed": failed})
        return
    answers = Answers(judge, module, _printed)
    with suppress(ValueError):  # the program has closed it
        _printed.take()
    judge.send({"loaded": True})
    answers.serve()
