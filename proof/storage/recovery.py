"""● Proves recovery by trying: every crash, every fault, every truncation, every flipped bit.

    python -m proof.storage.recovery crashes --states 100000 --seed 1     a crash at every call, legal subsets of unsynced writes
    python -m proof.storage.recovery faults --seed 1                      every call fails once
    python -m proof.storage.recovery damage --seed 1                      every truncation and every single-bit flip of a segment
    python -m proof.storage.recovery side-files --seed 1                  the same for indexes and snapshots

Everything runs in memory and follows from the seed.  Tests run a small share; the figures of whole runs are in docs/reliability/storage.md.
"""

import argparse
import dataclasses
import errno
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.storage.config import LogConfig
from moldau.storage.log import AppendResult, FetchData, Log
from moldau.storage.manager import LogManager
from moldau.storage.recovery import LogDamaged
from moldau.testing.files import Fault, MemoryFiles
from proof.storage.log_model import LogModel, parsed
from proof.storage.logs import (
    NOW_MS,
    PARTITION,
    SomeBatch,
    Unreadable,
    append,
    append_as,
    batches_of_every_kind,
    offset_of_max_timestamp,
    open_log,
    stored_bytes,
)

ROOT: Final = "/data"
DEFAULTS: Final = LogConfig.load({})
CONFIG: Final = dataclasses.replace(
    DEFAULTS, segment_bytes=1500, index_interval_bytes=100, retention_bytes=2500, retention_ms=-1, file_delete_delay_ms=0
)
CHANGING: Final = frozenset({"pwrite", "sync", "truncate", "rename", "unlink", "mkdir", "rmdir", "sync_dir", "open"})


class Broken(AssertionError):
    """The proof failed.  The text says how to see it again."""


