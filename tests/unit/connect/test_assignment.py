"""The assignment of connectors and tasks: nothing twice, nothing forgotten, evenly shared, and settled after a few rounds."""

from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.store.configs import TaskId
from moldau.connect.worker.assignment import assign
from moldau.connect.worker.protocol import CONNECTOR_ITSELF

ENOUGH_ROUNDS = 4
UNITS = st.sets(st.builds(TaskId, st.sampled_from("abc"), st.integers(CONNECTOR_ITSELF, 4)), max_size=15)


def loads(owned: dict[str, set[TaskId]], *, of_connectors: bool) -> list[int]:
    return [sum(1 for unit in has if (unit.task == CONNECTOR_ITSELF) == of_connectors) for has in owned.values()]


@given(units=UNITS, owned=st.dictionaries(st.sampled_from("xyz"), UNITS, min_size=1))
def test_rounds_settle_evenly_and_never_give_a_unit_to_two(units: set[TaskId], owned: dict[str, set[TaskId]]) -> None:
    running = owned
    for _ in range(ENOUGH_ROUNDS):
        shares = assign(units, running)
        given_away = [unit for share in shares.values() for unit in share.given]
        assert len(given_away) == len(set(given_away))
        for member, share in shares.items():
            others = {unit for other, has in running.items() if other != member for unit in has}
            assert not set(share.given) & others, "a worker is not given what another worker still has"
            assert set(share.revoked) <= running[member]
        running = {member: set(share.given) for member, share in shares.items()}
    assert set().union(*running.values()) == units
    for of_connectors in (True, False):
        found = loads(running, of_connectors=of_connectors)
        assert max(found) - min(found) <= 1


def test_what_is_shared_evenly_stays_where_it_is() -> None:
    owned = {"x": {TaskId("a", CONNECTOR_ITSELF), TaskId("a", 0)}, "y": {TaskId("a", 1)}}
    shares = assign({TaskId("a", CONNECTOR_ITSELF), TaskId("a", 0), TaskId("a", 1)}, owned)
    assert {member: set(share.given) for member, share in shares.items()} == owned
    assert not any(share.revoked for share in shares.values())
