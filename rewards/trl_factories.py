"""TRL's own factories of reward functions, by name. Ours hand them lengths and token ids; the formulas are TRL's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def trl_factory(name: str, *, since: str) -> Callable[..., Any]:
    """TRL's function of that name in `trl.rewards`.

    Raises:
        ValueError: if the TRL that is installed is older than `since`, the first that has it.
    """
    check_trl_has(name, since=since)
    import trl.rewards

    found: Callable[..., Any] = getattr(trl.rewards, name)
    return found


def check_trl_has(name: str, *, since: str) -> None:
    """Raise a ValueError if TRL has no such reward; importing it, and with it perhaps sympy, is left for later."""
    import trl
    import trl.rewards

    if name not in dir(trl.rewards):
        raise ValueError(
            f"This needs trl.rewards.{name}, which TRL has from {since} on; installed is {trl.__version__}. "
            f"Upgrade it: pip install 'trl>={since}'"
        )
