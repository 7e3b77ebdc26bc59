"""◇ Which part of a machine is hard state, and a picture of it that can be compared.

Hard state is what survives a fail-over: it changes by replaying records, and never while a machine decides.  Whatever a machine holds is
hard, unless its declaration says `Soft`:

    class Group:
        epoch: int                  hard: some record says it
        told: Soft[set[str]]        soft: empty after a fail-over

Tests take a picture before and after each decision (`proof.coordination.WatchedShard`), and compare a machine with one that replayed its
log: a field that is declared wrongly fails one or the other.
"""

from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_type_hints

T = TypeVar("T")

_SOFT: Final = "soft"
Soft: TypeAlias = Annotated[T, _SOFT]
"""Of an attribute: it may change in a decision, and starts empty after a fail-over."""
_GIVEN: Final = "environment"
"""What a machine is given is not its state: options, the metadata image, ids."""


def hard_state(found: Any) -> Any:
    """Everything that `found` holds and does not declare `Soft`, in values that compare by content and share nothing with it."""
    if isinstance(found, Mapping):
        return {key: hard_state(value) for key, value in found.items()}
    if isinstance(found, Set):
        return frozenset(found)
    if isinstance(found, list) or type(found) is tuple:
        return [hard_state(each) for each in found]
    names = _hard_names(type(found), tuple(getattr(found, "__dict__", ())))  # type: ignore[arg-type]
    return [type(found).__name__, *(hard_state(getattr(found, name)) for name in names)] if names else found


@cache
def _hard_names(kind: type, held: tuple[str, ...]) -> tuple[str, ...]:
    """None of a value that cannot change.  `held`: what an object without slots has."""
    if is_dataclass(kind):
        if kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            return ()
        held = tuple(each.name for each in fields(kind))
    if not held or not kind.__module__.startswith("moldau."):
        return ()
    declared = get_type_hints(kind, include_extras=True)
    return tuple(name for name in held if name != _GIVEN and _SOFT not in getattr(declared.get(name), "__metadata__", ()))
