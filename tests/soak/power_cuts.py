"""Power cuts of a whole broker on a real file system under load: no acknowledged record is lost.

    python tests/soak/power_cuts.py --cuts 200 --seed 1                       # as root, on Linux; about three seconds a cut
    python tests/soak/power_cuts.py --cuts 20 --seed 1 --flush-policy os      # to see that the cuts bite: here records are lost

The broker's folder is an ext4 on a disk with a volatile write cache (`proof.storage.recorded_disk`).  An idempotent librdkafka producer
with acks=all writes all the time; now and then the power fails, the cache of the disk keeps what chance decides, the broker is killed, and
both come up again.  After every cut all records that were ever acknowledged are read back, offset by offset.  A thread pushes pages to the
disk without flushing it, as the kernel's own writeback does, so that the cache is rarely empty.
"""

import argparse
import random
import shutil
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Message

from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.testing.process import BrokerProcess
from proof.storage.acknowledged import AcknowledgedLoad, read_back
from proof.storage.recorded_disk import RecordedDisk
from proof.storage.writeback import write_back

PARTITIONS = 3
KEYS = 50
DISK_BYTES = 512 << 20
RECORDS_A_SECOND = 200
COMPACTED = "compacted"
TOPIC = "acknowledged"


class Load(AcknowledgedLoad):
    """`RECORDS_A_SECOND` records a second, and records of a compacted topic beside them."""

    def __init__(self, bootstrap: str) -> None:
        self.compacted: dict[bytes, tuple[int, bytes]] = {}
        super().__init__(bootstrap, TOPIC, PARTITIONS, {"message.timeout.ms": 300_000, "socket.timeout.ms": 10_000})

    def _turn(self) -> None:
        for _ in range(RECORDS_A_SECOND // 100):
            if self._is_full:
                continue
            if self._number % 10 == 0:
                key = b"key %d" % (self._number % KEYS)
                self._producer.produce(COMPACTED, b"%d" % self._number, key, partition=0, on_delivery=self._delivered_compacted)
            self._produce_next()
        self._producer.poll(0.01)

    def _delivered_compacted(self, error: object, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        self.compacted[message.key()] = (message.offset(), message.value())  # type: ignore[index, assignment]


def lost(bootstrap: str, load: Load) -> list[str]:
    """The records that were acknowledged before now and are not there."""
    acknowledged, compacted = dict(load.acknowledged), dict(load.compacted)
    found: dict[tuple[int, int], bytes] = {}
    for message in read_back(bootstrap, TOPIC, PARTITIONS):
        found[message.partition(), message.offset()] = message.value()  # type: ignore[index, assignment]
    missing = [f"{where}: {value!r}" for where, value in acknowledged.items() if found.get(where) != value]
    if len(set(found.values())) != len(found):
        missing.append(f"{len(found) - len(set(found.values()))} records are there twice")
    newest: dict[bytes, int] = {}
    for message in read_back(bootstrap, COMPACTED, 1):
        newest[message.key()] = message.offset()  # type: ignore[index, assignment]
    missing += [f"{key!r}: {offset}" for key, (offset, _) in compacted.items() if newest.get(key, -1) < offset]
    return missing


class Writeback:
    """Writes dirty pages of some files to the disk and does not flush it."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._chance.uniform(0.01, 0.1)):
            self.push(0.3)

    def push(self, share: float) -> None:
        """Writes the pages of about `share` of the files."""
        write_back(self._folder, share, self._chance)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def create(broker: BrokerProcess) -> None:
    made = [
        CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]),
        CreatableTopic(
            name=COMPACTED,
            num_partitions=1,
            replication_factor=1,
            assignments=[],
            configs=[
                CreatableTopicConfig(name="cleanup.policy", value="compact"),
                CreatableTopicConfig(name="min.cleanable.dirty.ratio", value="0.1"),
                CreatableTopicConfig(name="segment.ms", value="300"),
            ],
        ),
    ]
    answer = broker.ask(CreateTopicsRequest(topics=made, timeout_ms=10_000), version=7)
    assert [one.error_code for one in answer.topics] == [0, 0], answer


def run(*, cuts: int, seed: int, flush_policy: str, directory: Path) -> int:
    """How many acknowledged records were lost."""
    chance = random.Random(seed)
    properties = {
        "log.segment.bytes": str(1 << 20),
        "log.roll.ms": "700",
        "log.flush.policy": flush_policy,
        "log.flush.offset.checkpoint.interval.ms": "500",
        "log.cleaner.backoff.ms": "300",
        "log.initial.task.delay.ms": "500",
        "log.retention.check.interval.ms": "1000",
        "log.segment.delete.delay.ms": "1000",
    }
    total_lost = cached = 0
    broker = BrokerProcess(directory=directory / "broker", properties=properties)
    load: Load | None = None
    began_s = time.monotonic()
    with RecordedDisk(directory / "disk", size=DISK_BYTES) as disk:
        broker.extra["log.dirs"] = str(disk.mount / "data")
        disk.attach(format=True)
        try:
            for number in range(cuts + 1):
                if number:
                    disk.attach()
                broker.start()
                if load is None:
                    create(broker)
                    load = Load(broker.bootstrap)
                gone = lost(broker.bootstrap, load)
                if gone:
                    print(f"cut {number}: {len(gone)} lost, {gone[:3]}", flush=True)
                    total_lost += len(gone)
                    for where in list(load.acknowledged):
                        load.acknowledged.pop(where)
                    load.compacted.clear()
                if number == cuts:
                    break
                writeback = Writeback(disk.mount / "data", chance)
                time.sleep(chance.uniform(0.05, 1.0))
                writeback.push(1.0)
                cached += disk.cut(chance)
                writeback.stop()
                broker.kill()
                disk.detach()
                if (number + 1) % 10 == 0:
                    print(f"{number + 1} cuts, {len(load.acknowledged)} acknowledged, {total_lost} lost", flush=True)
            assert load is not None
            load.finish()
            took_s = time.monotonic() - began_s
            print(
                f"seed {seed}, flush policy {flush_policy}: {cuts} cuts in {took_s:.0f} s, {len(load.acknowledged)} records acknowledged,"
            )
            print(f"{cached} writes in the disk's cache at the cuts, {total_lost} lost, {len(load.failures)} not acknowledged")
        finally:
            broker.kill()
    return total_lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flush-policy", choices=["ack", "os"], default="ack")
    parser.add_argument("--dir", type=Path, default=Path("/dev/shm/moldau-power-cuts"))
    options = parser.parse_args()
    try:
        return 1 if run(cuts=options.cuts, seed=options.seed, flush_policy=options.flush_policy, directory=options.dir) else 0
    finally:
        shutil.rmtree(options.dir, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
