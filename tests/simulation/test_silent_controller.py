"""The active controller is a broker, too, and falls silent: this broker loses its partitions one session after its last sign."""

import asyncio
from random import Random

from moldau.testing.loop import SimLoop
from proof.fleet.fleet import PROPERTIES, Fleet, Member, Shape, known_while_starting

SESSION_S = int(PROPERTIES["broker.session.timeout.ms"]) / 1000
HEARTBEAT_S = int(PROPERTIES["broker.heartbeat.interval.ms"]) / 1000
AN_ELECTION_S = 0.5
"""Less than the followers wait for a silent leader, and more than messages take."""
WITHIN_S = 60.0


def the_active(fleet: Fleet) -> Member | None:
    leaders = (one for one in fleet.members.values() if one.shared is not None and one.shared.driver.is_leader)
    return next(leaders, None)


def is_fenced(member: Member, broker_id: int) -> bool:
    broker = None if member.shared is None else member.shared.loader.image.brokers.get(broker_id)
    return broker is None or broker.fenced


async def silence_until_fenced(fleet: Fleet) -> float:
    """Seconds between the last moment at which the active controller could answer, and the fencing of its broker."""
    async with asyncio.timeout(WITHIN_S):
        for node_id in fleet.members:
            fleet.start(node_id)
        while (active := the_active(fleet)) is None or any(is_fenced(active, one.id) for one in fleet.brokers):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(2 * HEARTBEAT_S)
        others = [one for one in fleet.members.values() if one is not active]
        for other in others:
            fleet.network.cut(active.host, other.host)
        began_s = fleet.loop.time()
        while not all(is_fenced(one, active.id) for one in others):  # noqa: ASYNC110  the image is what brokers know
            await asyncio.sleep(0.01)
        return fleet.loop.time() - began_s


def test_the_broker_of_a_silent_controller_is_fenced_after_one_session() -> None:
    for seed in range(5):
        loop = SimLoop()
        fleet = Fleet(loop, Random(seed), Shape(3, 0))
        fleet.format()
        with known_while_starting(fleet):
            took_s = loop.run_until_complete(silence_until_fenced(fleet))
        for member in fleet.members.values():
            fleet.kill(member.id, with_power=True)
        loop.forget_the_dead()
        loop.close()
        assert took_s < SESSION_S + AN_ELECTION_S, f"seed {seed}: {took_s:.2f} s"
