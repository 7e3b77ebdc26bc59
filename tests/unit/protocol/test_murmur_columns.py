"""Many keys hashed at once get the same hashes as one by one."""

import random

import numpy as np

from moldau.protocol.murmur import murmur2
from moldau.protocol.murmur_columns import murmur2_of


def test_all_sizes() -> None:
    draw = random.Random(3)
    keys = [draw.randbytes(size) for size in (*range(40), 255, 256, 257, 300, 5_000)] * 2
    sizes = np.array([len(key) for key in keys], np.int64)
    starts = np.cumsum(sizes) - sizes
    assert murmur2_of(memoryview(b"".join(keys)), starts, sizes).tolist() == [murmur2(key) for key in keys]


def test_no_keys_and_empty_ones() -> None:
    none = np.array([], np.int64)
    assert murmur2_of(memoryview(b""), none, none).tolist() == []
    zero = np.zeros(2, np.int64)
    assert murmur2_of(memoryview(b""), zero, zero).tolist() == [murmur2(b"")] * 2
