"""A broker that stops waits for the controller as long as there is one."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from moldau.server.node.lifecycle import BrokerLifecycle, Patience
from moldau.testing.loop import SimLoop

PATIENCE = Patience(heartbeat_ms=2_000, registration_ms=60_000, shutdown_ms=10_000, silence_ms=3_000)
LATENCY_S = 0.01
FOR_EVER_S = 3600.0


class Answers:
    """A controller that answers heartbeats by a function, or not at all where this returns None."""

    def __init__(self, answer: Callable[[BrokerHeartbeatRequest], BrokerHeartbeatResponse | None]) -> None:
        self._answer = answer

    async def ask(self, request: Any, *, version: int | None = None) -> Any:
        await asyncio.sleep(LATENCY_S)
        answer = self._answer(request)
        if answer is None:
            await asyncio.sleep(FOR_EVER_S)
        return answer

    async def forward(self, request: Any, context: Any) -> Any:
        raise NotImplementedError


def elapsed_until_it_goes(answer: Callable[[BrokerHeartbeatRequest, float], BrokerHeartbeatResponse | None]) -> float:
    loop = SimLoop()
    broker = BrokerLifecycle(
        node_id=1,
        controller=Answers(lambda request: answer(request, loop.time())),
        metadata_offset=lambda: 7,
        offline_dirs=lambda: (),
        patience=PATIENCE,
    )

    async def live() -> float:
        await broker.unfence()
        began_s = loop.time()
        await broker.hand_over()
        elapsed_s = loop.time() - began_s
        await broker.stop()
        return elapsed_s

    return loop.run_until_complete(live())


@pytest.mark.parametrize("leads_for_s", [0.0, 4.0, 8.0])
def test_goes_as_soon_as_its_leaderships_have_moved(leads_for_s: float) -> None:
    asked_s: list[float] = []

    def answer(request: BrokerHeartbeatRequest, now_s: float) -> BrokerHeartbeatResponse:
        if request.want_shut_down:
            asked_s.append(now_s)
        return BrokerHeartbeatResponse(is_fenced=False, should_shut_down=bool(asked_s) and now_s - asked_s[0] >= leads_for_s)

    assert leads_for_s <= elapsed_until_it_goes(answer) < leads_for_s + 0.5


def test_goes_without_the_controller_when_none_answers_any_more() -> None:
    def answer(request: BrokerHeartbeatRequest, now_s: float) -> BrokerHeartbeatResponse | None:
        return None if request.want_shut_down else BrokerHeartbeatResponse(is_fenced=False, should_shut_down=False)

    assert elapsed_until_it_goes(answer) == pytest.approx(PATIENCE.silence_ms / 1000)


def test_goes_when_the_controller_keeps_it_for_too_long() -> None:
    assert elapsed_until_it_goes(lambda request, now_s: BrokerHeartbeatResponse(is_fenced=False, should_shut_down=False)) == pytest.approx(
        10.0
    )


def test_a_mistake_of_ours_does_not_end_the_heartbeats() -> None:
    asked_s: list[float] = []

    def answer(request: BrokerHeartbeatRequest, now_s: float) -> BrokerHeartbeatResponse:
        asked_s.append(now_s)
        if len(asked_s) in (1, 4):
            raise ValueError("nobody foresaw this")
        return BrokerHeartbeatResponse(is_fenced=False, should_shut_down=request.want_shut_down and len(asked_s) > 4)

    assert elapsed_until_it_goes(answer) < 0.5
    assert len(asked_s) > 4
