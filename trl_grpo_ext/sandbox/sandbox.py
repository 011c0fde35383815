"""The protocol of a sandbox, and the sandboxes that a process shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from trl_grpo_ext.sandbox.job import Job, RunResult
from trl_grpo_ext.workers.processes import shared

FUSION_PREFIX = "sandboxfusion+"


class Sandbox(Protocol):
    """Runs programs against tests, here or elsewhere."""

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        """One outcome a job, in order. Never raises for what a program does; its own failures are NO_VERDICT."""

    def check(self) -> str:
        """What programs are run behind. Raises a ValueError that says what is missing if they cannot be run."""

    def close(self) -> None:
        """End what it has started; it may be used again."""


def local_sandbox(*, workers: int | None = None, packages: Sequence[str] = (), allow_unsafe: bool = False) -> Sandbox:
    """The sandbox of this process with these settings, made when it is first asked for. A forked child makes its own.

    It is on this machine, or on the nodes of a Ray cluster if `executor` says so. By default, it runs a program on each
    core that this rank may use, or on each of the node. The other settings are those of `LocalSandbox`.
    """
    from trl_grpo_ext.sandbox.local import LocalSandbox
    from trl_grpo_ext.sandbox.ray_sandbox import RaySandbox
    from trl_grpo_ext.workers.executor import on_ray
    from trl_grpo_ext.workers.pool import usable_cores

    settings = workers, tuple(packages), allow_unsafe
    if on_ray():
        return shared(
            ("ray", *settings), lambda: RaySandbox(workers=workers, packages=packages, allow_unsafe=allow_unsafe)
        )
    return shared(
        ("local", *settings),
        lambda: LocalSandbox(workers or usable_cores(), packages=packages, allow_unsafe=allow_unsafe),
    )


def fusion_sandbox(address: str) -> Sandbox:
    """The sandbox of this process at that address, made when it is first asked for. A forked child makes its own.

    It is `sandboxfusion+http://host:port`; several, with commas between them, share the work, and do that of one that
    fails. Raises ValueError for any other address.
    """
    addresses = [part.strip() for part in address.split(",") if part.strip()]
    if not addresses or not all(part.startswith(FUSION_PREFIX) for part in addresses):
        raise ValueError(
            f"There is no sandbox {address!r}. It is `local`, or a SandboxFusion service such as "
            f"{FUSION_PREFIX}http://host:8080. For programs on other machines of yours, use executor: ray."
        )
    from trl_grpo_ext.sandbox.fusion import FusionSandbox

    return shared(("fusion", address), lambda: FusionSandbox([part.removeprefix(FUSION_PREFIX) for part in addresses]))
