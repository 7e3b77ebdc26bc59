"""Keys land where Java's client puts them."""

import pytest
from kafka.partitioner.default import murmur2 as their_murmur2

from moldau.clients.producer.partitioners import StickyPartitioner, partition_for_key
from moldau.protocol.murmur import murmur2


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_javas_own_vectors(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


def test_every_length_agrees_with_kafka_python() -> None:
    for size in range(40):
        key = bytes((size * 37 + index * 101) % 256 for index in range(size))
        assert murmur2(key) == their_murmur2(key) & 0xFFFFFFFF


def test_views_hash_like_bytes() -> None:
    assert murmur2(memoryview(b"xabcdey")[1:-1]) == murmur2(b"abcde")


def test_a_negative_hash_loses_its_sign_as_in_java() -> None:
    assert partition_for_key(b"21", 1000) == (-973932308 & 0x7FFFFFFF) % 1000


def test_partitions_are_in_range() -> None:
    assert {partition_for_key(b"%d" % number, 7) for number in range(200)} == set(range(7))


def test_records_without_key_fill_a_batch_before_they_move_on() -> None:
    sticky = StickyPartitioner(100)
    assert [sticky.partition("t", 40, 3) for _ in range(8)] == [0, 0, 1, 1, 2, 2, 0, 0]
    assert sticky.partition("other", 500, 3) == 0
