"""ShareFetch and ShareAcknowledge on a broker without a cluster; the test keeps the states."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages import read_share_group_state as read
from moldau.protocol.messages import share_acknowledge as ack
from moldau.protocol.messages import share_fetch as fetch
from moldau.protocol.messages import write_share_group_state as write
from moldau.protocol.records.batch import batches
from moldau.server.handlers.share_acknowledge import share_acknowledge
from moldau.server.handlers.share_fetch import share_fetch
from moldau.server.share import acknowledgements as share_acknowledgements
from moldau.server.share.acknowledgements import Acknowledging
from moldau.server.share.partitions import SWEPT_FROM, SharedPartition, SharePartitions, duration_ms
from moldau.server.share.sessions import ShareSessions
from moldau.testing.loop import SimLoop
from moldau.types import TopicPartition

ACCEPT, RELEASE, RENEW = 1, 2, 4
LOCK_MS = 30_000


class KeptStates:
    """A store of states that answers at once, unless it is told to wait or to refuse."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.batches: list[read.StateBatch] = []
        self.refusal = ErrorCode.NONE
        self.written: list[write.PartitionData] = []
        self.reads = 0
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def ask(self, request: Any) -> Any:
        return await (self._read(request) if isinstance(request, read.ReadShareGroupStateRequest) else self._write(request))

    async def _read(self, request: read.ReadShareGroupStateRequest) -> read.ReadShareGroupStateResponse:
        self.reads += 1
        await self.is_open.wait()
        (topic,) = request.topics
        found = read.PartitionResult(
            partition=topic.partitions[0].partition,
            error_code=self.refusal,
            state_epoch=3,
            start_offset=self.start_offset,
            state_batches=self.batches,
        )
        return read.ReadShareGroupStateResponse(results=[read.ReadStateResult(topic_id=topic.topic_id, partitions=[found])])

    async def _write(self, request: write.WriteShareGroupStateRequest) -> write.WriteShareGroupStateResponse:
        await self.is_open.wait()
        (topic,) = request.topics
        (said,) = topic.partitions
        if not self.refusal:
            self.written.append(said)
        result = write.PartitionResult(partition=said.partition, error_code=self.refusal)
        return write.WriteShareGroupStateResponse(results=[write.WriteStateResult(topic_id=topic.topic_id, partitions=[result])])


