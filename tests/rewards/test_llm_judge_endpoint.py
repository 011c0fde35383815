"""Failures of the judge's endpoint: no score, never a wrong score, never an endless wait."""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from judge_endpoint import Answer, JudgeEndpoint, Request, honest

from trl_grpo_ext import Blame
from trl_grpo_ext.rewards.llm_judge.endpoint import Breaker, EndpointError
from trl_grpo_ext.rewards.llm_judge.verifier import LlmJudgeVerifier

Judge = Callable[..., LlmJudgeVerifier]


@pytest.fixture
def judge(endpoint: JudgeEndpoint) -> Judge:
    """Make a judge at the endpoint, after one warm-up request that imports all modules."""
    make = partial(LlmJudgeVerifier, model="judge", base_url=endpoint.base_url)
    asked(make(), "worth 1")
    endpoint.requests.clear()
    return make


def asked(verifier: LlmJudgeVerifier, *texts: str) -> list[Any]:
    return verifier.judge(list(texts), prompts=["What is it worth?"] * len(texts))


def reasons(verdicts: list[Any]) -> list[str]:
    assert {verdict.blame for verdict in verdicts if verdict.score is None} <= {
        Blame.GRADER
    }
    return [verdict.reason for verdict in verdicts]


def texts(count: int) -> list[str]:
    return [f"worth 1, number {number}" for number in range(count)]


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_request_that_is_refused_for_now_is_sent_again(
    endpoint: JudgeEndpoint, judge: Judge, status: int
) -> None:
    endpoint.does(Answer(status=status, headers={"Retry-After": "0.01"}), honest)
    assert asked(judge(), "worth 7")[0].score == 0.7
    assert len(endpoint.requests) == 2


def test_an_endpoint_that_asks_for_no_pause_gets_one_too(
    endpoint: JudgeEndpoint, judge: Judge
) -> None:
    endpoint.does(Answer(status=500), honest)
    assert asked(judge(), "worth 7")[0].score == 0.7
    assert len(endpoint.requests) == 2


def test_retries_come_to_an_end(endpoint: JudgeEndpoint, judge: Judge) -> None:
    endpoint.does(Answer(status=500, headers={"Retry-After": "0.01"}))
    assert reasons(asked(judge(), "worth 7")) == ["judge_http_500"]
    assert len(endpoint.requests) == 3


def test_the_pause_that_the_endpoint_asks_for_is_kept(
    endpoint: JudgeEndpoint, judge: Judge
) -> None:
    endpoint.does(Answer(status=429, headers={"Retry-After": "60"}), honest)
    assert reasons(asked(judge(timeout=1), "worth 7")) == ["judge_timeout"]
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_request_that_is_refused_for_good_is_not_sent_again(
    endpoint: JudgeEndpoint, judge: Judge, status: int
) -> None:
    endpoint.does(Answer(status=status))
    assert reasons(asked(judge(), "worth 7")) == [f"judge_http_{status}"]
    assert len(endpoint.requests) == 1


def test_an_endpoint_that_hangs_is_given_up_and_not_asked_again(
    endpoint: JudgeEndpoint, judge: Judge
) -> None:
    endpoint.does(Answer(hangs=True))
    assert reasons(asked(judge(timeout=0.3), "worth 7")) == ["judge_timeout"]
    assert len(endpoint.requests) == 1


def test_a_reply_that_drips_in_is_given_up(endpoint: JudgeEndpoint, judge: Judge) -> None:
    endpoint.does(Answer("x" * 10_000, drips=True))
    assert reasons(asked(judge(timeout=0.5), "worth 7")) == ["judge_timeout"]


def test_nobody_at_the_address_is_the_graders_fault() -> None:
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        verifier = LlmJudgeVerifier(model="judge", base_url=url, concurrency=5)
        found = reasons(asked(verifier, *texts(20)))
        verifier.close()
    assert set(found) == {"judge_unreachable", "judge_endpoint_down"}


@pytest.mark.parametrize(
    "body", [b"", b"{", b"not json", b"\xff\xfe", b"[" * 100_000], ids=repr
)
def test_a_reply_that_is_no_json_is_the_graders_fault(
    endpoint: JudgeEndpoint, judge: Judge, body: bytes
) -> None:
    endpoint.does(Answer(body=body))
    assert reasons(asked(judge(), "worth 7"))[0] in (
        "judge_malformed",
        "judge_reply_malformed",
    )


