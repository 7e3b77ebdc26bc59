"""● Loads on the group coordinator: commits of offsets, and the time until a group has all its partitions again after a member joined.

`python -m benchmarks.groups '{"kind": "commit", …}'` runs one in a process of its own and prints JSON.
"""

import asyncio
import json
import selectors
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from statistics import median

from moldau.errors import ErrorCode
from moldau.net.channel import Channel
from moldau.net.sockets import SystemNetwork
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from moldau.protocol.header import encode_request
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from moldau.protocol.stored import encode_versioned

COMMIT_VERSION = 7
IN_FLIGHT = 5
BEATS_EVERY_S = 0.05
WITHIN_S = 60.0
SESSION_MS, REBALANCE_MS = 45_000, 60_000

# -- commits ------------------------------------------------------------------------------------------------------------------


class Committer:
    """One connection that keeps some commits in flight."""

    def __init__(self, port: int, group: str, topic: str) -> None:
        wanted = OffsetCommitRequestTopic(
            name=topic, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")]
        )
        request = OffsetCommitRequest(group_id=group, member_id="", topics=[wanted])
        self.frame = b"".join(encode_request(request, version=COMMIT_VERSION, correlation_id=1, client_id="bench"))  # type: ignore[arg-type]
        self.reply_size = 4 + 4 + 4 + 4 + 2 + len(topic) + 4 + 4 + 2
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = bytearray()
        self.sent_at: list[float] = []
        self.taken_ms: list[float] = []

    def send(self) -> None:
        self.sent_at.append(time.perf_counter())
        self.socket.sendall(self.frame)

    def receive(self) -> int:
        """The number of commits that were acknowledged now."""
        self.pending += self.socket.recv(1 << 16)
        count = len(self.pending) // self.reply_size
        now = time.perf_counter()
        for index in range(count):
            (code,) = struct.unpack_from(">h", self.pending, (index + 1) * self.reply_size - 2)
            if code:
                raise RuntimeError(f"a commit was answered with {ErrorCode.of(code).name}")
            self.taken_ms.append((now - self.sent_at[index]) * 1000)
        del self.pending[: count * self.reply_size], self.sent_at[:count]
        return count


def commit(port: int, *, group: str, topic: str, connections: int, warm_s: float, seconds: float) -> dict[str, float]:
    """Commit on several connections.  Each has a group of its own, without members."""
    groups = [f"{group}-{number}" for number in range(connections)]
    asyncio.run(_wait_for_coordinators(port, groups))
    clients = [Committer(port, one, topic) for one in groups]
    selector = selectors.DefaultSelector()
    for client in clients:
        selector.register(client.socket, selectors.EVENT_READ, client)
        for _ in range(IN_FLIGHT):
            client.send()
    start = time.perf_counter() + warm_s
    end, done, is_warm = start + seconds, 0, False
    while (now := time.perf_counter()) < end:
        if not is_warm and now >= start:
            is_warm, done, start = True, 0, now
            for client in clients:
                client.taken_ms.clear()
        for key, _ in selector.select(1.0):
            count = key.data.receive()
            done += count
            for _ in range(count):
                key.data.send()
    elapsed = time.perf_counter() - start
    taken = sorted(one for client in clients for one in client.taken_ms)
    return {"commits_s": done / elapsed, "p50_ms": taken[len(taken) // 2], "p99_ms": taken[len(taken) * 99 // 100], "requests": done}


async def _wait_for_coordinators(port: int, groups: Sequence[str]) -> None:
    channel = await Channel.connect(SystemNetwork(), "127.0.0.1", port, client_id="bench", timeout_s=WITHIN_S)
    while True:
        found = await channel.send(FindCoordinatorRequest(coordinator_keys=list(groups)))
        beats = [await channel.send(HeartbeatRequest(group_id=one, generation_id=0, member_id="nobody")) for one in groups]
        # A heartbeat to a coordinator that is loading is answered as if all were well.
        is_found = all(one.error_code == ErrorCode.NONE for one in found.coordinators)
        if is_found and all(one.error_code == ErrorCode.UNKNOWN_MEMBER_ID for one in beats):
            break
        await asyncio.sleep(0.05)
    channel.close()


# -- rebalances ---------------------------------------------------------------------------------------------------------------


class Classic:
    """A member of the classic protocol, with one connection."""

    def __init__(self, channel: Channel, group: str, topic: str, partitions: int) -> None:
        self.channel, self.group, self.topic, self.partitions = channel, group, topic, partitions
        self.member_id, self.generation_id, self.assigned = "", -1, -1

    async def join(self) -> None:
        """Join the group and wait for the assignment."""
        while True:
            subscription = encode_versioned(ConsumerProtocolSubscription(topics=[self.topic]), 1)
            request = JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
            )
            joined = await self.channel.send(request, timeout_s=WITHIN_S)
            self.member_id = joined.member_id or self.member_id
            if joined.error_code:
                continue
            self.generation_id = joined.generation_id
            given = []
            for number, member in enumerate(joined.members):
                mine = list(range(number, self.partitions, len(joined.members)))
                assignment = ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic=self.topic, partitions=mine)])
                given.append(SyncGroupRequestAssignment(member_id=member.member_id, assignment=encode_versioned(assignment, 1)))
            sync = SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation_id,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=given,
            )
            if not (await self.channel.send(sync, timeout_s=WITHIN_S)).error_code:
                self.assigned = self.generation_id
                return

    async def live(self) -> None:
        while True:
            await asyncio.sleep(BEATS_EVERY_S)
            request = HeartbeatRequest(group_id=self.group, generation_id=self.generation_id, member_id=self.member_id)
            if (await self.channel.send(request)).error_code:
                await self.join()

    async def leave(self) -> None:
        await self.channel.send(LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.member_id)]))


