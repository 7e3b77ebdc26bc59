from moldau.protocol.records.batch import BatchHeader, read_header
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.storage.cleaner.offset_map import BYTES_PER_KEY, OffsetMap
from moldau.storage.cleaner.skim import Skimmed, skim


def a_batch(base_offset: int, *pairs: tuple[bytes | None, bytes | None]) -> tuple[BatchHeader, Skimmed]:
    batch = bytes(build_batch([NewRecord(0, key, value) for key, value in pairs], base_offset=base_offset))
    header = read_header(batch)
    return header, skim(header, batch, 0)


def a_map(*batches: tuple[BatchHeader, Skimmed], first_offset: int = 0) -> OffsetMap:
    offsets = OffsetMap(first_offset)
    for header, records in batches:
        offsets.put(header, records)
        offsets.end_offset = header.next_offset
    offsets.complete()
    return offsets


def test_it_counts_what_stays_of_each_batch() -> None:
    batches = [
        a_batch(0, (b"a", b"1"), (b"b", b"1")),
        a_batch(2, (b"c", b"1"), (b"a", b"2")),
        a_batch(10, (b"b", b"2"), (b"b", None), (b"a", b"3")),
        a_batch(13, (b"d", b"1"), (None, b"1")),
    ]
    offsets = a_map(*batches)
    assert [[fate >> 1 for fate in offsets.live_in(header)] for header, _ in batches] == [[], [2], [11, 12], [13]]
    assert [offsets.has_tombstone_in(header) for header, _ in batches] == [False, False, True, False]
    assert [offsets.stay(records) for _, records in batches] == [[False, False], [True, False], [False, True, True], [True, False]]


def test_keys_of_the_clean_part_are_held_against_it() -> None:
    offsets = a_map(a_batch(10, (b"a", b"2")), first_offset=10)
    header, records = a_batch(0, (b"a", b"1"), (b"b", b"1"), (None, b"1"))
    assert not offsets.knows(header) and offsets.stay(records) == [False, True, False]


def test_of_a_batch_across_the_first_dirty_offset_only_the_dirty_records_count() -> None:
    batch = a_batch(8, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    following = a_batch(11, (b"d", b"1"), (b"c", b"2"))
    offsets = a_map(batch, following, first_offset=9)
    assert not offsets.knows(batch[0]) and offsets.knows(following[0])
    assert [fate >> 1 for fate in offsets.live_in(following[0])] == [11, 12]
    header, records = a_batch(0, (b"a", b"0"), (b"b", b"0"), (b"c", b"0"))
    assert offsets.stay(records) == [True, False, False] and header.base_offset == 0


def test_memory_is_counted_once_a_key() -> None:
    offsets = a_map(a_batch(0, (b"a", b"1"), (b"bcd", b"1"), (None, b"1")), a_batch(3, (b"a", b"2"), (b"ef", b"1"), (b"ef", b"2")))
    assert offsets.bytes_used == 3 * BYTES_PER_KEY + 1 + 3 + 2
