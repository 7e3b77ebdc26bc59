"""● Damages every small file of a log directory in every way and loads its logs: faster and stricter than `damaged_folder`.

    python -m proof.storage.damaged_logs             every truncation and every flipped bit; `--every 20` for a twentieth of them

Three logs (one with its beginning deleted, one that may have gaps) have batches of every kind, several leader epochs, open transactions
and four checkpoints.  They are stopped cleanly, or the machine dies with some batches not flushed.  These files are damaged: the
checkpoints of offsets and of leader epochs, the three indexes, the snapshots of producers.  For each damage the logs are loaded as at a
start:

- the load is refused, in words that name the file or the log: then damaged files and segments stay as they are, or
- the logs are loaded: then every log is a stretch of the appended records, without a hole or a foreign record, and holds all below the
  recovery point; start ≤ high watermark ≤ end ≤ the end before; an append is read back; after a clean stop the next start finds the same.

In formats without a checksum something else may differ.  `NO_CHECKSUM` lists these differences, and no others are allowed.  No load makes
more than a few times the calls of an undamaged load, or takes much more memory.
"""

import argparse
import dataclasses
import itertools
import random
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from uuid import UUID

from moldau.storage.config import LogConfig
from moldau.storage.epochs import CorruptCheckpoint
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.storage.producers.state import AppendOrigin
from moldau.storage.recovery import LogDamaged
from moldau.testing.files import MemoryFiles
from moldau.types import TopicPartition
from proof.storage.damaged_folder import Damage, committed_offsets, damages_of, is_named, kind_of, paths_in
from proof.storage.logs import NOW_MS, SomeBatch, StoredRecord, append, batches_of_every_kind, stored_records
from proof.storage.recovery import Broken, seen

ROOT: Final = "/data"
DEFAULTS: Final = LogConfig.load({})
CONFIG: Final = dataclasses.replace(DEFAULTS, segment_bytes=1500, index_interval_bytes=200, retention_ms=-1)
CONFIGS: Final = {"plain": CONFIG, "trimmed": CONFIG, "gappy": dataclasses.replace(CONFIG, cleanup_policy=("compact",))}
FLUSHED, UNFLUSHED = 16, 6
"""The number of batches that are flushed, and that are not."""
TRIMMED_TO: Final = 17
CLEANED_TO: Final = 12
UNREAD: Final = (".kafka_cleanshutdown",)
"""Files that count by their presence alone, not by their content."""
TIMES_THE_CALLS: Final = 4
"""A damaged directory may cost this many times the file calls of a whole one."""
SPARE_BYTES: Final = 256 << 10
"""A damaged directory may cost this much more memory than a whole one."""

NO_CHECKSUM: Final[dict[tuple[str, str], str]] = {
    ("*.txnindex", "transactions"): "other transactions count as aborted",
    ("leader-epoch-checkpoint", "epochs"): "an epoch begins elsewhere",
    ("leader-epoch-checkpoint", "end"): "what was not flushed is cut short",
    ("leader-epoch-checkpoint.next", "epochs"): "an epoch begins elsewhere",
    ("leader-epoch-checkpoint.next", "end"): "what was not flushed is cut short",
    ("log-start-offset-checkpoint", "start"): "the log starts elsewhere",
    ("replication-offset-checkpoint", "high_watermark"): "the high watermark begins elsewhere",
}
"""(kind of file, first field that differs) → an allowed difference, which Kafka's formats give no means to notice."""


class LogFound(NamedTuple):
    """One log after a load."""

    start: int
    end: int
    high_watermark: int
    records: list[StoredRecord]
    epochs: list[int]
    readers: tuple[object, ...]
    """The places at which offsets and timestamps are found, and the state of producers."""
    transactions: tuple[object, ...]
    """The transactions that count as aborted, and the batches that a read_committed consumer sees."""


Found = dict[str, LogFound]


class World(NamedTuple):
    """A log directory after a stop or crash, and the data that an undamaged load finds in it."""

    files: MemoryFiles
    is_clean: bool
    whole: dict[str, list[StoredRecord]]
    """Every record in the files, records below the log's start, too."""
    recovery_points: dict[str, int]
    expected: Found
    calls: int
    peak_bytes: int


