"""● Metrics: machines send figures, and a reader computes their means and peaks.

python examples/metrics.py localhost:9092

Real input: this machine's memory and processor times, from /proc.
"""

import asyncio
import json
import platform
import sys
import time
from collections import defaultdict
from pathlib import Path
from uuid import uuid4

from moldau import Admin, Consumer, NewTopic, Producer

SAMPLES, BETWEEN_S = 20, 0.05


def sample() -> dict[str, float]:
    """Megabytes that are free, and seconds of processor time since the machine started."""
    memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    user, nice, system = (int(ticks) for ticks in Path("/proc/stat").read_text().split()[1:4])
    return {"memory.available.mb": int(memory["MemAvailable"].split()[0]) / 1024, "cpu.busy.s": (user + nice + system) / 100}


async def main(bootstrap: str) -> None:
    topic = f"metrics-{uuid4().hex[:8]}"
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic(topic, 1, 1, configs={"retention.ms": "86400000"})])  # a day is enough for figures
    sent: dict[str, list[float]] = defaultdict(list)
    async with Producer(bootstrap, options={"linger.ms": "100", "compression.type": "lz4"}) as producer:
        for _ in range(SAMPLES):
            for name, value in sample().items():
                body = json.dumps({"host": platform.node(), "value": value})
                producer.send(topic, body.encode(), key=name.encode(), timestamp_ms=time.time_ns() // 1_000_000)
                sent[name].append(value)
            await asyncio.sleep(BETWEEN_S)
    found: dict[str, list[float]] = defaultdict(list)
    async with Consumer(bootstrap, topics=[topic], group_id=f"dashboard-{topic}", auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            found[record.key.decode()].append(json.loads(record.value)["value"])
            if sum(map(len, found.values())) == SAMPLES * len(sent):
                break
    assert found == sent, "every figure came, those of one name in their order"
    for name, values in found.items():
        print(f"{name}: mean {sum(values) / len(values):.1f}, peak {max(values):.1f}, of {len(values)} figures")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
