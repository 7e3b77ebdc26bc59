"""◇ Checks a node's folders: they are formatted, of one cluster, of this node.  Finds logs in them that the cluster does not know.

Source: MetaPropertiesEnsemble.verify, LogManager.isStrayKraftReplica.  Called by `node.py` before anything is written.
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from moldau.metadata.image import MetadataImage
from moldau.storage.epochs import CorruptCheckpoint
from moldau.storage.folders.checkpoints import MetaProperties
from moldau.types import TopicPartition, uuid_to_text

DAMAGED_ID_BITS: Final = 12
"""Two random topic ids differ in about 61 bits; ids that differ in at most this many are one with a damaged character."""


class StartRefused(Exception):
    """The node does not start.  The text has the reason and the way out, in one line."""


def check_folders(metas: Mapping[str, MetaProperties | None], node_id: int) -> str:
    """The cluster of the folders.  `metas`: the meta.properties of each readable folder.  Errors: StartRefused."""
    known = {path: meta for path, meta in metas.items() if meta is not None}
    cluster_id: str | None = None
    first = ""
    ids: set[UUID] = set()
    for path in metas:
        meta = known.get(path)
        if meta is None:
            cluster = next((other.cluster_id for other in known.values()), None)
            command = f"moldau storage format -t {cluster or '$(moldau storage random-uuid)'} -c FILE --standalone"
            joins = f"{'' if cluster else '-t their cluster.id, and '}--no-initial-controllers instead of --standalone"
            raise StartRefused(
                f"{path} is not formatted: run `{command}{' --ignore-formatted' if cluster else ''}`.  To join others: {joins}"
            )
        if meta.node_id != node_id:
            raise StartRefused(
                f"{path}/meta.properties is of node {meta.node_id}, and node.id is {node_id}: "
                f"set node.id={meta.node_id}, or use another folder"
            )
        if cluster_id is not None and meta.cluster_id != cluster_id:
            raise StartRefused(
                f"{path} belongs to the cluster {meta.cluster_id}, and {first} to {cluster_id}: log.dirs must be of one cluster"
            )
        if meta.directory_id in ids:
            raise StartRefused(f"{path}/meta.properties has the directory.id of another folder: one is a copy, take it out of log.dirs")
        cluster_id, first = meta.cluster_id, first or path
        if meta.directory_id is not None:
            ids.add(meta.directory_id)
    if cluster_id is None:
        raise StartRefused("none of log.dirs can be used: see the lines above")
    return cluster_id


def told_directory(image: MetadataImage, node_id: int, where: TopicPartition) -> UUID | None:
    """The id of the directory in which the cluster knows this broker's replica; None where there is none."""
    partition = image.partition(where.topic, where.partition)
    return None if partition is None else partition.directory_of(node_id)


def is_stray(image: MetadataImage, node_id: int, path: str, where: TopicPartition, topic_id: UUID | None) -> bool:
    """Whether a log on the disk belongs to no partition of this broker.  Errors: CorruptCheckpoint.

    For a log without an id the name decides; Kafka sets such a log aside.  A log that may hold records must not be replaced by an empty
    one.
    """
    by_name = image.topics.get(where.topic)
    topic = by_name if topic_id is None else image.topic(topic_id)
    if topic_id is not None and topic is None and by_name is not None and (topic_id.int ^ by_name.id.int).bit_count() <= DAMAGED_ID_BITS:
        raise CorruptCheckpoint(
            f"{path}/partition.metadata says the topic id {uuid_to_text(topic_id)}, the cluster says {uuid_to_text(by_name.id)}: "
            "too alike for two topics, one of them is damaged.  Write the cluster's id into that file"
        )
    if topic is None or topic.name != where.topic or where.partition >= len(topic.partitions):
        return True
    return node_id not in topic.partitions[where.partition].replicas
