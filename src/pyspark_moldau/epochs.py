"""● Epochs of transactional ids: a new epoch for each micro-batch, but none after a micro-batch that wrote nothing.

Queries with timers have a micro-batch every half second, most of them empty.  An epoch that nobody wrote with is as good as a new one, if
two things are known.  *All tasks had ended*: tasks of a query that was stopped in the middle may still write.  Only the commit knows, and
Spark calls it in another process than the plan, so the commit leaves a note in a folder of this user's.  *Nobody took the next epoch*: the
coordinator tells, without writing a record.  Where something is missing, such as the note, a new epoch is taken.
"""

from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from moldau.clients.blocking.cluster import BlockingCluster
from moldau.clients.blocking.transactions import TransactionalProducer, begin, is_unused
from moldau.errors import KafkaError
from pyspark_moldau.private import name_of, private_folder


class Epoch(NamedTuple):
    """A producer's epoch in one micro-batch."""

    producer: TransactionalProducer
    token: str
    """A text that only this micro-batch has."""


_newest: dict[tuple[str, str, int], Epoch] = {}
"""The epoch that this process planned last, by brokers, transactional id and time-out."""


def epoch_for(cluster: BlockingCluster, brokers: str, transactional_id: str, *, timeout_ms: int) -> Epoch:
    """A new epoch, unless the newest one was planned here and is unused.  Errors: KafkaError, OSError."""
    key = (brokers, transactional_id, timeout_ms)
    newest = _newest.pop(key, None)
    producer = None
    if newest is not None and _is_noted(newest) and _is_untouched(cluster, newest.producer):
        producer = newest.producer
    if producer is None:
        producer = begin(cluster, transactional_id, timeout_ms=timeout_ms)
    _newest[key] = Epoch(producer, uuid4().hex)
    return _newest[key]


def note_unused(epoch: Epoch) -> None:
    """Note that all tasks of the epoch's micro-batch have ended, and that none wrote."""
    try:
        file = _file(epoch.producer.transactional_id)
        part = file.with_name(f"{file.name}.{epoch.token}")
        part.write_text(epoch.token, encoding="ascii")
        part.replace(file)
    except OSError:
        return  # the next micro-batch takes a new epoch


def _is_noted(epoch: Epoch) -> bool:
    try:
        return _file(epoch.producer.transactional_id).read_text(encoding="ascii") == epoch.token
    except OSError:
        return False


def _is_untouched(cluster: BlockingCluster, producer: TransactionalProducer) -> bool:
    try:
        return is_unused(cluster, producer)
    except KafkaError:  # such as a broker that does not know the question
        return False


def _file(transactional_id: str) -> Path:
    """Errors: PermissionError, OSError."""
    return private_folder() / name_of(transactional_id)
