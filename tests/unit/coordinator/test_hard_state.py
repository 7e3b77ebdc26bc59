"""Hard state is told from soft state, and a machine that changes hard state while it decides is caught."""

from dataclasses import dataclass, field
from uuid import UUID

import pytest

from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.group.environment import Client, Environment, NoTopics
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.hard_state import Soft, hard_state
from moldau.coordinator.outcome import Outcome
from moldau.coordinator.runtime import Shard
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from proof.coordination import Asked, Desk, WatchedShard, watched_decisions


@dataclass(slots=True)
class Counted:
    count: int = 0
    told: Soft[set[str]] = field(default_factory=set)


Counted.__module__ = "moldau.counted"


class Held:
    notes: Soft[list[int]]

    def __init__(self) -> None:
        self.by_name = {"a": Counted()}
        self.notes = []


Held.__module__ = "moldau.held"


def test_what_is_not_declared_soft_is_hard() -> None:
    held = Held()
    before = hard_state(held)
    held.notes.append(1)
    held.by_name["a"].told.add("b")
    assert hard_state(held) == before
    held.by_name["a"].count += 1
    assert hard_state(held) != before


def a_desk() -> Desk[GroupMachine]:
    environment = Environment(GroupCoordinatorConfig(initial_rebalance_delay_ms=0), NoTopics(), lambda: UUID(int=1))
    return Desk(lambda: GroupMachine(environment))


def test_a_machine_that_changes_hard_state_while_it_decides_is_caught() -> None:
    desk = a_desk()

    def decides_and_changes(now_ms: int) -> Outcome:
        desk.machine.groups["g"] = desk.machine._conversions.new(type(desk.machine._only_offsets), "g")
        return Outcome()

    with pytest.raises(AssertionError, match="hard state"):
        desk.shard.run(decides_and_changes, desk.now_ms)


def test_every_shard_of_the_process_can_be_watched() -> None:
    assert Shard.decide is not WatchedShard.decide
    with watched_decisions():
        assert Shard.decide is WatchedShard.decide
    assert Shard.decide is not WatchedShard.decide


def test_a_group_that_no_record_tells_of_is_not_hard_state() -> None:
    desk = a_desk()
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    client = Client("client", "/127.0.0.1", 3)
    asked: Asked = desk.ask(lambda token, now_ms: desk.machine.join(token, request, client, now_ms))
    assert asked.answer.generation_id == 1
    assert desk.machine.group("g") is not None
    assert hard_state(desk.machine) == hard_state(desk.replayed())
