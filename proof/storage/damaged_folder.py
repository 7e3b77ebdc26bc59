"""● Damages every file of a broker's folder that is no segment, in every way, and starts the whole broker on it.

    python -m proof.storage.damaged_folder             every truncation and every flipped bit; `--every 20` for a twentieth of them

A broker on a simulated disk gets topics with all kinds of batches and a snapshot of its metadata.  One topic's beginning is deleted, and
one topic is compacted.  Then the broker stops cleanly, or dies.  A copy of its folder is damaged, and a broker is started on the copy:

- it refuses, in one line that names the file, or the log that the file does not fit; with the undamaged file it starts and has everything;
- or it starts, and every record, log start, topic and option is what it was; data that follow from the records are the same if the
  format gives a means to check them.

Nothing else is allowed: no traceback, no record hidden or gone.  The outcome follows from the damage alone, without chance.
"""

import argparse
import asyncio
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.metadata.formatting.storage import FormatRequest, format_storage
from moldau.net.channel import Channel
from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.raft.voters import Address
from moldau.server.node.config import NodeConfig
from moldau.server.node.folders import StartRefused
from moldau.server.node.node import Node
from moldau.server.node.outside import Outside
from moldau.storage.log import Log
from moldau.storage.producers.replay import headers_from
from moldau.storage.producers.state import AppendOrigin
from moldau.testing.clock import EPOCH_MS, SimClock
from moldau.testing.files import MemoryFiles
from moldau.testing.loop import Machine, SimLoop
from moldau.testing.network import SimNetwork
from moldau.types import TopicPartition
from proof.storage.logs import SomeBatch, append, batches_of_every_kind, stored_records
from proof.storage.recovery import Broken, seen

HOST: Final = "server"
PORT: Final = 9092
FOLDER: Final = "/data"
CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
CONFIG: Final = NodeConfig.parse(
    {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"{HOST}:9093",
        "listeners": f"PLAINTEXT://:{PORT},CONTROLLER://:9093",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{PORT}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": FOLDER,
        "metadata.log.max.snapshot.interval.ms": "60000",
        "log.cleaner.backoff.ms": "1000",
    }
)
USUAL: Final = {"segment.ms": "150", "index.interval.bytes": "200", "retention.ms": "-1"}
TOPICS: Final = {
    "plain": USUAL,
    "trimmed": USUAL,
    "compacted": USUAL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
}
TRIMMED_TO: Final = 7
SETTLES_WITHIN_S: Final = 200.0
"""The time within which the compaction and the metadata snapshot end."""

SEGMENTS: Final = ".log"
MENDED_EVERY: Final = 8
"""One in so many refused starts is tried again with the undamaged file."""
ALLOWED: Final = {
    ("*.txnindex", "differs: followed"): "has no checksum: other transactions count as aborted",
    ("leader-epoch-checkpoint", "differs: epochs"): "has no checksum: an epoch begins elsewhere",
    ("meta.properties", "differs: meta"): "has no checksum: the cluster.id is another one",
    ("log-start-offset-checkpoint", "differs: records, followed, epochs"): "has no checksum: the log starts elsewhere",
}


class Found(NamedTuple):
    """A broker's data after its start."""

    records: dict[str, object]
    topics: object
    meta: object
    followed: dict[str, object]
    """Data that follow from the records: where readers find them, producers, and the batches that read_committed consumers see."""
    epochs: dict[str, object]
    """The leader epoch of every batch.  Starts of epochs are left out, because compaction may move them to a later offset."""


