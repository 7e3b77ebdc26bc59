"""● The tables change all the time while Debezium and our task take their snapshots, each at a moment of its own.

What must hold:

- Each connector's records, snapshot and log, are a history without a lost or a repeated change (`history`).
- They end in the rows that the tables have, as a snapshot of Debezium tells them at the end.
- Transactions that both tell from the log are equal, field by field.
- Each other transaction is in the snapshot of the one that does not tell it: the snapshots, with the transactions that one connector alone
  tells, are the same rows.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from proof.connect.debezium.comparison import Comparison
from proof.connect.debezium.history import History
from proof.connect.debezium.oracle import Debezium
from proof.connect.debezium.records import Records, Shown
from proof.connect.debezium.stage import END, Stage
from proof.connect.debezium.task import Ours
from proof.connect.postgres import Postgres
from proof.connect.stories import Story

PAUSE_S: Final = 0.01
BEHIND: Final = 40
"""So many steps come once both read the log."""


class _Writer(threading.Thread):
    """Plays steps until both connectors read the log, and some more."""

    def __init__(self, stage: Stage, told: Story) -> None:
        super().__init__(daemon=True)
        self._stage, self._steps = stage, iter(told.steps)
        self.are_reading = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            behind = 0
            while behind < BEHIND:
                next(self._steps)(self._stage.db, self._stage.other)
                behind += self.are_reading.is_set()
                time.sleep(PAUSE_S)
        except BaseException as error:
            self.failure = error


async def compare_busy(server: Postgres, debezium: Debezium, told: Story, name: str) -> tuple[int, list[str]]:
    """Play a story, which has to be long enough.  Returns the number of records, and what does not hold."""
    random = Random(name)
    with Stage(server, told, name) as stage:
        writer = _Writer(stage, told)
        writer.start()
        reading = stage.read_by(debezium)
        await asyncio.sleep(random.random())
        ours = Ours({**stage.config("own"), "publication.name": "own", "max.batch.size": str(random.choice((50, 500)))})
        await ours.read_snapshot()
        await stage.wait_for("dbz")
        writer.are_reading.set()
        while writer.is_alive():
            await ours.read(1)
            if random.random() < 0.1:
                await ours.cut_off(random)
        if writer.failure is not None:
            raise writer.failure
        stage.end_story()
        await ours.read_to(stage.end_topic)
        await ours.end()
        theirs, own = await asyncio.to_thread(reading.records), ours.records()
        rows = await _rows(stage, debezium)
        for slot in ("dbz", "own", "end"):
            await stage.drop(slot)
    return len(theirs), _mistakes(theirs, own, ours.restarts, rows, stage)


async def _rows(stage: Stage, debezium: Debezium) -> History:
    """The tables as they are now, told by a snapshot of Debezium."""
    stage.db.execute(f"DELETE FROM {END}")
    reading = stage.read_by(debezium, "end")
    await stage.wait_for("end")
    stage.end_story()
    return History().tell((await asyncio.to_thread(reading.records)).of())


def _mistakes(theirs: Records, own: Records, restarts: int, rows: History, stage: Stage) -> list[str]:
    found: list[str] = []
    end = stage.end_topic
    for who, told in (("Debezium", theirs), ("ours", own)):
        history = History(stage.whole_topics).tell(told.of())
        found += [f"{who}: {one}" for one in history.mistakes]
        found += history.differences(rows, f"{who}, or the table at the end", without=end)
    of_them, of_us = (set(_transactions(told)) for told in (theirs, own))
    both = of_them & of_us
    comparison = Comparison(restarts + 1)  # the one whose snapshot came last begins without an earlier commit
    comparison.compare(_of_both(theirs, both), _of_both(own, both), "the log:")
    found += comparison.differences()
    begins = [History().tell(one for one in told.of() if not _is_of(one, both)) for told in (theirs, own)]
    found += begins[0].differences(begins[1], "where both logs begin, Debezium or ours", without=end)
    print(f"  {len(both)} transactions were told by both, {len(of_them - both)} by Debezium alone, {len(of_us - both)} by ours", flush=True)
    return found


def _transaction(record: Shown) -> Any:
    """The transaction of a record of the log.  None: a row of a snapshot, or a tombstone."""
    value = record["value"] and record["value"]["payload"]
    return value["source"]["txId"] if value and value["op"] != "r" else None


def _transactions(told: Records) -> Iterator[Any]:
    return (found for one in told.of() if (found := _transaction(one)) is not None)


def _is_of(record: Shown, transactions: set[Any]) -> bool:
    return _transaction(record) in transactions


def _of_both(told: Records, both: set[Any]) -> Iterator[Shown]:
    """The records of these transactions.  A tombstone goes with the deletion before it."""
    is_meant = False
    for record in told.of():
        if record["value"] is not None:
            is_meant = _is_of(record, both)
        if is_meant:
            yield record
