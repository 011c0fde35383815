"""A scripted chat completions endpoint on loopback, over real sockets."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MARK = re.compile(r"SCORE ([0-9a-f]{8}):")


@dataclass(frozen=True)
class Answer:
    """The endpoint's scripted answer to one request."""

    content: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    finish_reason: str = "stop"
    tokens: int = 0
    hangs: bool = False
    drips: bool = False


Reply = Answer | Callable[["Request"], Answer]


@dataclass(frozen=True)
class Request:
    """A request received by the endpoint."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def text(self) -> str:
        return "\n".join(message["content"] for message in self.body["messages"])

    @property
    def mark(self) -> str:
        found = MARK.search(self.text)
        assert found is not None
        return found[1]

    @property
    def response(self) -> str:
        """The response text, found between its marks."""
        return self.between("RESPONSE")

    def between(self, label: str) -> str:
        """Extract the labelled text, found between its marks."""
        found = re.search(
            rf"\[BEGIN {label} {self.mark}\]\n(.*)\n\[END {label} {self.mark}\]",
            self.text,
            re.DOTALL,
        )
        assert found is not None
        return found[1]


def honest(request: Request) -> Answer:
    """Reply as an honest judge: score 7 for a response with `worth 7`, else 0."""
    worth = re.search(r"worth ([-0-9.]+)", request.response)
    return Answer(f"I have read it.\nSCORE {request.mark}: {worth[1] if worth else 0}")


class JudgeEndpoint:
    """An endpoint's script and request log: answers are given in turn, and the last answer repeats."""

    def __init__(self) -> None:
        self.answers: list[Reply] = [honest]
        self.requests: list[Request] = []
        self.most_at_once = 0
        self.gate = threading.Event()
        self.base_url = ""
        self._now = 0
        self._lock = threading.Lock()

    def does(self, *answers: Reply) -> None:
        self.answers = list(answers)

    def take(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def done(self) -> None:
        with self._lock:
            self._now -= 1


@contextmanager
def judge_endpoint() -> Iterator[JudgeEndpoint]:
    """Run an endpoint during the `with` block."""
    endpoint = JudgeEndpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = Request(
                self.path, {key.lower(): value for key, value in self.headers.items()}, body
            )
            scripted = endpoint.take(request)
            try:
                answer = scripted(request) if callable(scripted) else scripted
                if answer.hangs:
                    endpoint.gate.wait(60)
            finally:
                # Before the reply, since the client may then send its next request.
                endpoint.done()
            try:
                self._send(answer)
            except OSError:
                # The client has closed the connection.
                self.close_connection = True

        def _send(self, answer: Answer) -> None:
            payload = answer.body if answer.body is not None else _completion(answer)
            self.send_response(answer.status)
            for key, value in {
                "Content-Type": "application/json",
                **answer.headers,
            }.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            for piece in _pieces(payload) if answer.drips else [payload]:
                self.wfile.write(piece)
                if answer.drips and endpoint.gate.wait(0.05):
                    return

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    endpoint.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _completion(answer: Answer) -> bytes:
    if answer.status != 200:
        return json.dumps({"error": {"message": "no", "type": "test"}}).encode()
    message = {"role": "assistant", "content": answer.content}
    choice = {"index": 0, "message": message, "finish_reason": answer.finish_reason}
    record: dict[str, Any] = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "judge",
    }
    record["choices"] = [choice]
    if answer.tokens:
        record["usage"] = {
            "prompt_tokens": answer.tokens - 1,
            "completion_tokens": 1,
            "total_tokens": answer.tokens,
        }
    return json.dumps(record).encode()


def _pieces(payload: bytes) -> Sequence[bytes]:
    return [payload[index : index + 1] for index in range(len(payload))]
