"""Coordinators on their topic."""

import asyncio
from itertools import count
from typing import Any

import pytest

from moldau.coordinator.group.offsets import commit_record
from moldau.coordinator.group.records import GROUP_RECORDS, OffsetCommitKey, OffsetCommitValue
from moldau.coordinator.outcome import Outcome, Reply, Timer
from moldau.coordinator.runtime import ShardState
from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.control import build_end_txn_marker
from moldau.server.coordinators.log import RecordFormat
from moldau.server.coordinators.topic import LOAD_RECORDS_A_TURN, CoordinatorTopic, answered, gather
from moldau.server.handlers.list_groups import list_groups
from moldau.storage.producers.state import AppendOrigin
from moldau.testing.loop import SimLoop
from moldau.types import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC, TopicPartition


def test_answers_do_not_wait_for_ever_for_an_end_of_the_log_that_nobody_syncs(harness: Any) -> None:
    """A log holds what a killed process left in the page cache and never synced: loading the log has to ask for a sync."""

    async def run() -> None:
        partition = harness.lead(GROUP_TOPIC)
        of_another_time = NewRecord(0, b"\x00\x63", b"")
        partition.append_from_client(build_batch([of_another_time]), acks=1, now_ms=0)
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

    SimLoop().run_until_complete(run())


def test_the_loop_serves_others_while_long_logs_are_loaded(harness: Any) -> None:
    """Otherwise a broker misses its own heartbeats, is fenced, leads anew, and loads again, for ever.  Fifty partitions load at once."""

    async def run() -> None:
        partitions = [harness.lead(GROUP_TOPIC, index) for index in range(4)]
        for partition in partitions:
            for start in range(0, 10 * LOAD_RECORDS_A_TURN, 100):
                offsets = [
                    commit_record("g", TopicPartition("t", start + at), offset=1, leader_epoch=-1, metadata="", now_ms=0)
                    for at in range(100)
                ]
                encoded = [NewRecord(0, GROUP_RECORDS.encode_key(one.key), GROUP_RECORDS.encode_value(one.value)) for one in offsets]
                partition.append(build_batch(encoded), acks=1, now_ms=0, origin=AppendOrigin.COORDINATOR)
            harness.broker.coordinators.leadership_changed(partition)
        turns = 0
        while harness.broker.coordinators.groups.is_loading():
            await asyncio.sleep(0)
            turns += 1
        shards = harness.broker.coordinators.groups.active_shards()
        assert [len(shard.machine.offsets.committed("g")) for shard in shards] == 4 * [10 * LOAD_RECORDS_A_TURN]
        assert turns >= 4 * 10, "each turn loads one piece of one of them"
        harness.broker.coordinators.close()

    SimLoop().run_until_complete(run())


@pytest.mark.parametrize("topic", [GROUP_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC])
def test_a_marker_of_nobodys_transaction_does_not_keep_a_coordinator_from_loading(harness: Any, topic: str) -> None:
    """A client's WriteTxnMarkers puts a marker wherever it says."""

    async def run() -> None:
        partition = harness.lead(topic)
        marker = build_end_txn_marker(is_commit=True, producer_id=4, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0)
        partition.append(marker, acks=1, now_ms=0, origin=AppendOrigin.COORDINATOR)
        coordinators = harness.broker.coordinators
        coordinators.leadership_changed(partition)
        loading = {GROUP_TOPIC: coordinators.groups, TRANSACTION_TOPIC: coordinators.transactions, SHARE_TOPIC: coordinators.shares}[topic]
        async with asyncio.timeout(60):
            while not list(loading.active_shards()):  # noqa: ASYNC110  nothing says when
                await asyncio.sleep(0)
        coordinators.close()

    SimLoop().run_until_complete(run())


@pytest.mark.parametrize(("key", "of_four", "of_fifty"), [("t-a", 0, 18), ("t-open", 1, 11), ("polygenelubricants", 0, 0), ("", 0, 0)])
def test_a_key_lives_where_kafka_looks_for_it(harness: Any, key: str, of_four: int, of_fifty: int) -> None:
    """`t-open` has a negative hash.  The next key has the only number that has no absolute value in Java."""
    topic = harness.broker.coordinators.groups
    assert topic.partition_count == 50 and topic.partition_for(key) == of_fifty
    topic.partition_count = 4
    assert topic.partition_for(key) == of_four


KEY = GROUP_RECORDS.encode_key(OffsetCommitKey(group="g", topic="t", partition=0))
VALUE = GROUP_RECORDS.encode_value(OffsetCommitValue(offset=7, leader_epoch=-1, metadata="", commit_timestamp=0, expire_timestamp=-1))
NEWER = (99).to_bytes(2, "big")


def name_on_first(topic: CoordinatorTopic[Any]) -> str:
    return next(name for number in count() if topic.partition_for(name := f"g{number}") == 0)


