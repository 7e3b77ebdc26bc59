"""Every codec gives back what it was given, reads what other writers make, and stops at the cap."""

import gzip
import zlib
from hashlib import sha256
from struct import pack

import cramjam
import pytest

from moldau.protocol.records.compression import Codec, compress, decompress
from moldau.protocol.records.corrupt import CorruptBatch

CODECS = list(Codec)
COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
PLAIN = b"".join(b"record %d of a batch that compresses well; " % number for number in range(8000))
SIZES = [0, 1, 17, 32 * 1024, 64 * 1024, 64 * 1024 + 1, len(PLAIN)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", SIZES)
def test_round_trip(codec: Codec, size: int) -> None:
    plain = PLAIN[:size]
    assert bytes(decompress(codec, compress(codec, plain), max(size, 1))) == plain


@pytest.mark.parametrize("codec", CODECS)
def test_views_are_read_where_they_lie(codec: Codec) -> None:
    framed = memoryview(b"xx" + bytes(compress(codec, memoryview(PLAIN))) + b"yy")[2:-2]
    assert bytes(decompress(codec, framed)) == PLAIN


@pytest.mark.parametrize("codec", COMPRESSED)
def test_the_cap_is_exact(codec: Codec) -> None:
    packed = compress(codec, PLAIN)
    assert len(decompress(codec, packed, len(PLAIN))) == len(PLAIN)
    with pytest.raises(CorruptBatch, match="hold more than"):
        decompress(codec, packed, len(PLAIN) - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("kept", [0, 1, 4, 6, 15, 30, -1, -5])
def test_a_stream_cut_short_is_corrupt(codec: Codec, kept: int) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, bytes(compress(codec, PLAIN))[:kept])


@pytest.mark.parametrize("codec", COMPRESSED)
def test_garbage_after_the_stream_is_corrupt(codec: Codec) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, bytes(compress(codec, PLAIN)) + b"garbage")


@pytest.mark.parametrize("codec", COMPRESSED)
def test_another_codecs_stream_is_corrupt(codec: Codec) -> None:
    for other in CODECS:
        if other is not codec:
            with pytest.raises(CorruptBatch):
                decompress(codec, compress(other, PLAIN))


@pytest.mark.parametrize(("codec", "levels"), [(Codec.GZIP, [1, 9]), (Codec.LZ4, [9, 1, 12]), (Codec.ZSTD, [-5, 1, 19])])
def test_levels(codec: Codec, levels: list[int]) -> None:
    for level in levels:
        assert bytes(decompress(codec, compress(codec, PLAIN, level))) == PLAIN
    assert len(compress(codec, PLAIN, levels[-1])) < len(compress(codec, PLAIN, levels[0]))


def test_gzip_members_in_a_row_are_one_stream() -> None:
    assert bytes(decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two"))) == b"one two"


def test_gzip_bomb_stops_at_the_cap() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    with pytest.raises(CorruptBatch, match="more than 1000 bytes"):
        decompress(Codec.GZIP, bomb, 1000)


def test_gzip_is_not_zlib() -> None:
    with pytest.raises(CorruptBatch, match="gzip"):
        decompress(Codec.GZIP, zlib.compress(PLAIN))


def test_snappy_is_written_in_xerial_blocks_of_32_kib() -> None:
    framed = bytes(compress(Codec.SNAPPY, bytes(40_000)))
    assert framed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    first = int.from_bytes(framed[16:20])
    assert cramjam.snappy.decompress_raw_len(framed[20 : 20 + first]) == 32 * 1024


def test_snappy_raw_is_read() -> None:
    assert bytes(decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(PLAIN)))) == PLAIN


def test_snappy_streams_in_a_row_are_one() -> None:
    assert bytes(decompress(Codec.SNAPPY, bytes(compress(Codec.SNAPPY, b"one ")) + bytes(compress(Codec.SNAPPY, b"two")))) == b"one two"


@pytest.mark.parametrize("length", [-1, 0, 7, 0x7FFFFFFF, -0x80000000])
def test_snappy_block_lengths_are_not_believed(length: int) -> None:
    header = bytes(compress(Codec.SNAPPY, b""))
    with pytest.raises(CorruptBatch, match="snappy"):
        decompress(Codec.SNAPPY, header + pack(">i", length) + b"abc")


