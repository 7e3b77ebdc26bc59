"""◇ `murmur` of many keys at once, with numpy, to choose their partitions.  Source: Utils.murmur2."""

from typing import Final

import numpy as np
import numpy.typing as npt

from moldau.protocol.murmur import murmur2

_SEED: Final = np.uint32(0x9747B28C)
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_LONGEST: Final = 256
"""Longer keys are hashed one by one, because each step here handles one word of all keys."""


def murmur2_of(data: memoryview, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """The hashes of many keys.  Key i is the bytes at starts[i], sizes[i] long (>= 0).  All three arrays have the same length."""
    view = np.frombuffer(data, np.uint8) if len(data) else np.zeros(1, np.uint8)
    values = _SEED ^ sizes.astype(np.uint32)
    is_long = sizes > _LONGEST
    short = np.where(is_long, 0, sizes)
    whole = short >> 2
    for word in range(int(whole.max(initial=0))):
        rows = np.flatnonzero(whole > word)
        mixed = _word(view, starts[rows] + 4 * word) * _MULTIPLIER
        mixed = (mixed ^ mixed >> np.uint32(24)) * _MULTIPLIER
        values[rows] = values[rows] * _MULTIPLIER ^ mixed
    values = _with_tails(view, starts, short, values)
    values = (values ^ values >> np.uint32(13)) * _MULTIPLIER
    values ^= values >> np.uint32(15)
    for row in np.flatnonzero(is_long).tolist():
        values[row] = murmur2(data[int(starts[row]) : int(starts[row] + sizes[row])])
    return values


def _word(view: npt.NDArray[np.uint8], places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    word = np.zeros(len(places), np.uint32)
    for byte in range(4):
        word |= view[places + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def _with_tails(
    view: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], values: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint32]:
    rest = sizes & 3
    for byte in range(3):
        rows = np.flatnonzero(rest > byte)
        values[rows] ^= view[starts[rows] + (sizes[rows] & ~3) + byte].astype(np.uint32) << np.uint32(8 * byte)
    rows = np.flatnonzero(rest)
    values[rows] *= _MULTIPLIER
    return values