async def test_a_coordinator_that_is_led_anew_while_it_loads_can_still_be_given_up(harness: Any, caplog: pytest.LogCaptureFixture) -> None:
    topic, partition = harness.broker.coordinators.groups, harness.lead(GROUP_TOPIC)
    for _ in range(10):
        batch = build_batch([NewRecord(0, KEY, VALUE)] * LOAD_RECORDS_A_TURN)
        partition.append(batch, acks=1, now_ms=0, origin=AppendOrigin.COORDINATOR)
    for epoch in (2, 3):
        partition.leader_epoch = epoch
        topic.elected(partition)
        for _ in range(3):
            await asyncio.sleep(0)
        assert topic.is_loading()
    topic.resigned(0)
    for _ in range(50):
        await asyncio.sleep(0)
    assert not topic.is_loading() and topic.active_shards() == []
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


async def test_a_coordinator_loads_a_log_whose_end_compaction_has_emptied(harness: Any) -> None:
    """Kafka's CoordinatorLoaderImpl ends likewise when a reading gives no record."""
    topic, partition = harness.broker.coordinators.groups, harness.lead(GROUP_TOPIC)
    partition.append(build_batch([NewRecord(0, KEY, VALUE)]), acks=1, now_ms=0, origin=AppendOrigin.COORDINATOR)
    log = partition.log
    log.roll(0)
    log._segments.all[0].truncate_to(0)
    assert log.log_end_offset == 1 and log.read(0, 1 << 20).records is None
    topic.elected(partition)
    for _ in range(9):
        await asyncio.sleep(0)
    assert len(topic.active_shards()) == 1
    topic.close()


