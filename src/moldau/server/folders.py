"""◇ Whether a node's folders are its own: formatted, of one cluster, of this node.

Source: MetaPropertiesEnsemble.verify.  Called by `node.py` once the folders are locked.
"""

from collections.abc import Sequence
from uuid import UUID

from moldau.storage.directory import LogDirectory


class StartRefused(Exception):
    """Why the node does not start, and what to do about it, in one line."""


def check_folders(directories: Sequence[LogDirectory], node_id: int) -> str:
    """The cluster that they are of.  Errors: StartRefused."""
    cluster_id: str | None = None
    first = ""
    ids: set[UUID] = set()
    for directory in directories:
        if not directory.is_online:
            continue
        meta = directory.meta
        if meta is None:
            cluster = next((other.meta.cluster_id for other in directories if other.meta is not None), None)
            command = f"moldau storage format -t {cluster or '$(moldau storage random-uuid)'} -c FILE --standalone"
            raise StartRefused(f"{directory.path} is not formatted: run `{command}{' --ignore-formatted' if cluster else ''}`")
        if meta.node_id != node_id:
            raise StartRefused(
                f"{directory.path}/meta.properties is of node {meta.node_id}, and node.id is {node_id}: "
                f"set node.id={meta.node_id}, or use another folder"
            )
        if cluster_id is not None and meta.cluster_id != cluster_id:
            raise StartRefused(
                f"{directory.path} belongs to the cluster {meta.cluster_id}, and {first} to {cluster_id}: log.dirs must be of one cluster"
            )
        if meta.directory_id in ids:
            raise StartRefused(
                f"{directory.path}/meta.properties has the directory.id of another folder: one is a copy, take it out of log.dirs"
            )
        cluster_id, first = meta.cluster_id, first or directory.path
        if meta.directory_id is not None:
            ids.add(meta.directory_id)
    if cluster_id is None:
        raise StartRefused("none of log.dirs can be used: see the lines above")
    return cluster_id
