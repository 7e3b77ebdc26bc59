"""● Stream processing: read, change and write each record once, even when the program is cut off in between.

python examples/stream_processing.py localhost:9092

Real input: the documentation strings of some of Python's own modules.  Lines come in, counts of words go out; the counts and the
offsets of their lines are one transaction.  The program fails on purpose every few batches and begins again.  With Spark,
`moldau.pipelines.streams` has joins, windows and tables.
"""

import argparse
import asyncio
import collections
import inspect
import json
import re
import sys
from collections import Counter
from uuid import uuid4

from moldau import Admin, Consumer, NewTopic, Producer, TopicPartition

WORD = re.compile(r"[a-z]+")
MODULES = (argparse, asyncio, collections, json, re)


class CutOff(Exception):
    """The program is cut off on purpose."""


async def count_words(bootstrap: str, lines: str, counts: str, batches: int) -> bool:
    """Count the words of some batches, then cut off within a transaction.  Returns True when all lines are counted."""
    source, group = TopicPartition(lines, 0), f"counter-{lines}"
    async with Admin(bootstrap) as admin:
        committed = (await admin.groups.offsets(group)).get(source)
    async with Consumer(bootstrap, options={"max.poll.records": "40"}) as consumer, Producer(bootstrap, transactional_id=group) as producer:
        end = (await consumer.end_offsets([source]))[source]
        position = 0 if committed is None else committed.offset
        await consumer.assign({source: position})
        while position < end:
            for records in await consumer.poll(1.0):
                async with producer.transaction():
                    for word, count in Counter(WORD.findall(b"\n".join(records.raw_values).decode().lower())).items():
                        producer.send(counts, json.dumps(count).encode(), key=word.encode())
                    await producer.send_offsets({source: records.next_offset}, group)
                    batches -= 1
                    if not batches:
                        raise CutOff
                position = records.next_offset
    return True


async def main(bootstrap: str) -> None:
    run = uuid4().hex[:8]
    lines, counts = f"lines-{run}", f"counts-{run}"
    told = [inspect.getdoc(getattr(module, name)) or "" for module in MODULES for name in dir(module)]
    texts = [line for text in told for line in text.splitlines() if line]
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic(lines, 1, 1), NewTopic(counts, 1, 1)])
    async with Producer(bootstrap) as producer:
        await producer.send_many(lines, [line.encode() for line in texts])
    cuts, is_done = 0, False
    while not is_done:
        try:
            is_done = await count_words(bootstrap, lines, counts, batches=8)
        except CutOff:
            cuts += 1
    found: Counter[str] = Counter()
    target = TopicPartition(counts, 0)
    async with Consumer(bootstrap, options={"isolation.level": "read_committed"}) as consumer:
        end = (await consumer.end_offsets([target]))[target]
        await consumer.assign({target: 0})
        while consumer.positions.get(target, 0) < end:
            for records in await consumer.poll(1.0):
                for key, value in zip(records.raw_keys, records.raw_values, strict=True):
                    found[key.decode()] += json.loads(value)
    assert found == Counter(WORD.findall("\n".join(texts).lower())), "each line counts once"
    print(f"{found.total()} words in {len(texts)} lines, cut off {cuts} times; most often: {found.most_common(3)}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
