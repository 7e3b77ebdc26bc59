"""◇ The four codecs of record batches, framed as by Kafka's Java client.  No codec expands data beyond a limit.

gzip    one stream per batch; several members in a row are read too
snappy  written in xerial framing (header, then length-prefixed raw blocks); raw snappy is read too
lz4     the standard frame, independent blocks of 64 KiB; linked blocks are refused, since Java's client cannot read them
zstd    one frame, with or without its content size; several frames in a row are read too

Guarantee: `decompress` holds at most `max_bytes` of output, plus the few bytes that it needs to notice more.  Any input but a whole,
well-formed stream is a `CorruptBatch`.  Checksums inside lz4 frames are skipped: the batch's CRC-32C covers the same bytes. Called by
`batch` and `builder`.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Final, TypeAlias

import cramjam

from moldau.protocol.records.corrupt import CorruptBatch, ExpandsTooFar

Buffer: TypeAlias = bytes | bytearray | memoryview

DEFAULT_MAX_BYTES: Final = 256 * 1024 * 1024


class Codec(IntEnum):
    """A codec, by the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_name(cls, name: str) -> "Codec":
        """The codec for a value of `compression.type`: none, uncompressed, gzip, snappy, lz4 or zstd.  Errors: ValueError."""
        try:
            return cls["NONE" if name == "uncompressed" else name.upper()]
        except KeyError:
            raise ValueError(f"unknown compression type {name!r}: none, gzip, snappy, lz4 or zstd are known") from None


def compress(codec: Codec, data: Buffer, level: int | None = None) -> Buffer:
    """The compressed bytes.  `level` None means the codec's own default; snappy has no levels."""
    return _COMPRESSORS[codec](data, level)


def decompress(codec: Codec, data: Buffer, max_bytes: int = DEFAULT_MAX_BYTES) -> Buffer:
    """The plain bytes.  Errors: CorruptBatch for a broken stream, ExpandsTooFar for one that holds more than `max_bytes`."""
    return _DECOMPRESSORS[codec](memoryview(data), max_bytes)


def _beyond(max_bytes: int) -> ExpandsTooFar:
    return ExpandsTooFar(f"compressed records hold more than {max_bytes} bytes")


# ---------------------------------------------------------------- none


def _keep(data: Buffer, level: int | None) -> Buffer:
    return data


def _keep_capped(data: memoryview, max_bytes: int) -> Buffer:
    if len(data) > max_bytes:
        raise ExpandsTooFar(f"records hold more than {max_bytes} bytes")
    return data


# ---------------------------------------------------------------- gzip

_GZIP_WINDOW: Final = 31  # zlib's number for a gzip header and the largest window


def _compress_gzip(data: Buffer, level: int | None) -> Buffer:
    compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
    return compressor.compress(data) + compressor.flush()


def _decompress_gzip(data: memoryview, max_bytes: int) -> Buffer:
    plain = bytearray()
    rest: Buffer = data
    try:
        while True:
            member = zlib.decompressobj(_GZIP_WINDOW)
            plain += member.decompress(rest, max_bytes - len(plain) + 1)
            if len(plain) > max_bytes:
                raise _beyond(max_bytes)
            if not member.eof:
                raise CorruptBatch("gzip: the stream is cut short")
            rest = member.unused_data
            if not rest:
                return plain
    except zlib.error as error:
        raise CorruptBatch(f"gzip: {error}") from error


# ---------------------------------------------------------------- snappy

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_VERSIONS: Final = b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_HEADER_SIZE: Final = len(_XERIAL_MAGIC) + len(_XERIAL_VERSIONS)
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
_INT32: Final = Struct(">i")

# The densest element of the format is a copy of 64 bytes in three: no honest stream declares more than this for its size.
_SNAPPY_MAX_RATIO: Final = 22


def _compress_snappy(data: Buffer, level: int | None) -> Buffer:
    framed = bytearray(_XERIAL_MAGIC + _XERIAL_VERSIONS)
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        framed += _INT32.pack(len(block))
        framed += block
    return framed