def started(files: MemoryFiles) -> LogManager:
    """A manager that has just loaded the logs.  Errors: CorruptCheckpoint, LogDamaged."""
    unique = itertools.count(1)
    manager = LogManager(files, [ROOT], CONFIG, unique=lambda: UUID(int=next(unique)))
    try:
        manager.open(NOW_MS)
        manager.load_all(CONFIGS.__getitem__, NOW_MS)
    except (CorruptCheckpoint, LogDamaged):
        manager.close()  # closed as the node does it; logs that were not loaded stay noted
        raise
    for log in manager.logs.values():
        log.verifies_transactions = False
    return manager


def lived_in(seed: int, *, is_clean: bool) -> World:
    files = MemoryFiles()
    files.mkdir(ROOT)
    manager = started(files)
    streams = {name: batches_of_every_kind(seed + number, 1000, max_value=60) for number, name in enumerate(CONFIGS)}
    logs = {name: manager.get_or_create(TopicPartition(name, 0), config, now_ms=NOW_MS) for name, config in CONFIGS.items()}
    _fill(logs, streams, FLUSHED)
    whole_start = {name: stored_records(log) for name, log in logs.items()}
    for log in logs.values():
        log.flush()
    manager.delete_records_before(logs["trimmed"], TRIMMED_TO)
    manager.directories[0].cleaner_offsets[TopicPartition("gappy", 0)] = CLEANED_TO
    manager.write_checkpoints()
    recovery_points = {name: log.recovery_point for name, log in logs.items()}
    _fill(logs, streams, UNFLUSHED)
    ends = {name: log.log_end_offset for name, log in logs.items()}
    if is_clean:
        manager.close()
        recovery_points = ends
    files.sync_everything()
    files = files.crashed(random.Random(0))
    intact = files.crashed(random.Random(0))
    calls = 0

    def count(call: str, path: str) -> None:
        nonlocal calls
        calls += 1

    intact.hook = count
    tracemalloc.start()
    manager = started(intact)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    calls_of_start = calls
    expected = found_in(manager)
    whole = {name: sorted({record.offset: record for record in (*whole_start[name], *expected[name].records)}.values()) for name in CONFIGS}
    assert all(found.end == ends[name] for name, found in expected.items())
    return World(files, is_clean, whole, recovery_points, expected, calls_of_start, peak_bytes)


def _fill(logs: dict[str, Log], streams: dict[str, Iterator[SomeBatch]], count: int) -> None:
    for name, log in logs.items():
        log.verifies_transactions = False
        for batch in itertools.islice(streams[name], count):
            append(log, batch._replace(origin=AppendOrigin.COORDINATOR))  # may append records without keys to a compacted log
        log.update_high_watermark(log.log_end_offset)


def found_in(manager: LogManager) -> Found:
    return {where.topic: _found(log) for where, log in manager.logs.items()}


def _found(log: Log) -> LogFound:
    records = stored_records(log)
    *readers, aborted = seen(log)
    return LogFound(
        log.log_start_offset,
        log.log_end_offset,
        log.high_watermark,
        records,
        [log.epochs.epoch_for_offset(record.offset) for record in records],
        tuple(readers),
        (aborted, committed_offsets(log)),
    )


def outcome_of(world: World, damage: Damage, *, watches_memory: bool = False) -> str:
    """The outcome of one damage, in words.  Errors: Broken."""
    files = world.files.crashed(random.Random(0))
    damage.apply(files)
    kept_before = kept(files, damage)
    calls = 0

    def count(call: str, path: str) -> None:
        nonlocal calls
        calls += 1
        if calls > TIMES_THE_CALLS * world.calls:
            raise Broken(f"{damage}: more than {calls} calls for a load that takes {world.calls}")

    files.hook = count
    if watches_memory:
        tracemalloc.start()
    try:
        manager = started(files)
    except (CorruptCheckpoint, LogDamaged) as error:
        if not is_named(damage.path, str(error)) or "\n" in str(error):
            raise Broken(f"{damage}: refused without the file's name, or in more than one line: {error}") from None
        if kept(files, damage) != kept_before:
            raise Broken(f"{damage}: refused, and the directory has changed") from None
        return "refused"
    except Exception as error:
        raise Broken(f"{damage}: {error!r}") from error
    finally:
        peak_bytes = tracemalloc.get_traced_memory()[1] if watches_memory else 0
        tracemalloc.stop()
        files.hook = None
    if peak_bytes > world.peak_bytes + SPARE_BYTES:
        raise Broken(f"{damage}: {peak_bytes} bytes of memory for a load that takes {world.peak_bytes}")
    found = found_in(manager)
    try:
        for name, one in found.items():
            _check_bounds(one, world, name)
        outcome = _compared(damage, found, world.expected)
        _goes_on(manager, files)
    except Broken as error:
        raise Broken(f"{damage}, {'clean' if world.is_clean else 'killed'}: {error}") from None
    return outcome


