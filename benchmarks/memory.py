"""● `python -m benchmarks.memory`: what a client of ours takes in memory when its load is more than it can hand on.

Producing: the broker stands still (SIGSTOP) while tasks offer records as fast as the loop goes.  Then the broker goes on, and every record
that was taken has to be acknowledged.  Consuming: records of several MiB, and a caller that is slower than the broker.

Each load runs in a process of its own, whose highest resident memory is the kernel's figure (VmHWM).  `grown_mb` is what came on top of a
client that had sent or read its first record.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.published import PUBLISHED, box, publish
from benchmarks.scenarios import run_module
from moldau.clients.errors import BufferFull
from moldau.testing.process import BrokerProcess

MB: Final = 1e6
WANTED_BYTES_S: Final = 1e9
VALUE_BYTES: Final = 64 * 1024
A_LIST: Final = 16
TASKS: Final = 16
RECORD_BYTES: Final = 4 << 20
LARGE_RECORDS: Final = 100
PARTITIONS: Final = 4
READ_WITHIN_S: Final = 60.0
Numbers = dict[str, float]


class Load(NamedTuple):
    """`broker_pid`: stopped while producing.  `limit_bytes`: buffer_memory, or prefetch_max_bytes."""

    bootstrap: str
    broker_pid: int
    limit_bytes: int
    seconds: float


def highest_bytes() -> int:
    """The highest resident memory of this process since `forget_highest`."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not tell a process its highest memory")


def forget_highest() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


class Offer:
    """What tasks offer to a producer, and what it took."""

    def __init__(self, load: Load, producer: Any) -> None:
        self.producer = producer
        self.began = time.perf_counter()
        self.until = self.began + load.seconds
        self.template = bytearray(os.urandom(VALUE_BYTES))
        self.offered = self.taken = self.acknowledged = 0
        self.lists: list[asyncio.Future[None]] = []

    @property
    def goes_on(self) -> bool:
        return time.perf_counter() < self.until

    def value(self) -> bytes:
        """A value with memory of its own."""
        return bytes(self.template)

    async def send(self) -> None:
        """Record by record, without a wait for any: a full buffer refuses, and the next record is offered at once."""
        while self.goes_on:
            for _ in range(A_LIST):
                self.offered += 1
                with suppress(BufferFull):
                    self.producer.send("t", self.value(), on_delivery=self.told)
                    self.taken += 1
            await asyncio.sleep(0)

    def told(self, where: object, error: object) -> None:
        self.acknowledged += error is None
        self.taken -= isinstance(error, BufferFull)  # it waited for room all the time

    async def send_many(self) -> None:
        """A caller for each list, and a gigabyte of lists a second.  All have the same values: what grows is the client's own."""
        values = [self.value() for _ in range(A_LIST)]
        while self.goes_on:
            due = (time.perf_counter() - self.began) * WANTED_BYTES_S / VALUE_BYTES
            while self.offered < due:
                self.offered += A_LIST
                self.lists.append(asyncio.ensure_future(self.send_list(values)))
            await asyncio.sleep(0.001)

    async def send_list(self, values: list[bytes]) -> None:
        try:
            delivered = await self.producer.send_many("t", values)
        except BufferFull:
            return
        self.taken += A_LIST
        await delivered
        self.acknowledged += A_LIST


async def produce(load: Load, work: Callable[[Offer], Awaitable[None]]) -> Numbers:
    from moldau import Producer

    async with Producer(load.bootstrap, buffer_memory=load.limit_bytes, max_block_ms=int(load.seconds * 1000)) as producer:
        await producer.send("t", b"first")
        forget_highest()
        before = highest_bytes()
        os.kill(load.broker_pid, signal.SIGSTOP)
        try:
            began = time.perf_counter()
            offer = Offer(load, producer)
            tasks = [asyncio.ensure_future(work(offer)) for _ in range(TASKS)]
            await asyncio.sleep(load.seconds)
            took_s, offered = time.perf_counter() - began, offer.offered
            grown = highest_bytes() - before
        finally:
            os.kill(load.broker_pid, signal.SIGCONT)
        await asyncio.gather(*tasks)
        await producer.flush()
        await asyncio.gather(*offer.lists)
        assert offer.acknowledged == offer.taken, f"{offer.taken} records were taken, {offer.acknowledged} acknowledged"
        return {
            "offered_gb_s": offered * VALUE_BYTES / took_s / 1e9,
            "limit_mb": load.limit_bytes / MB,
            "grown_mb": grown / MB,
            "grown_to_limit": grown / load.limit_bytes,
            "acknowledged_records": offer.acknowledged,
        }


async def consume(load: Load) -> Numbers:
    from moldau import Consumer, Producer, TopicPartition

    async with Producer(load.bootstrap, max_request_size=RECORD_BYTES * 2, buffer_memory=RECORD_BYTES * 16) as producer:
        for number in range(LARGE_RECORDS):
            await producer.send("large", os.urandom(RECORD_BYTES), partition=number % PARTITIONS)
        await producer.send("t", b"first", partition=0)
    async with Consumer(load.bootstrap, prefetch_max_bytes=load.limit_bytes, max_partition_fetch_bytes=RECORD_BYTES * 3) as consumer:
        await consumer.assign({TopicPartition("t", 0): 0})
        while not await consumer.poll(1.0):
            pass
        forget_highest()
        before, count = highest_bytes(), 0
        await consumer.assign({TopicPartition("large", number): 0 for number in range(PARTITIONS)})
        async with asyncio.timeout(READ_WITHIN_S):
            while count < LARGE_RECORDS:
                count += sum(len(records.values) for records in await consumer.poll(1.0))
                await asyncio.sleep(load.seconds / LARGE_RECORDS)
        grown = highest_bytes() - before
        return {
            "read_mb": count * RECORD_BYTES / MB,
            "limit_mb": load.limit_bytes / MB,
            "grown_mb": grown / MB,
            "grown_to_limit": grown / load.limit_bytes,
        }


LOADS: Final[dict[str, Callable[[Load], Any]]] = {
    "send": lambda load: produce(load, Offer.send),
    "send_many": lambda load: produce(load, Offer.send_many),
    "poll": consume,
}


def measure(name: str, *, limit_bytes: int, seconds: float) -> Numbers:
    """Run one load against a broker of its own."""
    properties = {"num.partitions": str(PARTITIONS), "message.max.bytes": str(RECORD_BYTES * 2), "log.flush.policy": "os"}
    with BrokerProcess(properties=properties) as broker:
        load = Load(broker.bootstrap, broker.pid, limit_bytes, seconds)
        return run_module("benchmarks.memory", {"load": name, **load._asdict()})  # type: ignore[return-value]  # a load prints numbers


def main() -> int:
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        given = json.loads(sys.argv[1])
        print(json.dumps(asyncio.run(LOADS[given.pop("load")](Load(**given)))))
        return 0
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description="A client's memory under too much load.")
    parser.add_argument("--limit-mb", type=int, default=64, help="buffer_memory and prefetch_max_bytes, in MiB")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=PUBLISHED / "memory.json", help="where the results go (%(default)s)")
    options = parser.parse_args()
    about, found = box(), {name: [] for name in LOADS}  # type: tuple[dict[str, object], dict[str, list[Numbers]]]
    for number in range(options.rounds):
        for name, rounds in found.items():
            rounds.append(measure(name, limit_bytes=options.limit_mb << 20, seconds=options.seconds))
            print(f"round {number + 1}: {name}", json.dumps(rounds[-1]), flush=True)
    publish(options.out, {"box": about, "rounds": options.rounds, "loads": found})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
