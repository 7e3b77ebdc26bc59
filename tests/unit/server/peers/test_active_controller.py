"""Asking the active controller, whichever node that is, while it changes and fails."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.net.connection import ConnectionLimits
from moldau.net.listener import Listener
from moldau.net.transport import Address
from moldau.protocol.header import RequestHeader
from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from moldau.protocol.messages.envelope import EnvelopeRequest
from moldau.server.handlers.api_versions import api_versions
from moldau.server.handlers.envelope import envelope
from moldau.server.peers.active_controller import ActiveController, Leading
from moldau.server.requests.broker import Features
from moldau.server.requests.dispatch import Api, Client, Dispatcher, RequestContext
from moldau.testing.clock import SimClock
from moldau.testing.loop import Machine, SimLoop
from moldau.testing.network import SimNetwork

PORT = 9093
TIMEOUT_MS = 10_000
BROKER_ID = 7


class Controllers:
    """Nodes 1 and 2 have controllers, `active` names the active one, and node 7 asks."""

    def __init__(self) -> None:
        self.loop = SimLoop()
        self.network = SimNetwork(self.loop, seed=1)
        self.active = 1
        self.leading = Leading(1, Address("node-1", PORT))
        self.asked: list[tuple[int, str, str]] = []
        """(node, request, principal and host of the client)"""
        self.is_silent = False
        self.machines = {number: self.machine(f"node-{number}") for number in (1, 2)}
        self.asker = self.machine("asker")
        for number, machine in self.machines.items():
            self.run(machine, self._listen(number))

    def machine(self, host: str) -> Machine:
        machine = Machine(host)
        self.network.add(machine)
        return machine

    def run(self, machine: Machine, work: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(self.loop.start(machine, work))  # type: ignore[arg-type]

    async def _listen(self, number: int) -> None:
        async def decide(services: Any, context: RequestContext, request: Any) -> Any:
            client = context.client
            self.asked.append((number, type(request).__name__, f"{client.principal}@{client.host}"))
            if self.is_silent:
                await asyncio.Event().wait()
            if number != self.active:
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
            if isinstance(request, CreateTopicsRequest):
                return CreateTopicsResponse(topics=[CreatableTopicResult(name=topic.name) for topic in request.topics])
            return AllocateProducerIdsResponse(producer_id_start=number * 1000, producer_id_len=1000)

        apis = {request.API_KEY: Api(request, decide) for request in (CreateTopicsRequest, AllocateProducerIdsRequest)}
        apis |= {EnvelopeRequest.API_KEY: Api(EnvelopeRequest, envelope), ApiVersionsRequest.API_KEY: Api(ApiVersionsRequest, api_versions)}
        cluster = SimpleNamespace(features=lambda: Features({}, {}, 0))
        services: Any = SimpleNamespace(apis={"CONTROLLER": apis}, clock=SimClock(self.loop), cluster=cluster)
        listener = Listener(self.network, Dispatcher(services, apis).dispatch, name="CONTROLLER", limits=ConnectionLimits())
        await listener.start(f"node-{number}", PORT)

    def ask(self, work: Callable[[ActiveController], Awaitable[Any]]) -> Any:
        async def asking() -> Any:
            controller = ActiveController(
                node_id=BROKER_ID,
                local=None,
                leading=lambda: self.leading,
                network=self.network,
                clock=SimClock(self.loop),
                timeout_ms=TIMEOUT_MS,
            )
            self.controller = controller
            try:
                return await work(controller)
            finally:
                controller.close()

        return self.run(self.asker, asking())


def allocate() -> AllocateProducerIdsRequest:
    return AllocateProducerIdsRequest(broker_id=BROKER_ID, broker_epoch=1)


def create(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])])


def test_a_nodes_own_request_goes_as_it_is() -> None:
    there = Controllers()
    answer = there.ask(lambda controller: controller.ask(allocate()))
    assert answer.producer_id_start == 1000
    assert there.asked == [(1, "AllocateProducerIdsRequest", there.asked[0][2])]


def test_a_clients_request_is_forwarded_with_who_asked() -> None:
    there = Controllers()
    header = RequestHeader(CreateTopicsRequest.API_KEY, 5, 3, "a-client")
    context = RequestContext(header, Client(listener="PLAINTEXT", host="10.1.2.3", port=5, principal="User:ada"), 0)
    answer = there.ask(lambda controller: controller.forward(create("orders"), context))
    assert [topic.name for topic in answer.topics] == ["orders"]
    assert there.asked == [(1, "CreateTopicsRequest", "User:ada@10.1.2.3")]


@pytest.mark.parametrize("request_of", [allocate, lambda: create("orders")])
def test_a_request_follows_the_controller_to_another_node(request_of: Callable[[], Any]) -> None:
    there = Controllers()
    there.active = 2  # node 1 is believed to be active, and is not

    async def move(controller: ActiveController) -> Any:
        asking = asyncio.ensure_future(controller.ask(request_of()))
        await asyncio.sleep(1)
        there.leading = Leading(2, Address("node-2", PORT))
        controller.leader_changed()
        return await asking

    there.ask(move)
    assert there.asked[-1][0] == 2 and there.asked[0][0] == 1


def test_a_controller_that_hangs_is_given_up_once_another_leads() -> None:
    there = Controllers()
    there.is_silent = True

    async def move(controller: ActiveController) -> float:
        asking = asyncio.ensure_future(controller.ask(allocate()))
        await asyncio.sleep(1)
        there.is_silent, there.active, there.leading = False, 2, Leading(2, Address("node-2", PORT))
        controller.leader_changed()
        assert (await asking).producer_id_start == 2000
        return there.loop.time()

    assert there.ask(move) < 2


def test_without_any_controller_the_request_ends_in_time() -> None:
    there = Controllers()
    there.leading = Leading(-1, None)
    with pytest.raises(KafkaError) as caught:
        there.ask(lambda controller: controller.ask(allocate()))
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert TIMEOUT_MS / 1000 <= there.loop.time() < TIMEOUT_MS / 1000 + 1


def test_a_node_that_stops_waits_no_longer() -> None:
    there = Controllers()
    there.leading = Leading(-1, None)

    async def stop(controller: ActiveController) -> None:
        asking = asyncio.ensure_future(controller.ask(allocate()))
        await asyncio.sleep(0.2)
        controller.close()
        with pytest.raises(KafkaError) as caught:
            await asking
        assert caught.value.code is ErrorCode.NOT_CONTROLLER

    there.ask(stop)
