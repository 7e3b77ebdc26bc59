"""Batches of Kafka's own producer are read record by record, in every codec, and ours are written as Java writes them."""

from pathlib import Path

import pytest

from moldau.protocol.records.batch import batches, records_of, verify_crc
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec, compress, decompress

FOLDER = Path(__file__).parent / "record_batches"
HEADER_SIZE = 61


def expected() -> list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    """The generator's lines, as records."""
    records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (
            b"key-%d" % (number % 7),
            b"value %d %s" % (number, b"x" * number),
            [("source", b"java"), ("number", b"%d" % number)],
        )
        for number in range(60)
    ]
    records.append((None, b"no headers, no key", []))
    records.append((b"key of a tombstone", None, [("empty", b""), ("missing", None)]))
    records.append(("schlüssel".encode(), "wört".encode(), [("ü", "ö".encode())]))
    return records


def segment(codec: Codec) -> memoryview:
    return memoryview((FOLDER / f"{codec.name.lower()}.log").read_bytes())


@pytest.mark.parametrize("codec", list(Codec))
def test_every_record_is_read(codec: Codec) -> None:
    view = segment(codec)
    found = []
    for position, header in batches(view, strict=True):
        assert verify_crc(view, position, header)
        assert header.codec is codec
        found += [(one.key, one.value, list(one.headers)) for one in records_of(view[position : position + header.size])]
    assert found == expected()


def test_plain_batches_are_written_to_the_byte() -> None:
    view = segment(Codec.NONE)
    for position, header in batches(view, strict=True):
        theirs = view[position : position + header.size]
        ours = build_batch(
            [NewRecord(one.timestamp, one.key, one.value, one.headers) for one in records_of(theirs)],
            base_offset=header.base_offset,
            leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
        )
        assert ours == theirs


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4])
def test_frames_open_like_javas(codec: Codec) -> None:
    """Snappy: the header of an xerial stream.  LZ4: the header of a frame with independent blocks of 64 KiB and no checksums."""
    size = {Codec.SNAPPY: 16, Codec.LZ4: 7}[codec]
    theirs = segment(codec)[HEADER_SIZE:]
    assert bytes(compress(codec, b"x" * 100))[:size] == bytes(theirs[:size])


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_their_streams_hold_no_more_than_they_should(codec: Codec) -> None:
    view = segment(codec)
    for position, header in batches(view, strict=True):
        payload = view[position + HEADER_SIZE : position + header.size]
        plain = decompress(codec, payload)
        assert bytes(decompress(codec, payload, len(plain))) == bytes(plain)
