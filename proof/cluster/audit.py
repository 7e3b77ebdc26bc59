"""● Compares what clients were promised with what a cluster has, in the end.

lane = Lane("orders", "copies", history)
lane.behind()                        # the readers that have not reached the last acknowledged record
lane.audit(cluster, read_everything) # after the nodes have stopped
different_logs(cluster)              # the partitions whose replicas differ
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moldau.testing.cluster import Cluster
from proof.cluster.process_load import PARTITIONS, History
from proof.cluster.stored import Written, written

METADATA_LOG: Final = "__cluster_metadata"
INTERNAL: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state", METADATA_LOG)


@dataclass
class Lane:
    """A topic that one producer writes, the topic of its copies, and the answers that their clients got."""

    source: str
    copies: str
    history: History
    has_copier: bool = True

    def behind(self) -> list[str]:
        """The readers that have not reached the last acknowledged record of a partition."""
        last = {partition: values[-1] for partition, values in self.history.acknowledged.items()}
        found = [f"the group at {self.source}-{partition}" for partition, value in last.items() if not self.history.read[partition, value]]
        if self.has_copier:
            copied = self.history.copied
            found += [f"the copier at {self.source}-{partition}" for partition, value in last.items() if copied.get(partition, -1) < value]
        return found

    def audit(self, cluster: Cluster, orders: dict[int, list[int]], copies: dict[int, list[int]]) -> Iterator[str]:
        """The violations, in words.  `orders` and `copies` are what a reader got from every partition; the nodes have stopped."""
        for partition in range(PARTITIONS):
            name = f"{self.source}-{partition}"
            there, copied, stored = orders[partition], copies[partition], self._stored(cluster, partition)
            if there != stored.values:
                yield f"{name}: what is read is not what is stored"
            yield from _differences(name, self.history.acknowledged[partition], stored.sent_once)
            self.history.resent += stored.resent
            for reader, at, before, value in self.history.jumps:
                if at == partition and (before, value) not in stored.seams:
                    yield f"{reader}: {name} gave {value} after {before}"
            if copied != there[: len(copied)]:
                yield from _differences(f"{self.copies}-{partition}", there[: len(copied)], copied)
            unread = max((value for at, value in self.history.read if at == partition), default=-1) + 1
            if skipped := [value for value in range(unread) if not self.history.read[partition, value]]:
                yield f"the group left out {len(skipped)} records of {name}: {skipped[:5]}…"

    def _stored(self, cluster: Cluster, partition: int) -> Written:
        folders = [node.log_dir / f"{self.source}-{partition}" for node in cluster.nodes.values()]
        return written(next(folder for folder in folders if folder.exists()))


def different_logs(cluster: Cluster, topics: tuple[str, ...]) -> Iterator[str]:
    """Partitions with files that differ between stopped nodes, compared from the first offset that all nodes have."""
    for name in (*topics, *INTERNAL):
        folders: dict[str, dict[int, bytes]] = {}
        for node in cluster.nodes.values():
            for folder in sorted(node.log_dir.glob(f"{name}-*")):
                folders.setdefault(folder.name, {})[node.node_id] = _bytes_of(folder)
        for folder_name, by_node in folders.items():
            if name == METADATA_LOG:  # the last node to stop may have written records that the others never saw
                shortest = min(map(len, by_node.values()))
                by_node = {node_id: data[:shortest] for node_id, data in by_node.items()}
            if len(set(by_node.values())) > 1:
                yield f"{folder_name}: replicas differ: { ({node_id: len(data) for node_id, data in by_node.items()}) } bytes"


def _bytes_of(folder: Path) -> bytes:
    return b"".join(segment.read_bytes() for segment in sorted(folder.glob("*.log")))


def _differences(where: str, wanted: list[int], there: list[int]) -> Iterator[str]:
    count = Counter(there)
    if lost := [value for value in wanted if not count[value]]:
        yield f"{where}: {len(lost)} records are lost: {lost[:5]}…"
    if doubled := [value for value, times in count.items() if times > 1]:
        yield f"{where}: {len(doubled)} records are there more than once: {doubled[:5]}…"
    if there != sorted(there):
        yield f"{where}: records are out of order"
    if wanted != there and not lost and not doubled:
        yield f"{where}: {len(set(there) - set(wanted))} records are there that nobody was promised"
