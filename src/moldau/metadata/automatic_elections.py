"""◇ Elections that the controller holds at intervals, without a request: back to preferred replicas, and unclean ones.

Each call elects for a piece of at most `PIECE` partitions, so that the event loop has other turns in between.  `elections.py` has the
elections that an administrator asks for.  Called by `controller.py`.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.departures import partitions_of
from moldau.metadata.image import MetadataImage, PartitionRegistration
from moldau.metadata.outcome import PIECE, Piece
from moldau.metadata.partition_change import Election, change_of, may_lead
from moldau.protocol.wire import StoredRecord
from moldau.types import NO_LEADER


def balance_leaders(image: MetadataImage, schema: ConfigSchema) -> Piece:
    """Move a piece of leaderships back to preferred replicas that are in sync, and away from brokers that may not lead.

    Source: maybeBalancePartitionLeaders.
    """

    def concerns(partition: PartitionRegistration) -> bool:
        leader, preferred, fit = partition.leader, partition.preferred_leader, may_lead(image, partition)
        is_settled = not partition.is_reassigning and not partition.elr and fit(leader)
        return leader != preferred and (not is_settled or (preferred in partition.isr and fit(preferred)))

    return _elect(image, schema, concerns, Election.PREFERRED)


def elect_uncleanly(image: MetadataImage, schema: ConfigSchema) -> Piece:
    """Elect leaders for a piece of the partitions without one, where unclean.leader.election.enable allows to lose records.

    Source: maybeElectUncleanLeaders, unclean.leader.election.interval.ms.
    """

    def concerns(partition: PartitionRegistration) -> bool:
        has_more_to_settle = partition.is_reassigning or partition.elr
        return partition.leader == NO_LEADER and (bool(has_more_to_settle) or any(map(image.is_active, partition.replicas)))

    return _elect(image, schema, concerns, Election.UNCLEAN)


def _elect(image: MetadataImage, schema: ConfigSchema, concerns: Callable[[PartitionRegistration], bool], election: Election) -> Piece:
    def elected() -> Iterator[StoredRecord]:
        for topic, number in partitions_of(image, concerns):
            if election is Election.UNCLEAN and not schema.is_unclean_election_enabled(image, topic.name):
                continue
            change = change_of(image, schema, topic, number)
            change.election = election
            record = change.record()
            if record is not None:
                yield record

    records = list(islice(elected(), PIECE + 1))
    return Piece(records[:PIECE], is_complete=len(records) <= PIECE)
