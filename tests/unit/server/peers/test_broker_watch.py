"""A controller takes some brokers for dead before their sessions end."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.server.peers.broker_watch import PAUSES_S, BrokerWatch
from moldau.server.requests.dispatch import Client
from moldau.testing.loop import SimLoop

AT = SimpleNamespace(host="h", port=9092)
BROKER = SimpleNamespace(id=2, epoch=5, fenced=False, endpoint=lambda name: AT)


class Port:
    """The port of a broker, which gives these answers, one to a connection; the last answer stays."""

    def __init__(self, *answers: type[OSError] | None) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.on_asked: Callable[[], None] = lambda: None

    async def connect(self, host: str, port: int, receiver: object) -> Any:
        self.asked += 1
        self.on_asked()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer
        return SimpleNamespace(abort=lambda: None)


def watch_over(port: Port, dead: list[int]) -> BrokerWatch:
    image = SimpleNamespace(brokers={2: BROKER}, alive_brokers=lambda: iter([BROKER]))
    return BrokerWatch(
        local_id=1,
        network=port,  # type: ignore[arg-type]
        image=lambda: image,  # type: ignore[arg-type,return-value]
        listener_name="PLAINTEXT",
        is_active=lambda: True,
        on_dead=dead.append,
    )


def after_its_connection_breaks(port: Port, *, is_heard_again: bool = False) -> tuple[list[int], float]:
    """The brokers that were found dead, and the time that it took."""
    loop, dead = SimLoop(), list[int]()

    async def live() -> None:
        watch = watch_over(port, dead)
        client, other = (Client(listener="CONTROLLER", host="h", port=number) for number in (1, 2))
        watch.heard(2, client)
        if is_heard_again:
            port.on_asked = lambda: watch.heard(2, other)
        client.on_closed["heartbeats", 2]()
        await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name().startswith("is broker")))

    began_s = loop.time()
    loop.run_until_complete(live())
    return dead, loop.time() - began_s


def test_a_broker_whose_port_refuses_is_dead() -> None:
    assert after_its_connection_breaks(Port(ConnectionRefusedError))[0] == [2]


@pytest.mark.parametrize("takes", [None, ConnectionResetError])
def test_a_process_that_is_ending_may_take_a_connection_before_its_port_is_gone(takes: type[OSError] | None) -> None:
    dead, elapsed_s = after_its_connection_breaks(Port(takes, takes, ConnectionRefusedError))
    assert dead == [2] and elapsed_s < 0.1


def test_a_broker_that_is_heard_of_again_is_asked_no_more() -> None:
    port = Port(None)
    assert after_its_connection_breaks(port, is_heard_again=True)[0] == [] and port.asked == 1


@pytest.mark.parametrize("answer", [None, OSError])
def test_a_port_that_does_not_refuse_leaves_it_to_the_session(answer: type[OSError] | None) -> None:
    port = Port(answer)
    dead, elapsed_s = after_its_connection_breaks(port)
    assert dead == [] and elapsed_s < sum(PAUSES_S) + 0.1
    assert port.asked == (1 if answer else len(PAUSES_S) + 1)
