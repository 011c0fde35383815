"""The protocol of a sandbox, and the sandboxes that a process shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from trl_grpo_ext.sandbox.job import Job, RunResult
from trl_grpo_ext.workers.processes import shared

if TYPE_CHECKING:
    from trl_grpo_ext.sandbox.fusion import FusionSandbox
    from trl_grpo_ext.sandbox.remote import RemoteSandbox

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

    Args:
        workers: Programs to run at a time; by default one for each core that this rank may use.
        packages: Folders of packages that programs may import, besides Python's own library and an installed numpy.
        allow_unsafe: Whether to run programs without walls where this machine has none.
    """
    from trl_grpo_ext.sandbox.local import LocalSandbox
    from trl_grpo_ext.workers.pool import usable_cores

    return shared(
        ("local", workers, tuple(packages), allow_unsafe),
        lambda: LocalSandbox(workers or usable_cores(), packages=packages, allow_unsafe=allow_unsafe),
    )


def remote_sandbox(address: str, *, token: str | None = None) -> Sandbox:
    """The sandbox of this process at that address, made when it is first asked for. A forked child makes its own.

    Args:
        address: `http://host:port` of a `trl-grpo-ext sandbox-server`; several with commas between them share the
            work, and do that of one that fails. `sandboxfusion+http://host:port` is a SandboxFusion service.
        token: The secret shared with the servers; by default from the environment.

    Raises:
        ValueError: for an address that is neither.
    """
    return shared(("remote", address, token), lambda: _make_remote(address, token))


def _make_remote(address: str, token: str | None) -> FusionSandbox | RemoteSandbox:
    from trl_grpo_ext.sandbox.fusion import FusionSandbox
    from trl_grpo_ext.sandbox.remote import RemoteSandbox

    addresses = [part.strip() for part in address.split(",") if part.strip()]
    fusion = [part.removeprefix(FUSION_PREFIX) for part in addresses if part.startswith(FUSION_PREFIX)]
    if fusion:
        if len(fusion) < len(addresses):
            raise ValueError(f"Addresses of SandboxFusion and of others do not mix, got {address!r}.")
        return FusionSandbox(fusion)  # it must not see the token
    if not addresses:
        raise ValueError(f"A sandbox's address is like http://cpu-node:8750, got {address!r}.")
    return RemoteSandbox(addresses, token=token)
