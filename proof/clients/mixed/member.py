"""● One member as a process of its own: it reads, notes what it gets (see `notes`), commits, and leaves at SIGTERM.

    python -m proof.clients.mixed.member moldau|confluent|aiokafka SERVERS TOPIC GROUP PROTOCOL COMMITS

PROTOCOL is `consumer`, or the name of a classic assignor.  COMMITS is `auto` or `manual`.  `Member.java` is the same in Java.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

SESSION_MS: Final = 6_000
HEARTBEAT_MS: Final = 500
POLL_S: Final = 0.2
COMMIT_EVERY_S: Final = 0.3
AUTO_COMMIT_MS: Final = 400


def note(kind: str, words: Iterable[object] = ()) -> None:
    """One line, by one write: a SIGKILL leaves it whole or does not leave it at all."""
    os.write(1, " ".join([str(time.monotonic_ns()), kind, *map(str, words)]).encode() + b"\n")


class Leaving:
    """Whether SIGTERM has come."""

    def __init__(self) -> None:
        self.is_asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, *_: object) -> None:
        self.is_asked = True


def _indexes(partitions: Iterable[Any]) -> list[int]:
    return sorted(one.partition for one in partitions)


async def moldau_member(servers: str, topic: str, group: str, protocol: str, *, commits_itself: bool, leaving: Leaving) -> None:
    from moldau import Consumer
    from moldau.clients.consumer import RebalanceListener
    from moldau.clients.errors import ClientError

    class Listener(RebalanceListener):
        def on_assigned(self, partitions: Any) -> None:
            note("A", _indexes(partitions))

        def on_revoked(self, partitions: Any) -> None:
            note("R", _indexes(partitions))

        def on_lost(self, partitions: Any) -> None:
            note("L", _indexes(partitions))

    options: dict[str, Any] = {"group_protocol": "consumer"}
    if protocol != "consumer":
        options = {"partition_assignment_strategy": protocol, "session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS}
    consumer = Consumer(
        servers,
        topics=[topic],
        listener=Listener(),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=commits_itself,
        auto_commit_interval_ms=AUTO_COMMIT_MS,
        **options,
    )
    due_s = time.monotonic() + COMMIT_EVERY_S
    while not leaving.is_asked:
        for records in await consumer.poll(POLL_S):
            note("G", [f"{records.partition}:{records.offsets[0]}-{records.offsets[-1]}"])
        if not commits_itself and time.monotonic() > due_s:
            due_s = time.monotonic() + COMMIT_EVERY_S
            try:
                await consumer.commit()
            except ClientError as error:
                print(f"commit: {error!r}", file=sys.stderr)
    await consumer.close()


def confluent_member(servers: str, topic: str, group: str, protocol: str, *, commits_itself: bool, leaving: Leaving) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    options: dict[str, Any] = {"group.protocol": "consumer"}
    if protocol != "consumer":
        options = {
            "partition.assignment.strategy": protocol,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": commits_itself,
            "auto.commit.interval.ms": AUTO_COMMIT_MS,
            "enable.auto.offset.store": False,
            **options,
        }
    )
    done: dict[int, int] = {}

    def forget(kind: str) -> Callable[[Any, Any], None]:
        def told(_: Any, partitions: Any) -> None:
            note(kind, _indexes(partitions))
            for one in partitions:
                done.pop(one.partition, None)

        return told

    consumer.subscribe([topic], on_assign=lambda _, partitions: note("A", _indexes(partitions)), on_revoke=forget("R"), on_lost=forget("L"))
    due_s = time.monotonic() + COMMIT_EVERY_S
    while not leaving.is_asked:
        message = consumer.poll(POLL_S)
        if message is not None and message.error() is None:
            partition, offset = message.partition(), message.offset()
            assert partition is not None and offset is not None
            note("G", [f"{partition}:{offset}-{offset}"])
            done[partition] = offset + 1
            if commits_itself:
                consumer.store_offsets(message)
        if not commits_itself and done and time.monotonic() > due_s:
            due_s = time.monotonic() + COMMIT_EVERY_S
            try:
                consumer.commit(offsets=[TopicPartition(topic, *one) for one in done.items()], asynchronous=False)
            except KafkaException as error:
                print(f"commit: {error!r}", file=sys.stderr)
    consumer.close()


async def aiokafka_member(servers: str, topic: str, group: str, protocol: str, *, commits_itself: bool, leaving: Leaving) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.errors import KafkaError

    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor}

    owned: list[int] = []

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is not typed
        def on_partitions_revoked(self, revoked: Any) -> None:
            # aiokafka has no call for partitions that were lost: a member that was thrown out has no generation any more.
            note("L" if revoked and consumer._coordinator.generation < 0 else "R", _indexes(revoked))
            owned.clear()

        def on_partitions_assigned(self, assigned: Any) -> None:
            owned[:] = _indexes(assigned)
            note("A", owned)

    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=commits_itself,
        auto_commit_interval_ms=AUTO_COMMIT_MS,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        partition_assignment_strategy=[assignors[protocol]],
    )
    await consumer.start()
    consumer.subscribe([topic], listener=Listener())  # not before: `start` would join the group, and raise what `getmany` raises
    due_s = time.monotonic() + COMMIT_EVERY_S
    while not leaving.is_asked:
        try:
            handed_out = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        except KafkaError as error:
            if "RebalanceInProgressError" not in str(error):
                raise
            # A group that changes its protocol answers so to a member that waits in JoinGroup: GroupMetadataManager.convertToConsumerGroup.
            # Java's client joins again; aiokafka tells its user, and joins again with the next call.
            print(f"getmany: {error!r}", file=sys.stderr)
            continue
        for partition, messages in handed_out.items():
            note("G", [f"{partition.partition}:{messages[0].offset}-{messages[-1].offset}"])
        if not commits_itself and time.monotonic() > due_s:
            due_s = time.monotonic() + COMMIT_EVERY_S
            try:
                await consumer.commit()
            except KafkaError as error:
                print(f"commit: {error!r}", file=sys.stderr)
    note("R", owned)  # aiokafka tells no listener, and the next owner may note its partitions before this process notes its end
    await consumer.stop()


def main() -> None:
    client, servers, topic, group, protocol, commits = sys.argv[1:]
    leaving, commits_itself = Leaving(), commits == "auto"
    match client:
        case "moldau":
            asyncio.run(moldau_member(servers, topic, group, protocol, commits_itself=commits_itself, leaving=leaving))
        case "confluent":
            confluent_member(servers, topic, group, protocol, commits_itself=commits_itself, leaving=leaving)
        case "aiokafka":
            asyncio.run(aiokafka_member(servers, topic, group, protocol, commits_itself=commits_itself, leaving=leaving))
        case _:
            raise ValueError(client)
    note("E")


if __name__ == "__main__":
    main()
