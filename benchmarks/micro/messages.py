"""◇ The cost of writing and reading the messages of the hot path.

Each function prepares its input once and returns the call to time.  `BUDGETS_US` holds the cost that a call should have,
in microseconds on one core of an idle machine.  `__main__.py` times the calls.
"""

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from moldau.protocol.compiler import decoder, encode_bytes, encoder
from moldau.protocol.header import decode_request_header, encode_request, encode_response
from moldau.protocol.messages.fetch import FetchableTopicResponse, FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from moldau.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

Call = Callable[[], Any]
TOPIC_ID: Final = UUID("0ad55e3e-6d2b-4c0a-8a4b-6b6f3e6d7c11")


def produce_request(partitions: int, size: int) -> ProduceRequest:
    batch = memoryview(bytes(size))
    data = [PartitionProduceData(index=index, records=batch) for index in range(partitions)]
    topic = TopicProduceData(name="user-reg-events", topic_id=TOPIC_ID, partition_data=data)
    return ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic])


def produce_response() -> ProduceResponse:
    partition = PartitionProduceResponse(index=0, base_offset=123_456, log_start_offset=0)
    return ProduceResponse(responses=[TopicProduceResponse(name="user-reg-events", topic_id=TOPIC_ID, partition_responses=[partition])])


def fetch_request(partitions: int) -> FetchRequest:
    asked = [FetchPartition(partition=index, fetch_offset=index, partition_max_bytes=1 << 20) for index in range(partitions)]
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic="user-reg-events", topic_id=TOPIC_ID, partitions=asked)])


def fetch_response(partitions: int) -> FetchResponse:
    batch = memoryview(bytes(1024))
    found = [
        PartitionData(partition_index=index, high_watermark=1000 + index, aborted_transactions=None, records=batch)
        for index in range(partitions)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="user-reg-events", topic_id=TOPIC_ID, partitions=found)])


def metadata_response() -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=index, host=f"broker-{index}.example", port=9092) for index in range(3)]
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=index % 3, leader_epoch=7, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2])
        for index in range(10)
    ]
    topics = [MetadataResponseTopic(name=f"topic-{index}", topic_id=TOPIC_ID, partitions=partitions) for index in range(10)]
    return MetadataResponse(brokers=brokers, cluster_id="moldau", controller_id=0, topics=topics)


def encode_produce_3x16k() -> Call:
    run, message = encoder(ProduceRequest, 9), produce_request(3, 16 * 1024)
    return lambda: run(message)


def decode_produce_3x16k() -> Call:
    run, frame = decoder(ProduceRequest, 9), memoryview(encode_bytes(produce_request(3, 16 * 1024), 9))
    return lambda: run(frame)


def decode_produce_one_record() -> Call:
    run, frame = decoder(ProduceRequest, 10), memoryview(encode_bytes(produce_request(1, 170), 10))
    return lambda: run(frame)


def encode_produce_response() -> Call:
    run, message = encoder(ProduceResponse, 9), produce_response()
    return lambda: run(message)


def encode_produce_response_frame() -> Call:
    message = produce_response()
    return lambda: encode_response(message, version=9, correlation_id=7)


def make_produce_response() -> Call:
    return produce_response


def decode_request_header_v2() -> Call:
    (parts, *_) = encode_request(produce_request(1, 170), version=9, correlation_id=7, client_id="a-producer")
    frame = memoryview(bytes(parts))[4:]  # type: ignore[arg-type]
    return lambda: decode_request_header(frame)


def encode_fetch_response_100() -> Call:
    run, message = encoder(FetchResponse, 12), fetch_response(100)
    return lambda: run(message)


def decode_fetch_response_100() -> Call:
    run, frame = decoder(FetchResponse, 12), memoryview(encode_bytes(fetch_response(100), 12))
    return lambda: run(frame)


def decode_fetch_request_100() -> Call:
    run, frame = decoder(FetchRequest, 12), memoryview(encode_bytes(fetch_request(100), 12))
    return lambda: run(frame)


def encode_metadata_response_100() -> Call:
    run, message = encoder(MetadataResponse, 12), metadata_response()
    return lambda: run(message)


BUDGETS_US: Final[dict[Callable[[], Call], float]] = {
    encode_produce_3x16k: 2.5,
    decode_produce_3x16k: 4.0,
    decode_produce_one_record: 2.0,
    encode_produce_response: 1.5,
    encode_produce_response_frame: 2.2,
    make_produce_response: 2.0,
    decode_request_header_v2: 1.0,
    encode_fetch_response_100: 40.0,
    decode_fetch_response_100: 90.0,
    decode_fetch_request_100: 50.0,
    encode_metadata_response_100: 100.0,
}
