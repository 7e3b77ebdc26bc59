"""● Faults to plant in our clients.  Each breaks a rule that their promises need; schedules that found none of them would prove nothing.

with planted(CONSUMER_PLANTS["keeps-reading"]):
    violations = GroupSchedule(seed).run()
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final
from unittest.mock import patch

from moldau.clients.cluster import RETRY_AFTER_S, Unreachable
from moldau.clients.consumer.commits import Commits
from moldau.clients.consumer.heartbeat import HeartbeatMember
from moldau.clients.consumer.positions import Positions
from moldau.clients.consumer.work import ConsumerWork
from moldau.clients.coordinators import Coordinators
from moldau.clients.errors import Fenced
from moldau.clients.producer.transactions import FENCED_BY, Transaction
from moldau.clients.producer.transactor import Transactor
from moldau.clients.share import Acknowledge, SharedRecord
from moldau.clients.share.work import Acknowledgements, ShareWork
from moldau.clients.topics import Topics
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import TopicPartitions
from moldau.types import TopicPartition

Plant = tuple[type[Any], str, Callable[..., Any]]
"""A class, the name of its method, and the function that replaces the method."""


def _keeps(self: ConsumerWork, partitions: Iterable[TopicPartition]) -> None:
    """Go on reading partitions that were given up."""


async def _commits_ahead(self: Commits) -> None:
    """Count fetched records as done."""
    positions = self._positions.by_partition.values()
    self.handed_out = {one.topic_partition: (one.fetch_offset, -1) for one in positions if one.fetch_offset is not None}
    await _commit_quietly(self)


async def _forgets_names(self: HeartbeatMember, assigned: Sequence[TopicPartitions]) -> None:
    """Take an assignment of topics that have no names yet for an empty one."""
    if any(one.topic_id not in self._cluster.view.names for one in assigned):
        with suppress(OSError, Unreachable, KafkaError):
            await self._cluster.refresh(sorted(self._owner.subscribed()))
    names = self._cluster.view.names
    self._assigned = None
    self._target = frozenset(
        TopicPartition(names[one.topic_id], index) for one in assigned if one.topic_id in names for index in one.partitions
    )
    self._owner.news()


def _takes_from_behind(self: Positions, max_records: int | None) -> list[Any]:
    """Hand the last fetched records out first."""
    return _take(self, max_records)[::-1]


async def _commits_at_once(self: Transactor, flush: Callable[[], Awaitable[None]]) -> None:
    """Commit without a look at what is still on its way."""

    async def nothing() -> None: ...

    await _commit(self, nothing)


def _forgives(self: Transaction, error: KafkaError) -> KafkaError:
    """Go on with a transaction that has lost a record."""
    return _fail(self, error) if isinstance(error, Fenced) or error.code in FENCED_BY else error


async def _commits_an_abort(self: Transactor, *, committed: bool) -> None:
    await _end(self, committed=True)


async def _keeps_offsets(self: Transactor, offsets: object, group: object) -> None:
    """Take offsets for a transaction, and send none."""


def _keeps_coordinator(self: Coordinators, key: str) -> None:
    """Ask the coordinator of before, wherever the group is now."""


def _keeps_leaders(self: Topics) -> None:
    """Look leaders up once, and never again."""
    if not self.answer_count:
        _refresh_soon(self)


def _accepts_all(self: ShareWork, shared: SharedRecord, kind: Acknowledge) -> None:
    """Accept what the caller released."""
    _acknowledge(self, shared, Acknowledge.ACCEPT if kind is Acknowledge.RELEASE else kind)


def _forgets(self: ShareWork, said: Acknowledgements) -> None:
    """Forget acknowledgements that were on a broken connection."""


async def _pauses(self: ShareWork) -> None:
    """Fetch again after a while, from the leaders of before."""
    await asyncio.sleep(RETRY_AFTER_S)


def _confirms_doubts(self: ShareWork, said: Acknowledgements) -> None:
    """Confirm acknowledgements that were on a broken connection."""
    for one in said:
        self._tell(said, one, ErrorCode.NONE)


_refresh_soon: Final = Topics.refresh_soon
_acknowledge: Final = ShareWork.acknowledge
_commit: Final = Transactor.commit
_end: Final = Transactor._end
_fail: Final = Transaction.fail
_commit_quietly: Final = Commits._commit_quietly
_take: Final = Positions.take

CONSUMER_PLANTS: Final[dict[str, Plant]] = {
    "keeps-reading": (ConsumerWork, "_drop", _keeps),
    "commits-what-was-fetched": (Commits, "_commit_quietly", _commits_ahead),
    "forgets-an-assignment": (HeartbeatMember, "_aim_at", _forgets_names),
    "hands-out-backwards": (Positions, "take", _takes_from_behind),
}

CLUSTER_PLANTS: Final[dict[str, Plant]] = {
    **CONSUMER_PLANTS,
    "keeps-the-coordinator": (Coordinators, "forget", _keeps_coordinator),
    "keeps-the-leaders": (Topics, "refresh_soon", _keeps_leaders),
}
TRANSACTION_PLANTS: Final[dict[str, Plant]] = {
    "commits-at-once": (Transactor, "commit", _commits_at_once),
    "forgives-a-lost-record": (Transaction, "fail", _forgives),
    "commits-an-abort": (Transactor, "_end", _commits_an_abort),
    "keeps-offsets": (Transactor, "_commit_offsets", _keeps_offsets),
}
SHARE_PLANTS: Final[dict[str, Plant]] = {
    "accepts-all": (ShareWork, "acknowledge", _accepts_all),
    "forgets-acknowledgements": (ShareWork, "_say_again", _forgets),
    "confirms-doubts": (ShareWork, "_say_again", _confirms_doubts),
}
CLUSTER_TRANSACTION_PLANTS: Final[dict[str, Plant]] = {
    **TRANSACTION_PLANTS,
    "keeps-the-coordinator": CLUSTER_PLANTS["keeps-the-coordinator"],
    "keeps-the-leaders": CLUSTER_PLANTS["keeps-the-leaders"],
}
CLUSTER_SHARE_PLANTS: Final[dict[str, Plant]] = {
    **SHARE_PLANTS,
    "keeps-the-coordinator": CLUSTER_PLANTS["keeps-the-coordinator"],
    "keeps-the-leaders": (ShareWork, "_pause_and_refresh", _pauses),
}


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    where, name, instead = plant
    with patch.object(where, name, instead):
        yield
