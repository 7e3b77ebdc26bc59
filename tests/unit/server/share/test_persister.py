"""Requests about the states of share partitions, many at a time."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.messages.read_share_group_state import PartitionData, ReadShareGroupStateRequest, ReadStateData
from moldau.server.share import persister
from moldau.server.share.persister import SharePersister


def request(*counts: int) -> ReadShareGroupStateRequest:
    return ReadShareGroupStateRequest(
        group_id="readers",
        topics=[
            ReadStateData(topic_id=UUID(int=number), partitions=[PartitionData(partition=index, leader_epoch=0) for index in range(count)])
            for number, count in enumerate(counts, 1)
        ],
    )


@pytest.mark.parametrize("at_once", [1, 2, 3, 4, 100])
async def test_many_partitions_are_answered_in_their_order(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    asked: list[str] = []

    def ask(key: str, decide: Any, refused: Callable[[ErrorCode], Any]) -> Any:
        asked.append(key)
        return refused(ErrorCode.FENCED_STATE_EPOCH)

    monkeypatch.setattr(persister, "AT_ONCE", at_once)
    made = SharePersister(SimpleNamespace(ask=ask), SimpleNamespace(), 1, lambda: None)  # type: ignore[arg-type]
    response = await made.ask(request(3, 1, 4), attempts=1)
    assert [(topic.topic_id.int, [one.partition for one in topic.partitions]) for topic in response.results] == [
        (1, [0, 1, 2]),
        (2, [0]),
        (3, [0, 1, 2, 3]),
    ]
    assert {one.error_code for topic in response.results for one in topic.partitions} == {ErrorCode.FENCED_STATE_EPOCH}
    assert len(asked) == len(set(asked)) == 8


@pytest.mark.parametrize("at_once", [2, 100])
async def test_a_topic_without_partitions_leaves_all_unanswered(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(persister, "AT_ONCE", at_once)
    made = SharePersister(SimpleNamespace(), SimpleNamespace(), 1, lambda: None)  # type: ignore[arg-type]
    assert (await made.ask(request(3, 0), attempts=1)).results == []
