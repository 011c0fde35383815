"""The verifiers that a composition may be made of."""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.protocol import Verifier


def as_members(given: object, *, whole: str) -> tuple[Verifier, ...]:
    """The verifiers of a list, checked.

    Args:
        given: The list.
        whole: The name of the composition, for messages.

    Raises:
        ValueError: for what is no list of verifiers, two of one name, or one that judges groups.
    """
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise ValueError(f"{whole} needs a list of verifiers with at least one in it, got {given!r}.")
    members = tuple(_as_member(entry, number, whole) for number, entry in enumerate(given, start=1))
    names = [member.__name__ for member in members]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(
            f"{whole} has two verifiers called {repeated!r}, and reasons and metrics would mix them up. "
            f"Give each a name of its own: name=..."
        )
    return members


def _as_member(entry: object, number: int, whole: str) -> Verifier:
    where = f"{whole}, verifier {number}"
    if isinstance(entry, GroupVerifier):
        raise ValueError(
            f"{where}: {entry.__name__!r} compares the completions of a group with each other, and {whole} may ask it "
            f"about some of them only. Make it a reward term of its own, with a gate if it is to depend on another."
        )
    if isinstance(entry, Verifier):
        return entry
    if isinstance(entry, type) and issubclass(entry, Verifier):
        raise ValueError(f"{where} is the class {entry.__name__}; make a verifier of it: {entry.__name__}().")
    raise ValueError(
        f"{where} must be a verifier, got {entry!r}. Make one of a function with @verifier; in a recipe, write a "
        f"mapping such as {{verifier: math}}."
    )