class Workload:
    """A log under a random but repeatable load, and the model of its promises."""

    def __init__(self, files: MemoryFiles, seed: int, *, steps: int = 30, config: LogConfig = CONFIG) -> None:
        self.files = files
        self.model = LogModel()
        self.config = config
        self._steps = steps
        self._choice = random.Random(seed)
        self._batches = batches_of_every_kind(seed, 10 * steps, max_records=3, max_value=60)
        self._unique = itertools.count(1)
        self._manager = self.started()
        self._log = self._manager.get_or_create(PARTITION, config, now_ms=NOW_MS, topic_id=UUID(int=999))
        self._log.verifies_transactions = False
        self._epoch = 0

    def started(self, files: MemoryFiles | None = None) -> LogManager:
        """A manager that has just started on these files."""
        manager = LogManager(files or self.files, [ROOT], self.config, unique=lambda: UUID(int=next(self._unique)))
        manager.open(NOW_MS)
        manager.load_all(lambda _: self.config, NOW_MS)
        return manager

    @property
    def log(self) -> Log:
        return self._log

    def run(self) -> None:
        """Run all steps.  Errors: OSError and KafkaError where a fault strikes."""
        for _ in range(self._steps):
            self.step()

    def step(self) -> None:
        act = self._choice.choices(
            [self.append, self.flush, self.checkpoint, self.truncate, self.delete_records, self.retain, self.restart],
            [60, 12, 6, 4, 4, 6, 3],
        )[0]
        act()

    def append(self) -> None:
        batch = next(self._batches)
        content = bytearray(batch.content)
        epoch = max(self._epoch, batch.leader_epoch)
        self._epoch = epoch
        self.model.appended(self._as_stored(content, epoch))
        result = append_as(batch.origin, self._log, content, leader_epoch=epoch)
        if not isinstance(result, AppendResult):
            if self._log.failure is None:  # after a failure nothing follows the batch, and recovery may find it or not
                self.model.not_appended(1)
        elif result.is_duplicate:
            raise AssertionError(result)

    def _as_stored(self, content: bytearray, epoch: int) -> bytes:
        stored = bytearray(content)
        stored[0:8] = self._log.log_end_offset.to_bytes(8, "big")
        stored[12:16] = epoch.to_bytes(4, "big")
        return bytes(stored)

    def flush(self) -> None:
        """Flush.  The log goes on before and after the sync, as it does while a thread syncs."""
        if self._log.failure is not None:
            return
        flush = self._log.begin_flush()
        self._go_on()
        try:
            flush.sync()
        except OSError as error:
            self._log.fail(error)
            raise
        self._go_on()
        upto = self._log.end_flush(flush)
        if flush.truncations == self._log.truncations:  # else truncated batches may come back until the next flush
            self.model.flushed(upto)

    def _go_on(self) -> None:
        acts = [self.append, self.truncate, self.delete_records, self.retain]
        for act in self._choice.choices(acts, [20, 1, 1, 2], k=self._choice.randrange(4)):
            if self._log.failure is None:
                act()

    def checkpoint(self) -> None:
        if self._manager.write_checkpoints():
            self._note_start()

    def _note_start(self) -> None:
        if self._log.failure is None:
            self.model.lowest_start = self._log.certain_start_offset

    def truncate(self) -> None:
        """Truncate the log to some batch's end.  The next batches are of a new leader epoch, as always after a truncation."""
        if self._log.failure is not None or not self.model.now:
            return
        low = max(self._log.log_start_offset, self._log.log_end_offset - 12)
        offset = self._choice.choice([batch.header.next_offset for batch in self.model.now if batch.header.next_offset >= low] or [low])
        self.model.truncated(offset)
        self.model.lowest_start = min(self.model.lowest_start, offset)
        self._manager.truncate_to(self._log, offset, NOW_MS)
        self._epoch += 1
        self._batches = self._continued()

    def _continued(self) -> Iterator[SomeBatch]:
        """Batches without producers, because the sequences of the old producers were taken back."""
        for batch in batches_of_every_kind(self._choice.getrandbits(30), 300, max_records=3, max_value=60):
            if parsed(batch.content)[0].header.producer_id < 0:
                yield batch

    def delete_records(self) -> None:
        self._log.update_high_watermark(self._log.log_end_offset)
        offset = self._choice.randrange(self._log.log_start_offset, self._log.high_watermark + 1)
        self.model.highest_start = max(self.model.highest_start, offset)
        if not isinstance(self._manager.delete_records_before(self._log, offset), ErrorCode):
            self._note_start()

    def retain(self) -> None:
        self._log.update_high_watermark(self._log.log_end_offset)
        self.model.highest_start = self._log.log_end_offset
        self._manager.delete_old_segments(NOW_MS, 0)
        self._manager.delete_due_files(NOW_MS)
        self.model.highest_start = self._log.log_start_offset

    def restart(self) -> None:
        """Stop cleanly and start again."""
        end = self._log.log_end_offset
        was_working = self._log.failure is None
        if self._manager.close() or not was_working or self._manager.directories[0].failure is not None:
            raise OSError(errno.EIO, "the directory failed")
        self.model.flushed(end)
        self._note_start()
        self._manager = self.started()
        self._log = self._manager.logs[PARTITION]
        self._log.verifies_transactions = False
        try:
            wrong = self.model.allows(self._log)
        except Unreadable as error:
            raise OSError(errno.EIO, "the directory failed while it was read") from error
        if wrong is not None or self._log.log_end_offset != end:
            raise Broken(f"after a clean stop: {wrong}, ends at {self._log.log_end_offset}, not {end}")

    def check(self, files: MemoryFiles) -> None:
        """Recover on `files` twice and hold both against the model.  Errors: Broken."""
        manager = self.started(files)
        log = manager.get(PARTITION)
        if log is None:
            if self.model.promised > 0:
                raise Broken("the log is gone")
            return
        wrong = self.model.allows(log)
        if wrong is not None:
            raise Broken(wrong)
        before = stored_bytes(log), log.log_start_offset, log.log_end_offset
        for lock in list(files.held_locks):
            files.held_locks.discard(lock)
        again = self.started(files).logs[PARTITION]
        if (stored_bytes(again), again.log_start_offset, again.log_end_offset) != before:
            raise Broken(f"a second recovery changes it: {before[1:]} → {(again.log_start_offset, again.log_end_offset)}")
        again.verifies_transactions = False
        end = again.log_end_offset
        append(again, next(batches_of_every_kind(1, 1))._replace(leader_epoch=again.epochs.latest_epoch + 1))
        if parsed(stored_bytes(again))[-1].header.base_offset != end:
            raise Broken("an append after recovery is not read back")


def crash_states(seed: int, *, images_at_once: int, steps: int = 30) -> int:
    """Crash one workload at every call that changes something, with `images_at_once` outcomes each.  Returns the number of states."""
    files = MemoryFiles()
    choice = random.Random(seed)
    checked = 0
    workload: Workload | None = None

    def crash_here(call: str, path: str) -> None:
        nonlocal checked
        if workload is None or call not in CHANGING:
            return
        for _ in range(images_at_once):
            image_seed = choice.getrandbits(48)
            try:
                workload.check(files.crashed(random.Random(image_seed)))
            except Exception as error:
                raise Broken(f"seed {seed}, before {call} {path} (state {checked}, image {image_seed}): {error!r}") from error
            checked += 1

    files.hook = crash_here
    files.mkdir(ROOT)
    files.sync_dir("")
    workload = Workload(files, seed, steps=steps)
    workload.run()
    return checked


