"""◇ A record whose schema is in a registry.

    0       magic byte, 0
    1..4    id of the schema, big endian
    5..     the data

Source: Confluent's documentation of Schema Registry, "Wire format".
"""

import struct
from typing import Final

from moldau.connect.errors import DataError

MAGIC: Final = 0
_HEADER: Final = struct.Struct(">bI")


def framed(schema_id: int, data: bytes) -> bytes:
    return _HEADER.pack(MAGIC, schema_id) + data


def unframed(data: bytes) -> tuple[int, bytes]:
    """The id and the data.  Errors: DataError."""
    if len(data) < _HEADER.size or data[0] != MAGIC:
        raise DataError("Unknown magic byte!")
    return int(_HEADER.unpack_from(data)[1]), data[_HEADER.size :]
