from dataclasses import fields
from typing import Any

import pytest

from moldau.errors import ErrorCode
from moldau.raft.events import Entry, Ready, Reply, Send, SnapshotChunk
from moldau.raft.messages import AskVersions, VersionsAnswer
from moldau.raft.roles import ElectionState
from moldau.raft.voters import HostPort
from moldau.types import OffsetAndEpoch

ORDERS: dict[str, Any] = {
    "election": ElectionState(),
    "truncate_to": 0,
    "entries": [Entry(0, 1, (b"record",))],
    "snapshot_chunks": [SnapshotChunk(OffsetAndEpoch(1, 1), 0, b"", True)],
    "high_watermark": 0,
    "leader": (1, 1),
    "sends": [Send(2, HostPort("host", 9093), 1, AskVersions())],
    "replies": [Reply(1, VersionsAnswer(ErrorCode.NONE))],
}


@pytest.mark.parametrize("order", [field.name for field in fields(Ready)])
def test_a_ready_with_any_order_is_not_empty(order: str) -> None:
    assert Ready().is_empty
    assert not Ready(**{order: ORDERS[order]}).is_empty
