"""Check model folders, and check that the Hugging Face Hub can be reached before it is needed."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

OFFLINE = "HF_HUB_OFFLINE"
HUB = "https://huggingface.co"
LONGEST_SECONDS = 5.0


def check_model_folder(name: str, key: str) -> None:
    """Raise a ValueError if a model's name is a path without a folder, or its folder holds only sharded weights.

    `key` is the recipe key or flag of the name, for the message.
    """
    folder = Path(name).expanduser()
    # A name on the Hub has one slash at most.
    is_path = name.startswith(("/", ".", "~")) or name.count("/") > 1
    if is_path and not folder.is_dir():
        raise ValueError(f"There is no folder {name} to load the model from ({key}).")
    if any(folder.glob("pytorch_model_fsdp*")) and not (folder / "config.json").exists():
        raise ValueError(
            f"The folder {name} ({key}) has a model in shards, to resume from, and none that can be loaded: FSDP saved "
            f"it with SHARDED_STATE_DICT. A recipe saves the whole model in its output_dir when it ends."
        )


def go_offline_without_hub(*names: object) -> None:
    """Set `HF_HUB_OFFLINE` if a name may be a Hub id and the Hub cannot be reached.

    Otherwise Hugging Face requests each file of a model six times. Call it before importing Hugging Face libraries,
    which read the variable on import. With a proxy configured, no check is made.
    """
    # A value that the user has set stays, also `0`.
    if OFFLINE in os.environ or not any(map(_may_be_on_the_hub, names)):
        return
    why = _unreachable()
    if why:
        os.environ[OFFLINE] = "1"
        print(f"{why}: only what is cached here is used.", file=sys.stderr)


def check_hub_takes_models(pushes: bool) -> None:
    """Check the Hub's connection before training with `push_to_hub`; raise a ValueError without connection."""
    if not pushes:
        return
    # The values that huggingface_hub takes for true.
    is_offline = os.environ.get(OFFLINE, "").upper() in ("1", "ON", "YES", "TRUE")
    why = f"{OFFLINE} is set" if is_offline else _unreachable()
    if why:
        raise ValueError(
            f"The model is to be pushed to the Hub (push_to_hub). {why}. Take push_to_hub out; the model is saved in "
            f"output_dir, and `hf upload` pushes it later."
        )


def _unreachable() -> str | None:
    """Connect to the Hub; return the connection's error, without a final period, or None. A proxy is not checked."""
    # Compare keys: `no_proxy` alone, which getproxies() also lists, is no proxy.
    if not {"http", "https", "all"}.isdisjoint(getproxies()):
        return None
    endpoint = urlsplit(os.environ.get("HF_ENDPOINT", HUB))
    host = endpoint.hostname or ""
    standard_port = 80 if endpoint.scheme == "http" else 443
    port = endpoint.port or standard_port
    try:
        socket.create_connection((host, port), LONGEST_SECONDS).close()
    except OSError as error:
        return f"The Hub at {host} cannot be reached ({error.strerror or error})"
    return None


def _may_be_on_the_hub(name: object) -> bool:
    # `bundled:sums` and `reasoning_gym:chain_sum` are made here, and are no names on the Hub.
    return (
        isinstance(name, str) and ":" not in name and not Path(name).expanduser().exists()
    )
