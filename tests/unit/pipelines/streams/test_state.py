"""A state gives back what was put in it."""

import pytest

from moldau.pipelines.streams.records import Change, Windowed
from moldau.pipelines.streams.state import Pending, State, Stores, pack, unpack

VALUES = [
    None,
    True,
    -1,
    1.5,
    "é \ud800",
    b"\x00\xff",
    [1, [b"x", None]],
    {"a": {"$b": "not bytes"}},
    {1: 2, "$d": []},
    Windowed(b"k", 1, 2),
    Change({"a": b"1"}, None),
]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_values_come_back(value: object) -> None:
    assert unpack(pack(value)) == value
    assert type(unpack(pack(value))) is type(value)


def test_what_is_no_value_is_refused_with_a_way_out() -> None:
    with pytest.raises(TypeError, match=r"set: turn it into"):
        pack({1, 2})


def test_keys_of_different_kinds_are_different() -> None:
    store = Stores(State()).store("s")
    for key in (1, True, "1", b"1", None, [1]):
        store.put(key, pack(key))
    assert [store.get(key) for key in (1, True, "1", b"1", None, [1])] == [pack(key) for key in (1, True, "1", b"1", None, [1])]


def test_a_store_is_not_changed_by_what_was_handed_out() -> None:
    store = Stores(State()).store("s")
    store.put("k", [1])
    store.get("k").append(2)
    assert store.get("k") == [1]


def test_what_waits_is_in_order_also_when_it_is_read_anew() -> None:
    state = State()
    pending = Pending(state.pending, "p")
    for time, side, key in [(20, 0, "a"), (3, 1, "b"), (3, 0, "c d"), (100, 0, "a")]:
        pending.put(time, side, key, time)
    Pending(state.pending, "another").put(1, 0, "x", 1)
    pending.remove(20, 0, "a")
    expected = [(3, 0, "c d"), (3, 1, "b"), (100, 0, "a")]
    assert list(pending) == expected
    assert list(Pending(state.pending, "p")) == expected
    assert Pending(state.pending, "p").first_time == 3
