"""Serve the judge's requests in the program's process.

Nothing here is trusted: the program shares this process and may break this code or speak in its place. Then requests
fail, or the judge reads answers that the program could have given anyway.
"""

from __future__ import annotations

import sys

# An import of threading would slow every fork.
from _thread import RLock
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.crossing.classes import made_class
from trl_grpo_ext.programs.sandbox.inside.crossing.decoder import Decoder
from trl_grpo_ext.programs.sandbox.inside.crossing.encoder import Encoder
from trl_grpo_ext.programs.sandbox.inside.crossing.printing import (
    PRINTED,
    Capture,
    print_here,
    taken,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.values import Json, Shared
from trl_grpo_ext.programs.sandbox.inside.objects import Objects
from trl_grpo_ext.programs.sandbox.inside.operations import (
    OPERATIONS,
    beside_a_loop,
    on_names,
)
from trl_grpo_ext.programs.sandbox.inside.program import load, new_module
from trl_grpo_ext.workers.frames import Channel

# Frames that a call of the program inside a callback may take: in one process it would find most of the stack free.
_FRAMES_A_CALLBACK = 30
_MOST_FRAMES = 2**31 - 1


class Answers:
    """A server of the judge's requests on the program's objects."""

    def __init__(
        self, channel: Channel, module: ModuleType, printed: dict[str, Capture]
    ) -> None:
        self._channel = channel
        self._printed = printed
        self._lock = RLock()
        self._shared = Shared()
        self._busy = 0
        self._deepest = 1
        self._objects = Objects(self.call_back, module.__dict__)
        self._own_operations: dict[str, Callable[..., Any]] = {
            **on_names(module.__dict__, self._objects.keep_methods),
            "call": self._call,
            "set": self._objects.set_attribute,
            "subclass": self._subclass,
        }

    def serve(self) -> None:
        """Answer requests until the judge closes the channel or sends `end`."""
        while True:
            try:
                message = self._channel.receive()
            except EOFError:
                return
            self._answer(message)
            if message["do"] == "end":
                return
            # The judge forgets its table with this reply, so numbers of both ends begin anew together.
            if message.get("forget"):
                self._shared = Shared()

    def call_back(
        self, number: int, use: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Use a test object through the judge, and return the result.

        Args:
            number: The test object's number.
            use: Name of a use of test objects, such as `call`; see `given.use_of`.
            args: Positional arguments of the use.
            kwargs: Keyword arguments of the use.

        Raises:
            RuntimeError: if no request of the judge is running.
            BaseException: whatever the use raised in the judge.
        """
        with self._lock:
            if not self._busy:
                raise RuntimeError(
                    "a function of the tests was called after the call that it was passed to"
                )
            message: dict[str, Json] = {"callback": number, "do": use}
            self._pack(
                message,
                "values",
                lambda encoder: encoder.encode_all((*args, *kwargs.values())),
            )
            message["names"] = list(kwargs)
            self._add_printed(message)
            redirected = []
            for name, own in self._printed.items():
                if getattr(sys, name, None) is not own:
                    redirected.append(name)
            if redirected:
                message["redirected"] = redirected
            self._channel.send(message)
            return self._answer_to_callback()

    def _answer_to_callback(self) -> Any:
        """Answer requests made during a callback until the callback's own answer arrives."""
        while "do" in (message := self._channel.receive()):
            self._answer(message)
        decoder = self._decoder()
        value = decoder.decode(
            message["raise"] if "raise" in message else message["answer"]
        )
        decoder.finish(message)
        print_here(message.get("printed", {}))
        if "raise" in message:
            raise value
        return value

    def _answer(self, message: dict[str, Json]) -> None:
        reply: dict[str, Json] = {"id": message["id"]}
        self._busy += 1
        # Only a new depth raises the limit; otherwise the limit would grow with each callback.
        if self._busy > self._deepest:
            self._deepest = self._busy
            sys.setrecursionlimit(
                min(sys.getrecursionlimit() + _FRAMES_A_CALLBACK, _MOST_FRAMES)
            )
        try:
            result = self._do(message)
            self._pack(reply, "value", lambda encoder: encoder.encode(result))
        except BaseException as error:
            # The traceback keeps objects alive that the program has released.
            error.__traceback__ = None
            reply = {"id": message["id"]}
            self._pack_error(reply, error)
        finally:
            self._busy -= 1
        self._add_printed(reply)
        self._channel.send(reply)

    def _do(self, message: dict[str, Json]) -> Any:
        decoder = self._decoder()
        values = decoder.decode_all(message["values"])
        decoder.finish(message)
        names = message.get("names", ())
        first = len(values) - len(names)
        named = dict(zip(names, values[first:], strict=True)) if names else {}
        do = message["do"]
        operation = self._own_operations.get(do) or OPERATIONS[do]
        if message.get("loop"):
            operation = partial(beside_a_loop, operation)
        return operation(*values[:first], **named)

    def _decoder(self) -> Decoder:
        return Decoder(self._shared, self._objects.read)

    def _pack(
        self, message: dict[str, Json], key: str, encode: Callable[[Encoder], Json]
    ) -> None:
        described = len(self._objects.described)
        try:
            Encoder(self._shared, self._objects.write, self._objects.known).write(
                message, key, encode
            )
        except BaseException:
            # The message is not sent, so the judge knows none of the classes that were described in it.
            del self._objects.described[described:]
            raise

    def _pack_error(self, reply: dict[str, Json], error: BaseException) -> None:
        try:
            self._pack(reply, "raise", lambda encoder: encoder.encode(error))
        except BaseException:
            # The exception's arguments and attributes are the program's own, and may be of a kind that cannot cross.
            refused = RuntimeError(f"{type(error).__name__}, which cannot be sent")
            self._pack(reply, "raise", lambda encoder: encoder.encode(refused))

    def _add_printed(self, message: dict[str, Json]) -> None:
        if printed := taken(self._printed):
            message["printed"] = printed

    def _call(self, target: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = target(*args, **kwargs)
        # An object that a test makes of the program's class keeps its methods, even if the class is a list.
        if isinstance(target, type):
            self._objects.keep_methods(result)
        return result

    def _subclass(self, *order: Any) -> int:
        made = made_class(*order)
        self._objects.described.append(made)
        return self._objects.number(made)


# Created before the fork, to save time in every child.
_printed = {"stdout": Capture(PRINTED), "stderr": Capture(PRINTED, number=2)}


def serve(control: int, rpc: int) -> None:
    """Load a program, report the result to the judge, and serve its requests.

    Args:
        control: Channel to the trainer, which sends the program.
        rpc: Channel to the judge.
    """
    trainer = Channel(control)
    trainer.send({"ready": True})
    order = trainer.receive()
    vars(sys).update(_printed)
    judge = Channel(rpc)
    module = new_module("solution")
    failed = load(order["program"], module.__dict__, order.get("cut"))
    if failed is not None:
        judge.send({"failed": failed})
        return
    answers = Answers(judge, module, _printed)
    # Text printed while the program was loaded belongs to no test.
    taken(_printed)
    judge.send({"loaded": True})
    answers.serve()