class Computer:
    """One broker on a simulated disk, for one life."""

    def __init__(self, files: MemoryFiles) -> None:
        self.files = files
        self.loop = SimLoop()
        self.network = SimNetwork(self.loop, seed=1)
        self.server = self._machine(HOST)
        self.client = self._machine("client")
        self.node: Node

    def _machine(self, host: str) -> Machine:
        machine = Machine(host)
        self.network.add(machine)
        return machine

    def run(self, machine: Machine, work: Coroutine[Any, Any, Any]) -> None:
        """Run work on a machine.  Errors: those of the work; Broken when something else failed meanwhile."""
        self.loop.run_until_complete(self.loop.start(machine, work))
        if self.loop.failures:
            raise Broken(f"the loop caught {self.loop.failures}")

    def start(self) -> None:
        """Start the broker.  Errors: StartRefused, and any other exception as a violation."""

        async def start() -> None:
            outside = Outside(files=self.files, network=self.network, clock=SimClock(self.loop), random=random.Random(2))
            self.node = await Node.start(CONFIG, outside)

        self.run(self.server, start())

    def stop(self) -> None:
        self.run(self.server, self.node.stop())

    def off(self) -> None:
        """End the broker at once, whatever it does."""
        self.loop.kill(self.server)
        self.loop.forget_the_dead()
        self.files.held_locks.clear()

    def create_topics(self) -> None:
        async def create() -> None:
            channel = await Channel.connect(self.network, HOST, PORT, client_id="test", timeout_s=10)
            made = [
                CreatableTopic(
                    name=name,
                    num_partitions=1,
                    replication_factor=1,
                    assignments=[],
                    configs=[CreatableTopicConfig(name=key, value=value) for key, value in options.items()],
                )
                for name, options in TOPICS.items()
            ]
            response = await channel.send(CreateTopicsRequest(topics=made, timeout_ms=5000))
            assert {topic.error_code for topic in response.topics} == {ErrorCode.NONE}, response
            channel.close()

        self.run(self.client, create())

    def log(self, topic: str) -> Log:
        return self.node.broker.logs.logs[TopicPartition(topic, 0)]

    def fill(self, streams: dict[str, Iterator[SomeBatch]], count: int) -> None:
        """Append the next batches to every log."""
        for name, stream in streams.items():
            log = self.log(name)
            log.verifies_transactions = False
            epoch = self.node.broker.replicas.hosted[name, 0].leader_epoch
            for batch in islice(stream, count):  # from the coordinator, which may append records without keys to a compacted log
                append(log, batch._replace(origin=AppendOrigin.COORDINATOR, leader_epoch=epoch))
            log.flush()
            log.update_high_watermark(log.log_end_offset)

    def settle(self) -> None:
        """Give compaction and snapshot their time."""
        self.run(self.client, asyncio.sleep(SETTLES_WITHIN_S))

    def found(self) -> Found:
        logs = {name: self.log(name) for name in TOPICS}
        image = self.node.shared.loader.image
        return Found(
            {name: (log.log_start_offset, log.log_end_offset, stored_records(log)) for name, log in logs.items()},
            ({name: topic.id for name, topic in image.topics.items()}, image.configs),
            self.node.broker.logs.directories[0].meta,
            {name: (seen(log)[:-1], committed_offsets(log)) for name, log in logs.items()},
            {name: [log.epochs.epoch_for_offset(offset) for offset in offsets_in(log)] for name, log in logs.items()},
        )


def formatted() -> MemoryFiles:
    files = MemoryFiles()
    ids = random.Random(3)
    request = FormatRequest(
        cluster_id=CLUSTER_ID,
        node_id=1,
        log_dirs=[FOLDER],
        metadata_log_dir=FOLDER,
        is_controller=True,
        has_static_voters=False,
        controller_address=Address("CONTROLLER", HOST, 9093),
        standalone=True,
    )
    format_storage(
        files, request, now_ms=EPOCH_MS, new_id=lambda: UUID(int=ids.getrandbits(128), version=4), new_salt=lambda: ids.randbytes(16)
    )
    return files


def lived_in(*, clean: bool) -> MemoryFiles:
    """The files of a broker after two lives.  The second one ends cleanly or not."""
    files = formatted()
    streams = {name: batches_of_every_kind(seed, 1000) for seed, name in enumerate(TOPICS)}
    for life in range(2):
        computer = Computer(files)
        computer.start()
        if life == 0:
            computer.create_topics()
        computer.fill(streams, 20)
        if life == 0:
            computer.node.broker.logs.delete_records_before(computer.log("trimmed"), TRIMMED_TO)
        computer.settle()
        computer.fill(streams, 4)
        if clean or life == 0:
            computer.stop()
        computer.off()
        files.sync_everything()
    return files


def offsets_in(log: Log) -> list[int]:
    """The first offset of each batch that can be read."""
    return [max(header.base_offset, log.log_start_offset) for _, _, header in headers_from(log.segments, log.log_start_offset)]


def committed_offsets(log: Log) -> list[int]:
    """The offsets of the batches that a read_committed consumer sees, by the list of aborted transactions that it gets."""
    aborted = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    found = []
    for _, _, header in headers_from(log.segments, log.log_start_offset):
        is_aborted = any(
            one.producer_id == header.producer_id and one.first_offset <= header.last_offset < one.last_offset for one in aborted
        )
        if not header.is_control and not (is_aborted and header.is_transactional):
            found.append(header.base_offset)
    return found