@pytest.mark.parametrize(
    "body",
    [b"null", b"[]", b"7", b'"SCORE"', b"{}", b'{"choices": null}', b'{"choices": [{}]}', b'{"choices": [7]}',
     b'{"choices": [{"message": null, "finish_reason": "stop"}]}', b'{"choices": {"0": 1}}',
     b'{"choices": [{"message": {"content": ["SCORE"]}, "finish_reason": "stop"}]}'],
    ids=repr,
)  # fmt: skip
def test_json_of_another_form_is_the_graders_fault(
    endpoint: JudgeEndpoint, judge: Judge, body: bytes
) -> None:
    endpoint.does(Answer(body=body))
    assert reasons(asked(judge(), "worth 7"))[0] in (
        "judge_reply_malformed",
        "judge_reply_empty",
    )
    endpoint.does(Answer(body=body, headers={"Content-Type": "text/html"}))
    assert reasons(asked(judge(), "worth 7"))[0] in (
        "judge_reply_malformed",
        "judge_reply_empty",
        "judge_malformed",
    )


def test_no_more_requests_are_under_way_at_once_than_allowed(
    endpoint: JudgeEndpoint, judge: Judge
) -> None:
    two_together = threading.Barrier(2)

    def wait_for_another(request: Request) -> Answer:
        two_together.wait(30)
        return honest(request)

    endpoint.does(wait_for_another)
    assert {verdict.score for verdict in asked(judge(concurrency=2), *texts(8))} == {0.1}
    assert endpoint.most_at_once == 2


