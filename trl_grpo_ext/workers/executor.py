"""Select where slow verifiers and programs run: on this machine, or on a Ray cluster.

A recipe or a configuration chooses for its process; an environment variable is the user's default.
"""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import socket
import sys
import threading

from trl_grpo_ext.support.text import did_you_mean

EXECUTOR_VARIABLE = "TRL_GRPO_EXT_EXECUTOR"
# Ray's own variable.
ADDRESS_VARIABLE = "RAY_ADDRESS"
LOCAL, RAY = "local", "ray"
EXECUTORS = (LOCAL, RAY)
NAMESPACE = "trl_grpo_ext"
REACH_SECONDS = 10.0

# The choice of this process; None for the user's default.
_chosen: str | None = None
# The id of the process that has connected to Ray.
_connected_in: int | None = None


class ExecutorError(ValueError):
    """An unknown or unusable executor; the message names the cause and a remedy."""


def check_executor_name(name: str) -> None:
    """Raise an ExecutorError unless the name is in `EXECUTORS`."""
    if name not in EXECUTORS:
        raise ExecutorError(
            f"There is no executor {name!r}. {did_you_mean(str(name), EXECUTORS)}"
        )


def choose_executor(name: str | None) -> None:
    """Make this process use an executor; None changes nothing.

    Raises:
        ExecutorError: for an unknown executor.
    """
    global _chosen  # noqa: PLW0603
    if name is not None:
        check_executor_name(name)
        _chosen = name


def on_ray() -> bool:
    """Return whether this process uses a Ray cluster.

    Raises:
        ExecutorError: if the environment variable names an unknown executor.
    """
    name = _chosen or os.environ.get(EXECUTOR_VARIABLE) or LOCAL
    check_executor_name(name)
    return name == RAY


def connect() -> None:
    """Connect this process to the Ray cluster; do nothing if it is connected already.

    Raises:
        ExecutorError: if Ray is not installed, no cluster answers, or the process is a fork of a connected process.
    """
    global _connected_in  # noqa: PLW0603
    try:
        import ray
    except ImportError:
        raise ExecutorError(
            "executor: ray needs the package: pip install 'trl-grpo-ext[ray]'."
        ) from None
    if _connected_in not in (None, os.getpid()):
        raise ExecutorError(
            "executor: ray does not work in a fork of a process that has used it. Spawn it instead."
        )
    if not ray.is_initialized():
        in_main = threading.current_thread() is threading.main_thread()
        handler = signal.getsignal(signal.SIGTERM)
        address = os.environ.get(ADDRESS_VARIABLE) or "auto"
        try:
            _reach(address)
            ray.init(
                address,
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
        except Exception as error:
            # Ray raises many types of exceptions.
            raise _no_cluster(address, error) from None
        finally:
            # Ray replaces the handler of SIGTERM, but the trainer decides what ends a training.
            # A handler that C code has installed is None here, and cannot be put back.
            if in_main and handler is not None:
                signal.signal(signal.SIGTERM, handler)
    _connected_in = os.getpid()


def run_name() -> str:
    """Return a unique name of this training, common to all its ranks.

    Ranks on one machine often know their master as 127.0.0.1, an address that means another machine elsewhere; then the
    host name replaces it. The name has a hash of `sys.path`, since trainings that share an actor share its module
    search path too.
    """
    paths = hashlib.sha256("\n".join(sys.path).encode()).hexdigest()[:12]
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return f"{socket.gethostname()}-{os.getpid()}-{paths}"
    address = os.environ.get("MASTER_ADDR", "")
    host = (
        socket.gethostname()
        if address in ("", "localhost") or address.startswith("127.")
        else address
    )
    others = (os.environ.get(name, "") for name in ("MASTER_PORT", "TORCHELASTIC_RUN_ID"))
    return "-".join((host, *others, paths))


def _reach(address: str) -> None:
    """Raise an OSError if nothing listens at `host:port`, since Ray itself would retry for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection(
            (host.strip("[]"), int(port)), timeout=REACH_SECONDS
        ).close()


def _no_cluster(address: str, error: Exception) -> ExecutorError:
    return ExecutorError(
        f"executor: ray needs a running Ray cluster, and this process cannot join one at {ADDRESS_VARIABLE}={address} "
        f"({type(error).__name__}: {' '.join(str(error).split())[:300]}). Run `ray start --head` on one machine, and "
        "`ray start --address HEAD:6379` on each other one, this one too. If the cluster wants a token, set "
        "RAY_AUTH_MODE and the token here too. Without `executor`, all runs on this machine."
    )