async def load(topic: CoordinatorTopic[Any], partition: Any, *records: tuple[bytes, bytes]) -> CoordinatorTopic[Any]:
    for key, value in records:
        partition.append(build_batch([NewRecord(0, key, value)]), acks=1, now_ms=0, origin=AppendOrigin.COORDINATOR)
    topic.elected(partition)
    while topic.is_loading():  # noqa: ASYNC110  # there is no event: handlers ask
        await asyncio.sleep(0)
    return topic


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (KEY, NEWER + VALUE[2:], "version 99 is unknown here"),
        (KEY, VALUE[:6], "the bytes end inside it"),
        (KEY, b"", "cannot hold the int16"),
        (KEY[:5], VALUE, "the bytes end inside it"),
        (b"", VALUE, "cannot hold the int16"),
    ],
)
async def test_a_coordinator_whose_log_cannot_be_read_says_where_and_what_to_do(
    harness: Any, caplog: pytest.LogCaptureFixture, key: bytes, value: bytes, reason: str
) -> None:
    """Kafka's coordinators do the same: a record too little could be a commit that is forgotten."""
    topic = await load(harness.broker.coordinators.groups, harness.lead(GROUP_TOPIC), (KEY, VALUE), (key, value), (KEY, VALUE))
    assert topic.active_shards() == [] and topic.shard_for(name_on_first(topic)) is ErrorCode.NOT_COORDINATOR
    (said,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert f"offset 1 of /data/{GROUP_TOPIC}-0" in said and reason in said and "start that one again" in said


@pytest.mark.parametrize(("key", "value"), [(KEY + b"more", VALUE), (KEY, VALUE + b"more"), (NEWER + b"some", b"thing")])
async def test_bytes_behind_a_record_and_unknown_types_keep_no_coordinator_from_loading(
    harness: Any, caplog: pytest.LogCaptureFixture, key: bytes, value: bytes
) -> None:
    topic = await load(harness.broker.coordinators.groups, harness.lead(GROUP_TOPIC), (key, value))
    (shard,) = topic.active_shards()
    is_known = not key.startswith(NEWER)
    assert len(shard.machine.offsets.committed("g")) == is_known
    assert is_known or "offset 0 is of a type that is not known here" in caplog.text


class Puzzled:
    """A machine whose log asks too much of it."""

    def replay(self, *_: Any) -> None:
        raise LookupError("no such member")

    def on_unloaded(self) -> list[Any]:
        return []


async def test_a_record_that_cannot_be_replayed_leaves_nobody_waiting(harness: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Once the shard was loading for ever, and its clients asked for ever."""
    record_format = RecordFormat(GROUP_RECORDS, lambda value: value.VERSIONS[-1])
    puzzled: CoordinatorTopic[Any] = CoordinatorTopic(GROUP_TOPIC, 1, record_format, Puzzled, harness.clock, lambda *_: None)  # type: ignore[arg-type]
    topic = await load(puzzled, harness.lead(GROUP_TOPIC), (KEY, VALUE))
    assert topic.shard_for("g") is ErrorCode.NOT_COORDINATOR
    assert "offset 0 of" in caplog.text and "no such member" in caplog.text and "Traceback" in caplog.text


class Troubled:
    """A machine one of whose timers fails."""

    def __init__(self) -> None:
        self.rang = asyncio.Event()

    def replay(self, *_: Any) -> None: ...

    def on_loaded(self, now_ms: int) -> Outcome:
        return Outcome(timers=[Timer("first", now_ms, self.fail), Timer("second", now_ms, self.ring)])

    def on_unloaded(self) -> list[Any]:
        return []

    def fail(self, now_ms: int) -> Outcome:
        raise LookupError("no such member")

    def ring(self, now_ms: int) -> Outcome:
        self.rang.set()
        return Outcome()


async def test_a_timer_that_fails_keeps_no_other_from_its_turn(harness: Any, caplog: pytest.LogCaptureFixture) -> None:
    record_format = RecordFormat(GROUP_RECORDS, lambda value: value.VERSIONS[-1])
    troubled: CoordinatorTopic[Any] = CoordinatorTopic(GROUP_TOPIC, 1, record_format, Troubled, harness.clock, lambda *_: None)  # type: ignore[arg-type]
    topic = await load(troubled, harness.lead(GROUP_TOPIC))
    (shard,) = topic.active_shards()
    async with asyncio.timeout(5):
        await shard.machine.rang.wait()
    assert f"{GROUP_TOPIC}-0: a timer of its coordinator failed" in caplog.text and "no such member" in caplog.text


async def test_an_answer_of_many_fails_with_the_first_that_fails() -> None:
    parts: list[Later[int] | int] = [Later(lambda: None), 1, Later(lambda: None)]
    together = gather(parts, sum)
    for part in parts:
        if isinstance(part, Later):
            part.fail(RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        await answered(together)


async def test_answers_that_do_not_fit_together_fail_their_whole() -> None:
    part: Later[int] = Later(lambda: None)
    together = gather([part], lambda answers: 1 // answers[0])
    part.complete(0)
    with pytest.raises(ZeroDivisionError):
        await answered(together)


async def test_what_cannot_be_sent_holds_up_no_answer(harness: Any, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(shard: Any, send: Any) -> None:
        raise OSError("no space left")

    partition = harness.lead(GROUP_TOPIC)
    topic = CoordinatorTopic(GROUP_TOPIC, 1, RecordFormat(GROUP_RECORDS, lambda value: value.VERSIONS[-1]), _Sender, harness.clock, refuse)
    topic.elected(partition)
    while topic.is_loading():  # noqa: ASYNC110  nothing says when
        await asyncio.sleep(0)
    asked = [topic.ask("g", _Sender.write_and_send, refused=lambda code: code) for _ in range(2)]
    await asyncio.sleep(0)
    harness.flush()
    assert [await asyncio.wait_for(answered(each), 1) for each in asked] == ["written", "written"]
    assert "no space left" in caplog.text
    topic.close()


class _Sender:
    """A machine whose every decision sends something."""

    def replay(self, offset: int, record: Any, producer: Any) -> None: ...

    def replay_end_marker(self, producer: Any, *, is_commit: bool) -> None: ...

    def on_loaded(self, now_ms: int) -> Outcome:
        return Outcome()

    def on_unloaded(self) -> list[Any]:
        return []

    def write_and_send(self, token: Any, now_ms: int) -> Outcome:
        record = commit_record("g", TopicPartition("t", 0), offset=1, leader_epoch=-1, metadata="", now_ms=now_ms)
        return Outcome([record], [Reply(token, "written")], sends=["a marker"])


class Writes:
    """A machine with a record to write."""

    def replay(self, *_: Any) -> None: ...

    def on_loaded(self, now_ms: int) -> Outcome:
        return Outcome()

    def on_unloaded(self) -> list[Any]:
        return []

    def write(self, token: Any, now_ms: int) -> Outcome:
        return Outcome(
            [commit_record("g", TopicPartition("t", 0), offset=1, leader_epoch=-1, metadata="", now_ms=0)], [Reply(token, "done")]
        )


async def test_a_coordinator_that_lacked_replicas_in_sync_works_as_soon_as_it_has_them(harness: Any) -> None:
    """A broker that has just begun to lead is alone in sync for a moment."""
    partition = harness.lead(GROUP_TOPIC, min_insync_replicas="2")
    partition.replicas, partition.isr = (1, 2), (1, 2)
    record_format = RecordFormat(GROUP_RECORDS, lambda value: value.VERSIONS[-1])
    made: CoordinatorTopic[Any] = CoordinatorTopic(GROUP_TOPIC, 1, record_format, Writes, harness.clock, lambda *_: None)  # type: ignore[arg-type]
    topic = await load(made, partition)

    def ask() -> Any:
        return topic.ask("g", lambda machine, token, now_ms: machine.write(token, now_ms), refused=lambda code: code)

    partition.isr = (1,)
    refused = ask()
    await asyncio.sleep(1)
    assert await answered(refused) is ErrorCode.NOT_COORDINATOR and not topic.active_shards()
    partition.isr = (1, 2)
    await asyncio.sleep(0.2)
    assert topic.active_shards(), "without waiting for the rest of the longest pause"
