"""◇ Requests as bytes, made by hand once and sent many times, and just enough reading of the replies.

The generator shares no protocol code with the broker, so it can neither share a mistake with it nor slow down with it.
Produce is version 9 (flexible), fetch version 11: both are spoken by every broker measured here.
"""

import struct
from collections.abc import Sequence

import crc32c

PRODUCE, FETCH, CREATE_TOPICS = 0, 1, 19
PRODUCE_VERSION, FETCH_VERSION, CREATE_TOPICS_VERSION = 9, 11, 4
CLIENT_ID = b"moldau-bench"
FETCH_PARTITION = struct.Struct(">iiqqi")
PRODUCED_PARTITION_SIZE = 4 + 2 + 8 + 8 + 8 + 1 + 1 + 1


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def record_batch(values: Sequence[bytes], timestamp_ms: int, *, keys: Sequence[bytes] = ()) -> bytes:
    """One uncompressed batch without producer id."""
    records = bytearray()
    for delta, value in enumerate(values):
        key = varint(len(keys[delta])) + keys[delta] if keys else varint(-1)
        body = b"\0" + varint(0) + varint(delta) + key + varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    count = len(values)
    after_crc = struct.pack(">hiqqqhii", 0, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count) + records
    return struct.pack(">qiibI", 0, 9 + len(after_crc), -1, 2, crc32c.crc32c(after_crc)) + after_crc


def produce_request(topic: str, batches: Sequence[bytes], *, acks: int = 1) -> bytes:
    """One batch for each of partitions 0, 1, …"""
    partitions = b"".join(struct.pack(">i", index) + uvarint(len(batch) + 1) + batch + b"\0" for index, batch in enumerate(batches))
    name = topic.encode()
    topic_data = uvarint(len(name) + 1) + name + uvarint(len(batches) + 1) + partitions + b"\0"
    body = uvarint(0) + struct.pack(">hi", acks, 30_000) + uvarint(2) + topic_data + b"\0"
    return framed(request_header(PRODUCE, PRODUCE_VERSION) + b"\0" + body)


def produce_reply_size(topic: str, partitions: int) -> int:
    """The size of every successful reply.  The generator counts replies by it, without decoding them."""
    return 4 + 4 + 1 + 1 + 1 + len(topic) + 1 + partitions * PRODUCED_PARTITION_SIZE + 1 + 4 + 1


def produce_error_positions(topic: str, partitions: int) -> list[int]:
    """The positions of the error codes in a reply."""
    first = 4 + 4 + 1 + 1 + 1 + len(topic) + 1 + 4
    return [first + index * PRODUCED_PARTITION_SIZE for index in range(partitions)]


def fetch_request(topic: str, offsets: Sequence[int], *, partition_bytes: int, max_wait_ms: int = 500) -> bytes:
    """A fetch of partitions 0, 1, … from these offsets, without a session."""
    name = topic.encode()
    wanted = b"".join(FETCH_PARTITION.pack(number, -1, offset, -1, partition_bytes) for number, offset in enumerate(offsets))
    head = struct.pack(">iiiibii", -1, max_wait_ms, 1, partition_bytes * len(offsets), 0, 0, -1)
    topics = struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", len(offsets)) + wanted
    return framed(request_header(FETCH, FETCH_VERSION) + head + topics + struct.pack(">ih", 0, 0))


def create_topic_request(topic: str) -> bytes:
    """A topic of one partition with one replica.  The answer that the topic exists already is as good."""
    name = topic.encode()
    body = struct.pack(">ih", 1, len(name)) + name + struct.pack(">ihii", 1, 1, 0, 0) + struct.pack(">i?", 10_000, False)
    return framed(request_header(CREATE_TOPICS, CREATE_TOPICS_VERSION) + body)


def fetched(reply: memoryview, topic: str) -> list[tuple[int, int, int, int]]:
    """(partition, high watermark, start of its records, their size) of a fetch reply, from the correlation id on."""
    top_error, count_of_topics = struct.unpack_from(">h", reply, 8)[0], struct.unpack_from(">i", reply, 14)[0]
    if top_error:
        raise RuntimeError(f"fetch answered error {top_error}")
    if not count_of_topics:
        return []
    position = 18 + 2 + len(topic)
    (count,) = struct.unpack_from(">i", reply, position)
    position += 4
    found = []
    for _ in range(count):
        partition, error, high_watermark, _, _, aborted = struct.unpack_from(">ihqqqi", reply, position)
        if error:
            raise RuntimeError(f"fetch of partition {partition} answered error {error}")
        position += 34 + 16 * max(aborted, 0) + 4
        size = max(struct.unpack_from(">i", reply, position)[0], 0)
        found.append((partition, high_watermark, position + 4, size))
        position += 4 + size
    return found


def request_header(api_key: int, api_version: int) -> bytes:
    return struct.pack(">hhih", api_key, api_version, 7, len(CLIENT_ID)) + CLIENT_ID


def framed(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request
