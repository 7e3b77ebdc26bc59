"""● Commit log: a database writes its changes to a compacted topic, and replicas apply them, early or late.

python examples/commit_log.py localhost:9092

Real input: the packages that are installed here, as rows of a table; some are changed and deleted afterwards.
"""

import asyncio
import sys
from importlib.metadata import distributions
from uuid import uuid4

from moldau import Admin, Consumer, NewTopic, Producer, TopicPartition


class Table:
    """Rows by key.  A change is in the log first, and then here."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.producer, self.topic = producer, topic
        self.rows: dict[str, str] = {}

    async def put(self, key: str, value: str | None) -> None:
        """Set a row, or delete it with None."""
        await self.producer.send(self.topic, None if value is None else value.encode(), key=key.encode(), partition=0)
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value


class Replica:
    """A copy of the table; each `catch_up` goes on where the last one ended."""

    def __init__(self, topic: str) -> None:
        self.log = TopicPartition(topic, 0)
        self.rows: dict[str, str] = {}
        self.position = 0

    async def catch_up(self, bootstrap: str) -> None:
        async with Consumer(bootstrap) as consumer:
            end = (await consumer.end_offsets([self.log]))[self.log]
            await consumer.assign({self.log: self.position})
            while self.position < end:
                for records in await consumer.poll(1.0):
                    for record in records:
                        if record.value is None:
                            self.rows.pop(record.key.decode(), None)
                        else:
                            self.rows[record.key.decode()] = record.value.decode()
                    self.position = records.next_offset


async def main(bootstrap: str) -> None:
    topic = f"packages-{uuid4().hex[:8]}"
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic(topic, 1, 1, configs={"cleanup.policy": "compact"})])
    early, late = Replica(topic), Replica(topic)
    async with Producer(bootstrap) as producer:
        table = Table(producer, topic)
        for package in distributions():
            await table.put(package.metadata["Name"], package.version)
        await early.catch_up(bootstrap)
        assert early.rows == table.rows
        for number, name in enumerate(sorted(table.rows)):
            if number % 3 == 0:
                await table.put(name, None)
            elif number % 3 == 1:
                await table.put(name, f"{table.rows[name]}.post1")
    await early.catch_up(bootstrap)
    await late.catch_up(bootstrap)
    assert early.rows == late.rows == table.rows
    print(f"{early.position} changes, {len(table.rows)} rows: both replicas are equal to the table")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