def kept(files: MemoryFiles, damage: Damage) -> dict[str, bytes]:
    """The files that a refusal must not change: segments and the damaged folder's files.  Other logs may have got new indexes before."""
    folder = damage.path.rpartition("/")[0]
    paths = [path for path in paths_in(files, ROOT) if path.endswith(".log") or path.rpartition("/")[0] in (ROOT, folder)]
    return {path: files.read(path) for path in paths}


def _check_bounds(found: LogFound, world: World, name: str) -> None:
    """Check the bounds that hold after any damage.  Errors: Broken."""
    expected = world.expected[name]
    if not 0 <= found.start <= found.high_watermark <= found.end:
        raise Broken(f"{name}: start {found.start}, high watermark {found.high_watermark}, end {found.end}")
    if not world.recovery_points[name] <= found.end <= expected.end:
        raise Broken(f"{name} ends at {found.end}; {world.recovery_points[name]} was flushed, {expected.end} was written")
    if found.records != [record for record in world.whole[name] if found.start <= record.offset < found.end]:
        raise Broken(f"{name}: records from {found.start} to {found.end} are not those that were appended")


def _compared(damage: Damage, found: Found, expected: Found) -> str:
    differs = [name for name in CONFIGS if found[name] != expected[name]]
    if not differs:
        return "nothing differs"
    fields = [field for field in LogFound._fields for name in differs if getattr(found[name], field) != getattr(expected[name], field)]
    known = NO_CHECKSUM.get((kind_of(damage.path), fields[0]))
    if known is None or (len(differs) > 1 and not damage.is_cut):
        raise Broken(f"{', '.join(differs)}: {', '.join(fields)} differ")
    return known


def _goes_on(manager: LogManager, files: MemoryFiles) -> None:
    """Check that an append is read back, and that the next start finds the same data.  Errors: Broken."""
    for log in manager.logs.values():
        end = log.log_end_offset
        append(log, next(batches_of_every_kind(1, 1))._replace(origin=AppendOrigin.COORDINATOR, leader_epoch=log.epochs.latest_epoch + 1))
        log.update_high_watermark(log.log_end_offset)
        if not any(record.offset == end for record in stored_records(log)):
            raise Broken(f"{log}: an append is not read back")
    before = found_in(manager)
    manager.close()
    try:
        again = found_in(started(files))
    except Exception as error:
        raise Broken(f"the next start: {error!r}") from error
    if again != before:
        raise Broken("the next start finds something else")


def damaged_logs(
    seed: int, *, every: int = 1, part: str = "", watches_memory: bool = False, progress: Callable[[str], None] = lambda _: None
) -> Counter[str]:
    """Try every n-th damage to files with `part` in their path, after a clean stop and after none.  Returns the number of each outcome.

    Errors: Broken.
    """
    outcomes: Counter[str] = Counter()
    for is_clean in (True, False):
        world = lived_in(seed, is_clean=is_clean)
        damages = [damage for damage in damages_of(world.files) if part in damage.path and not damage.path.endswith(UNREAD)]
        for number, damage in enumerate(damages[seed % every :: every]):
            outcome = outcome_of(world, damage, watches_memory=watches_memory)
            outcomes[f"{kind_of(damage.path)}: {outcome}"] += 1
            if number % 100 == 0:
                progress(f"{'clean' if is_clean else 'killed'}: {number} of {len(damages) // every}")
    return outcomes


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m proof.storage.damaged_logs",
        description="Damage every small file of a log directory in every way, and load its logs.",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the batches")
    parser.add_argument("--every", type=int, default=1, help="only every n-th damage")
    parser.add_argument("--part", default="", help="only files whose path has this in it")
    parser.add_argument("--memory", action="store_true", help="watch how much memory each load takes: several times as slow")
    chosen = parser.parse_args(arguments)
    began = time.monotonic()
    outcomes = damaged_logs(
        chosen.seed,
        every=chosen.every,
        part=chosen.part,
        watches_memory=chosen.memory,
        progress=lambda text: print(f"\r{text}", end="", flush=True),
    )
    print()
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:9} {outcome}")
    print(f"{sum(outcomes.values())} cuts and flips in {time.monotonic() - began:.0f} s, seed {chosen.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
