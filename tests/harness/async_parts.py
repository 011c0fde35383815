"""Parts for AsyncGRPO's rollout loop: a stand-in for vLLM's server, verifiers, and importable environments."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from trl_grpo_ext import Blame, Sample, Status, Verdict, verifier


@contextmanager
def vllm_server(tokenizer: Any, says: Sequence[str]) -> Iterator[str]:
    """Serve the texts `says` in turn, one per request, and yield the server's address."""
    texts, lock = itertools.cycle(says), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            with lock:
                text = next(texts)
            ids = [
                *tokenizer(text, add_special_tokens=False)["input_ids"],
                tokenizer.eos_token_id,
            ]
            choice = {"token_ids": ids, "logprobs": {"token_logprobs": [-1.0] * len(ids)}}
            body = json.dumps({"choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@verifier
def says_42(sample: Sample) -> bool:
    return sample.text == "42"


@verifier
def is_short(sample: Sample) -> float:
    return 1.0 / (1 + len(sample.text))


@verifier
def fails_on_41(sample: Sample) -> Any:
    if sample.text == "41":
        return Verdict(
            status=Status.ERROR, score=None, blame=Blame.GRADER, reason="planted"
        )
    return sample.text == "42"


@verifier
def always_fails(sample: Sample) -> bool:
    raise RuntimeError("no server")


class Game:
    """An environment with planted outcomes: of every four rollouts, lost, won, failed reward, failed reset."""

    made = 0

    def reset(self, **_: Any) -> None:
        self.turn = Game.made % 4
        Game.made += 1
        if self.turn == 3:
            raise ConnectionError("no sandbox")

    def get_reward(self) -> float:
        if self.turn == 2:
            raise TimeoutError("no verdict")
        return float(self.turn == 1)

    @property
    def state(self) -> dict[str, int]:
        return {"turn": self.turn}


class Down(Game):
    def reset(self, **_: Any) -> None:
        raise ConnectionError("no sandbox")


class Waiting(Game):
    """An environment with an async `get_reward`, awaited on the worker's event loop."""

    def reset(self, **_: Any) -> None:
        self.turn = 0

    async def get_reward(self) -> float:  # type: ignore[override]
        await asyncio.sleep(0)
        return 1.0