class Modern:
    """A member of the consumer protocol (KIP-848)."""

    def __init__(self, channel: Channel, group: str, topic: str, partitions: int) -> None:
        self.channel, self.group, self.topic = channel, group, topic
        self.member_id = f"{id(self)}"
        self.epoch, self.owned, self.must_tell, self.assigned = 0, [], True, -1  # type: ignore[var-annotated]

    async def join(self) -> None:
        await self._report()

    async def live(self) -> None:
        while True:
            await asyncio.sleep(BEATS_EVERY_S)
            await self._report()

    async def _report(self) -> None:
        is_whole = self.epoch == 0 or self.must_tell
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_MS if is_whole else -1,
            subscribed_topic_names=[self.topic] if is_whole else None,
            topic_partitions=list(self.owned) if is_whole else None,
        )
        response = await self.channel.send(request)
        if response.error_code:
            raise RuntimeError(f"a heartbeat was answered with {ErrorCode.of(response.error_code).name}")
        self.epoch, self.must_tell = response.member_epoch, False
        if response.assignment is not None:
            owned = [TopicPartitions(topic_id=one.topic_id, partitions=one.partitions) for one in response.assignment.topic_partitions]
            self.must_tell = owned != self.owned
            self.owned = owned
        self.assigned = self.epoch

    def count(self) -> int:
        return sum(len(one.partitions) for one in self.owned)

    async def leave(self) -> None:
        await self.channel.send(ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=-1))


async def rebalance(port: int, *, group: str, topic: str, partitions: int, members: int, protocol: str, rounds: int) -> dict[str, float]:
    """A member joins a settled group: the time until every member has its share.  Then the member leaves; all this `rounds` times."""
    network, kind = SystemNetwork(), Classic if protocol == "classic" else Modern

    async def connect() -> Classic | Modern:
        channel = await Channel.connect(network, "127.0.0.1", port, client_id="bench", timeout_s=WITHIN_S)
        return kind(channel, group, topic, partitions)

    first = await connect()
    await first.channel.send(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    await _wait_for_coordinators(port, [group])
    crowd = [first, *[await connect() for _ in range(members - 1)]]
    await asyncio.gather(*(one.join() for one in crowd))
    lives = [asyncio.create_task(one.live()) for one in crowd]
    await _settles(crowd, partitions)
    taken = []
    for _ in range(rounds):
        await asyncio.sleep(1.2)  # the next assignment of the consumer protocol is due a second after the last
        other = await connect()
        began = time.perf_counter()
        await other.join()
        life = asyncio.create_task(other.live())
        await _settles([*crowd, other], partitions)
        taken.append((time.perf_counter() - began) * 1000)
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
        await other.leave()
        other.channel.close()
        await _settles(crowd, partitions)
    for life in lives:
        life.cancel()
    await asyncio.gather(*lives, return_exceptions=True)
    return {"rebalance_ms": median(taken), "longest_ms": max(taken)}


async def _settles(crowd: list[Classic | Modern], partitions: int) -> None:
    until = time.perf_counter() + WITHIN_S
    while time.perf_counter() < until:
        is_one = len({one.assigned for one in crowd}) == 1
        owned = [one.count() for one in crowd if isinstance(one, Modern)]
        if is_one and (not owned or (sum(owned) == partitions and max(owned) - min(owned) <= 1)):
            return
        await asyncio.sleep(0.002)
    raise RuntimeError(f"the group did not settle within {WITHIN_S:.0f} s")


def main(spec: Mapping[str, object]) -> dict[str, float]:
    told = dict(spec)
    kind, port = told.pop("kind"), int(str(told.pop("port")))
    if kind == "commit":
        return commit(port, **told)  # type: ignore[arg-type]
    return asyncio.run(rebalance(port, **told))  # type: ignore[arg-type]


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
