"""● Epochs of transactional ids: a new epoch for each micro-batch, but none after a micro-batch that wrote nothing.

Queries with timers have a micro-batch every half second, most of them empty.  An epoch that nobody wrote with is as good as a new one, if
one micro-batch at a time holds it.  The plan that begins an epoch holds it.  Only the commit knows that all tasks have ended and that none
wrote; it passes the epoch on and leaves a note (`notes`).  The plan that takes the note away holds the epoch, in whatever process it runs.

    a query is stopped, its tasks still write       its plan took the note away, and no commit left another: a new epoch
    two drivers plan at a time                      one gets the note, the other begins a new epoch and fences it
    a commit comes late, after another plan         a later epoch has begun, which the coordinator knows: a new epoch
    a note of before the cluster was made anew      notes are named by the cluster's id: it is not found
    a process ends with the note in its hand        the note is gone: a new epoch

The note alone proves nothing.  The coordinator has to say that the epoch is the newest one and was never written with.  It says so without
writing a record.
"""

from typing import NamedTuple
from uuid import uuid4

from moldau.clients.blocking.cluster import BlockingCluster
from moldau.clients.blocking.transactions import TransactionalProducer, begin, resume
from moldau.errors import KafkaError
from pyspark_moldau.notes import Note, leave, take
from pyspark_moldau.private import name_of


class Epoch(NamedTuple):
    """A producer's epoch in one micro-batch."""

    producer: TransactionalProducer
    cluster_id: str
    """Empty where brokers do not tell it: then no note is left."""
    token: str
    """A text that only this micro-batch has."""


def epoch_for(cluster: BlockingCluster, cluster_id: str, transactional_id: str, *, timeout_ms: int) -> Epoch:
    """A new epoch, unless the newest one was passed on and is unused.  Errors: KafkaError, OSError.

    `cluster_id`: the answer of this micro-batch's plan, since another cluster may be at the same addresses by now; empty where brokers
    do not tell it.
    """
    token = uuid4().hex
    note = _taken(cluster_id, transactional_id, token)
    producer = None if note is None else _resumed(cluster, transactional_id, note, timeout_ms)
    if producer is None:
        producer = begin(cluster, transactional_id, timeout_ms=timeout_ms)
    return Epoch(producer, cluster_id, token)


def pass_on(epoch: Epoch) -> None:
    """Leave the epoch to the next plan, when all tasks of its micro-batch have ended and none wrote."""
    producer, cluster_id, token = epoch
    if not cluster_id:
        return
    try:
        leave(_name(cluster_id, producer.transactional_id), Note(producer.producer_id, producer.epoch), token)
    except OSError:
        return  # the next micro-batch takes a new epoch


def _taken(cluster_id: str, transactional_id: str, token: str) -> Note | None:
    try:
        return take(_name(cluster_id, transactional_id), token)
    except OSError:
        return None


def _resumed(cluster: BlockingCluster, transactional_id: str, note: Note, timeout_ms: int) -> TransactionalProducer | None:
    try:
        return resume(cluster, transactional_id, note.producer_id, note.epoch, timeout_ms=timeout_ms)
    except KafkaError:  # such as a broker that does not know the question
        return None


def _name(cluster_id: str, transactional_id: str) -> str:
    return name_of(f"{cluster_id}\n{transactional_id}")
