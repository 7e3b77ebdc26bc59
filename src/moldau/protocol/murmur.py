"""◇ Kafka's hash of bytes.  It chooses the partition of a key, and a segment's partition of `__remote_log_metadata`.

Source: Utils.murmur2.
"""

from struct import Struct
from typing import Final

_WORD: Final = Struct("<I")
_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes | bytearray | memoryview) -> int:
    """The hash as an unsigned 32-bit number."""
    size = len(data)
    value = (_SEED ^ size) & _MASK
    whole = size & ~3
    for position in range(0, whole, 4):
        word = _WORD.unpack_from(data, position)[0] * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ word
    if size > whole:
        value ^= int.from_bytes(data[whole:], "little")
        value = value * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15
