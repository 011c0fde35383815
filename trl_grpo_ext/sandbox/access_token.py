"""The secret that a sandbox server and its clients share: from a file or the environment, and checked."""

from __future__ import annotations

import os
import re
from pathlib import Path

TOKEN_VARIABLE = "TRL_GRPO_EXT_SANDBOX_TOKEN"
TOKEN_FILE_VARIABLE = "TRL_GRPO_EXT_SANDBOX_TOKEN_FILE"
MIN_TOKEN = 16
HOW_TO_MAKE_A_TOKEN = (
    "Make one with `(umask 077; python -c 'import secrets; print(secrets.token_urlsafe(32))' > sandbox.token)`, "
    f"start the server with `--token-file sandbox.token`, and let {TOKEN_FILE_VARIABLE} name the same file where the "
    f"trainer runs, or let {TOKEN_VARIABLE} hold the token."
)
_TOKEN = re.compile(r"[!-~]+", re.ASCII)


def read_token(file: str | None = None) -> str:
    """The secret that client and server share: from `file`, else from the variables of the environment.

    Raises:
        ValueError: if there is none, or it is too short or has characters that no header can carry.
        OSError: if the file cannot be read.
    """
    path = file or os.environ.get(TOKEN_FILE_VARIABLE)
    if file is None and os.environ.get(TOKEN_VARIABLE):
        return check_token(os.environ[TOKEN_VARIABLE], f"the variable {TOKEN_VARIABLE}")
    if path is None:
        raise ValueError(f"A sandbox server and its clients share a token, and there is none. {HOW_TO_MAKE_A_TOKEN}")
    return check_token(Path(path).read_text(encoding="utf-8", errors="replace"), path)


def check_token(token: str, source: str) -> str:
    """The token without white space around it.

    Raises:
        ValueError: if it is too short, or has characters that no header can carry.
    """
    token = token.strip()
    if len(token) < MIN_TOKEN or not _TOKEN.fullmatch(token):
        raise ValueError(
            f"The token in {source} must have {MIN_TOKEN} or more characters of printable ASCII and no space. "
            f"{HOW_TO_MAKE_A_TOKEN}"
        )
    return token
