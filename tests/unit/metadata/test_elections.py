"""Leaders and in-sync sets on request: elections, proposals of leaders, reassignments."""

from typing import Any

import pytest

from moldau.errors import ErrorCode
from moldau.metadata.delta import replay
from moldau.metadata.departures import fence
from moldau.metadata.elections import alter_partition, alter_partition_reassignments
from moldau.metadata.image import MetadataImage
from moldau.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from proof.cluster.images import an_image, partition, rules, with_config, with_partition, with_topic

SCHEMA = rules().schema
BROKERS = an_image(1, 2, 3, 4)


def reassign(image: MetadataImage, *replicas: int, cancel: bool = False, keep_factor: bool = False) -> tuple[MetadataImage, int]:
    one = ReassignablePartition(partition_index=0, replicas=None if cancel else list(replicas))
    topics = [ReassignableTopic(name="t", partitions=[one])]
    request = AlterPartitionReassignmentsRequest(topics=topics, allow_replication_factor_change=not keep_factor)
    outcome = alter_partition_reassignments(image, SCHEMA, request)
    return replay(image, outcome.records), outcome.response.responses[0].partitions[0].error_code


def propose(image: MetadataImage, *isr: int) -> MetadataImage:
    """The leader proposes these replicas as in sync."""
    found = partition(image)
    states = [BrokerState(broker_id=one) for one in isr]
    asked = AlterPartitionRequestPartitionData(
        partition_index=0, leader_epoch=found.leader_epoch, new_isr_with_epochs=states, partition_epoch=found.partition_epoch
    )
    topics = [AlterPartitionRequestTopicData(topic_id=image.topics["t"].id, partitions=[asked])]
    request = AlterPartitionRequest(broker_id=found.leader, broker_epoch=7, topics=topics)
    outcome = alter_partition(image, SCHEMA, request, version=3)
    assert outcome.response.topics[0].partitions[0].error_code in (0, ErrorCode.NEW_LEADER_ELECTED)
    return replay(image, outcome.records)


def of(image: MetadataImage) -> dict[str, Any]:
    found = partition(image)
    names = ("replicas", "isr", "adding_replicas", "removing_replicas", "leader")
    return {name: getattr(found, name) for name in names}


def test_a_cancellation_that_would_lose_records_is_refused() -> None:
    """The partition moves from [1] to [2, 3]; 2 is in sync and leads since 1 died.  Back at [1] it would forget what 2 has acknowledged."""
    image, code = reassign(with_topic(BROKERS, 1), 2, 3)
    assert code == 0 and partition(image).replicas == (2, 3, 1)
    image = propose(image, 1, 2)
    image = replay(image, fence(image, SCHEMA, 1).records)
    assert (partition(image).leader, partition(image).isr) == (2, (2,))
    after, code = reassign(image, cancel=True)
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT and after == image
    allowed, code = reassign(with_config(image, unclean_leader_election_enable="true"), cancel=True)
    assert code == 0 and partition(allowed).replicas == (1,)


def test_a_clean_cancellation_goes_back() -> None:
    image, _ = reassign(with_topic(BROKERS, 1), 2, 3)
    image, code = reassign(propose(image, 1, 2), cancel=True)
    assert code == 0
    assert of(image) == {"replicas": (1,), "isr": (1,), "adding_replicas": (), "removing_replicas": (), "leader": 1}
    assert reassign(image, cancel=True)[1] == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_second_reassignment_keeps_every_in_sync_replica() -> None:
    image, _ = reassign(with_topic(BROKERS, 1), 2, 3)
    image, code = reassign(propose(image, 1, 2), 4)
    assert code == 0
    assert of(image) == {"replicas": (4, 1, 2, 3), "isr": (1, 2), "adding_replicas": (4,), "removing_replicas": (1, 2, 3), "leader": 1}
    image = propose(image, 1), propose(image, 1, 2, 4)
    assert of(image[0])["isr"] == (1,), "the leader can take out a replica that falls behind"
    assert of(image[1]) == {"replicas": (4,), "isr": (4,), "adding_replicas": (), "removing_replicas": (), "leader": 4}


@pytest.mark.parametrize(("targets", "done"), [((2, 1), False), ((1,), True), ((2,), True), ((3,), False), ((1, 2, 3), True)])
def test_a_second_reassignment_to_replicas_that_are_there_ends(targets: tuple[int, ...], done: bool) -> None:
    """Kafka goes on waiting for the replicas that the first reassignment was adding, until somebody cancels it."""
    image, _ = reassign(with_topic(BROKERS, 1), 2, 3)
    image, code = reassign(propose(image, 1, 2), *targets)
    is_awaited = targets in ((3,),)  # 3 is not in sync yet
    assert code == 0 and set(partition(image).isr) <= set(partition(image).replicas)
    assert partition(image).is_reassigning == is_awaited
    if done:
        assert partition(image).replicas == targets


def test_a_smaller_replication_factor_waits_for_those_that_stay() -> None:
    image = with_partition(with_topic(BROKERS, 1, 2, 3), isr=[1, 2])
    image, code = reassign(image, 2, 3)
    assert code == 0 and of(image)["removing_replicas"] == (1,) and partition(image).isr == (1, 2), "3 is not in sync"
    assert of(propose(image, 1, 2, 3)) == {"replicas": (2, 3), "isr": (2, 3), "adding_replicas": (), "removing_replicas": (), "leader": 2}


def test_the_replication_factor_is_kept_where_the_request_says_so() -> None:
    moving, _ = reassign(with_topic(BROKERS, 1), 2, 3)
    for targets, code in (((4, 1), 0), ((4,), ErrorCode.INVALID_REPLICATION_FACTOR)):
        assert reassign(moving, *targets, keep_factor=True)[1] == code, "it is moving to two replicas"
    assert reassign(with_topic(BROKERS, 1), 2, keep_factor=True)[1] == 0


def test_a_partition_may_be_moved_to_a_fenced_broker() -> None:
    """The broker catches up when it comes back; only new partitions need a broker that can lead."""
    image = replay(BROKERS, fence(BROKERS, SCHEMA, 4).records)
    image, code = reassign(with_topic(image, 1), 4)
    assert code == 0 and of(image)["adding_replicas"] == (4,) and partition(image).leader == 1
    assert reassign(image, 9)[1] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(image, 2, 2)[1] == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_new_replicas_go_to_the_only_directory_of_their_broker() -> None:
    image, _ = reassign(with_topic(BROKERS, 1), 2)
    assert partition(image).directories == tuple(image.brokers[one].log_dirs[0] for one in (2, 1))
