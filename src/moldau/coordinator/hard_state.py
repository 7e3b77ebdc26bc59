"""◇ The hard state of a machine, as a picture that can be compared.

Hard state is what survives a fail-over: it changes by replaying records, and never while a machine decides.  Every field of a machine is
hard, unless it is declared `Soft`:

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
"""The mark of an attribute that may change in a decision, and starts empty after a fail-over."""
_GIVEN: Final = "environment"
"""The arguments of a machine, which are not its state: options, the metadata image, ids."""


def hard_state(found: Any) -> Any:
    """Everything in `found` that is not declared `Soft`, in values that compare by content and share nothing with it."""
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
    """The names of hard fields; none for a value that cannot change.  `held`: the fields of an object without slots."""
    if is_dataclass(kind):
        if kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            return ()
        held = tuple(each.name for each in fields(kind))
    if not held or not kind.__module__.startswith("moldau."):
        return ()
    declared = get_type_hints(kind, include_extras=True)
    return tuple(name for name in held if name != _GIVEN and _SOFT not in getattr(declared.get(name), "__metadata__", ()))