def test_threads_share_the_limit(endpoint: JudgeEndpoint, judge: Judge) -> None:
    verifier = judge(concurrency=2)
    threads = [
        threading.Thread(
            target=asked, args=(verifier, *(f"worth 1, {name} {text}" for text in texts(4)))
        )
        for name in "abc"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(endpoint.requests) == 12
    assert endpoint.most_at_once <= 2


def test_a_dead_endpoint_is_not_asked_about_all_of_a_batch(
    endpoint: JudgeEndpoint, judge: Judge
) -> None:
    endpoint.does(Answer(hangs=True))
    verifier = judge(timeout=0.3, concurrency=4)
    found = reasons(asked(verifier, *texts(60)))
    assert set(found) == {"judge_timeout", "judge_endpoint_down"}
    assert len(endpoint.requests) < 12
    sent = len(endpoint.requests)
    assert set(reasons(asked(verifier, *texts(60)))) == {"judge_endpoint_down"}
    assert len(endpoint.requests) == sent


def test_nobody_waits_for_their_turn_at_an_endpoint_that_rests(
    endpoint: JudgeEndpoint, judge: Judge
) -> None:
    endpoint.does(Answer(status=404))
    verifier = judge(concurrency=1, timeout=3, batch_timeout=3)
    assert reasons(asked(verifier, *texts(5))) == ["judge_http_404"] * 5
    assert set(reasons(asked(verifier, *texts(300)))) == {"judge_endpoint_down"}


def test_a_request_that_is_itself_refused_does_not_make_the_endpoint_dead(
    endpoint: JudgeEndpoint, judge: Judge
) -> None:
    endpoint.does(Answer(status=400))
    assert set(reasons(asked(judge(concurrency=1), *texts(20)))) == {"judge_http_400"}
    assert len(endpoint.requests) == 20


def test_a_batch_ends_in_time_with_the_verdicts_that_there_are(
    endpoint: JudgeEndpoint, judge: Judge
) -> None:
    def slow_for_some(request: Request) -> Answer:
        return honest(request) if "number 0" in request.response else Answer(hangs=True)

    endpoint.does(slow_for_some)
    found = asked(judge(timeout=2, batch_timeout=2, concurrency=2), *texts(4))
    assert found[0].score == 0.1
    assert set(reasons(found[1:])) <= {"judge_batch_timeout", "judge_timeout"}


async def fails() -> int:
    raise EndpointError("judge_http_500", is_down=True)


async def works() -> int:
    return 7


async def outcome(breaker: Breaker, send: Any) -> object:
    try:
        breaker.check()
        return await breaker.call(send)
    except EndpointError as error:
        return error.reason


def test_after_its_rest_one_request_tries_an_endpoint_and_the_others_wait_for_what_comes_of_it() -> (
    None
):
    tried = []

    async def tries() -> int:
        tried.append(len(tried))
        await asyncio.sleep(0)
        return await fails() if len(tried) == 1 else 7

    async def story() -> list[object]:
        breaker = Breaker(failures=2, rest_seconds=0.0)
        first = [await outcome(breaker, fails) for _ in range(2)]
        return [*first, *await asyncio.gather(*(outcome(breaker, tries) for _ in range(3)))]

    assert asyncio.run(story()) == [
        "judge_http_500",
        "judge_http_500",
        "judge_http_500",
        7,
        7,
    ]


def test_an_endpoint_rests_only_after_failures_in_a_row() -> None:
    async def story() -> list[object]:
        breaker = Breaker(failures=2, rest_seconds=3600.0)
        return [
            await outcome(breaker, send)
            for send in (fails, works, fails, works, fails, fails, works)
        ]

    failed = "judge_http_500"
    assert asyncio.run(story()) == [
        failed,
        7,
        failed,
        7,
        failed,
        failed,
        "judge_endpoint_down",
    ]


def test_closing_ends_a_batch_that_is_under_way(
    endpoint: JudgeEndpoint, judge: Judge
) -> None:
    arrived = threading.Event()

    def arrive(request: Request) -> Answer:
        arrived.set()
        return Answer(hangs=True)

    endpoint.does(arrive)
    verifier, found = judge(), []
    thread = threading.Thread(target=lambda: found.extend(asked(verifier, *texts(2))))
    thread.start()
    assert arrived.wait(30)
    verifier.close()
    thread.join()
    assert reasons(found) == ["judge_closed"] * 2


def test_the_key_is_sent_and_nowhere_else(
    endpoint: JudgeEndpoint,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("MY_JUDGE_KEY", "sk-hidden")
    caplog.set_level(logging.DEBUG)
    endpoint.does(
        honest, Answer(status=401, body=b'{"error": {"message": "Wrong key: sk-hidden"}}')
    )
    verifier = LlmJudgeVerifier(
        model="judge", base_url=endpoint.base_url, api_key_env="MY_JUDGE_KEY"
    )
    found = [*asked(verifier, "worth 7"), *asked(verifier, "worth 8")]
    assert [request.headers["authorization"] for request in endpoint.requests] == [
        "Bearer sk-hidden"
    ] * 2
    assert reasons(found) == ["", "judge_http_401"]
    ours = [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("trl_grpo_ext")
    ]
    assert len(ours) == 1
    assert "sk-hidden" not in repr((verifier, found, ours, verifier.facts()))
    assert b"sk-hidden" not in pickle.dumps((verifier, found))


def test_a_key_that_is_gone_in_another_process_is_the_graders_fault(
    endpoint: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_JUDGE_KEY", "sk-hidden")
    verifier = LlmJudgeVerifier(
        model="judge", base_url=endpoint.base_url, api_key_env="MY_JUDGE_KEY"
    )
    monkeypatch.delenv("MY_JUDGE_KEY")
    assert reasons(asked(verifier, "worth 7")) == ["judge_api_key_missing"]
    assert endpoint.requests == []


ELSEWHERE = """
import os, pickle, sys
verifier = pickle.loads(bytes.fromhex(sys.argv[1]))
judge = lambda worth: verifier([f"worth {worth}"], prompts=["What is it worth?"])
assert judge(7) == [0.7]
child = os.fork()
if not child:
    os._exit(0 if judge(7) == [0.7] else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert judge(6) == [0.6]
"""


@pytest.mark.slow
def test_a_process_and_its_forked_child_ask_for_themselves(
    endpoint: JudgeEndpoint, judge: Judge
) -> None:
    command = [
        sys.executable,
        "-W",
        "error",
        "-W",
        "ignore::DeprecationWarning",
        "-c",
        ELSEWHERE,
    ]
    done = subprocess.run(
        [*command, pickle.dumps(judge()).hex()],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(endpoint.requests) == 3
