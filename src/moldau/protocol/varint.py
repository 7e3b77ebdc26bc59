"""◇ Numbers of variable length: seven bits a byte, lowest first; a byte below 0x80 is the last one.

    unsigned    lengths, counts and tags of messages: at most 5 bytes, 32 bits
    signed      zig-zag (0, -1, 1, -2 … as 0, 1, 2, 3 …), in records: at most 5 bytes for sizes and deltas of offsets, 10 for timestamps

Guarantee: no number is read beyond the bytes that it may have, so any input costs at most these few steps.  Hot loops read numbers of one
or two bytes themselves and leave longer ones to this module.
Source: ByteUtils.readUnsignedVarint, readVarint, readVarlong.  Called by the codecs of messages, by `records` and by the log cleaner.
"""

from typing import Final, TypeAlias

_Buffer: TypeAlias = bytes | bytearray | memoryview

INT32_BYTES: Final = 5
INT64_BYTES: Final = 10
_ONE_BYTE: Final = tuple(bytes((number,)) for number in range(0x80))


class VarintTooLong(ValueError):
    """The number has more bytes than its type."""


def read_unsigned(data: _Buffer, position: int) -> tuple[int, int]:  # hot: 0.2 µs
    """A number of at most 32 bits, and the position behind it.  Errors: VarintTooLong; IndexError at the end of the data."""
    value = data[position]
    if value < 0x80:
        return value, position + 1
    byte = data[position + 1]
    value = value & 0x7F | (byte & 0x7F) << 7
    if byte < 0x80:
        return value, position + 2
    byte = data[position + 2]
    value |= (byte & 0x7F) << 14
    if byte < 0x80:
        return value, position + 3
    byte = data[position + 3]
    value |= (byte & 0x7F) << 21
    if byte < 0x80:
        return value, position + 4
    byte = data[position + 4]
    if byte > 0x0F:
        raise VarintTooLong("a varint is longer than 32 bits")
    return value | byte << 28, position + 5


def read_signed(data: _Buffer, position: int, max_bytes: int = INT32_BYTES) -> tuple[int, int]:
    """A zig-zag number of at most `max_bytes`, and the position behind it.  Errors: VarintTooLong; IndexError at the end of the data."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, shift = byte & 0x7F, 7
    for at in range(position + 1, position + max_bytes):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7
    raise VarintTooLong(f"a variable-length number has more than {max_bytes} bytes")


def write_unsigned(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x20_0000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_signed(value: int) -> bytes:
    """The bytes of a zig-zag number."""
    zig_zag = value << 1 if value >= 0 else (~value << 1) | 1
    return _ONE_BYTE[zig_zag] if zig_zag < 0x80 else write_unsigned(zig_zag)
