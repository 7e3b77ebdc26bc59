"""● Lives with a group: members on our own consumer read what the producers of every life write, and commit what they have read.

The seed decides the protocol of the group.  Members die, more members come; the coordinator's partition is led by the nodes that are
struck, and its replicas are moved, too.

    python -m proof.fleet --read --seeds 100

What must hold: whoever takes a partition over begins where the group's offset says, at or behind the last commit that was acknowledged,
and leaves no record out; in the end every record has been read, and everything is committed.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from moldau.clients.consumer import Consumer
from moldau.types import TopicPartition
from proof.clients.group_schedules import PROTOCOLS
from proof.fleet.clients import PARTITIONS, TOPIC, Operator
from proof.fleet.fleet import Fleet
from proof.fleet.grouped import Group, Grouped, Member
from proof.fleet.life import ALIVE_WITHIN_S, BETWEEN_LOOKS_S, Violated

PLACES: Final = tuple(TopicPartition(TOPIC, number) for number in range(PARTITIONS))
GROUP: Final = "readers"


class Readers(Group):
    """What is known of the group.  Offsets are of the next record, by partition."""

    kind = "commits"

    def __init__(self) -> None:
        super().__init__()
        self.commits: Final[list[int]] = []
        """One entry for each commit that was acknowledged."""
        self.sure: Final = dict.fromkeys(PLACES, 0)
        """The offsets whose commit was acknowledged."""
        self.read: Final = dict.fromkeys(PLACES, 0)
        """The ends of what was read without a gap."""

    def __repr__(self) -> str:
        return "the group"

    @property
    def acknowledged(self) -> Sequence[int]:
        return self.commits


class Reader(Member):
    """One machine that reads for the group."""

    def __init__(self, fleet: Fleet, group: Readers, protocol: dict[str, Any], host: str) -> None:
        super().__init__(fleet, host)
        self.group: Readers = group
        self.protocol: Final = protocol

    async def _live(self) -> None:
        options: dict[str, Any] = {
            "group_id": GROUP,
            "topics": [TOPIC],
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 700,
            "max_poll_interval_ms": 8000,
            "fetch_max_wait_ms": 500,
            "default_api_timeout_ms": 10_000,
            **self.protocol,
        }
        async with Consumer(**self.options(), **options) as consumer:
            ends: dict[TopicPartition, int] = {}
            while not self.group.is_over:
                sure = dict(self.group.sure)
                batches = await consumer.poll(0.5)
                for records in batches:
                    where = TopicPartition(records.topic, records.partition)
                    if records.offsets[0] != ends.get(where):
                        self._begins(where, records.offsets[0], sure[where])
                    ends[where] = records.offsets[-1] + 1
                    self.group.read[where] = max(self.group.read[where], ends[where])
                if batches:
                    await self._commit(consumer)
                ends = {where: end for where, end in ends.items() if where in consumer.assignment}

    def _begins(self, where: TopicPartition, offset: int, sure: int) -> None:
        if offset > self.group.read[where]:
            self.fleet.on_wrong(f"a member reads {where} from {offset}, and nobody has read it beyond {self.group.read[where]}")
        if offset < sure:
            self.fleet.on_wrong(f"a member reads {where} from {offset}, and {sure} was committed")

    async def _commit(self, consumer: Consumer) -> None:
        positions = {where: end for where, end in consumer.positions.items() if where in PLACES}
        await consumer.commit()
        for where, end in positions.items():
            self.group.sure[where] = max(self.group.sure[where], end)
        self.group.commits.append(len(positions))


class ReadingOperator(Operator):
    """An operator who moves the replicas of the group's coordinator, too."""

    def _some_topic(self) -> str:
        return self.chance.choice((TOPIC, "__consumer_offsets"))


class Reading(Grouped):
    """See the module."""

    def __init__(self, seed: int, **more: Any) -> None:
        super().__init__(seed, **more)
        self.protocol: Final = self.chance.choice(PROTOCOLS)
        self.group: Readers = Readers()

    def _new_operator(self) -> Operator:
        return ReadingOperator(self.fleet)

    def _member(self, number: int) -> Reader:
        return Reader(self.fleet, self.group, self.protocol, f"10.0.6.{number}")

    async def _until_equal(self) -> None:
        await super()._until_equal()
        until_s = self.loop.time() + ALIVE_WITHIN_S
        while any(self.group.sure[where] != self._log_of(where).log_end_offset for where in PLACES):
            if self.loop.time() > until_s:
                self._wrong(f"in the end the group has committed {self.group.sure}")
                raise Violated
            await asyncio.sleep(BETWEEN_LOOKS_S)
        await self._end_members()
