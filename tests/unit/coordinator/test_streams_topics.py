"""A topology's needs of topics (KIP-1071): how many tasks, which internal topics, and what does not fit."""

from uuid import UUID

import pytest

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.group.streams.internal_topics import ConfiguredTopology, InvalidTopology, Status, configure
from moldau.coordinator.group.streams.topology import of_request
from moldau.protocol.messages.streams_group_heartbeat import CopartitionGroup, Subtopology
from proof.coordination import FixedTopics
from proof.groups.topologies import subtopology, topology


def configured(*subtopologies: Subtopology, **sizes: int) -> ConfiguredTopology:
    topics = FixedTopics(*(TopicView(UUID(int=number), name, size) for number, (name, size) in enumerate(sizes.items(), start=1)))
    return configure(of_request(topology(*subtopologies)), topics)


def missing(found: ConfiguredTopology) -> dict[str, int]:
    return {topic.name: topic.partition_count for topic in found.missing}


def test_repartition_topics_are_as_wide_as_what_is_written_to_them() -> None:
    found = configured(
        subtopology("2", repartition=["second"], changelogs=["state"]),
        subtopology("1", ["b"], repartition=["first"], sinks=["second"]),
        subtopology("0", ["a"], sinks=["first"]),
        a=3,
        b=5,
    )
    assert missing(found) == {"first": 3, "second": 5, "state": 5}
    assert {key: each.task_count for key, each in found.subtopologies.items()} == {"0": 3, "1": 5, "2": 5}
    assert [key for key, each in found.subtopologies.items() if each.is_stateful] == ["2"]
    assert found.problem is not None
    assert found.problem.status is Status.MISSING_INTERNAL_TOPICS
    assert dict(found.missing[2].configs) == {"cleanup.policy": "compact"}


def test_a_subtopology_that_reads_its_own_output_goes_by_the_rest() -> None:
    found = configured(subtopology("0", ["a"], repartition=["loop"], sinks=["loop"]), a=4)
    assert missing(found) == {"loop": 4}


def test_a_given_number_of_partitions_is_kept() -> None:
    found = configured(subtopology("0", ["a"], sinks=["sized"]), subtopology("1", repartition={"sized": 7}, changelogs=["state"]), a=3)
    assert missing(found) == {"sized": 7, "state": 7}


def test_joined_topics_have_one_number_of_partitions() -> None:
    writers = (subtopology("0", ["a"], sinks=["left"]), subtopology("1", ["b"], sinks=["right"]))

    def joined(left: int, right: int, **sizes: int) -> ConfiguredTopology:
        both = subtopology("2", repartition={"left": left, "right": right}, copartitioned=[["left", "right"]])
        return configured(*writers, both, a=3, b=5, **sizes)

    assert missing(joined(0, 0)) == {"left": 5, "right": 5}, "the larger number counts"
    assert missing(joined(4, 0)) == {"left": 4, "right": 4}, "the number that is given counts"
    refused = joined(4, 6)
    assert refused.problem is not None
    assert refused.problem.status is Status.INCORRECTLY_PARTITIONED_TOPICS
    assert refused.problem.detail == "Following topics do not have the same number of partitions: [{left=4, right=6}]"


def test_topics_of_others_decide_over_repartition_topics() -> None:
    writer = subtopology("0", ["a"], sinks=["words"])

    def joined(partitions: int) -> ConfiguredTopology:
        return configured(writer, subtopology("1", ["b"], repartition={"words": partitions}, copartitioned=[["b", "words"]]), a=3, b=5)

    assert missing(joined(0)) == {"words": 5}
    refused = joined(3)
    assert refused.problem is not None
    assert refused.problem.detail == (
        "Number of partitions [3] of repartition topic [words] doesn't match number of partitions [5] of the source topic."
    )
    unequal = configured(subtopology("0", ["a", "b"], copartitioned=[["a", "b"]]), a=3, b=5)
    assert unequal.problem is not None
    assert unequal.problem.detail == "Following topics do not have the same number of partitions: [{a=3, b=5}]"


def test_a_join_elsewhere_does_not_decide() -> None:
    """In Kafka 4.3.1 a fixed repartition topic anywhere in the topology sets the size of any flexible one that is joined."""
    found = configured(
        subtopology("0", ["a"], sinks=["sized", "left", "right"]),
        subtopology("1", repartition={"sized": 7}),
        subtopology("2", repartition=["left", "right"], copartitioned=[["left", "right"]]),
        a=3,
    )
    assert missing(found) == {"left": 3, "right": 3, "sized": 7}


def test_topics_that_are_there_must_fit() -> None:
    program = (subtopology("0", ["a"], sinks=["words"]), subtopology("1", repartition=["words"], changelogs=["state"]))
    assert configured(*program, a=3, words=3, state=3).is_ready
    assert missing(configured(*program, a=3, words=3)) == {"state": 3}
    refused = configured(*program, a=3, words=3, state=2)
    assert refused.problem is not None
    assert refused.problem.detail == "Existing topic state has different number of partitions: expected 3, found 2"
    assert not refused.missing


def test_missing_sources_are_named_up_to_three() -> None:
    found = configured(subtopology("0", ["e", "d", "c", "b", "a"]), a=1)
    assert found.problem is not None
    assert found.problem.status is Status.MISSING_SOURCE_TOPICS
    assert found.problem.detail == "Source topics b, c, d and 1 additional topics are missing."


def lost_place() -> Subtopology:
    found = subtopology("0", ["a"])
    found.copartition_groups = [CopartitionGroup(source_topics=[0, 1], source_topic_regex=[], repartition_source_topics=[])]
    return found


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (subtopology("0", changelogs=["state"]), "No source topics found for subtopology 0"),
        (subtopology("0", ["a"], repartition=["nobodys"]), "is never used as a sink topic"),
        (subtopology("0", repartition=["loop"], sinks=["loop"]), "There may be loops in the topology"),
        (subtopology("0", ["a"], repartition={"words": -1}, sinks=["words"]), "must be at least 1, not -1"),
        (lost_place(), "names topics that are not there"),
    ],
)
def test_some_topologies_can_never_run(wrong: Subtopology, message: str) -> None:
    with pytest.raises(InvalidTopology, match=message):
        configured(wrong, a=1)
