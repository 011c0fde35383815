"""Stand-ins for the Python clients of Harbor and OpenReward, with the parts that TRL's environments use."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class HarborSandbox:
    """A fake sandbox that stores the text written to the answer file; the task name selects a failure."""

    os = "linux"

    def __init__(self, name: str) -> None:
        self.name, self.answer = name, ""

    async def start(self, force_build: bool) -> None:
        if self.name == "no_sandbox":
            raise ConnectionError("docker is down")

    async def stop(self, delete: bool) -> None: ...

    async def run_healthcheck(self) -> None: ...

    async def empty_dirs(self, folders: Any, chmod: bool) -> None: ...

    async def exec(self, command: str, timeout_sec: int = 0, user: str = "") -> Any:
        if "answer.txt" in command:
            self.answer = command.split()[1]
        return SimpleNamespace(stdout="written", stderr="", return_code=0)


class HarborVerifier:
    def __init__(self, sandbox: HarborSandbox) -> None:
        self.sandbox = sandbox

    async def verify(self) -> Any:
        if self.sandbox.name == "no_verdict":
            raise FileNotFoundError("reward.txt")
        return SimpleNamespace(rewards={"reward": float(self.sandbox.answer == "42")})


def harbor_task(task_dir: Path) -> Any:
    return SimpleNamespace(
        paths=SimpleNamespace(environment_dir=task_dir),
        short_name=task_dir.name,
        instruction="What is 40 + 2?",
        config=SimpleNamespace(environment=None, verifier=SimpleNamespace(env=None)),
    )


def install_harbor(patch: pytest.MonkeyPatch) -> None:
    """Replace the Harbor package by a stand-in."""
    sandboxes = SimpleNamespace(
        create_environment_from_config=lambda environment_name, **_: HarborSandbox(
            environment_name
        )
    )
    verifiers = SimpleNamespace(
        create_verifier_from_config=lambda _, environment, **__: HarborVerifier(environment)
    )
    anything = lambda **_: None  # noqa: E731
    modules: dict[str, dict[str, Any]] = {
        "harbor.environments.factory": {"EnvironmentFactory": sandboxes},
        "harbor.models.task.task": {"Task": harbor_task},
        "harbor.models.trial.config": {
            "EnvironmentConfig": anything,
            "VerifierConfig": anything,
        },
        "harbor.models.trial.paths": {
            "TrialPaths": anything,
            "EnvironmentPaths": SimpleNamespace(
                for_os=lambda _: SimpleNamespace(verifier_dir="/logs")
            ),
        },
        "harbor.verifier.factory": {"VerifierFactory": verifiers},
    }
    for name, members in modules.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        patch.setitem(sys.modules, name, module)


class OpenRewardSession:
    def __init__(self, index: int) -> None:
        self.index = index

    def get_prompt(self) -> list[Any]:
        return [{"type": "text", "text": "What is 40 + 2?"}]

    def list_tools(self) -> list[Any]:
        return OpenRewardServer().list_tools()

    def call_tool(self, name: str, given: dict[str, Any]) -> Any:
        if self.index == 1:
            raise ConnectionError("502")
        reward = None if self.index == 2 else float(given["answer"] == "42")
        blocks = [{"type": "text", "text": "noted"}]
        return SimpleNamespace(
            blocks=blocks, reward=reward, metadata={"tries": 1}, finished=reward is not None
        )


class OpenRewardServer:
    """A fake server with four tasks: 0 gives a reward, 1 fails on calls, 2 has no reward, 3 opens no session."""

    def list_tools(self) -> list[Any]:
        answer = {"type": "string", "description": "The answer."}
        schema = {"properties": {"answer": answer}, "required": ["answer"]}
        return [
            SimpleNamespace(
                name="submit", description="Submit an answer.", input_schema=schema
            )
        ]

    def num_tasks(self, split: str) -> int:
        return 4

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        return {"difficulty": "easy"}

    @contextmanager
    def session(self, split: str, index: int, secrets: Any) -> Any:
        if index == 3:
            raise ConnectionError("no session")
        yield OpenRewardSession(index)


def install_openreward(patch: pytest.MonkeyPatch) -> None:
    """Replace the OpenReward package by a stand-in."""
    module = ModuleType("openreward")
    client = SimpleNamespace(environments=SimpleNamespace(get=lambda _: OpenRewardServer()))
    module.__dict__["OpenReward"] = lambda **_: client
    patch.setitem(sys.modules, "openreward", module)
