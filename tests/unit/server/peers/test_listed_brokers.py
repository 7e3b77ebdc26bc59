"""Brokers whose process died are listed to clients for another session, and others that are fenced are not."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from moldau.metadata.image import EMPTY, BrokerRegistration, Endpoint, MetadataImage
from moldau.server.peers.listed_brokers import ListedBrokers
from moldau.testing.loop import SimLoop
from tests.unit.server.conftest import StoppedClock

LINGER_MS = 9_000


class Port:
    def __init__(self, answer: type[OSError] | None) -> None:
        self.answer = answer

    async def connect(self, host: str, port: int, receiver: object) -> Any:
        if self.answer is None:
            return Transport()
        raise self.answer


class Transport:
    def abort(self) -> None:
        pass


def broker(number: int, *, epoch: int = 1, fenced: bool = False, is_stopping: bool = False) -> BrokerRegistration:
    at = Endpoint("PLAINTEXT", f"host-{number}", 9092, 0)
    return BrokerRegistration(number, epoch, UUID(int=epoch), (at,), {}, None, fenced, is_stopping, (), None)


def image_of(*brokers: BrokerRegistration) -> MetadataImage:
    return replace(EMPTY, brokers={each.id: each for each in brokers})


def listed_after(answer: type[OSError] | None, *images: MetadataImage, elapsed_ms: int = 0) -> list[int]:
    """The brokers that node 1 lists after these images."""
    loop, clock = SimLoop(), StoppedClock()
    listed = ListedBrokers(
        local_id=1,
        network=Port(answer),  # type: ignore[arg-type]
        clock=clock,
        listener_name="PLAINTEXT",
        linger_ms=LINGER_MS,
    )

    async def live() -> None:
        for image in images:
            listed.brokers_changed(image)
        await asyncio.gather(*(task for task in asyncio.all_tasks() if task is not asyncio.current_task()))

    loop.run_until_complete(live())
    clock.advance(elapsed_ms)
    return [each.id for each in listed.of(images[-1])]


BOTH = image_of(broker(1), broker(2))
DEAD = image_of(broker(1), broker(2, fenced=True))


def test_a_broker_whose_port_refuses_is_listed_for_another_session() -> None:
    assert listed_after(ConnectionRefusedError, BOTH, DEAD, elapsed_ms=LINGER_MS - 1) == [1, 2]
    assert listed_after(ConnectionRefusedError, BOTH, DEAD, elapsed_ms=LINGER_MS) == [1]


@pytest.mark.parametrize("answer", [None, TimeoutError, OSError, ConnectionResetError])
def test_a_silent_broker_is_listed_no_more(answer: type[OSError] | None) -> None:
    """A paused process takes connections, and an unplugged machine answers nothing."""
    assert listed_after(answer, BOTH, DEAD) == [1]


def test_a_broker_that_stopped_cleanly_is_listed_no_more() -> None:
    assert listed_after(ConnectionRefusedError, BOTH, image_of(broker(1), broker(2, is_stopping=True)), DEAD) == [1]


def test_a_broker_that_was_started_again_is_listed_while_it_starts() -> None:
    assert listed_after(None, BOTH, image_of(broker(1), broker(2, epoch=7, fenced=True))) == [1, 2]
    assert listed_after(None, BOTH, DEAD, image_of(broker(1), broker(2, epoch=7, fenced=True))) == [1, 2]


def test_a_broker_that_was_fenced_before_this_one_began_is_not_listed() -> None:
    assert listed_after(ConnectionRefusedError, DEAD) == [1]


def test_this_broker_does_not_list_itself_while_it_is_fenced() -> None:
    assert listed_after(ConnectionRefusedError, BOTH, image_of(broker(1, fenced=True), broker(2))) == [2]


def test_a_broker_that_is_no_longer_registered_is_not_listed() -> None:
    assert listed_after(ConnectionRefusedError, BOTH, DEAD, image_of(broker(1))) == [1]
