"""● One event a line on standard output, as Kafka's verifiable clients print them."""

import json
import time
from typing import Any


def event(name: str, **fields: Any) -> None:
    """Print an event and flush it at once: the program that watches may kill us next."""
    print(
        json.dumps({"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}, separators=(",", ":"), ensure_ascii=False),
        flush=True,
    )


def text_of(data: bytes | None) -> str | None:
    """The text as Java's StringDeserializer reads it."""
    return None if data is None else data.decode("utf-8", "replace")
