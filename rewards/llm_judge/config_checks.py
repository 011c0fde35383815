"""Validate the settings of an LLM judge."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

# Fields that the verifier sets itself, or that would make the reply more than one message.
OWN_KEYS = ("messages", "model", "n", "stream")


def check_installed() -> None:
    """Raise a ValueError if the `openai` package is not installed."""
    if importlib.util.find_spec("openai") is None:
        raise ValueError(
            "An LLM judge needs the `openai` package: pip install 'trl-grpo-ext[llm-judge]'."
        )


def check_base_url(url: object) -> str:
    """Validate an endpoint's address, and return it without a trailing slash.

    Raises:
        ValueError: if the address is invalid, or contains a user, a password or a query.
    """
    if not isinstance(url, str):
        raise ValueError(
            f"base_url is the address of the API, such as http://localhost:8000/v1; got {url!r}."
        )
    try:
        parts = urlsplit(url)
        # Reading an invalid port raises.
        port_is_fine = parts.port != 0
    except ValueError:
        port_is_fine = False
    if not port_is_fine or parts.scheme not in ("http", "https") or not parts.hostname:
        # The message omits the address, which may contain a password.
        raise ValueError(
            "base_url must be an http or https address, such as http://localhost:8000/v1."
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(
            "base_url must not hold a user, a password or a query; put the key into an environment variable, and "
            "its name into api_key_env."
        )
    if parts.path.rstrip("/").endswith("/completions"):
        raise ValueError(
            "base_url ends before `/chat/completions`, which the client adds: http://localhost:8000/v1."
        )
    return url.rstrip("/")


def check_api_key_env(name: object) -> None:
    """Raise a ValueError unless the name is None, or an environment variable with a key."""
    if name is None:
        return
    if not isinstance(name, str) or not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
        # The message omits the name, which may be the key itself.
        raise ValueError(
            "api_key_env is the name of an environment variable, in capitals, such as OPENAI_API_KEY; never the key."
        )
    key = os.environ.get(name, "").strip()
    if not key:
        raise ValueError(
            f"The environment variable {name} is not set: export {name}=..., or leave api_key_env out."
        )
    if not re.fullmatch(r"[!-~]+", key):
        raise ValueError(
            f"The environment variable {name} holds characters that no key has."
        )


def check_extra_body(extra: object) -> None:
    """Raise a ValueError unless `extra` is a JSON mapping without fields that the verifier sets itself."""
    if not isinstance(extra, Mapping):
        raise ValueError(
            f"extra_body maps names to further fields of a request, got {extra!r}."
        )
    taken = [key for key in OWN_KEYS if key in extra]
    if taken:
        raise ValueError(
            f"extra_body cannot set `{taken[0]}`, which the verifier does itself."
        )
    try:
        json.dumps(extra, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"extra_body cannot be written as JSON: {error}.") from None
