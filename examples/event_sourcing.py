"""● Event sourcing: the events are the truth, and the state comes from replaying them.

python examples/event_sourcing.py localhost:9092 [REPOSITORY]

Real input: the history of a git repository.  Each commit is an event; replayed up to any point, the events tell which files there
were, as git does.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

from moldau import Admin, Consumer, NewTopic, Producer, TopicPartition

COMMITS = 300


def git(repository: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(repository), *arguments], check=True, capture_output=True, text=True).stdout


def history(repository: Path) -> list[dict[str, object]]:
    """The first commits of the main line, the oldest first: the name of each, and its changes to files."""
    text = git(repository, "log", "--first-parent", "-m", "--reverse", "--no-renames", "--name-status", "-z", "--format=%x01%H")
    events = []
    for commit in text.split("\x01")[1 : COMMITS + 1]:
        name, *changes = [part.strip("\n") for part in commit.split("\0") if part.strip("\n")]
        events.append({"commit": name, "changes": list(zip(changes[::2], changes[1::2], strict=True))})
    return events


def replay(files: set[str], event: dict[str, object]) -> None:
    """The only place where the state changes."""
    for what, path in event["changes"]:  # type: ignore[attr-defined]
        (files.discard if what == "D" else files.add)(path)


async def files_at(bootstrap: str, topic: str, count: int) -> set[str]:
    """The state after `count` events."""
    files: set[str] = set()
    async with Consumer(bootstrap) as consumer:
        await consumer.assign({TopicPartition(topic, 0): 0})
        async for record in consumer:
            replay(files, json.loads(record.value))
            if record.offset + 1 == count:
                break
    return files


async def main(bootstrap: str, repository: Path) -> None:
    topic = f"commits-{uuid4().hex[:8]}"
    try:
        events = history(repository)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{repository} has no history that git can tell, name another folder: {error.stderr.strip()}")
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic(topic, 1, 1, configs={"retention.ms": "-1"})])  # events are kept for ever
    async with Producer(bootstrap) as producer:
        for event in events:
            producer.send(topic, json.dumps(event).encode(), key=str(event["commit"]).encode(), partition=0)
            await producer.drain()
    for count in sorted({1, (len(events) + 1) // 2, len(events)}):
        found = await files_at(bootstrap, topic, count)
        expected = git(repository, "ls-tree", "-r", "-z", "--name-only", str(events[count - 1]["commit"])).split("\0")
        assert found == {path for path in expected if path}, f"after {count} events"
        print(f"after {count} commits there were {len(found)} files, as git says")


if __name__ == "__main__":
    where = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092", where))
