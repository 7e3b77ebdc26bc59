import random

import pytest

from moldau.protocol.records.batch import CorruptBatch, read_header, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec
from moldau.storage.cleaner.skim import skim

SIZES = [0, 1, 40, 63, 64, 65, 127, 128, 300, 8191, 8192, 9000]


def batch_of(records: list[NewRecord], codec: Codec = Codec.NONE) -> bytes:
    return bytes(build_batch(records, codec=codec, base_offset=5_000_000_000))


def skimmed(batch: bytes) -> list[tuple[bytes | None, int, bool]]:
    found = skim(read_header(batch), batch, 0)
    return [(key, fate >> 1, bool(fate & 1)) for key, fate in zip(found.keys, found.fates, strict=True)]


def parsed(batch: bytes) -> list[tuple[bytes | None, int, bool]]:
    return [(None if r.key is None else bytes(r.key), r.offset, r.value is None) for r in records_of(batch)]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("seed", range(5))
def test_it_sees_what_a_full_look_sees(seed: int, codec: Codec) -> None:
    rng = random.Random(seed)

    def some_bytes() -> bytes | None:
        return rng.choice([None, rng.randbytes(rng.choice(SIZES)), rng.randbytes(rng.randrange(40))])

    records = [NewRecord(rng.choice([1000, 1063, 1064, 900, 10**12]), some_bytes(), some_bytes(), [("h", b"1")]) for _ in range(200)]
    batch = batch_of(records, codec)
    assert skimmed(batch) == parsed(batch)


def test_offset_deltas_of_every_length() -> None:
    offsets = [0, 63, 64, 8191, 8192, 1_048_575, 1_048_576, 200_000_000]
    batch = batch_of([NewRecord(0, b"k", b"v", offset=5_000_000_000 + delta) for delta in offsets])
    assert [offset - 5_000_000_000 for _, offset, _ in skimmed(batch)] == offsets


def test_places_are_those_of_the_records() -> None:
    batch = b"before" + batch_of([NewRecord(0, b"k%d" % number, b"v" * number) for number in range(100)]) + b"after"
    found = skim(read_header(batch, 6), batch, 6)
    assert found.start == 6 + 61 and found.ends[-1] == len(batch) - len("after")
    assert found.ends == sorted(set(found.ends))


def test_records_that_are_not_what_they_say_are_refused() -> None:
    batch = batch_of([NewRecord(0, b"key", b"value"), NewRecord(0, b"key", b"value")])
    header = read_header(batch)
    expected = skimmed(batch)
    size, offset_delta, key_size = 61, 61 + 3, 61 + 4
    for place, byte in [
        (size, 0),
        (size, 25),
        (size, 30),
        (size, 0xFF),
        (offset_delta, 4),
        (key_size, 3),
        (key_size, 40),
        (key_size, 0xFF),
    ]:
        lying = bytearray(batch)
        lying[place] = byte
        with pytest.raises(CorruptBatch):
            skim(header, bytes(lying), 0)
    assert skimmed(batch) == expected
    with pytest.raises(CorruptBatch):
        skim(header._replace(records_count=3), batch, 0)
    with pytest.raises(CorruptBatch):
        skim(header._replace(records_count=1), batch, 0)
