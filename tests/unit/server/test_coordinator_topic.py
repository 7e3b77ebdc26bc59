"""Coordinators on their topic."""

import asyncio
from typing import Any

from moldau.coordinator.runtime import ShardState
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.server.coordinator_topic import answered
from moldau.server.handlers.list_groups import list_groups
from moldau.types import GROUP_TOPIC


def test_answers_do_not_wait_for_ever_for_an_end_of_the_log_that_nobody_syncs(harness: Any) -> None:
    """What a killed process left in the page cache is in the log, and was never synced: loading it has to ask for that."""

    async def run() -> None:
        partition = harness.lead(GROUP_TOPIC)
        of_another_time = NewRecord(0, b"\x00\x63", b"")
        partition.append(build_batch([of_another_time]), acks=1, now_ms=0)
        assert not harness.flush_wanted
        harness.broker.coordinators.leadership_changed(partition)
        while harness.broker.coordinators.groups.is_loading():  # noqa: ASYNC110  nothing says when
            await asyncio.sleep(0)
        (shard,) = harness.broker.coordinators.groups.active_shards()
        assert shard.state is ShardState.ACTIVE
        asked = harness.call(list_groups, ListGroupsRequest())
        harness.flush()
        assert (await asyncio.wait_for(answered(asked), 1)).groups == []
        harness.broker.coordinators.close()

    asyncio.run(run())
