"""Define the sandbox protocol and find a process's shared sandboxes by name."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from trl_grpo_ext.programs.sandbox.job import Job, RunResult
from trl_grpo_ext.support.entry_points import claims_on, load_registered, registered_names
from trl_grpo_ext.support.text import Once, did_you_mean
from trl_grpo_ext.workers.processes import Shared, shared

logger = logging.getLogger(__name__)

_once = Once()

LOCAL = "local"
GROUP = "trl_grpo_ext.sandboxes"
"""Entry point group of other packages' sandboxes: callables that take the settings and return a sandbox."""


@runtime_checkable
class Sandbox(Shared, Protocol):
    """A runner of programs against tests, local or remote; several threads may use it concurrently."""

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        """Run jobs and return a result for each, in order.

        Nothing that a program does raises an exception; failures of the sandbox itself are NO_VERDICT.
        """

    def check(self) -> str:
        """Check that programs can run and return the name of their isolation level.

        Raises:
            ValueError: if programs cannot run; the message says what is missing.
        """

    def close(self) -> None:
        """End all processes and connections of this sandbox; a later `run` may start new ones."""


def local_sandbox(
    *, workers: int | None = None, packages: Sequence[str] = (), allow_unsafe: bool = False
) -> Sandbox:
    """Return this process's sandbox for given settings, created on first use; a forked child creates its own.

    The sandbox runs on this machine, or on the nodes of a Ray cluster if the setting `executor` says so. By default it
    runs as many programs at a time as this rank, or each node, has usable cores. The settings are those of
    `LocalSandbox`.
    """
    from trl_grpo_ext.programs.sandbox.local import LocalSandbox
    from trl_grpo_ext.programs.sandbox.ray_sandbox import RaySandbox
    from trl_grpo_ext.workers.executor import on_ray
    from trl_grpo_ext.workers.pool import usable_cores

    if workers is not None and workers > usable_cores():
        _once.warn(
            logger,
            ("workers", workers),
            "workers=%d runs more programs at a time than the %d cores that this process may use: a right program may "
            "take longer than its timeout, and score 0. Leave workers out.",
            workers,
            usable_cores(),
        )
    settings = workers, tuple(packages), allow_unsafe
    if on_ray():
        return shared(
            ("ray", *settings),
            lambda: RaySandbox(
                workers=workers, packages=packages, allow_unsafe=allow_unsafe
            ),
        )
    return shared(
        ("local", *settings),
        lambda: LocalSandbox(
            workers or usable_cores(), packages=packages, allow_unsafe=allow_unsafe
        ),
    )


def find_sandbox(
    name: str,
    *,
    workers: int | None = None,
    packages: Sequence[str] = (),
    allow_unsafe: bool = False,
) -> Sandbox:
    """Return this process's sandbox by name and settings; a forked child creates its own.

    Args:
        name: `local`, or an entry point of `GROUP`.
        workers: Programs to run at a time.
        packages: Packages that programs may import.
        allow_unsafe: Whether to run programs where no walls hold.

    Raises:
        ValueError: for an unknown name, a name that several packages register, or an entry point that returns no
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
            sandbox = registered(
                workers=workers, packages=packages, allow_unsafe=allow_unsafe
            )
        if not isinstance(sandbox, Sandbox):
            raise ValueError(
                f"The sandbox {name!r} cannot be used: {claims_on(GROUP, name)[0]} is to be a callable that returns an "
                f"object with the methods run, check, close and abandon, got {sandbox or registered!r}."
            )
        return sandbox

    return shared((GROUP, name, workers, tuple(packages), allow_unsafe), make)
