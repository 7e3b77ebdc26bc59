"""● Our clients around one real broker on virtual time: its handlers, coordinators and logs, behind connections that break.

    world = RoomWorld(seed=7, transaction_version=2)
    world.run(work())                     # `work` starts clients, each on a machine of its own: `world.start(machine, …)`

The broker is that of `proof.transactions.schedules.room`; metadata says that it leads everything.  `rules` see every request before it is
served, as in `model`.  When the broker dies, all its connections end and its coordinators load anew from their logs.
"""

import asyncio
import gc
import logging
import random
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar, cast

from moldau.net.connection import Connection, InvalidFrame, Reply, ReplyOrLater
from moldau.net.later import Later
from moldau.net.listener import Listener
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
from moldau.server.requests.broker import Features
from moldau.server.requests.dispatch import Dispatcher
from moldau.storage.log import FetchData
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
Rule = Callable[[int], Verdict | None]
"""The key of the API in a request → the verdict on that request."""


class RoomWorld:
    """See the module."""

    def __init__(self, seed: int, *, transaction_version: int = 2, share_group: Mapping[str, Any] | None = None) -> None:
        """`share_group`: the options of all share groups; None: the broker has none."""
        self.random: Final = random.Random(seed)
        self.loop: Final = SimLoop()
        self.network: Final = SimNetwork(self.loop, self.random.getrandbits(64))
        self.clock: Final = SimClock(self.loop)
        self.rules: list[Rule] = []
        self.room: Room
        self._transaction_version = transaction_version
        self._share_group = share_group
        self._broker = Machine(HOST)
        self._door: Any = None
        self._dispatcher: Dispatcher
        self._machines: list[Machine] = []
        self.network.add(self._broker)

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
            result = self.loop.run_until_complete(self.loop.start(self._broker, limited()))
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
        assert not self.room.failures, self.room.failures
        return result

    async def _up(self) -> None:
        has_share_groups = self._share_group is not None
        self.room = Room(random.Random(self.random.getrandbits(64)), properties=PROPERTIES, has_share_groups=has_share_groups)
        levels = {"transaction.version": self._transaction_version, "group.version": 1}
        if self._share_group is not None:
            levels["share.version"] = 1
            values = dict(self._share_group)
            self.room.broker.schema.group_values = lambda image, group: values  # type: ignore[method-assign]
        features = Features({}, levels, 1)
        self.room.broker.cluster.features = lambda: features  # type: ignore[method-assign]
        cast(dict[str, Any], self.room.broker.apis)["PLAINTEXT"] = APIS
        self._dispatcher = Dispatcher(self.room.broker, APIS)
        await self._open()

    async def _open(self) -> None:
        self._door = Listener(self.network, self._dispatch, name="PLAINTEXT")
        await self._door.start("", PORT)

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
        self._door.stop_accepting()
        for name in (GROUP_OFFSETS, TRANSACTION_STATE, *([SHARE_STATE] if self._share_group is not None else []), *DATA):
            self.room.fail_over(name)
        try:
            await asyncio.sleep(for_s)
        finally:
            await self._open()

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

    def _dispatch(self, connection: Connection, frame: memoryview) -> ReplyOrLater:
        key = int.from_bytes(frame[:2], "big")
        verdict = next((found for rule in self.rules if (found := rule(key)) is not None), Verdict())
        if verdict.drop_before:
            raise InvalidFrame("a rule breaks the connection")
        reply = self._own_answer(frame) if key in OWN_ANSWERS else self._dispatcher.dispatch(connection, memoryview(bytearray(frame)))
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

    def _own_answer(self, frame: memoryview) -> Reply:
        header, body = decode_request_header(frame)
        request = request_decoder(REQUESTS[header.api_key], header.api_version)(body)
        if isinstance(request, MetadataRequest):
            response = self._metadata(request)
        else:
            assert isinstance(request, FindCoordinatorRequest)
            response = self._coordinator(request)
        return encode_response(response, version=header.api_version, correlation_id=header.correlation_id)

    def _coordinator(self, request: FindCoordinatorRequest) -> Response:
        found = [Coordinator(key=key, node_id=BROKER_ID, host=HOST, port=PORT) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)

    def _metadata(self, request: MetadataRequest) -> Response:
        cluster = self.room.broker.cluster
        names = dict.fromkeys(one.topic for one in DATA)
        if request.topics is not None:
            names = dict.fromkeys(one.name for one in request.topics if one.name is not None and one.name in names)
        topics = []
        for name in names:
            partitions = [self.room.partition(one) for one in DATA if one.topic == name]
            listed = [
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=BROKER_ID,
                    leader_epoch=partition.leader_epoch,
                    replica_nodes=[BROKER_ID],
                    isr_nodes=[BROKER_ID],
                )
                for index, partition in enumerate(partitions)
            ]
            view = cluster.by_name(name)  # type: ignore[attr-defined]  # the room's cluster knows more than handlers ask
            topics.append(MetadataResponseTopic(name=name, topic_id=view.topic_id, partitions=listed))
        brokers = [MetadataResponseBroker(node_id=BROKER_ID, host=HOST, port=PORT, rack=None)]
        return MetadataResponse(brokers=brokers, cluster_id="room", controller_id=BROKER_ID, topics=topics)
