"""● Our clients around real brokers on virtual time: their handlers, coordinators and logs, behind connections that break.

    world = RoomWorld(seed=7, transaction_version=2)
    world.run(work())                     # `work` starts clients, each on a machine of its own: `world.start(machine, …)`

A broker is that of `proof.transactions.schedules.room`.  One leads everything.  Several share their logs, so replication is perfect; each
partition and each coordinator is on one of them, and moves.  A broker learns of a move at once where it takes part, else up to some seconds
later: metadata may be old.  `rules` see every request before it is served, as in `model`.  When a broker dies, all its connections end and
its coordinators load anew from their logs, on another broker if there is one.
"""

import asyncio
import gc
import logging
import random
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast

from moldau.net.connection import Connection, InvalidFrame, Reply, ReplyOrLater
from moldau.net.later import Later
from moldau.net.listener import Listener
from moldau.net.transport import Address
from moldau.protocol.compiler import request_decoder
from moldau.protocol.header import decode_request_header, encode_response
from moldau.protocol.messages import REQUESTS
from moldau.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.protocol.records.batch import batches, records_of
from moldau.protocol.wire import Response
from moldau.server.peers.brokers import BrokerChannels
from moldau.server.requests.broker import Features
from moldau.server.requests.dispatch import Dispatcher
from moldau.storage.log import FetchData, Log
from moldau.testing.clock import SimClock
from moldau.testing.loop import Machine, SimLoop
from moldau.testing.network import SimNetwork
from moldau.types import TopicPartition
from proof.clients.model import PORT, Verdict
from proof.transactions.schedules.room import APIS, BROKER_ID, DATA, GROUP_OFFSETS, SHARE_STATE, TRANSACTION_STATE, Room

T = TypeVar("T")

HOST: Final = "broker"
BOOTSTRAP: Final = f"{HOST}:{PORT}"
PROPERTIES: Final = {
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.min.session.timeout.ms": "1000",
}
OWN_ANSWERS: Final = frozenset({MetadataRequest.API_KEY, FindCoordinatorRequest.API_KEY})
WHOLE: Final = 1 << 30
TRANSACTION: Final = 1
"""The type of a key that is a transactional id."""
BROKERS_WAIT_MS: Final = 2000
"""Brokers wait so long for each other's answers."""
HEARS_AFTER_S: Final = (0.0, 0.1, 1.0, 3.0)
"""A broker may hear so long after a move who leads a partition."""
Rule = Callable[[int], Verdict | None]
"""The key of the API in a request → the verdict on that request."""


