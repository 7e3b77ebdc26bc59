"""The view puts together what a cluster said in several answers."""

from uuid import UUID

from moldau.clients.view import EMPTY, Node
from moldau.errors import ErrorCode
from moldau.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.types import TopicPartition


def a_topic(name: str, leaders: list[int], error: ErrorCode = ErrorCode.NONE) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=leader, replica_nodes=[1], isr_nodes=[1])
        for index, leader in enumerate(leaders)
    ]
    return MetadataResponseTopic(name=name, topic_id=UUID(int=len(name) + 9), partitions=partitions, error_code=error)


def a_response(*topics: MetadataResponseTopic) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=1, host="h", port=9092), MetadataResponseBroker(node_id=2, host="h", port=9093, rack="r")]
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=list(topics))


def test_leaders_names_and_nodes() -> None:
    view = EMPTY.updated(a_response(a_topic("t", [2, -1, 7])))
    assert view.leader_of(TopicPartition("t", 0)) == Node(2, "h", 9093, "r")
    assert view.leader_of(TopicPartition("t", 1)) is None, "no leader"
    assert view.leader_of(TopicPartition("t", 2)) is None, "the leader is no broker that we know"
    assert view.partitions_of("t") == [0, 1, 2]
    assert view.names[view.topic_id_of("t")] == "t"


def test_an_answer_about_some_topics_keeps_the_others() -> None:
    view = EMPTY.updated(a_response(a_topic("t", [1]), a_topic("gone", [1]))).updated(a_response(a_topic("t", [2])))
    assert view.leaders == {TopicPartition("t", 0): 2, TopicPartition("gone", 0): 1}


def test_an_answer_about_all_topics_drops_those_it_does_not_name() -> None:
    view = EMPTY.updated(a_response(a_topic("t", [1]), a_topic("gone", [1]))).updated(a_response(a_topic("t", [2])), all_topics=True)
    assert view.leaders == {TopicPartition("t", 0): 2}


def test_errors_of_topics() -> None:
    view = EMPTY.updated(a_response(a_topic("t", [], ErrorCode.LEADER_NOT_AVAILABLE)))
    assert (view.error_of("t"), view.error_of("never asked")) == (ErrorCode.LEADER_NOT_AVAILABLE, None)
