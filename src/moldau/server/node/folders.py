"""◇ Whether a node's folders are its own: formatted, of one cluster, of this node; and which logs in them the cluster does not know.

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
"""Two random topic ids differ in about 61 bits: so few are one damaged character."""


class StartRefused(Exception):
    """Why the node does not start, and what to do about it, in one line."""


def check_folders(metas: Mapping[str, MetaProperties | None], node_id: int) -> str:
    """The cluster that they are of; `metas` is what each folder that can be read says of itself.  Errors: StartRefused."""
    known = {path: meta for path, meta in metas.items() if meta is not None}
    cluster_id: str | None = None
    first = ""
    ids: set[UUID] = set()
    for path in metas:
        meta = known.get(path)
        if meta is None:
            cluster = next((other.cluster_id for other in known.values()), None)
            command = f"moldau storage format -t {cluster or '$(moldau storage random-uuid)'} -c FILE --standalone"
            raise StartRefused(f"{path} is not formatted: run `{command}{' --ignore-formatted' if cluster else ''}`")
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


def is_stray(image: MetadataImage, node_id: int, path: str, where: TopicPartition, topic_id: UUID | None) -> bool:
    """Whether a log on the disk is of no partition that this broker has to keep.  Errors: CorruptCheckpoint.

    Without an id the name decides, where Kafka sets the log aside: nothing that may hold records is to be replaced by an empty log.
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