def failing_calls(seed: int, *, steps: int = 30, every: int = 1) -> Counter[str]:
    """Run one workload many times.  Each time another call fails, and then there is a crash.  Returns the number of each outcome."""
    outcomes: Counter[str] = Counter()
    total = _count_calls(seed, steps)
    for number in range(seed % every, total, every):
        for fault in (Fault(errno.EIO), Fault(errno.ENOSPC), Fault(errno.EIO, written=7), Fault(errno.ENOSPC, written=70)):
            try:
                outcomes[_run_with_fault(seed, steps, number, fault)] += 1
            except Exception as error:
                raise Broken(f"seed {seed}, call {number} fails with {fault}: {error!r}") from error
    return outcomes


def _count_calls(seed: int, steps: int) -> int:
    counted = 0

    def count(call: str, path: str) -> None:
        nonlocal counted
        counted += call in CHANGING

    files = MemoryFiles()
    files.mkdir(ROOT)
    files.sync_dir("")
    workload = Workload(files, seed, steps=steps)
    files.hook = count
    workload.run()
    return counted


def _run_with_fault(seed: int, steps: int, number: int, fault: Fault) -> str:
    files = MemoryFiles()
    files.mkdir(ROOT)
    files.sync_dir("")
    workload = Workload(files, seed, steps=steps)
    remaining = number
    struck = ""

    def strike(call: str, path: str) -> Fault | None:
        nonlocal remaining, struck
        if call not in CHANGING:
            return None
        remaining -= 1
        if remaining != -1 or (fault.written and call != "pwrite"):
            return None
        struck = call
        return fault

    files.hook = strike
    outcome = "went on"
    for _ in range(steps):
        before = workload.log.recovery_point
        try:
            workload.step()
        except (OSError, KafkaError):
            outcome = "stopped"
            break
        if workload.log.failure is not None:
            outcome = "offline"
            if workload.log.recovery_point > before:
                raise Broken("the recovery point moved after a failure")
    files.hook = None
    for image in range(4):
        workload.check(files.crashed(random.Random(seed * 1000 + image)))
    return f"{outcome} after a failed {struck}" if struck else "nothing failed"


