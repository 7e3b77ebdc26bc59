"""The controller holds elections at intervals, without a request."""

from moldau.metadata.automatic_elections import balance_leaders, elect_uncleanly
from moldau.metadata.delta import replay
from moldau.metadata.departures import fence, unfence
from moldau.metadata.outcome import PIECE
from moldau.metadata.records import PartitionChangeRecord
from proof.cluster.images import an_image, partition, rules, with_config, with_partition, with_topic

SCHEMA = rules().schema


def test_leadership_goes_back_to_the_preferred_replica() -> None:
    image = with_topic(an_image(1, 2), 1, 2)
    assert balance_leaders(image, SCHEMA) == ([], True)
    moved = with_partition(image, leader=2)
    assert partition(replay(moved, balance_leaders(moved, SCHEMA).records)).leader == 1
    for unfit in (with_partition(moved, isr=[2]), replay(moved, fence(moved, SCHEMA, 1).records)):
        assert balance_leaders(unfit, SCHEMA) == ([], True), "the preferred leader is behind, or fenced"


def test_balance_goes_in_pieces() -> None:
    image = with_topic(an_image(1, 2), 1, 2, partition_count=PIECE + 1)
    while not (left := fence(image, SCHEMA, 1)).is_complete:
        image = replay(image, left.records)
    image = replay(image, left.records)
    image = replay(image, unfence(image, SCHEMA, image.brokers[1]))
    topic = image.topics["t"]
    back = [PartitionChangeRecord(partition_id=number, topic_id=topic.id, isr=[1, 2]) for number in range(PIECE + 1)]
    image = replay(image, back)
    first = balance_leaders(image, SCHEMA)
    assert (len(first.records), first.is_complete) == (PIECE, False)
    second = balance_leaders(replay(image, first.records), SCHEMA)
    assert (len(second.records), second.is_complete) == (1, True)


def test_an_unclean_election_only_where_it_is_allowed() -> None:
    image = with_topic(an_image(1, 2), 1, 2)
    leaderless = with_partition(replay(image, fence(image, SCHEMA, 1).records), isr=[1], leader=-1)
    assert elect_uncleanly(leaderless, SCHEMA) == ([], True)
    allowed = with_config(leaderless, unclean_leader_election_enable="true")
    found = partition(replay(allowed, elect_uncleanly(allowed, SCHEMA).records))
    assert (found.leader, found.isr, found.leader_recovery_state) == (2, (2,), 1)