def _decompress_snappy(data: memoryview, max_bytes: int) -> Buffer:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(data, max_bytes, max_bytes)
    plain = bytearray()
    position, end = 0, len(data)
    while position < end:
        if bytes(data[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:  # several streams may follow one another
            position += _XERIAL_HEADER_SIZE
            if position > end:
                raise CorruptBatch("snappy: the stream's header is cut short")
            continue
        if end - position < _INT32.size:
            raise CorruptBatch("snappy: a block's length is cut short")
        (size,) = _INT32.unpack_from(data, position)
        position += _INT32.size
        if not 0 < size <= end - position:
            raise CorruptBatch(f"snappy: a block says it has {size} bytes, {end - position} are left")
        plain += _snappy_block(data[position : position + size], max_bytes - len(plain), max_bytes)
        position += size
    return plain


def _snappy_block(block: memoryview, room: int, max_bytes: int) -> bytearray:
    """One raw block.  Its declared size is believed only as far as the limit and the format allow."""
    if not block:
        raise CorruptBatch("snappy: no bytes at all")
    try:
        size: int = cramjam.snappy.decompress_raw_len(block)
        if size > room:
            raise _beyond(max_bytes)
        if size > len(block) * _SNAPPY_MAX_RATIO:
            raise CorruptBatch(f"snappy: {len(block)} bytes cannot hold the {size} they declare")
        plain = bytearray(size)
        written: int = cramjam.snappy.decompress_raw_into(block, plain)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy: {error}") from error
    if written != size:
        raise CorruptBatch(f"snappy: {size} bytes were declared, {written} came out")
    return plain


# ---------------------------------------------------------------- lz4
#
#   magic u32 LE · FLG · BD · [content size u64 LE] · header checksum
#   blocks: size u32 LE (top bit: stored as it is) · bytes · [checksum u32]
#   end mark 0 · [content checksum u32]

_UINT32_LE: Final = Struct("<I")
_UINT64_LE: Final = Struct("<Q")
_LZ4_MAGIC: Final = 0x184D2204
_LZ4_HEADER: Final = _UINT32_LE.pack(_LZ4_MAGIC) + b"\x60\x40\x82"  # version 1, independent blocks of 64 KiB, no checksums
_LZ4_BLOCK_SIZE: Final = 64 * 1024
_LZ4_STORED: Final = 0x8000_0000
_LZ4_END_MARK: Final = bytes(4)
_LZ4_BLOCK_SIZES: Final = {4: 64 * 1024, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}
_LZ4_FAST_LEVEL: Final = 9  # Kafka's default level means the fast compressor, every other level the slow one


def _compress_lz4(data: Buffer, level: int | None) -> Buffer:
    frame = bytearray(_LZ4_HEADER)
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK_SIZE):
        plain = view[start : start + _LZ4_BLOCK_SIZE]
        block = _lz4_block_at_level(plain, _LZ4_FAST_LEVEL if level is None else level)
        stored = len(block) >= len(plain)
        frame += _UINT32_LE.pack(len(plain) | _LZ4_STORED if stored else len(block))
        frame += plain if stored else block
    return frame + _LZ4_END_MARK


def _lz4_block_at_level(plain: memoryview, level: int) -> Buffer:
    """A block at a level.  The library's block function knows no levels, so the block is cut out of a frame."""
    if level == _LZ4_FAST_LEVEL:
        return bytes(cramjam.lz4.compress_block(plain, store_size=False))
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(plain))
    frame = memoryview(bytes(compressor.finish()))
    start = _lz4_header(frame)[0]
    size, start = _lz4_uint32(frame, start)
    return plain if size & _LZ4_STORED else frame[start : start + size]


def _decompress_lz4(data: memoryview, max_bytes: int) -> Buffer:
    position, block_size, trailer = _lz4_header(data)
    plain = bytearray()
    scratch = bytearray(min(block_size, max_bytes + 1))
    while True:
        size, position = _lz4_uint32(data, position)
        if size == 0:
            break
        stored, size = size & _LZ4_STORED, size & ~_LZ4_STORED
        if size > min(block_size, len(data) - position):
            raise CorruptBatch(f"lz4: a block says it has {size} bytes, {len(data) - position} are left and {block_size} allowed")
        block = data[position : position + size]
        plain += block if stored else _lz4_block(block, scratch, block_size)
        if len(plain) > max_bytes:
            raise _beyond(max_bytes)
        position += size + trailer.block
    if position + trailer.content != len(data):
        raise CorruptBatch(f"lz4: the frame ends at {position + trailer.content} of {len(data)} bytes")
    return plain


class _Lz4Trailers:
    """How many checksum bytes follow each block and the whole frame."""

    __slots__ = ("block", "content")

    def __init__(self, flags: int) -> None:
        self.block: Final = 4 if flags & 0x10 else 0
        self.content: Final = 4 if flags & 0x04 else 0


