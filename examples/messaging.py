"""● Messaging: work is handed out through a topic that is used as a queue, and each piece is done by one worker.

python examples/messaging.py localhost:9092

Real input: the source files of Python's own library.  Two workers take paths and answer with checksums; a path that leads nowhere
is rejected.
"""

import asyncio
import hashlib
import json
import sys
from pathlib import Path
from uuid import uuid4

from moldau import Admin, Consumer, NewTopic, Producer, ShareConsumer
from moldau.clients.admin import ConfigChange, ResourceType
from moldau.clients.share import Acknowledge

PIECES = 60


def checksum_of(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


async def work(bootstrap: str, group: str, jobs: str, answers: str, is_done: asyncio.Event) -> int:
    """Work as one worker, and return the number of finished pieces."""
    done = 0
    async with ShareConsumer(bootstrap, group, [jobs]) as queue, Producer(bootstrap) as producer:
        while not is_done.is_set():
            for job in await queue.poll(wait_s=0.2):
                path = job.record.value.decode()
                try:
                    checksum = await asyncio.to_thread(checksum_of, path)
                except FileNotFoundError:
                    queue.acknowledge(job, Acknowledge.REJECT)  # no worker can do it, so it is not given out again
                    continue
                await producer.send(answers, checksum.encode(), key=path.encode())
                queue.acknowledge(job, Acknowledge.ACCEPT)
                done += 1
    return done


async def main(bootstrap: str) -> None:
    run = uuid4().hex[:8]
    jobs, answers, group = f"jobs-{run}", f"answers-{run}", f"workers-{run}"
    paths = [str(path) for path in sorted(Path(json.__file__).parents[1].glob("*.py"))[:PIECES]]
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic(jobs, 2, 1), NewTopic(answers, 1, 1)])
        await admin.configs.alter({(ResourceType.GROUP, group): [ConfigChange("share.auto.offset.reset", "earliest")]})
    async with Producer(bootstrap) as producer:
        await producer.send_many(jobs, [path.encode() for path in [*paths, "/nowhere.py"]])
    is_done = asyncio.Event()
    found: dict[str, str] = {}
    async with asyncio.TaskGroup() as group_of_tasks:  # a worker that fails ends the rest
        workers = [group_of_tasks.create_task(work(bootstrap, group, jobs, answers, is_done)) for _ in range(2)]
        async with Consumer(bootstrap, topics=[answers], group_id=f"asker-{run}", auto_offset_reset="earliest") as consumer:
            async for record in consumer:
                found[record.key.decode()] = record.value.decode()
                if len(found) == len(paths):
                    break
        is_done.set()
    assert found == {path: checksum_of(path) for path in paths}
    print(f"{sum(worker.result() for worker in workers)} pieces of work done by {len(workers)} workers, each answer is right")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
