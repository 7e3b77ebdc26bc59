"""Kafka's own tools and broker find nothing wrong with what we wrote, and we find nothing wrong with what Kafka wrote."""

from pathlib import Path

import pytest

from moldau.storage.config import LogConfig
from moldau.storage.files import SystemFiles
from moldau.storage.log import Log
from moldau.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from moldau.types import TopicPartition
from proof.kafka.apache import ApacheKafka, Tool, dump_log, run_tool
from proof.storage.logs import append, batches_of_every_kind, open_log, stored_bytes, stored_records

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("apache-kafka")]

SMALL_SEGMENTS = LogConfig(segment_bytes=20_000, index_interval_bytes=200)
COMPLAINTS = ("mismatch", "Mismatch", "ould not find", "Found timestamp", "corrupt", "Exception")


@pytest.fixture
def our_log(tmp_path: Path) -> Path:
    directory = tmp_path / "t-0"
    log = open_log(SystemFiles(), str(directory), SMALL_SEGMENTS)
    for batch in batches_of_every_kind(seed=1, count=400):
        append(log, batch)
    assert len(log.segments) > 3
    log.close()
    return directory


@pytest.mark.parametrize("arguments", [["--deep-iteration", "--print-data-log"], ["--index-sanity-check"], ["--verify-index-only"]])
def test_dump_log_has_no_complaint(our_log: Path, arguments: list[str]) -> None:
    files = [path for path in sorted(our_log.iterdir()) if path.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")]
    assert {path.suffix for path in files} == {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    printed = dump_log(*files, arguments=arguments)
    complaints = [line for line in printed.splitlines() if any(word in line for word in COMPLAINTS) and "payload" not in line]
    assert not complaints, complaints[:5]
    assert printed.count("Dumping") == len(files)
    assert printed.count("isvalid: true") == printed.count("isvalid") >= 390


def test_kafka_goes_on_with_a_log_that_we_wrote_and_we_with_what_it_wrote(tmp_path: Path) -> None:
    kafka = ApacheKafka(directory=tmp_path / "kafka", properties={"log.segment.bytes": "1048576", "log.index.interval.bytes": "1000"})
    try:
        kafka.start()
        kafka.topics("--create", "--topic", "t", "--partitions", "1")
        perf(kafka, 3000)
        kafka.stop()
        partition = kafka.log_dir / "t-0"
        log = open_partition(partition, clean=True)
        assert log.log_end_offset == 3000 and not any(line for line in log.epochs.entries if line.epoch < 0)
        for batch in batches_of_every_kind(seed=2, count=300):
            append(log, batch._replace(leader_epoch=log.epochs.latest_epoch))
        expected = len([record for record in stored_records(log) if not record.is_control])
        end = log.log_end_offset
        log.close()
        kafka.start()
        assert kafka.offsets("t") == {0: end}
        assert len(consume(kafka, expected)) == expected
        perf(kafka, 2000)
        kafka.kill()
        after = open_partition(partition, clean=False)
        assert after.log_end_offset == end + 2000
    finally:
        kafka.stop()


def test_indexes_that_we_rebuild_are_kafkas_own_to_the_byte(tmp_path: Path) -> None:
    kafka = ApacheKafka(directory=tmp_path / "kafka", properties={"log.segment.bytes": "1048576", "log.index.interval.bytes": "1000"})
    try:
        kafka.start()
        kafka.topics("--create", "--topic", "t", "--partitions", "1")
        perf(kafka, 30_000)
        kafka.stop()
    finally:
        kafka.stop()
    partition = kafka.log_dir / "t-0"
    kinds = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)
    theirs = {path.name: path.read_bytes() for path in partition.iterdir() if path.suffix in kinds}
    snapshots = sorted(partition.glob("*.snapshot"))
    assert len(theirs) > 6 and snapshots
    for path in partition.iterdir():
        if path.suffix in kinds[1:]:
            path.unlink()
    open_partition(partition, clean=False).close()
    ours = {path.name: path.read_bytes() for path in partition.iterdir() if path.suffix in kinds}
    assert ours.keys() == theirs.keys()
    assert [name for name in sorted(ours) if ours[name] != theirs[name]] == []


def open_partition(directory: Path, *, clean: bool) -> Log:
    config = LogConfig(segment_bytes=1 << 20, index_interval_bytes=1000)
    log = Log.open(SystemFiles(), str(directory), TopicPartition("t", 0), config, now_ms=1, clean=clean)
    log.verifies_transactions = False
    assert stored_bytes(log, max_bytes=100_000)
    return log


def perf(kafka: ApacheKafka, count: int) -> None:
    settings = [f"bootstrap.servers={kafka.bootstrap}", "compression.type=lz4", "batch.size=4000", "acks=all"]
    run_tool(
        Tool.PRODUCER_PERF,
        "--topic",
        "t",
        "--num-records",
        str(count),
        "--record-size",
        "200",
        "--throughput",
        "-1",
        "--producer-props",
        *settings,
    )


def consume(kafka: ApacheKafka, count: int) -> list[str]:
    limits = ("--from-beginning", "--partition", "0", "--max-messages", str(count), "--timeout-ms", "60000")
    formatter = ("--formatter-property", "print.value=false", "--formatter-property", "print.offset=true")
    return run_tool(Tool.CONSOLE_CONSUMER, "--bootstrap-server", kafka.bootstrap, "--topic", "t", *limits, *formatter).splitlines()
