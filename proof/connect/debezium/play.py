"""● One story beside Debezium: told by our task, which is cut off at random, or by a worker of ours, which is killed."""

import asyncio
import time
from collections.abc import Iterator
from random import Random

from moldau.testing.process import BrokerProcess
from proof.connect.debezium.comparison import Comparison
from proof.connect.debezium.oracle import Debezium
from proof.connect.debezium.stage import Stage
from proof.connect.debezium.task import Ours
from proof.connect.debezium.worker import Killed, committed
from proof.connect.postgres import Postgres
from proof.connect.stories import Step, Story

OWN = {"publication.name": "own"}


async def compare(server: Postgres, debezium: Debezium, told: Story, name: str) -> tuple[int, list[str]]:
    """Play a story.  Returns the number of records, and the differences."""
    random = Random(name)
    with Stage(server, told, name) as stage:
        reading = stage.read_by(debezium)
        ours = Ours({**stage.config("own"), **OWN, "max.batch.size": str(random.choice((3, 50, 2048)))})
        await ours.read_snapshot()
        await stage.wait_for("dbz")
        for step in told.steps:
            step(stage.db, stage.other)
            if random.random() < 0.2:
                await ours.read(random.randrange(1, 4))
            if random.random() < 0.1:
                await ours.cut_off(random)
        stage.end_story()
        await ours.read_to(stage.end_topic)
        await ours.end()
        theirs, own = await asyncio.to_thread(reading.records), ours.records()
        for slot in ("dbz", "own"):
            await stage.drop(slot)
    comparison = Comparison(ours.restarts)
    comparison.compare(theirs.of(), own.of())
    return len(theirs), comparison.differences()


async def compare_killed(
    server: Postgres, debezium: Debezium, broker: BrokerProcess, told: Story, name: str, kills: int
) -> tuple[int, list[str]]:
    """Play a story while a worker of ours that writes with transactions gets SIGKILL between steps, the first time behind the snapshot.

    The records are those that a reader of committed records finds, so none may be lost and none repeated.  They are compared topic by
    topic.  Returns the number of records, and the differences.
    """
    random = Random(name)
    at = set(random.sample(range(len(told.steps)), kills))
    with Stage(server, told, name) as stage:
        reading = stage.read_by(debezium)
        config = {**stage.config("own"), **OWN, "max.batch.size": str(random.choice((50, 2048)))}
        with Killed(broker.bootstrap, name, config) as ours:
            await asyncio.to_thread(ours.read_snapshot)
            await stage.wait_for("dbz")
            for step in _with_kills(told, at, ours, random):
                step(stage.db, stage.other)
            ours.start()
            stage.end_story()
            own = await committed(broker.bootstrap, name, stage.end_topic)
            theirs = await asyncio.to_thread(reading.records)
        for slot in ("dbz", "own"):
            await stage.drop(slot)
    comparison = Comparison(kills)
    for topic in sorted({*theirs.topics(), *own.topics()}):
        comparison.compare(theirs.of(topic), own.of(topic), topic)
    return len(theirs), comparison.differences()


def _with_kills(told: Story, at: set[int], ours: Killed, random: Random) -> Iterator[Step]:
    """The steps.  The worker has a moment to come into the middle of its work, and is away for some steps behind a kill."""
    for number, step in enumerate(told.steps):
        yield step
        if number in at:
            ours.start()
            time.sleep(random.random() * 2)
            ours.kill()
        elif random.random() < 0.3:
            ours.start()
