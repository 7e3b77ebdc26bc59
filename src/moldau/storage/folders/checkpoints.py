"""◇ The small text files of a log directory, in Kafka's form: read strictly, written atomically.

    meta.properties                      the owner of the directory: version=1, cluster.id, node.id, directory.id
    <topic>-<partition>/partition.metadata      the topic's id
    .kafka_cleanshutdown                 {"version":0,"brokerEpoch":N}: only between a clean stop and the next start
    recovery-point-offset-checkpoint     the offset up to which each log is on stable storage
    log-start-offset-checkpoint          start offsets of logs that do not start with their first segment
    replication-offset-checkpoint        high watermarks
    cleaner-offset-checkpoint            the offset up to which each log is compacted

    0                      an offset checkpoint: version,
    2                      number of entries,
    orders 0 117           topic, partition, offset
    orders 1 98

Impossible content is refused with the file's name and the line (`CorruptCheckpoint`): a guess here could lose records.
Source: OffsetCheckpointFile, MetaProperties, PartitionMetadataFile, CleanShutdownFileHandler.
"""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from moldau.storage.epochs import CorruptCheckpoint, checkpoint_lines, checkpoint_text
from moldau.storage.files import Files
from moldau.types import RESERVED_UUIDS, ZERO_UUID, TopicPartition, uuid_from_text, uuid_to_text

META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"

UNKNOWN_BROKER_EPOCH: Final = -1

Offsets = Mapping[TopicPartition, int]


def offsets_text(offsets: Offsets) -> bytes:
    return checkpoint_text([f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())])


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """The offsets in a file; empty if there is no such file.  Errors: CorruptCheckpoint."""
    if not files.exists(path):
        return {}
    offsets: dict[TopicPartition, int] = {}
    for topic, partition, offset in checkpoint_lines(path, files.read(path), 3):
        where = TopicPartition(topic, int(partition))
        if where in offsets or where.partition < 0 or int(offset) < 0:
            raise CorruptCheckpoint(f"{path}: {topic} {partition} {offset} stands there twice or is negative")
        offsets[where] = int(offset)
    return offsets


class MetaProperties(NamedTuple):
    """The owner of a directory.  The format step writes it, and every start checks it."""

    cluster_id: str
    node_id: int
    directory_id: UUID | None
    """None: the directory was formatted before there were ids (Kafka 3.7), and not started since."""

    def text(self) -> bytes:
        assert self.directory_id is not None, "a directory is named before it is written of"
        return (
            f"cluster.id={self.cluster_id}\ndirectory.id={uuid_to_text(self.directory_id)}\nnode.id={self.node_id}\nversion=1\n"
        ).encode()


def read_meta_properties(files: Files, directory: str) -> MetaProperties | None:
    """The content of meta.properties; None when the directory was never formatted.  Errors: CorruptCheckpoint."""
    path = f"{directory}/{META_PROPERTIES}"
    if not files.exists(path):
        return None
    properties = _properties(path, files.read(path))
    if properties.get("version") != "1":
        raise CorruptCheckpoint(f"{path}: version 1 is expected, but it is {properties.get('version', 'missing')}")
    try:
        node_id = int(properties["node.id"])
        directory_id = uuid_from_text(properties["directory.id"]) if "directory.id" in properties else None
        cluster_id = properties["cluster.id"]
    except KeyError as error:
        raise CorruptCheckpoint(f"{path}: {error.args[0]} is missing") from None
    except ValueError as error:
        raise CorruptCheckpoint(f"{path}: {error}") from None
    if node_id < 0 or not cluster_id or (directory_id is not None and directory_id.int < RESERVED_UUIDS):
        raise CorruptCheckpoint(f"{path}: node.id {node_id}, cluster.id {cluster_id!r} or directory.id {directory_id} is not valid")
    return MetaProperties(cluster_id, node_id, directory_id)


def _properties(path: str, raw: bytes) -> dict[str, str]:
    try:
        lines = raw.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise CorruptCheckpoint(f"{path} is no text") from None
    found = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        key, equals, value = text.partition("=")
        if not equals:
            raise CorruptCheckpoint(f"{path}: line {number} is no key=value: {text[:80]!r}")
        found[key.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    return found


def write_partition_metadata(files: Files, directory: str, topic_id: UUID) -> None:
    """Write a topic's id.  It is durable once the file and its directory are synced."""
    file = files.open(f"{directory}/{PARTITION_METADATA}", create=True)
    try:
        file.pwrite([partition_metadata_text(topic_id)], 0)
    finally:
        file.close()


def partition_metadata_text(topic_id: UUID) -> bytes:
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n".encode()


def read_partition_metadata(files: Files, directory: str) -> UUID | None:
    """The topic's id; None when the file is missing, or ends early as an unsynced file may.  Errors: CorruptCheckpoint."""
    path = f"{directory}/{PARTITION_METADATA}"
    if not files.exists(path):
        return None
    content = files.read(path)
    if _is_torn(content):
        return None
    lines = content.decode("utf-8", "replace").splitlines()
    if len(lines) != 2 or lines[0].strip() != "version: 0" or not lines[1].startswith("topic_id:"):
        raise CorruptCheckpoint(f"{path}: 'version: 0' and 'topic_id: …' are expected")
    try:
        topic_id = uuid_from_text(lines[1].partition(":")[2].strip())
    except ValueError as error:
        raise CorruptCheckpoint(f"{path}: {error}") from None
    if topic_id.int == 0:
        raise CorruptCheckpoint(f"{path}: the topic id is zero")
    return topic_id


def _is_torn(content: bytes) -> bool:
    """Whether the file is only a beginning, or has zeros where bytes never reached the disk: then nothing of that log was flushed yet."""
    whole = partition_metadata_text(ZERO_UUID)
    label = whole[: whole.rindex(b" ") + 1]
    is_incomplete = len(content) < len(whole) - 1 or b"\0" in content
    return is_incomplete and all(found in (0, wanted) for found, wanted in zip(content, label, strict=False))


def clean_shutdown_text(broker_epoch: int) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def read_clean_shutdown(files: Files, directory: str) -> int | None:
    """The broker epoch of a clean stop, -1 if the file has none, None after an unclean stop.

    An unreadable file still means a clean stop.
    """
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    if not files.exists(path):
        return None
    try:
        content = json.loads(files.read(path))
        epoch = content["brokerEpoch"] if content["version"] == 0 else UNKNOWN_BROKER_EPOCH
        return epoch if isinstance(epoch, int) else UNKNOWN_BROKER_EPOCH
    except (ValueError, KeyError, TypeError):
        return UNKNOWN_BROKER_EPOCH