def test_snappy_declared_size_is_not_believed() -> None:
    declares_4_gib = b"\xff\xff\xff\xff\x0f" + bytes(20)
    with pytest.raises(CorruptBatch, match="more than 1000"):
        decompress(Codec.SNAPPY, declares_4_gib, 1000)
    with pytest.raises(CorruptBatch, match="cannot hold"):
        decompress(Codec.SNAPPY, declares_4_gib, 1 << 40)


def test_snappy_declares_the_densest_honest_block() -> None:
    zeros = bytes(60_000)
    assert bytes(decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(zeros)))) == zeros


def test_lz4_frame_is_what_javas_client_writes() -> None:
    framed = bytes(compress(Codec.LZ4, PLAIN))
    assert framed[:7] == bytes.fromhex("04224d18604082")
    assert framed.endswith(bytes(4))
    assert bytes(cramjam.lz4.decompress(framed)) == PLAIN


def test_lz4_bytes_that_do_not_compress_are_stored() -> None:
    noise = b"".join(sha256(pack(">I", number)).digest() for number in range(2200))
    framed = bytes(compress(Codec.LZ4, noise))
    assert framed[7:11] == pack("<I", 65536 | 0x80000000)
    assert bytes(decompress(Codec.LZ4, framed)) == noise
    assert bytes(cramjam.lz4.decompress(framed)) == noise


def lz4_by_library(**options: object) -> bytes:
    compressor = cramjam.lz4.Compressor(**options)
    compressor.compress(PLAIN)
    return bytes(compressor.finish())


def test_lz4_frame_with_a_content_checksum_is_read() -> None:
    assert bytes(decompress(Codec.LZ4, lz4_by_library(level=1, content_checksum=True, block_linked=False))) == PLAIN


def test_lz4_linked_blocks_are_refused() -> None:
    with pytest.raises(CorruptBatch, match="depend on each other"):
        decompress(Codec.LZ4, lz4_by_library(level=1, block_linked=True))


@pytest.mark.parametrize(
    ("position", "byte", "reason"),
    [(0, 0x05, "magic"), (4, 0x20, "flags"), (4, 0x61, "flags"), (5, 0x30, "flags"), (5, 0x41, "flags"), (6, 0x00, "checksum")],
)
def test_lz4_header_is_checked(position: int, byte: int, reason: str) -> None:
    framed = bytearray(compress(Codec.LZ4, PLAIN))
    framed[position] = byte
    with pytest.raises(CorruptBatch, match=reason):
        decompress(Codec.LZ4, framed)


def test_lz4_block_length_is_not_believed() -> None:
    header = bytes(compress(Codec.LZ4, b""))[:7]
    with pytest.raises(CorruptBatch, match="block says it has"):
        decompress(Codec.LZ4, header + pack("<I", 0x7FFFFFFF) + bytes(100))


def zstd_of_unknown_size(plain: bytes) -> bytes:
    compressor = cramjam.zstd.Compressor()
    compressor.compress(plain)
    return bytes(compressor.finish())


def test_zstd_frame_of_unknown_size_is_read() -> None:
    plain = PLAIN * 5
    assert bytes(decompress(Codec.ZSTD, zstd_of_unknown_size(plain))) == plain
    with pytest.raises(CorruptBatch, match="hold more than"):
        decompress(Codec.ZSTD, zstd_of_unknown_size(plain), len(plain) - 1)


def test_zstd_declared_size_is_not_believed() -> None:
    lies = bytearray(pack("<I", 0xFD2FB528) + b"\xe0" + pack("<Q", 1 << 40) + b"\x01\x00\x00")
    with pytest.raises(CorruptBatch):
        decompress(Codec.ZSTD, lies, 1 << 41)


def test_zstd_frames_in_a_row_are_one_stream() -> None:
    frames = bytes(compress(Codec.ZSTD, b"one ")) + bytes(compress(Codec.ZSTD, b"two"))
    assert bytes(decompress(Codec.ZSTD, frames)) == b"one two"


def test_codec_names() -> None:
    assert [Codec.from_name(name) for name in ("none", "uncompressed", "gzip", "zstd")] == [Codec.NONE, Codec.NONE, Codec.GZIP, Codec.ZSTD]
    with pytest.raises(ValueError, match="'brotli'"):
        Codec.from_name("brotli")
