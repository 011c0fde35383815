"""The protocol of a sandbox, and the sandboxes that a process shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from trl_grpo_ext.sandbox.job import Job, RunResult
from trl_grpo_ext.support.entry_points import claims_on, load_registered, registered_names
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.workers.processes import Shared, shared

LOCAL = "local"
GROUP = "trl_grpo_ext.sandboxes"
"""The entry points by which other packages register sandboxes: callables that take the settings and return one."""


@runtime_checkable
class Sandbox(Shared, Protocol):
    """Runs programs against tests, here or elsewhere. Threads may call it at the same time."""

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        """One outcome a job, in order. Never raises for what a program does; its own failures are NO_VERDICT."""

    def check(self) -> str:
        """What programs are run behind. Raises a ValueError that says what is missing if they cannot be run."""

    def close(self) -> None:
        """End all processes and connections that it has started. It may be used again."""


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


def find_sandbox(
    name: str, *, workers: int | None = None, packages: Sequence[str] = (), allow_unsafe: bool = False
) -> Sandbox:
    """Return the sandbox of this process by its name, with these settings. A forked child makes its own.

    Args:
        name: `local`, or an entry point of `GROUP`.
        workers: Programs to run at a time.
        packages: Packages that programs may import.
        allow_unsafe: Whether to run programs where no walls hold.

    Raises:
        ValueError: for an unknown name, for one that several packages register, or for an entry point that makes no
            sandbox.
    """
    if name == LOCAL:
        return local_sandbox(workers=workers, packages=packages, allow_unsafe=allow_unsafe)
    known = registered_names(GROUP)
    if name not in known:
        raise ValueError(
            f"There is no sandbox {name!r}. {did_you_mean(name, [LOCAL, *known])} Other packages add sandboxes by the "
            f"entry points {GROUP}. For programs on other machines of yours, use executor: ray."
        )

    def make() -> Sandbox:
        registered = load_registered(GROUP, name)
        sandbox = None
        if callable(registered):
            sandbox = registered(workers=workers, packages=packages, allow_unsafe=allow_unsafe)
        if not isinstance(sandbox, Sandbox):
            raise ValueError(
                f"The sandbox {name!r} cannot be used: {claims_on(GROUP, name)[0]} is to be a callable that returns an "
                f"object with the methods run, check, close and abandon, got {sandbox or registered!r}."
            )
        return sandbox

    return shared((GROUP, name, workers, tuple(packages), allow_unsafe), make)