def damaged_segments(seed: int, *, size: int = 64 << 10, every: int = 1) -> Counter[str]:
    """Try every truncation and every flipped bit of an active segment, half of it below the recovery point.

    Returns the number of each outcome.
    """
    files = MemoryFiles()
    files.mkdir("/t-0")
    log = open_log(files, "/t-0", DEFAULTS)
    flushed_size = 0
    for batch in batches_of_every_kind(seed, 100_000):
        append(log, batch)
        if log.size >= size:
            break
        if log.size >= size // 2 and not flushed_size:
            log.flush()
            flushed_size = log.size
    recovery_point, end = log.recovery_point, log.log_end_offset
    path = log.active_segment.path(".log")
    whole = parsed(stored_bytes(log))
    files.sync_everything()
    ends = list(itertools.accumulate(len(batch.content) for batch in whole))
    outcomes: Counter[str] = Counter()

    def expect(damaged_at: int, damage: Callable[[bytearray], None], what: str) -> None:
        after = files.crashed(random.Random(0))
        content = bytearray(after.read(path))
        damage(content)
        file = after.open(path)
        file.truncate(0)
        file.pwrite([content], 0)
        intact = sum(batch_end <= damaged_at for batch_end in ends)
        try:
            recovered = open_log(after, "/t-0", DEFAULTS, recovery_point=recovery_point)
        except LogDamaged:
            if damaged_at >= flushed_size:
                raise Broken(f"{what}: refused though it lies above the recovery point") from None
            if after.read(path) != content:
                raise Broken(f"{what}: refused, but changed") from None
            outcomes["refused: below the recovery point"] += 1
            return
        if damaged_at < flushed_size:
            raise Broken(f"{what}: not refused though it lies below the recovery point")
        if parsed(stored_bytes(recovered)) != whole[:intact]:
            raise Broken(f"{what}: {len(parsed(stored_bytes(recovered)))} batches recovered, {intact} are whole")
        outcomes["the exact prefix of whole batches"] += 1

    total = ends[-1]
    assert end == whole[-1].header.next_offset
    for cut in range(seed % every, total, every):
        expect(cut, partial(_cut, cut), f"seed {seed}: cut at {cut}")
    for bit in range(seed % every, total * 8, every):
        expect(bit // 8, partial(_flip, bit), f"seed {seed}: bit {bit} flipped")
    return outcomes


def damaged_side_files(seed: int, *, every: int = 1) -> Counter[str]:
    """Try every flipped bit and every truncation of indexes and snapshots beside a log that was closed cleanly.

    After any damage every record is found where it is, by offset and by time, and transactions and producers are what they were.
    Returns the number of each outcome.
    """
    files = MemoryFiles()
    files.mkdir("/t-0")
    config = dataclasses.replace(DEFAULTS, segment_bytes=3000, index_interval_bytes=200)
    log = open_log(files, "/t-0", config)
    for batch in batches_of_every_kind(seed, 40):
        append(log, batch)
    log.close()
    files.sync_everything()
    expected = seen(open_log(files, "/t-0", config, recovery_point=log.log_end_offset, clean=True))
    outcomes: Counter[str] = Counter()
    number = seed % every
    for name in files.listdir("/t-0"):
        kind = name.rpartition(".")[2]
        if kind not in ("index", "timeindex", "txnindex", "snapshot"):
            continue
        content = files.read(f"/t-0/{name}")
        damages = [partial(_flip, bit) for bit in range(len(content) * 8)] + [partial(_cut, cut) for cut in range(len(content))]
        for damage in damages[number % every :: every]:
            after = files.crashed(random.Random(0))
            damaged = bytearray(content)
            damage(damaged)
            file = after.open(f"/t-0/{name}")
            file.truncate(0)
            file.pwrite([damaged], 0)
            found = seen(open_log(after, "/t-0", config, recovery_point=log.log_end_offset, clean=True))
            if found != expected and not (kind == "txnindex" and found[:-1] == expected[:-1]):
                raise Broken(f"seed {seed}: {name} damaged by {damage}: {found} instead of {expected}")
            outcomes[f"{kind}: " + ("nothing is lost" if found == expected else "aborted transactions differ: it has no checksum")] += 1
    return outcomes


def seen(log: Log) -> tuple[object, ...]:
    """The records that readers get by offset and by time, and the state of producers."""
    found = []
    for offset in range(log.log_start_offset, log.log_end_offset):
        data = log.read(offset, 1)
        found.append(data.position if isinstance(data, FetchData) else data)
    times = [log.offset_for_timestamp(NOW_MS + step) for step in range(0, 450, 7)]
    producers = sorted(
        (entry.producer_id, entry.last_sequence, entry.transaction_first_offset) for entry in log.producers.producers.values()
    )
    aborted = [entry[:3] for entry in log.aborted_transactions(log.log_start_offset, log.log_end_offset)]
    return log.log_end_offset, found, times, offset_of_max_timestamp(log), producers, aborted


def _cut(size: int, content: bytearray) -> None:
    del content[size:]


def _flip(bit: int, content: bytearray) -> None:
    content[bit // 8] ^= 1 << bit % 8


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m proof.storage.recovery",
        description="Prove recovery by trying: every crash, every fault, every truncation, every flipped bit.",
    )
    parser.add_argument("what", choices=["crashes", "faults", "damage", "side-files"])
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--states", type=int, default=100_000, help="crashes: how many states to check at least")
    parser.add_argument("--images", type=int, default=10, help="crashes: outcomes of each crash")
    parser.add_argument("--workloads", type=int, default=20, help="faults: how many workloads")
    parser.add_argument("--every", type=int, default=1, help="damage, faults: only every n-th")
    chosen = parser.parse_args(arguments)
    began = time.monotonic()
    done: Counter[str] = Counter()
    if chosen.what == "crashes":
        for seed in itertools.count(chosen.seed):
            done["states"] += crash_states(seed, images_at_once=chosen.images)
            done["workloads"] += 1
            print(f"\r{done['states']} states of {done['workloads']} workloads, {time.monotonic() - began:.0f} s", end="", flush=True)
            if done["states"] >= chosen.states:
                break
    elif chosen.what == "faults":
        for seed in range(chosen.seed, chosen.seed + chosen.workloads):
            done += failing_calls(seed, every=chosen.every)
            print(f"\r{sum(done.values())} runs with a fault, {time.monotonic() - began:.0f} s", end="", flush=True)
    elif chosen.what == "damage":
        done = damaged_segments(chosen.seed, every=chosen.every)
    else:
        done = damaged_side_files(chosen.seed, every=chosen.every)
    print()
    for outcome, count in sorted(done.items()):
        print(f"{count:9d}  {outcome}")
    print(f"no violation; first seed {chosen.seed}, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
