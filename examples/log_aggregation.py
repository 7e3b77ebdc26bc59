"""● Log aggregation: lines of many files come together in one topic, each with the name of its file.

python examples/log_aggregation.py localhost:9092 [FILES…]

Real input: the log files of this machine that can be read.
"""

import asyncio
import re
import sys
from collections import Counter
from pathlib import Path
from uuid import uuid4

from moldau import Admin, Consumer, NewTopic, Producer

LINES = 2000
ALARMING = re.compile(rb"error|fail|warn", re.IGNORECASE)


def logs() -> list[Path]:
    """The log files with text in them; if there are none, the licenses in Python's packages."""
    found = [path for path in Path("/var/log").rglob("*.log") if path.is_file() and path.stat().st_size]
    return sorted(found)[:10] or sorted(Path(sys.prefix).rglob("LICENSE*"))[:5]


async def ship(producer: Producer, topic: str, path: Path) -> list[bytes]:
    """Send one file's lines in their order, and return them."""
    lines = (await asyncio.to_thread(path.read_bytes)).splitlines()[:LINES]
    for number, line in enumerate(lines):
        producer.send(topic, line, key=str(path).encode(), headers=[("line", str(number).encode())])
        await producer.drain()
    return lines


async def main(bootstrap: str, paths: list[Path]) -> None:
    topic = f"logs-{uuid4().hex[:8]}"
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic(topic, 3, 1)])
    async with Producer(bootstrap, options={"compression.type": "zstd"}) as producer:
        sent = dict(zip(paths, await asyncio.gather(*(ship(producer, topic, path) for path in paths)), strict=True))
    count = sum(map(len, sent.values()))
    lines: dict[bytes, list[bytes]] = {}
    async with Consumer(bootstrap, topics=[topic], group_id=f"search-{topic}", auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            lines.setdefault(record.key, []).append(record.value)
            if sum(map(len, lines.values())) == count:
                break
    assert lines == {str(path).encode(): some for path, some in sent.items() if some}, "each file's lines are all there, in their order"
    alarming = Counter({key.decode(): sum(1 for line in some if ALARMING.search(line)) for key, some in lines.items()})
    print(f"{count} lines of {len(sent)} files")
    for name, many in alarming.most_common(3):
        print(f"{many} alarming lines in {name}")


if __name__ == "__main__":
    given = [Path(one) for one in sys.argv[2:]]
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092", given or logs()))