class Damage(NamedTuple):
    """One file, one bit or one cut."""

    path: str
    at: int
    is_cut: bool

    def apply(self, files: MemoryFiles) -> None:
        content = bytearray(files.read(self.path))
        if self.is_cut:
            del content[self.at :]
        else:
            content[self.at // 8] ^= 1 << self.at % 8
        file = files.open(self.path)
        file.truncate(0)
        file.pwrite([content], 0)
        file.close()


def paths_in(files: MemoryFiles, folder: str) -> Iterator[str]:
    for name in files.listdir(folder):
        path = f"{folder}/{name}"
        if files.is_dir(path):
            yield from paths_in(files, path)
        else:
            yield path


def kind_of(path: str) -> str:
    name = path.rpartition("/")[2]
    stem, _, suffix = name.rpartition(".")
    if name[:1].isdigit():
        return f"*.{suffix}"
    return f"{stem.rpartition('.')[0]}.{suffix}" if suffix == "next" else name


def damages_of(files: MemoryFiles) -> Iterator[Damage]:
    """Every possible damage to every file except segments."""
    for path in paths_in(files, FOLDER):
        if path.endswith((SEGMENTS, "/.lock")):
            continue
        size = files.size(path)
        yield from (Damage(path, cut, is_cut=True) for cut in range(size))
        yield from (Damage(path, bit, is_cut=False) for bit in range(size * 8))


def outcome_of(files: MemoryFiles, damage: Damage, expected: Found) -> str:
    """The outcome of one damage, in words.  Errors: Broken."""
    damaged = files.crashed(random.Random(0))
    damage.apply(damaged)
    computer = Computer(damaged)
    try:
        computer.start()
        found = computer.found()
    except StartRefused as error:
        text = str(error)
        if not is_named(damage.path, text):
            raise Broken(f"{damage}: refused without the file's name: {text}") from None
        if "\n" in text:
            raise Broken(f"{damage}: refused in more than one line: {text}") from None
    except Exception as error:
        raise Broken(f"{damage}: {error!r}") from error
    else:
        return _compared(damage, found, expected)
    finally:
        computer.off()
    if damage.at % MENDED_EVERY == 0:
        _mended(damaged, files, damage, expected)
    return "refused"


def is_named(path: str, text: str) -> bool:
    """Tells whether the text names the damaged file, or the log's folder, because a checkpoint can be wrong against a log only."""
    folder, _, name = path.rpartition("/")
    return path in text or name in text or (folder != FOLDER and f"{folder}/0" in text)


def _compared(damage: Damage, found: Found, expected: Found) -> str:
    differs = [name for name, one, other in zip(Found._fields, found, expected, strict=True) if one != other]
    if not differs:
        return "nothing differs"
    outcome = "differs: " + ", ".join(differs)
    known = ALLOWED.get((kind_of(damage.path), outcome))
    if known is None:
        raise Broken(f"{damage}: {outcome}")
    return known


def _mended(refused: MemoryFiles, intact: MemoryFiles, damage: Damage, expected: Found) -> None:
    """Check that a refused start has done no harm."""
    refused.write_atomically(damage.path, intact.read(damage.path))
    computer = Computer(refused)
    computer.start()
    if computer.found() != expected:
        raise Broken(f"{damage}: after a refused start and with the file as it was, not all is there")
    computer.off()


def damaged_folders(*, every: int = 1, part: str = "", progress: Callable[[str], None] = lambda _: None) -> Counter[str]:
    """Try every n-th damage to files with `part` in their path, after a clean stop and after none.  Returns the number of each outcome.

    Errors: Broken.
    """
    outcomes: Counter[str] = Counter()
    logging.disable()  # thousands of starts would be logged
    try:
        for clean in (True, False):
            files = lived_in(clean=clean)
            computer = Computer(files.crashed(random.Random(0)))
            computer.start()
            expected = computer.found()
            computer.off()
            damages = [damage for damage in damages_of(files) if part in damage.path]
            for number, damage in enumerate(damages[::every]):
                outcomes[f"{kind_of(damage.path)}: {outcome_of(files, damage, expected)}"] += 1
                if number % 100 == 0:
                    progress(f"{'clean' if clean else 'killed'}: {number} of {len(damages) // every}")
    finally:
        logging.disable(logging.NOTSET)
    return outcomes


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m proof.storage.damaged_folder",
        description="Damage every file of a folder that is no segment, in every way, and start a broker on it.",
    )
    parser.add_argument("--every", type=int, default=1, help="only every n-th damage")
    parser.add_argument("--part", default="", help="only files whose path has this in it")
    chosen = parser.parse_args(arguments)
    began = time.monotonic()
    outcomes = damaged_folders(every=chosen.every, part=chosen.part, progress=lambda text: print(f"\r{text}", end="", flush=True))
    print()
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:9} {outcome}")
    print(f"{sum(outcomes.values())} cuts and flips in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
