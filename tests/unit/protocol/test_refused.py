"""Every request can be refused in every version, in the form that Kafka gives the answer."""

from typing import Any
from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.compiler import decode, encode_bytes
from moldau.protocol.messages import REQUESTS
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from moldau.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from moldau.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from moldau.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from moldau.protocol.wire import Field, Request, Struct, blank

TOPIC_ID = UUID(int=77)
CODE = ErrorCode.POLICY_VIOLATION
SILENT = {("DescribeLogDirsRequest", 1), ("DescribeLogDirsRequest", 2)}
"""These versions have no place for an error when nothing can be listed; Kafka's answer is as empty."""


def asking(declared: type[Any], version: int) -> Any:
    """A request that names one of everything."""
    request = blank(declared)
    for field in declared.FIELDS:
        if field.is_in(version) and field.tag is None:
            setattr(request, field.name, one_of(field, version, getattr(request, field.name)))
    return request


def one_of(field: Field, version: int, otherwise: Any) -> Any:
    if field.kind == "array":
        return [asking(field.struct, version) if field.struct else {"string": "s", "uuid": TOPIC_ID}.get(str(field.element), 5)]
    return {"string": "text", "uuid": TOPIC_ID, "int32": 3}.get(field.kind, otherwise)


def error_codes(value: Any) -> set[int]:
    if isinstance(value, list):
        return set().union(*map(error_codes, value))
    if isinstance(value, Struct):
        own = {getattr(value, field.name) for field in value.FIELDS if field.name in ("error_code", "partition_error_code")}
        return own.union(*(error_codes(getattr(value, field.name)) for field in value.FIELDS))
    return set()


@pytest.mark.parametrize("declared", REQUESTS.values(), ids=lambda declared: declared.__name__)
def test_every_request_is_refused_in_every_version(declared: type[Request[Any]]) -> None:
    for version in declared.VERSIONS:
        answer = asking(declared, version).refused(CODE, "not here")
        assert isinstance(answer, declared.RESPONSE)
        read = decode(declared.RESPONSE, version, encode_bytes(answer, version))
        codes = error_codes(read)
        assert codes <= {CODE, 0}
        assert CODE in codes or (declared.__name__, version) in SILENT, f"v{version}: {read}"


def test_produce_answers_each_partition() -> None:
    partitions = [PartitionProduceData(index=index, records=None) for index in (4, 7)]
    request = ProduceRequest(acks=1, timeout_ms=0, topic_data=[TopicProduceData(name="t", topic_id=TOPIC_ID, partition_data=partitions)])
    (topic,) = request.refused(CODE, "why").responses
    assert (topic.name, topic.topic_id) == ("t", TOPIC_ID)
    answered = [(one.index, one.error_code, one.base_offset, one.error_message) for one in topic.partition_responses]
    assert answered == [(4, CODE, -1, "why"), (7, CODE, -1, "why")]


def a_fetch(topic: str) -> FetchRequest:
    partition = FetchPartition(partition=3, fetch_offset=0, partition_max_bytes=1)
    return FetchRequest(max_wait_ms=0, min_bytes=0, session_id=5, topics=[FetchTopic(topic=topic, partitions=[partition])])


def test_fetch_repeats_only_topics_with_names() -> None:
    response = a_fetch("t").refused(CODE)
    (partition,) = response.responses[0].partitions
    assert (response.error_code, response.session_id, response.responses[0].topic) == (CODE, 5, "t")
    assert (partition.partition_index, partition.error_code, partition.high_watermark) == (3, CODE, -1)
    assert a_fetch("").refused(CODE).responses == []


def test_api_versions_tells_its_own_range_to_who_asked_in_a_wrong_one() -> None:
    request = ApiVersionsRequest()
    assert request.refused(ErrorCode.UNSUPPORTED_VERSION).api_keys == [ApiVersion(api_key=18, min_version=0, max_version=4)]
    assert request.refused(CODE).api_keys == []


def test_lists_of_plain_values() -> None:
    coordinators = FindCoordinatorRequest(coordinator_keys=["a", "b"]).refused(CODE).coordinators
    assert [(one.key, one.node_id, one.port, one.error_code) for one in coordinators] == [("a", -1, -1, CODE), ("b", -1, -1, CODE)]
    old = FindCoordinatorRequest(key="a").refused(CODE)
    assert (old.error_code, old.node_id, old.coordinators) == (CODE, -1, [])
    names = DeleteTopicsRequest(topic_names=["a"], timeout_ms=0).refused(CODE).responses
    assert [(one.name, one.error_code) for one in names] == [("a", CODE)]
    elected = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[1, 2])]).refused(CODE)
    assert [one.partition_id for one in elected.replica_election_results[0].partition_result] == [1, 2]
    assert ElectLeadersRequest(topic_partitions=None).refused(CODE).replica_election_results == []


def test_three_levels() -> None:
    marker = WritableTxnMarker(
        producer_id=9,
        producer_epoch=0,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[1, 2])],
        coordinator_epoch=0,
    )
    (answer,) = WriteTxnMarkersRequest(markers=[marker]).refused(CODE).markers
    assert answer.producer_id == 9
    assert [(one.partition_index, one.error_code) for one in answer.topics[0].partitions] == [(1, CODE), (2, CODE)]


def test_old_and_new_forms_of_one_request() -> None:
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[1])]
    old = AddPartitionsToTxnRequest(v3_and_below_topics=topics).refused(CODE)
    assert old.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == CODE
    assert AddPartitionsToTxnRequest(transactions=[]).refused(CODE).error_code == CODE


def test_those_that_answer_in_their_own_way() -> None:
    users = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=name, mechanism=1) for name in ("b", "a", "b")], upsertions=[]
    )
    assert [one.user for one in users.refused(CODE).results] == ["a", "b"]
    dirs = [AlterReplicaLogDir(path="/d", topics=[AlterReplicaLogDirTopic(name="t", partitions=[1])])]
    assert AlterReplicaLogDirsRequest(dirs=dirs).refused(CODE).results[0].partitions[0].error_code == CODE
    assert DescribeClientQuotasRequest(components=[], strict=False).refused(CODE).entries is None
    producer = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0).refused(CODE)
    assert (producer.producer_id, producer.producer_epoch) == (-1, -1)
    topic = MetadataRequest(topics=[MetadataRequestTopic(topic_id=TOPIC_ID, name=None)]).refused(CODE).topics[0]
    assert (topic.name, topic.topic_id, topic.error_code) == ("", TOPIC_ID, CODE)