def _lz4_header(data: memoryview) -> tuple[int, int, _Lz4Trailers]:
    """The start of the blocks, the largest block's size, and the checksums that follow blocks and frame."""
    if len(data) < 7 or _UINT32_LE.unpack_from(data)[0] != _LZ4_MAGIC:
        raise CorruptBatch("lz4: the frame's magic number is missing")
    flags, descriptor = data[4], data[5]
    block_size = _LZ4_BLOCK_SIZES.get(descriptor >> 4)
    if flags >> 6 != 1 or flags & 0x03 or descriptor & 0x8F or block_size is None:
        raise CorruptBatch(f"lz4: the frame's flags {flags:#04x} {descriptor:#04x} are not supported")
    if not flags & 0x20:
        raise CorruptBatch("lz4: the frame's blocks depend on each other, Kafka's clients cannot read that")
    end = 14 if flags & 0x08 else 6
    if len(data) <= end:
        raise CorruptBatch("lz4: the frame's header is cut short")
    if _xxh32_short(data[4:end]) >> 8 & 0xFF != data[end]:
        raise CorruptBatch("lz4: the frame's header does not match its checksum")
    return end + 1, block_size, _Lz4Trailers(flags)


def _lz4_block(block: memoryview, scratch: bytearray, block_size: int) -> memoryview:
    try:
        written: int = cramjam.lz4.decompress_block_into(block, scratch)
    except cramjam.DecompressionError as error:
        if len(scratch) < block_size:  # the library gives both the same error
            raise ExpandsTooFar(f"lz4: {error}, or the records hold more than is allowed") from error
        raise CorruptBatch(f"lz4: {error}") from error
    return memoryview(scratch)[:written]


def _lz4_uint32(data: memoryview, position: int) -> tuple[int, int]:
    if position + 4 > len(data):
        raise CorruptBatch("lz4: the frame is cut short")
    return _UINT32_LE.unpack_from(data, position)[0], position + 4


def _xxh32_short(data: memoryview) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes: enough for a frame's header.  Source: the xxHash specification."""
    assert len(data) < 16
    value = (0x165667B1 + len(data)) & 0xFFFFFFFF
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        value = (value + _UINT32_LE.unpack_from(data, position)[0] * 0xC2B2AE3D) & 0xFFFFFFFF
        value = _rotate_left(value, 17) * 0x27D4EB2F & 0xFFFFFFFF
    for byte in data[whole:]:
        value = (value + byte * 0x165667B1) & 0xFFFFFFFF
        value = _rotate_left(value, 11) * 0x9E3779B1 & 0xFFFFFFFF
    value = (value ^ value >> 15) * 0x85EBCA77 & 0xFFFFFFFF
    value = (value ^ value >> 13) * 0xC2B2AE3D & 0xFFFFFFFF
    return value ^ value >> 16


def _rotate_left(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & 0xFFFFFFFF


# ---------------------------------------------------------------- zstd

_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SIZE_FIELDS: Final = {1: Struct("<H"), 2: _UINT32_LE, 3: _UINT64_LE}
_ZSTD_FIRST_GUESS: Final = 64 * 1024
_ZSTD_OVERFLOW: Final = "failed to write whole buffer"


def _compress_zstd(data: Buffer, level: int | None) -> Buffer:
    return bytes(cramjam.zstd.compress(data, level=level))


def _decompress_zstd(data: memoryview, max_bytes: int) -> Buffer:
    """Decompress into a buffer of the declared size, or into guesses, each four times larger.

    At most a third of the work is done twice.
    """
    if len(data) < 5 or _UINT32_LE.unpack_from(data)[0] != _ZSTD_MAGIC:
        raise CorruptBatch("zstd: the frame's magic number is missing")
    guess = min(_zstd_content_size(data) or max(_ZSTD_FIRST_GUESS, 4 * len(data)), max_bytes)
    while True:
        plain = bytearray(guess)
        try:
            written: int = cramjam.zstd.decompress_into(data, plain)
        except cramjam.DecompressionError as error:
            if _ZSTD_OVERFLOW not in str(error):
                raise CorruptBatch(f"zstd: {error}") from error
            if guess == max_bytes:
                raise _beyond(max_bytes) from error
            guess = min(max(guess, _ZSTD_FIRST_GUESS) * 4, max_bytes)
        else:
            return memoryview(plain)[:written]


def _zstd_content_size(data: memoryview) -> int | None:
    """The size that the first frame's header declares.  It is a hint, believed only up to 1 MiB more than a hundredfold."""
    descriptor = data[4]
    single_segment, size_flag = descriptor & 0x20, descriptor >> 6
    position = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 0x03]
    believable = 1024 * 1024 + 100 * len(data)
    if size_flag == 0:
        return min(data[position], believable) if single_segment and position < len(data) else None
    field = _ZSTD_SIZE_FIELDS[size_flag]
    if position + field.size > len(data):
        return None
    size: int = field.unpack_from(data, position)[0] + (256 if size_flag == 1 else 0)
    return min(size, believable)


_COMPRESSORS: Final[dict[Codec, Callable[[Buffer, int | None], Buffer]]] = {
    Codec.NONE: _keep,
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}
_DECOMPRESSORS: Final[dict[Codec, Callable[[memoryview, int], Buffer]]] = {
    Codec.NONE: _keep_capped,
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
