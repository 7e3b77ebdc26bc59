"""Changes of partitions when brokers come and go."""

from uuid import UUID

from moldau.metadata.delta import replay
from moldau.metadata.departures import fence, leave, leave_directories, shut_down, unfence
from moldau.metadata.features import ELR_VERSION
from moldau.metadata.image import MetadataImage
from moldau.metadata.outcome import PIECE
from moldau.metadata.records import BrokerRegistrationChangeRecord, FeatureLevelRecord
from proof.cluster.images import an_image, partition, rules, with_config, with_partition, with_topic

SCHEMA = rules().schema


def test_a_fenced_leader_hands_over() -> None:
    image = with_topic(an_image(1, 2), 1, 2)
    image = replay(image, fence(image, SCHEMA, 1).records)
    assert (partition(image).leader, partition(image).isr, partition(image).leader_epoch) == (2, (2,), 1)
    assert image.brokers[1].fenced


def test_the_last_in_sync_replica_stays_eligible_and_leads_again() -> None:
    image = with_topic(an_image(1), 1)
    image = replay(image, fence(image, SCHEMA, 1).records)
    assert (partition(image).leader, partition(image).isr, partition(image).elr, partition(image).last_known_elr) == (-1, (), (1,), (1,))
    image = replay(image, unfence(image, SCHEMA, image.brokers[1]))
    found = partition(image)
    assert (found.leader, found.isr, found.elr, found.last_known_elr) == (1, (1,), (), ())
    assert (found.leader_epoch, found.leader_recovery_state) == (2, 0)


def test_a_lost_directory_takes_its_replicas_out() -> None:
    image = with_topic(an_image(1, 2), 1, 2)
    image = replay(image, leave_directories(image, SCHEMA, image.brokers[1], [UUID(int=5001)]).records)
    assert partition(image).isr == (2,) and partition(image).leader == 2
    assert leave_directories(an_image(1), SCHEMA, an_image(1).brokers[1], [UUID(int=77)]).records == [], "the broker has no such directory"


# ---------------------------------------------------------------------- a replica in an offline directory never leads


def with_offline_directory(image: MetadataImage, broker_id: int) -> MetadataImage:
    """Gives a broker another directory in place of its only one, which failed; the partition still lies in the old one."""
    change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=7, log_dirs=[UUID(int=6000 + broker_id)])
    return replay(image, [change])


def test_an_eligible_replica_in_an_offline_directory_does_not_lead() -> None:
    image = with_topic(an_image(1, 2, 3), 1, 2, 3)
    image = with_partition(image, isr=[1], eligible_leader_replicas=[2, 3])
    image = with_offline_directory(image, 2)
    image = replay(image, fence(image, SCHEMA, 1).records)
    assert partition(image).leader == 3, "2 is eligible and alive, but its disk is gone"


def test_an_unfenced_broker_does_not_lead_what_lies_in_an_offline_directory() -> None:
    image = with_topic(an_image(1), 1)
    image = replay(image, fence(image, SCHEMA, 1).records)
    image = with_offline_directory(image, 1)
    image = replay(image, unfence(image, SCHEMA, image.brokers[1]))
    assert not image.brokers[1].fenced and partition(image).leader == -1


def test_an_unclean_election_does_not_take_a_replica_in_an_offline_directory() -> None:
    image = with_config(with_topic(an_image(1, 2, 3), 1, 2, 3), unclean_leader_election_enable="true")
    image = with_offline_directory(with_partition(image, isr=[1]), 2)
    image = replay(image, fence(image, SCHEMA, 1).records)
    assert (partition(image).leader, partition(image).isr, partition(image).leader_recovery_state) == (3, (3,), 1)


# ---------------------------------------------------------------------- in pieces


def pieces(image: MetadataImage, broker_id: int) -> tuple[MetadataImage, list[int]]:
    sizes, is_complete = [], False
    while not is_complete:
        records, is_complete = fence(image, SCHEMA, broker_id)
        image = replay(image, records)
        sizes.append(len(records))
    return image, sizes


def test_a_broker_of_many_partitions_leaves_in_pieces_and_is_fenced_with_the_last() -> None:
    image = with_topic(an_image(1, 2), 1, 2, partition_count=2 * PIECE + 3)
    first = replay(image, fence(image, SCHEMA, 1).records)
    assert not first.brokers[1].fenced, "a controller that takes over half-way begins again"
    image, sizes = pieces(image, 1)
    assert sizes == [PIECE, PIECE, 3 + 1] and image.brokers[1].fenced
    assert {(one.leader, one.isr) for one in image.topics["t"].partitions} == {(2, (2,))}


def test_exactly_one_piece_is_complete() -> None:
    assert pieces(with_topic(an_image(1, 2), 1, 2, partition_count=PIECE), 1)[1] == [PIECE + 1]


def test_pieces_end_where_the_last_in_sync_replica_stays_in_the_set() -> None:
    """Partitions that have become leaderless are not looked at again where there are no eligible replicas."""
    image = replay(with_topic(an_image(1, 2), 1, partition_count=PIECE + 1), [FeatureLevelRecord(name=ELR_VERSION, feature_level=0)])
    image, sizes = pieces(image, 1)
    assert sizes == [PIECE, 2] and {(one.leader, one.isr) for one in image.topics["t"].partitions} == {(-1, (1,))}


def test_a_shutdown_is_told_with_the_last_piece() -> None:
    image = with_topic(an_image(1, 2), 1, 2, partition_count=PIECE + 1)
    first = shut_down(image, SCHEMA, image.brokers[1])
    image = replay(image, first.records)
    assert not first.is_complete and not image.brokers[1].in_controlled_shutdown
    last = shut_down(image, SCHEMA, image.brokers[1])
    assert last.is_complete and replay(image, last.records).brokers[1].in_controlled_shutdown and len(last.records) == 2


def test_who_lost_its_log_leaves_the_eligible_sets_too() -> None:
    image = with_config(with_topic(an_image(1, 2, 3), 1, 2, 3), min_insync_replicas="2")
    image = with_partition(image, isr=[1], eligible_leader_replicas=[2, 3])
    assert partition(replay(image, leave(image, SCHEMA, 2).records)).elr == (2, 3)
    assert partition(replay(image, leave(image, SCHEMA, 2, lost_its_log=True).records)).elr == (3,)