class RoomWorld:
    """See the module."""

    def __init__(
        self,
        seed: int,
        *,
        transaction_version: int = 2,
        share_group: Mapping[str, Any] | None = None,
        broker_count: int = 1,
        moving: Sequence[TopicPartition] = (GROUP_OFFSETS, *DATA),
    ) -> None:
        """`share_group`: the options of all share groups; None: the broker has none.

        `moving`: what others lead while one of several brokers is away.
        """
        self.random: Final = random.Random(seed)
        self.loop: Final = SimLoop()
        self.network: Final = SimNetwork(self.loop, self.random.getrandbits(64))
        self.clock: Final = SimClock(self.loop)
        self.rules: list[Rule] = []
        self.rooms: Final[dict[int, Room]] = {}
        self.hosts: Final = {BROKER_ID: HOST, **{node_id: f"{HOST}-{node_id}" for node_id in range(2, broker_count + 1)}}
        self.leaders: Final[dict[TopicPartition, tuple[int, int]]] = {}
        """The leader and the leader epoch of each partition that has moved."""
        self._views: Final[dict[int, dict[TopicPartition, tuple[int, int]]]] = {node_id: {} for node_id in self.hosts}
        """`leaders` as each broker knows them."""
        self._moving: Final = moving
        self._transaction_version = transaction_version
        self._share_group = share_group
        self._brokers: Final = {node_id: Machine(host) for node_id, host in self.hosts.items()}
        self._doors: Final[dict[int, Any]] = {}
        self._channels: Final[list[BrokerChannels]] = []
        self._dispatchers: Final[dict[int, Dispatcher]] = {}
        self._machines: list[Machine] = []
        for machine in self._brokers.values():
            self.network.add(machine)

    @property
    def room(self) -> Room:
        """The room whose broker coordinates the groups."""
        return self.room_of(GROUP_OFFSETS)

    def room_of(self, name: TopicPartition) -> Room:
        """The room whose broker leads a partition."""
        return self.rooms[self.leader_of(name)]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{PORT}" for host in self.hosts.values())

    def leader_of(self, name: TopicPartition) -> int:
        return self.leaders.get(name, (BROKER_ID, 1))[0]

    def run(self, work: Coroutine[Any, Any, T], *, within_s: float = 3600.0) -> T:
        """Run within so much virtual time.  An exception that the loop caught is a failure."""

        async def limited() -> T:
            await self._up()
            async with asyncio.timeout(within_s):
                return await work

        logging.disable()
        gc.disable()  # the garbage of one world must not be collected while another one runs
        gc.freeze()  # a collection at the end looks at this world alone: that halves what a schedule costs
        hook = sys.unraisablehook
        try:
            result = self.loop.run_until_complete(self.loop.start(self._brokers[BROKER_ID], limited()))
            assert not self.loop.failures, self.loop.failures
        finally:
            sys.unraisablehook = lambda _: None  # dead machines leave coroutines that cannot end
            for machine in self._machines:
                self.loop.kill(machine)
            self.loop.forget_the_dead()
            self.loop.close()
            gc.collect()
            gc.unfreeze()
            sys.unraisablehook = hook
            gc.enable()
            logging.disable(logging.NOTSET)
        failures = [failure for room in self.rooms.values() for failure in room.failures]
        assert not failures, failures
        return result

    async def _up(self) -> None:
        await self._up_with(BROKER_ID)  # the caller is on its machine
        for node_id, machine in self._brokers.items():
            if node_id != BROKER_ID:
                await self.loop.start(machine, self._up_with(node_id))

    async def _up_with(self, node_id: int) -> None:
        logs: dict[TopicPartition, Log] | None = None
        if self.rooms:
            logs = {TopicPartition(*name): partition.log for name, partition in self.rooms[BROKER_ID].broker.replicas.hosted.items()}
        brokers: tuple[BrokerChannels, Callable[[TopicPartition], tuple[int, int]]] | None = None
        if len(self.hosts) > 1:
            known = partial(self._known_leader, node_id)
            channels = BrokerChannels(
                local_id=node_id,
                network=self.network,
                leader_of=lambda name: known(name)[0],
                endpoint_of=lambda each: Address(self.hosts[each], PORT),
                timeout_ms=BROKERS_WAIT_MS,
            )
            self._channels.append(channels)
            brokers = channels, known
        room = self.rooms[node_id] = Room(
            random.Random(self.random.getrandbits(64)),
            properties=PROPERTIES,
            has_share_groups=self._share_group is not None,
            broker_id=node_id,
            logs=logs,
            ends_waits=len(self.hosts) > 1,
            brokers=brokers,
        )
        if logs is not None:
            for name in logs:
                room.follow(name, BROKER_ID, 1)
        levels = {"transaction.version": self._transaction_version, "group.version": 1}
        if self._share_group is not None:
            levels["share.version"] = 1
            values = dict(self._share_group)
            room.broker.schema.group_values = lambda image, group: values  # type: ignore[method-assign]
        features = Features({}, levels, 1)
        room.broker.cluster.features = lambda: features  # type: ignore[method-assign]
        cast(dict[str, Any], room.broker.apis)["PLAINTEXT"] = APIS
        self._dispatchers[node_id] = Dispatcher(room.broker, APIS)
        await self._open(node_id)

    async def _open(self, node_id: int) -> None:
        door = self._doors[node_id] = Listener(self.network, partial(self._dispatch, node_id), name="PLAINTEXT")
        await door.start("", PORT)

    # ------------------------------------------------------------ what schedules do

    def machine(self, name: str) -> Machine:
        machine = Machine(f"{name}-{len(self._machines) + 1}")
        self._machines.append(machine)
        self.network.add(machine)
        return machine

    def start(self, machine: Machine, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        return self.loop.start(machine, work)

    def kill(self, machine: Machine, *, silently: bool) -> None:
        self.loop.kill(machine)
        self.network.crash(machine, silently=silently)

    async def broker_dies(self, for_s: float) -> None:
        self.network.reset(HOST)
        self._doors[BROKER_ID].stop_accepting()
        for name in (GROUP_OFFSETS, TRANSACTION_STATE, *([SHARE_STATE] if self._share_group is not None else []), *DATA):
            self.room.fail_over(name)
        try:
            await asyncio.sleep(for_s)
        finally:
            await self._open(BROKER_ID)

    def load_anew(self, name: TopicPartition) -> None:
        """Let a coordinator begin again, where it is."""
        node_id = self.leader_of(name)
        if len(self.hosts) == 1:
            self.rooms[node_id].fail_over(name)
        else:
            self.loop.call_soon(self.rooms[node_id].fail_over, name, context=self._brokers[node_id].context)

    def move(self, name: TopicPartition, node_id: int, choice: random.Random) -> None:
        """Let another broker lead a partition.  Brokers that have no part in it hear of it later."""
        was = self.leader_of(name)
        if was == node_id:
            return
        epoch = self.rooms[was].partition(name).leader_epoch + 1
        self.leaders[name] = node_id, epoch
        for each, room in self.rooms.items():
            if each != node_id:
                room.follow(name, node_id, epoch)
        self.loop.call_soon(self._take_over, name, context=self._brokers[node_id].context)
        for each, view in self._views.items():
            self.loop.call_later(0.0 if each == node_id else choice.choice(HEARS_AFTER_S), self._hear, view, name, epoch)

    def _take_over(self, name: TopicPartition) -> None:
        node_id, epoch = self.leaders[name]
        room = self.rooms[node_id]
        if room.partition(name).leader_epoch < epoch:
            room.take_over(name, epoch)

    def _hear(self, view: dict[TopicPartition, tuple[int, int]], name: TopicPartition, epoch: int) -> None:
        if self.leaders[name][1] == epoch:
            view[name] = self.leaders[name]

    async def one_broker_dies(self, node_id: int, for_s: float, choice: random.Random) -> None:
        """End a broker's connections.  Others lead its partitions from now on."""
        if len(self._living) < 2:
            return
        self._doors[node_id].stop_accepting()
        del self._doors[node_id]
        self.network.reset(self.hosts[node_id])
        for name in self._moving:
            if self.leader_of(name) == node_id:
                self.move(name, choice.choice(self._living), choice)
        try:
            await asyncio.sleep(for_s)
        finally:
            await self.loop.start(self._brokers[node_id], self._open(node_id))

    def close(self) -> None:
        """End what the brokers still do."""
        for room in self.rooms.values():
            room.broker.shares.close()
            room.coordinators.close()
        for channels in self._channels:
            channels.close()

    @property
    def _living(self) -> list[int]:
        return sorted(self._doors)

    def records_of(self, name: TopicPartition) -> list[tuple[int, bytes | None]]:
        """(offset, value) of all records in a log, in aborted and open transactions too."""
        data = self.room.partition(name).log.read(0, WHOLE)
        assert isinstance(data, FetchData), data
        view = memoryview(data.records.read() if data.records is not None else b"")
        return [
            (record.offset, None if record.value is None else bytes(record.value))
            for position, header in batches(view, strict=True)
            if not header.is_control
            for record in records_of(view[position : position + header.size])
        ]

    # ------------------------------------------------------------ serving

    def _dispatch(self, node_id: int, connection: Connection, frame: memoryview) -> ReplyOrLater:
        key = int.from_bytes(frame[:2], "big")
        verdict = next((found for rule in self.rules if (found := rule(key)) is not None), Verdict())
        if verdict.drop_before:
            raise InvalidFrame("a rule breaks the connection")
        if key in OWN_ANSWERS:
            reply: ReplyOrLater = self._own_answer(node_id, frame)
        else:
            reply = self._dispatchers[node_id].dispatch(connection, memoryview(bytearray(frame)))
        if not verdict.drop_after and not verdict.delay_s:
            return reply
        return self._later(reply, verdict)

    async def _later(self, reply: ReplyOrLater, verdict: Verdict) -> Reply:
        if isinstance(reply, Later):
            waiting: asyncio.Future[Reply] = self.loop.create_future()
            reply.then(waiting.set_result, waiting.set_exception)
            found: Reply = await waiting
        elif isinstance(reply, Coroutine):
            found = await reply
        else:
            found = reply
        await asyncio.sleep(verdict.delay_s)
        if verdict.drop_after:
            raise InvalidFrame("a rule breaks the connection")
        return found

    def _own_answer(self, node_id: int, frame: memoryview) -> Reply:
        header, body = decode_request_header(frame)
        request = request_decoder(REQUESTS[header.api_key], header.api_version)(body)
        if isinstance(request, MetadataRequest):
            response = self._metadata(node_id, request)
        else:
            assert isinstance(request, FindCoordinatorRequest)
            response = self._coordinator(node_id, request)
        return encode_response(response, version=header.api_version, correlation_id=header.correlation_id)

    def _known_leader(self, node_id: int, name: TopicPartition) -> tuple[int, int]:
        """The leader and the leader epoch that a broker knows."""
        leader, epoch = self._views[node_id].get(name, (BROKER_ID, 0))
        return leader, epoch or (self.rooms[BROKER_ID].partition(name).leader_epoch if len(self.hosts) == 1 else 1)

    def _coordinator(self, node_id: int, request: FindCoordinatorRequest) -> Response:
        leader, _ = self._known_leader(node_id, TRANSACTION_STATE if request.key_type == TRANSACTION else GROUP_OFFSETS)
        found = [Coordinator(key=key, node_id=leader, host=self.hosts[leader], port=PORT) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)

    def _metadata(self, node_id: int, request: MetadataRequest) -> Response:
        cluster = self.room.broker.cluster
        names = dict.fromkeys(one.topic for one in DATA)
        if request.topics is not None:
            names = dict.fromkeys(one.name for one in request.topics if one.name is not None and one.name in names)
        topics = []
        for name in names:
            listed = [
                MetadataResponsePartition(
                    partition_index=one.partition, leader_id=leader, leader_epoch=epoch, replica_nodes=[leader], isr_nodes=[leader]
                )
                for one in DATA
                if one.topic == name
                for leader, epoch in [self._known_leader(node_id, one)]
            ]
            view = cluster.by_name(name)  # type: ignore[attr-defined]  # the room's cluster knows more than handlers ask
            topics.append(MetadataResponseTopic(name=name, topic_id=view.topic_id, partitions=listed))
        brokers = [MetadataResponseBroker(node_id=each, host=host, port=PORT, rack=None) for each, host in self.hosts.items()]
        return MetadataResponse(brokers=brokers, cluster_id="room", controller_id=BROKER_ID, topics=topics)
