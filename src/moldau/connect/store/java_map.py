"""◇ Java's serialized form of a `HashMap<byte[], byte[]>`, in which a standalone worker of Kafka keeps its offsets.

    AC ED 00 05                                            a stream, version 5
    73 72 "java.util.HashMap" serialVersionUID 03          an object of a class that writes itself
          00 02 'F' "loadFactor" 'I' "threshold" 78 70     its two fields; no superclass that is serialized
          loadFactor f32 | threshold i32                   their values
          77 08 buckets i32 | size i32                     what the class writes itself: two numbers, then keys and values in turn
          75 72 "[B" serialVersionUID 02 00 00 78 70       the first array has its class with it; a later one has
          75 71 handle i32                                 a handle in its place
          length i32 | bytes
          70                                               in place of an array: null
          71 handle i32                                    in place of an array: one that came before
          78                                               the end

Classes, objects and arrays get handles in the order in which they come.

Source: Java Object Serialization Specification, 6.4; java.util.HashMap.writeObject; FileOffsetBackingStore.
"""

import struct
from collections.abc import Iterable
from typing import Final

MAGIC: Final = bytes.fromhex("aced0005")
NULL, REFERENCE, CLASS, OBJECT, ARRAY, BLOCK, END = 0x70, 0x71, 0x72, 0x73, 0x75, 0x77, 0x78
FIRST_HANDLE: Final = 0x7E0000


def _class(name: str, version: str, rest: bytes) -> bytes:
    return bytes([CLASS]) + struct.pack(">H", len(name)) + name.encode() + bytes.fromhex(version) + rest + bytes([END, NULL])


MAP: Final = _class("java.util.HashMap", "0507dac1c31660d1", b"\x03\x00\x02F\x00\x0aloadFactorI\x00\x09threshold")
BYTES: Final = _class("[B", "acf317f8060854e0", b"\x02\x00\x00")
LOAD_FACTOR: Final = 0.75
LEAST_BUCKETS: Final = 16
Pair = tuple[bytes | None, bytes | None]


def encode(pairs: Iterable[Pair]) -> bytes:
    listed = list(pairs)
    buckets = LEAST_BUCKETS
    while buckets * LOAD_FACTOR < len(listed):
        buckets *= 2
    numbers = struct.pack(">fi", LOAD_FACTOR, int(buckets * LOAD_FACTOR)) + bytes([BLOCK, 8]) + struct.pack(">ii", buckets, len(listed))
    parts, array_class = [MAGIC, bytes([OBJECT]), MAP, numbers], BYTES
    for data in (one for pair in listed for one in pair):
        if data is None:
            parts.append(bytes([NULL]))
            continue
        parts += [bytes([ARRAY]), array_class, struct.pack(">i", len(data)), data]
        array_class = struct.pack(">Bi", REFERENCE, FIRST_HANDLE + 2)
    return b"".join([*parts, bytes([END])])


def decode(data: bytes) -> list[Pair]:
    """Errors: ValueError, for any other object, and for a stream that ends too early or too late."""
    reader = _Reader(data)
    reader.expect(MAGIC + bytes([OBJECT]) + MAP, "a Java HashMap")
    reader.numbers(">fi")
    reader.expect(bytes([BLOCK, 8]), "the size of the map")
    _, size = reader.numbers(">ii")
    if size < 0:
        raise ValueError(f"a map of {size} entries")
    pairs = []
    for _ in range(size):
        key = reader.array()
        pairs.append((key, reader.array()))
    reader.expect(bytes([END]), "the end of the map")
    if reader.at != len(data):
        raise ValueError(f"{len(data) - reader.at} bytes behind the map")
    return pairs


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.at = 0
        self._data = data
        self._handles: list[bytes | None] = [None, None]
        """By handle: arrays, and None for the classes and the map itself."""

    def take(self, count: int) -> bytes:
        taken = self._data[self.at : self.at + count]
        if count < 0 or len(taken) < count:
            raise ValueError(f"the data ends at byte {len(self._data)}, in the middle")
        self.at += count
        return taken

    def expect(self, wanted: bytes, what: str) -> None:
        begin = self.at
        if self.take(len(wanted)) != wanted:
            raise ValueError(f"{what} is expected at byte {begin}")

    def numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def array(self) -> bytes | None:
        begin = self.at
        (kind,) = self.take(1)
        if kind == NULL:
            return None
        if kind == REFERENCE:
            return self._known(self._handle())
        if kind != ARRAY:
            raise ValueError(f"an array of bytes is expected at byte {begin}")
        self._array_class()
        (length,) = self.numbers(">i")
        found = self.take(length)
        self._handles.append(found)
        return found

    def _array_class(self) -> None:
        if self._data[self.at : self.at + 1] != bytes([REFERENCE]):
            self.expect(BYTES, "the class of an array of bytes")
            self._handles.append(None)
            return
        self.take(1)
        if self._handle() != 2 or len(self._handles) < 3:
            raise ValueError(f"an array of bytes is expected before byte {self.at}")

    def _handle(self) -> int:
        return self.numbers(">i")[0] - FIRST_HANDLE

    def _known(self, handle: int) -> bytes:
        found = self._handles[handle] if 0 <= handle < len(self._handles) else None
        if found is None:
            raise ValueError(f"no array of bytes has the handle at byte {self.at - 4}")
        return found