class Desk:
    """A broker with share partitions, and the requests of a member."""

    def __init__(self, harness: Any, values: Mapping[str, Any], *, max_sessions: int = 10) -> None:
        self.harness = harness
        self.states = KeptStates()
        harness.cluster.finalized = {"share.version": 1}
        broker = harness.broker
        broker.shares = SharePartitions(
            config=broker.shares._config,
            replicas=broker.replicas,
            clock=harness.clock,
            states=self.states,
            group_values=lambda group_id: values,
        )
        broker.share_sessions = ShareSessions(max_sessions, broker.shares.forget_group)
        self.context = harness.context(fetch.ShareFetchRequest(**BLANK), 2)

    def append(self, partition: Any, data: memoryview) -> None:
        partition.append_from_client(data, acks=1, now_ms=self.harness.clock.now_ms())
        partition.log.flush()  # no state is written for records that could still be lost

    def fetch(
        self, epoch: int = 0, *, member: str = "anna", acks: list[Any] | None = None, indexes: tuple[int, ...] = (0,), **more: Any
    ) -> Any:
        topics = [
            fetch.FetchTopic(
                topic_id=self.harness.cluster.ids.get("t", UUID(int=9)),
                partitions=[fetch.FetchPartition(partition_index=index, acknowledgement_batches=acks or []) for index in indexes],
            )
        ]
        request = fetch.ShareFetchRequest(**{**BLANK, "member_id": member, "share_session_epoch": epoch, "topics": topics, **more})
        return self.answer(share_fetch(self.harness.broker, self.context, request))

    def acknowledge(self, epoch: int, first: int, last: int, kind: int, *, member: str = "anna", **more: Any) -> Any:
        said = ack.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
        topic = ack.AcknowledgeTopic(
            topic_id=self.harness.cluster.ids["t"],
            partitions=[ack.AcknowledgePartition(partition_index=0, acknowledgement_batches=[said])],
        )
        request = ack.ShareAcknowledgeRequest(group_id="g", member_id=member, share_session_epoch=epoch, topics=[topic], **more)
        return self.answer(share_acknowledge(self.harness.broker, self.context, request))

    @staticmethod
    def answer(said: Any) -> Any:
        """A future of the answer, whatever form the answer has."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if isinstance(said, Later):
            future.abandon = said.abandon  # type: ignore[attr-defined]
            said.then(future.set_result, future.set_exception)
        else:
            future.set_result(said)
        return future

    def pass_time(self, elapsed_ms: int) -> None:
        self.harness.clock.advance(elapsed_ms)
        self.harness.broker.replicas.timeouts.expire(self.harness.clock.monotonic_ms())


BLANK: dict[str, Any] = {
    "group_id": "g",
    "member_id": "anna",
    "share_session_epoch": 0,
    "max_wait_ms": 0,
    "min_bytes": 1,
    "max_records": 500,
    "batch_size": 500,
    "topics": [],
    "forgotten_topics_data": [],
}
Scene = Callable[[Desk], Coroutine[Any, Any, None]]


@pytest.fixture
def play(harness: Any) -> Callable[..., None]:
    def run(scene: Scene, max_sessions: int = 10, **values: Any) -> None:
        async def whole() -> None:
            desk = Desk(harness, {key.replace("_", "."): value for key, value in values.items()}, max_sessions=max_sessions)
            await scene(desk)
            desk.harness.broker.shares.close()

        SimLoop().run_until_complete(whole())

    return run


async def turns(count: int = 6) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def only(response: Any) -> Any:
    assert response.error_code == 0, response
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def acquired(partition: Any) -> list[tuple[int, int, int]]:
    return [(one.first_offset, one.last_offset, one.delivery_count) for one in partition.acquired_records]


async def joined(desk: Desk, member: str = "anna", *, epoch: int = 1, **more: Any) -> Any:
    """Opens a session, waits until its partitions are loaded, and returns the next answer."""
    await desk.fetch(member=member, max_records=0, indexes=more.get("indexes", (0,)))
    await turns()
    return await desk.fetch(epoch, member=member, **more)


def test_records_are_acquired_once_and_their_batches_sent_whole(play: Any, batch_of: Any) -> None:
    async def scene(desk: Desk) -> None:
        partition = desk.harness.lead("t")
        for values in ((b"a", b"b"), (b"c", b"d"), (b"e",)):
            desk.append(partition, batch_of(*values))
        found = only(await joined(desk, max_records=3))
        assert acquired(found) == [(0, 3, 1)]
        assert [(header.base_offset, header.last_offset) for _, header in batches(found.records.read())] == [(0, 1), (2, 3)]
        found = only(await joined(desk, "ben"))
        assert acquired(found) == [(4, 4, 1)]
        assert [header.base_offset for _, header in batches(found.records.read())] == [4]

    play(scene)


def test_a_strict_limit_is_kept(play: Any, batch_of: Any) -> None:
    async def scene(desk: Desk) -> None:
        desk.append(desk.harness.lead("t"), batch_of(b"a", b"b", b"c"))
        assert acquired(only(await joined(desk, max_records=2, share_acquire_mode=1))) == [(0, 1, 1)]
        assert acquired(only(await desk.fetch(2, max_records=2, share_acquire_mode=1))) == [(2, 2, 1)]

    play(scene)


def test_acknowledgements_are_written_before_they_are_answered(play: Any, batch_of: Any) -> None:
    async def scene(desk: Desk) -> None:
        desk.append(desk.harness.lead("t"), batch_of(b"a", b"b", b"c"))
        await joined(desk)
        desk.states.is_open.clear()
        answer = desk.acknowledge(2, 0, 1, ACCEPT)
        await turns()
        assert not answer.done()
        desk.states.is_open.set()
        assert only(await answer).error_code == 0
        (written,) = desk.states.written
        assert (written.state_epoch, written.leader_epoch, written.start_offset, written.delivery_complete_count) == (3, 1, 0, 2)
        assert [(one.first_offset, one.last_offset, one.delivery_state) for one in written.state_batches] == [(0, 1, 2)]
        said = [fetch.AcknowledgementBatch(first_offset=2, last_offset=2, acknowledge_types=[ACCEPT])]
        found = only(await desk.fetch(3, acks=said))
        assert (found.acknowledge_error_code, acquired(found)) == (0, [])
        assert desk.states.written[-1].start_offset == 2

    play(scene)


def test_what_cannot_be_written_is_told_and_stays_acquired(play: Any, batch_of: Any) -> None:
    async def scene(desk: Desk) -> None:
        desk.append(desk.harness.lead("t"), batch_of(b"a"))
        await joined(desk)
        desk.states.refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert only(await desk.acknowledge(2, 0, 0, ACCEPT)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        desk.states.refusal = ErrorCode.NONE
        assert only(await desk.acknowledge(3, 0, 0, ACCEPT)).error_code == 0
        assert only(await desk.acknowledge(4, 0, 0, ACCEPT)).error_code == 0, "this was done already"
        assert only(await desk.acknowledge(5, 1, 1, ACCEPT)).error_code == ErrorCode.INVALID_RECORD_STATE

    play(scene)


def test_a_fenced_leader_begins_anew(play: Any, batch_of: Any) -> None:
    async def scene(desk: Desk) -> None:
        desk.append(desk.harness.lead("t"), batch_of(b"a"))
        await joined(desk)
        desk.states.refusal = ErrorCode.FENCED_STATE_EPOCH
        found = only(await desk.acknowledge(2, 0, 0, ACCEPT))
        assert (found.error_code, found.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
        desk.states.refusal = ErrorCode.NONE
        await desk.fetch(3)
        await turns()
        assert desk.states.reads == 2
        assert acquired(only(await desk.fetch(4))) == [(0, 0, 1)]

    play(scene)


def test_partitions_that_are_gone_are_forgotten(play: Any) -> None:
    async def scene(desk: Desk) -> None:
        gone = desk.harness.lead("t")
        await joined(desk)
        desk.harness.broker.replicas.remove(gone.topic_partition)
        for index in range(1, SWEPT_FROM + 1):
            desk.harness.lead("t", index)
        await joined(desk, "ben", indexes=tuple(range(1, SWEPT_FROM + 1)))
        assert [key.partition for key in desk.harness.broker.shares._held] == list(range(1, SWEPT_FROM + 1))

    play(scene)


def test_opening_many_partitions_looks_at_each_of_them_a_few_times(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    is_current = SharedPartition.is_current

    def counted(self: SharedPartition) -> bool:
        nonlocal looks
        looks += 1
        return bool(is_current.fget(self))  # type: ignore[attr-defined]

    monkeypatch.setattr(SharedPartition, "is_current", property(counted))
    count = 600

    async def scene(desk: Desk) -> None:
        nonlocal looks
        for index in range(count):
            desk.harness.lead("t", index)
        looks = 0
        for index in range(count):
            desk.harness.broker.shares.hold("g", desk.harness.broker.replicas.hosted[TopicPartition("t", index)])
        assert looks < 4 * count

    play(scene)


def test_a_fetch_waits_for_records_and_for_free_ones(play: Any, batch_of: Any) -> None:
    async def scene(desk: Desk) -> None:
        partition = desk.harness.lead("t")
        await joined(desk)
        await joined(desk, "ben")
        first, second = desk.fetch(2, max_wait_ms=5_000), desk.fetch(2, member="ben", max_wait_ms=5_000)
        await turns()
        assert not first.done() and not second.done()
        desk.append(partition, batch_of(b"a", b"b"))
        assert acquired(only(await first)) == [(0, 1, 1)]
        await turns()
        assert not second.done()
        await desk.acknowledge(3, 1, 1, RELEASE)
        assert acquired(only(await second)) == [(1, 1, 2)]

    play(scene)


def test_a_group_that_begins_is_given_one_partition_after_the_other(play: Any, batch_of: Any) -> None:
    """Two members that begin together share the partitions: the first member is not given everything."""

    async def scene(desk: Desk) -> None:
        for index, values in enumerate(((), (b"a",), (b"b", b"c"))):
            partition = desk.harness.lead("t", index)
            if values:
                desk.append(partition, batch_of(*values))
        desk.states.is_open.clear()
        anna = desk.fetch(indexes=(0, 1, 2), max_wait_ms=5_000)
        ben = desk.fetch(member="ben", indexes=(0, 1, 2), max_wait_ms=5_000)
        await turns()
        desk.states.is_open.set()
        await turns(20)
        assert anna.done()
        assert ben.done()
        found = [[each for each in one.result().responses[0].partitions if each.acquired_records] for one in (anna, ben)]
        assert [[(each.partition_index, acquired(each)) for each in one] for one in found] == [[(1, [(0, 0, 1)])], [(2, [(0, 1, 1)])]]

    play(scene)


def test_a_fetch_ends_with_its_time(play: Any) -> None:
    async def scene(desk: Desk) -> None:
        desk.harness.lead("t")
        await joined(desk)
        answer = desk.fetch(2, max_wait_ms=500)
        await turns()
        desk.pass_time(400)
        await turns()
        assert not answer.done()
        desk.pass_time(120)
        assert (await answer).responses == []

    play(scene)


def test_nothing_is_acquired_for_a_client_that_is_gone(play: Any, batch_of: Any) -> None:
    async def scene(desk: Desk) -> None:
        partition = desk.harness.lead("t")
        await joined(desk)
        answer = desk.fetch(2, max_wait_ms=5_000)
        answer.abandon()
        desk.append(partition, batch_of(b"a"))
        await turns()
        assert not answer.done()
        assert acquired(only(await joined(desk, "ben"))) == [(0, 0, 1)]

    play(scene)


def test_locks_end_without_anybody_asking(play: Any, batch_of: Any) -> None:
    async def scene(desk: Desk) -> None:
        desk.append(desk.harness.lead("t"), batch_of(b"a"))
        await joined(desk)
        await joined(desk, "ben")
        answer = desk.fetch(2, member="ben", max_wait_ms=100_000)
        desk.pass_time(LOCK_MS + 8)
        assert acquired(only(await answer)) == [(0, 0, 2)]
        assert [one.delivery_state for one in desk.states.written[-1].state_batches] == [0]

    play(scene)


def test_a_lock_is_renewed_without_a_fetch(play: Any, batch_of: Any) -> None:
    async def scene(desk: Desk) -> None:
        desk.append(desk.harness.lead("t"), batch_of(b"a"))
        await joined(desk)
        said = [fetch.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[RENEW])]
        desk.pass_time(20_000)
        response = await desk.fetch(2, acks=said, is_renew_ack=True, max_bytes=0, min_bytes=0, max_records=0)
        assert only(response).acknowledge_error_code == 0
        desk.pass_time(20_000)
        assert only(await desk.acknowledge(3, 0, 0, ACCEPT)).error_code == 0
        assert (await desk.fetch(4, acks=said, is_renew_ack=True)).error_code == ErrorCode.INVALID_REQUEST
        assert only(await desk.acknowledge(4, 0, 0, RENEW)).error_code == ErrorCode.INVALID_REQUEST

    play(scene)


@pytest.mark.parametrize("how", ["fetch", "acknowledge", "connection"])
def test_the_end_of_a_session_frees_what_the_member_held(play: Any, batch_of: Any, how: str) -> None:
    async def scene(desk: Desk) -> None:
        desk.append(desk.harness.lead("t"), batch_of(b"a", b"b"))
        await joined(desk)
        if how == "fetch":
            said = [fetch.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[ACCEPT])]
            assert only(await desk.fetch(-1, acks=said)).acknowledge_error_code == 0
        elif how == "acknowledge":
            assert only(await desk.acknowledge(-1, 0, 0, ACCEPT)).error_code == 0
        else:
            await desk.acknowledge(2, 0, 0, ACCEPT)
            desk.context.client.closed()
        await turns()
        assert len(desk.harness.broker.share_sessions) == 0
        assert [(one.first_offset, one.delivery_state) for one in desk.states.written[-1].state_batches] == [(1, 0)]
        assert (await desk.fetch(5)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND

    play(scene)


def test_sessions(play: Any) -> None:
    async def scene(desk: Desk) -> None:
        desk.harness.lead("t")
        assert (await desk.fetch(-1)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert (await desk.acknowledge(0, 0, 0, ACCEPT)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert (await desk.acknowledge(1, 0, 0, ACCEPT)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        await joined(desk)
        assert (await desk.fetch(1)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert (await desk.fetch(2)).error_code == 0
        full = desk.fetch(member="ben", max_wait_ms=1_000)
        await turns()
        assert not full.done(), "a client without a session must not ask without a pause"
        desk.pass_time(1_008)
        assert (await full).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        said = [fetch.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[ACCEPT])]
        assert (await desk.fetch(0, acks=said)).error_code == ErrorCode.INVALID_REQUEST

    play(scene, max_sessions=1)


def test_refused_partitions(play: Any, batch_of: Any) -> None:
    async def scene(desk: Desk) -> None:
        assert only(await desk.fetch()).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        desk.append(desk.harness.lead("t"), batch_of(b"a"))
        assert only(await desk.fetch(indexes=(7,))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        desk.harness.cluster.known.add(("t", 7))
        found = only(await desk.fetch(indexes=(7,)))
        assert (found.error_code, found.current_leader.leader_epoch) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 9)
        desk.states.refusal = ErrorCode.NOT_COORDINATOR
        answer = desk.fetch(max_wait_ms=100)
        assert only(await answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, "Kafka's Java client ends on COORDINATOR_NOT_AVAILABLE"
        assert (await desk.fetch(group_id=None)).error_code == ErrorCode.INVALID_REQUEST
        assert (await desk.fetch(member="m" * 37)).error_code == ErrorCode.INVALID_REQUEST
        desk.harness.cluster.finalized = {}
        assert (await desk.fetch()).error_code == ErrorCode.UNSUPPORTED_VERSION

    play(scene)


@pytest.mark.parametrize(
    ("first", "last", "types"), [(1, 0, [1]), (0, 1, []), (0, 2, [1, 1]), (0, 0, [5]), (0, 0, [-1]), (0, 0, [4])], ids=str
)
def test_acknowledgements_that_cannot_be(play: Any, batch_of: Any, first: int, last: int, types: list[int]) -> None:
    async def scene(desk: Desk) -> None:
        desk.append(desk.harness.lead("t"), batch_of(b"a", b"b"))
        await joined(desk)
        said = [fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)]
        assert only(await desk.fetch(2, acks=said)).acknowledge_error_code == ErrorCode.INVALID_REQUEST

    play(scene)


def test_deleted_records_are_passed(play: Any, batch_of: Any) -> None:
    async def scene(desk: Desk) -> None:
        partition = desk.harness.lead("t")
        for value in (b"a", b"b", b"c"):
            desk.append(partition, batch_of(value))
        partition.log.delete_records_before(2)
        assert acquired(only(await joined(desk))) == [(2, 2, 1)]

    play(scene)


def test_a_group_begins_where_it_says(play: Any, batch_of: Any) -> None:
    async def scene(desk: Desk, offset: int) -> None:
        desk.states.start_offset = -1
        partition = desk.harness.lead("t")
        for value in (b"a", b"b"):
            desk.append(partition, batch_of(value))
        await joined(desk)
        desk.append(partition, batch_of(b"c"))
        answer = await desk.fetch(2)
        assert offset == (2 if answer.responses else 0), answer
        desk.harness.broker.replicas.remove(partition.topic_partition)

    play(lambda desk: scene(desk, 2))
    play(lambda desk: scene(desk, 0), share_auto_offset_reset="earliest", share_delivery_delay_ms=10)


def test_a_delay_before_the_first_delivery(play: Any, batch_of: Any) -> None:
    async def scene(desk: Desk) -> None:
        partition = desk.harness.lead("t")
        await joined(desk)
        desk.append(partition, batch_of(b"a"))
        answer = desk.fetch(2, max_wait_ms=60_000)
        await turns()
        desk.pass_time(9_000)
        await turns()
        assert not answer.done()
        desk.pass_time(1_008)
        assert acquired(only(await answer)) == [(0, 0, 1)]

    play(scene, share_delivery_delay_ms=10_000)


def test_a_delay_before_a_retry(play: Any, batch_of: Any) -> None:
    async def scene(desk: Desk) -> None:
        desk.append(desk.harness.lead("t"), batch_of(b"a"))
        await joined(desk)
        await desk.acknowledge(2, 0, 0, RELEASE)
        answer = desk.fetch(3, max_wait_ms=60_000)
        await turns()
        desk.pass_time(900)
        await turns()
        assert not answer.done()
        desk.pass_time(108)
        assert acquired(only(await answer)) == [(0, 0, 2)]

    play(scene, share_retry_delay_ms=1_000)


def test_a_connection_remembers_no_more_members_than_have_a_session(play: Any) -> None:
    """One connection may bring member after member, whether each gets a session or not."""

    async def scene(desk: Desk) -> None:
        desk.harness.lead("t")
        for number in range(3):
            await desk.fetch(member=f"gone-{number}")
            await desk.fetch(-1, member=f"gone-{number}")
        for number in range(3):
            desk.fetch(member=f"stays-{number}")
        assert [key.member_id for key in desk.context.client.on_closed] == ["stays-0"]
        desk.context.client.closed()
        assert len(desk.harness.broker.share_sessions) == 0

    play(scene, max_sessions=1)


@pytest.mark.parametrize(("text", "expected"), [("P1D", 86_400_000), ("PT1H2M3.5S", 3_723_500), ("P2DT1S", 172_801_000), ("x", 0)])
def test_durations(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


def test_what_a_request_was_made_of_is_gone_with_its_answer(play: Any, batch_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Acknowledgements and the requests that wait for them know each other: they would keep records until the collector comes by."""
    made: list[weakref.ref[Acknowledging]] = []

    class Watched(Acknowledging):
        def __init__(self) -> None:
            super().__init__()
            made.append(weakref.ref(self))

    monkeypatch.setattr(share_acknowledgements, "Acknowledging", Watched)

    async def scene(desk: Desk) -> None:
        desk.append(desk.harness.lead("t"), batch_of(b"a", b"b", b"c"))
        gc.disable()
        try:
            await joined(desk)
            await desk.fetch(2, acks=[fetch.AcknowledgementBatch(first_offset=0, last_offset=1, acknowledge_types=[ACCEPT])])
            await desk.acknowledge(3, 2, 2, ACCEPT)
            await turns()
            assert len(made) == 4 and [one() for one in made] == [None] * 4
        finally:
            gc.enable()

    play(scene)


def test_no_state_is_written_of_records_that_could_still_be_lost(play: Any, batch_of: Any) -> None:
    async def scene(desk: Desk) -> None:
        partition = desk.harness.lead("t")
        partition.append_from_client(batch_of(b"a"), acks=1, now_ms=desk.harness.clock.now_ms())
        assert acquired(only(await joined(desk))) == [(0, 0, 1)]
        answer = desk.acknowledge(2, 0, 0, 1)
        await turns()
        assert not answer.done() and not desk.states.written
        partition.log.flush()
        partition.flushed()
        await turns()
        assert only(answer.result()).error_code == 0 and desk.states.written

    play(scene, share_auto_offset_reset="earliest")
