"""Java's serialized map of bytes: what a JVM wrote is read, and what we write has the same form."""

import pytest

from moldau.connect.store.java_map import Pair, decode, encode

JAVAS = bytes.fromhex(
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f724900097468726573686f6c6478703f400000"
    "0000000c77080000001000000004757200025b42acf317f8060854e002000078700000001c5b226c696e6573222c7b2266696c656e616d65223a222f696e227d5d7571"
    "007e00020000000e7b22706f736974696f6e223a387d7571007e00020000000d5b2262222c7b2278223a317d5d7571007e0002000000077b226e223a317d7571007e00"
    "02000000105b22676f6e65222c7b2261223a317d5d707571007e00020000000d5b2263222c7b2278223a317d5d71007e000678"
)
"""Written by OpenJDK 17: the value of `b` is the same array as that of `c`, and the value of `gone` is null."""
PAIRS: list[Pair] = [
    (b'["lines",{"filename":"/in"}]', b'{"position":8}'),
    (b'["b",{"x":1}]', b'{"n":1}'),
    (b'["gone",{"a":1}]', None),
    (b'["c",{"x":1}]', b'{"n":1}'),
]


def test_what_a_jvm_wrote_is_read() -> None:
    assert decode(JAVAS) == PAIRS


def test_our_bytes_are_the_jvms_where_no_array_stands_twice() -> None:
    ours = encode(PAIRS)
    assert decode(ours) == PAIRS
    assert ours[:-1].removesuffix(bytes.fromhex("7571007e0002000000077b226e223a317d")) == JAVAS[:-1].removesuffix(
        bytes.fromhex("71007e0006")
    )


def test_a_file_that_was_cut_off_is_refused_wherever_it_was_cut() -> None:
    for length in range(len(JAVAS)):
        with pytest.raises(ValueError, match=r"expected|in the middle"):
            decode(JAVAS[:length])


def test_bytes_behind_the_map_are_refused() -> None:
    with pytest.raises(ValueError, match="1 bytes behind the map"):
        decode(JAVAS + b"x")


@pytest.mark.parametrize("count", [0, 1, 12, 13, 500])
def test_maps_of_every_size_come_back(count: int) -> None:
    pairs: list[Pair] = [(f"k{number}".encode(), b"v" * number) for number in range(count)]
    assert decode(encode(pairs)) == pairs
