"""Where the name of a model or of data is looked up: in folders here, or on the Hub, if it can be reached."""

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
    """Raise a ValueError if a model's name is a path, and there is no such folder, or one with no whole model in it.

    `key` is where it was named.
    """
    folder = Path(name).expanduser()
    is_path = name.startswith(("/", ".", "~")) or name.count("/") > 1
    if is_path and not folder.is_dir():
        raise ValueError(f"There is no folder {name} to load the model from ({key}).")
    if any(folder.glob("pytorch_model_fsdp*")) and not (folder / "config.json").exists():
        raise ValueError(
            f"The folder {name} ({key}) has a model in shards, to resume from, and none that can be loaded: FSDP saved "
            f"it with SHARDED_STATE_DICT. A recipe saves the whole model in its output_dir when it ends."
        )


def go_offline_without_hub(*names: object) -> None:
    """Look only at what is cached here, if one of these names may be on the Hub and the Hub cannot be reached.

    Otherwise each file of a model is asked for six times. Call it before anything of Hugging Face is imported. Behind a
    proxy, the proxy decides.
    """
    if OFFLINE in os.environ or not any(map(_may_be_on_the_hub, names)):
        return
    if why := _unreachable():
        os.environ[OFFLINE] = "1"
        print(f"{why}: only what is cached here is used.", file=sys.stderr)


def check_hub_takes_models(pushes: bool) -> None:
    """Raise a ValueError if a model is to be pushed to the Hub when it is trained, and the Hub cannot be reached."""
    is_offline = os.environ.get(OFFLINE, "").upper() in ("1", "ON", "YES", "TRUE")
    if pushes and (why := f"{OFFLINE} is set" if is_offline else _unreachable()):
        raise ValueError(
            f"The model is to be pushed to the Hub (push_to_hub). {why}. Take push_to_hub out; the model is saved in "
            f"output_dir, and `hf upload` pushes it later."
        )


def _unreachable() -> str | None:
    """Why the Hub cannot be reached, in a sentence without its stop; None if it can, or if a proxy decides."""
    if not {"http", "https", "all"}.isdisjoint(getproxies()):  # which also has what `no_proxy` names
        return None
    endpoint = urlsplit(os.environ.get("HF_ENDPOINT", HUB))
    place = endpoint.hostname or "", endpoint.port or (80 if endpoint.scheme == "http" else 443)
    try:
        socket.create_connection(place, LONGEST_SECONDS).close()
    except OSError as error:
        return f"The Hub at {place[0]} cannot be reached ({error.strerror or error})"
    return None


def _may_be_on_the_hub(name: object) -> bool:
    return isinstance(name, str) and ":" not in name and not Path(name).expanduser().exists()
