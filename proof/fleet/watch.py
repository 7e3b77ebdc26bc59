"""● Checks the promises after every event of a cluster of real nodes.  `on_wrong` gets each broken promise, in words.

Metadata    an epoch of the quorum has one leader; a node's high watermark never goes back; the committed parts of two nodes' logs are the
            same, byte for byte, and make the same image; in-sync and eligible ⊆ replicas, a leader is in sync, epochs never go back
Partitions  a leader epoch has one leader; its high watermark never goes back; the committed parts of two replicas are the same, byte for
            byte; a new leader has all acknowledged records

The watch costs little because it looks only at roles, high watermarks, images and leader epochs that have moved.

Logs of coordinators are compacted, by each broker when it has time: their bytes are not compared.

As in Kafka, a power cut may take records below a high watermark that were not acknowledged.  Nothing else is forgiven.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.metadata.image import MetadataImage, PartitionRegistration
from moldau.protocol.records.batch import batches
from moldau.raft.roles import Leader
from moldau.replication.partition import Partition
from moldau.server.node.shared_server import SharedServer
from moldau.storage.log import Log
from moldau.types import NO_EPOCH, NO_LEADER
from proof.fleet.fleet import Fleet, Member

AT_ONCE: Final = 1 << 20
Where = tuple[UUID, int]


class Stored(NamedTuple):
    """A batch as it lies in a log."""

    base_offset: int
    next_offset: int
    content: bytes


def stored(log: Log, start: int, end: int) -> Iterator[Stored]:
    """The batches from `start` to `end` (exclusive).  Both offsets lie at the edge of a batch."""
    position = start
    while position < end:
        found = log.read(position, AT_ONCE, min_one_batch=True)
        if isinstance(found, ErrorCode) or found.records is None:
            return
        view = memoryview(found.records.read())
        before = position
        for place, header in batches(view):
            if header.base_offset >= end or place + header.size > len(view):
                break
            position = header.base_offset + header.last_offset_delta + 1
            if position > start:
                yield Stored(header.base_offset, position, bytes(view[place : place + header.size]))
        if position == before:
            return


class Committed:
    """The committed part of one log, as the first node reported it."""

    def __init__(self) -> None:
        self.start = 0
        """Nothing is known of the batches below: they were deleted before anybody looked."""
        self.batches: list[Stored] = []
        self.by_offset: dict[int, Stored] = {}

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start

    def forget_from(self, offset: int) -> None:
        while self.batches and self.batches[-1].next_offset > offset:
            del self.by_offset[self.batches.pop().base_offset]

    def differs(self, batch: Stored) -> bool:
        known = self.by_offset.get(batch.base_offset)
        if known is None:
            return self.start <= batch.base_offset < self.end
        return known.content != batch.content

    def extend(self, batch: Stored) -> None:
        if batch.base_offset > self.end:
            self.start = batch.base_offset
            self.batches.clear()
            self.by_offset.clear()
        self.batches.append(batch)
        self.by_offset[batch.base_offset] = batch


class Watch:
    """See the module.  Call `look` after every event."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet: Final = fleet
        self.looks = 0
        self.quorum_leaders: dict[int, int] = {}
        self.metadata: Final = Committed()
        self.images: dict[int, MetadataImage] = {}
        self.epochs: dict[Where, tuple[int, int]] = {}
        self.leaders: dict[tuple[UUID, int, int], int] = {}
        self.watermarks: dict[tuple[UUID, int, int], int] = {}
        self.committed: dict[Where, Committed] = {}
        self.acknowledged: dict[Where, int] = {}
        """The end (exclusive) of the records that any leader has acknowledged, by partition."""
        self._quorum_marks: dict[tuple[int, int], int] = {}
        self._checked: dict[tuple[int, int, Where | None], int] = {}
        self._seen: dict[int, MetadataImage] = {}
        self._quorum_seen: dict[int, tuple[object, int, MetadataImage]] = {}
        """Each node's role, high watermark and image when it was looked at last."""
        self._partitions_seen: dict[Partition, tuple[int, int, int]] = {}
        self._commits = 0
        """Counts the changes of `committed`."""
        fleet.on_power_lost = self.power_lost

    def power_lost(self) -> None:
        self._commits += 1
        for where, committed in self.committed.items():
            committed.forget_from(self.acknowledged.get(where, 0))

    def wrong(self, text: str) -> None:
        self.fleet.on_wrong(text)

    def look(self) -> None:
        self.looks += 1
        members = [member for member in self.fleet.members.values() if member.is_up]
        for member in members:
            if member.shared is not None:
                self._look_at_quorum(member, member.shared)
        following: list[tuple[Member, Partition]] = []
        seen = self._partitions_seen
        for member in members:
            if member.broker is None:
                continue
            for partition in member.broker.replicas.hosted.values():
                if not partition.is_leader:
                    following.append((member, partition))
                    continue
                state = (partition.leader_epoch, partition.log.high_watermark, partition.acknowledged_offset)
                if seen.get(partition) != state:
                    seen[partition] = state
                    self._look_at_leader(member, partition)
        for member, partition in following:
            state = (NO_EPOCH, partition.log.high_watermark, self._commits)
            if seen.get(partition) != state:
                seen[partition] = state
                self._look_at_follower(member, partition)

    # the quorum

    def _look_at_quorum(self, member: Member, shared: SharedServer) -> None:
        driver = shared.driver
        node = getattr(driver, "node", None)  # the driver makes its node when it has opened the log
        if node is None:
            return
        mark, image = driver.high_watermark, shared.loader.image
        seen = self._quorum_seen.get(member.id)
        if seen is not None and seen[0] is node.role and seen[1] == mark and seen[2] is image:
            return
        self._quorum_seen[member.id] = node.role, mark, image
        if isinstance(node.role, Leader):
            known = self.quorum_leaders.setdefault(node.epoch, member.id)
            if known != member.id:
                self.wrong(f"controllers {known} and {member.id} both lead epoch {node.epoch}")
        life = (member.id, member.life)
        before = self._quorum_marks.get(life, 0)
        if mark < before:
            self.wrong(f"the high watermark of {member}'s metadata goes back from {before} to {mark}")
        if mark > before:
            self._quorum_marks[life] = mark
            self._compare_metadata(member, driver.log, mark)
        if self._seen.get(member.id) is not image:
            self._seen[member.id] = image
            self._look_at_image(member, image)

    def _compare_metadata(self, member: Member, log: Log, mark: int) -> None:
        key = (member.id, member.life, None)
        start = max(self._checked.get(key, 0), log.log_start_offset)
        for batch in stored(log, start, mark):
            if self.metadata.differs(batch):
                self.wrong(f"{member} takes other metadata for committed at {batch.base_offset} than another node")
                return
            if batch.base_offset >= self.metadata.end:
                self.metadata.extend(batch)
        self._checked[key] = mark

    def _look_at_image(self, member: Member, image: MetadataImage) -> None:
        known = self.images.get(image.offset)
        if known is not None:
            if known is not image and (known.topics != image.topics or known.brokers != image.brokers or known.features != image.features):
                self.wrong(f"{member} has another image at offset {image.offset} than another node")
            return
        self.images[image.offset] = image
        for topic in image.topics.values():
            for number, partition in enumerate(topic.partitions):
                self._look_at_registration((topic.id, number), partition, image.offset)

    def _look_at_registration(self, where: Where, said: PartitionRegistration, offset: int) -> None:
        """Check a partition in an image.  Images come in any order, so epochs are checked in the image of the newest offset only."""
        if not set(said.isr) <= set(said.replicas):
            self.wrong(f"{where}: in sync are {said.isr}, replicas {said.replicas} at offset {offset}")
        if not set(said.elr) <= set(said.replicas):
            self.wrong(f"{where}: eligible are {said.elr}, replicas {said.replicas} at offset {offset}")
        if said.leader != NO_LEADER and said.leader not in said.isr:
            self.wrong(f"{where}: {said.leader} leads and is not among the in-sync {said.isr} at offset {offset}")
        if not said.isr and not said.elr and said.leader != NO_LEADER:
            self.wrong(f"{where}: nobody is in sync, and {said.leader} leads at offset {offset}")
        if offset == max(self.images):
            before = self.epochs.get(where, (-1, -1))
            if (said.leader_epoch, said.partition_epoch) < before or said.partition_epoch < before[1]:
                self.wrong(f"{where}: epochs go back from {before} to {said.leader_epoch, said.partition_epoch} at offset {offset}")
            self.epochs[where] = (said.leader_epoch, said.partition_epoch)

    # partitions

    def _look_at_leader(self, member: Member, partition: Partition) -> None:
        where, epoch, log = (partition.topic_id, partition.topic_partition.partition), partition.leader_epoch, partition.log
        key = (*where, epoch)
        known = self.leaders.get(key)
        if known is None:
            self.leaders[key] = member.id
            self._has_all_acknowledged(member, partition, where)
        elif known != member.id:
            self.wrong(f"brokers {known} and {member.id} both lead {partition.topic_partition} in epoch {epoch}")
        mark = log.high_watermark
        before = self.watermarks.get(key, 0)
        if mark < before:
            self.wrong(f"the high watermark of {partition.topic_partition} goes back from {before} to {mark} in epoch {epoch}")
        if mark == before and known is not None and partition.acknowledged_offset <= self.acknowledged.get(where, 0):
            return
        self.watermarks[key] = mark
        self.acknowledged[where] = max(self.acknowledged.get(where, 0), min(partition.acknowledged_offset, mark))
        if _is_compacted(partition.topic_partition.topic):
            return
        committed = self.committed.setdefault(where, Committed())
        life = (member.id, member.life, where)
        start = max(min(self._checked.get(life, 0), committed.end), log.log_start_offset)
        for batch in stored(log, start, mark):
            if committed.differs(batch):
                self.wrong(f"{member} leads {partition}: another batch was committed at {batch.base_offset}")
                return
            if batch.base_offset >= committed.end:
                committed.extend(batch)
        self._commits += 1
        self._checked[life] = mark

    def _has_all_acknowledged(self, member: Member, partition: Partition, where: Where) -> None:
        acknowledged, committed = self.acknowledged.get(where, 0), self.committed.get(where)
        end = partition.log.log_end_offset
        if end < acknowledged:
            self.wrong(f"{member} leads {partition} up to {end}, and everything below {acknowledged} was acknowledged")
        elif committed is not None and any(map(committed.differs, stored(partition.log, partition.log.log_start_offset, acknowledged))):
            self.wrong(f"{member} leads {partition} with other records than were acknowledged")

    def _look_at_follower(self, member: Member, partition: Partition) -> None:
        where = (partition.topic_id, partition.topic_partition.partition)
        committed = self.committed.get(where)
        if committed is None:
            return
        life, mark = (member.id, member.life, where), min(partition.log.high_watermark, committed.end)
        start = max(self._checked.get(life, 0), partition.log.log_start_offset)
        if mark <= start:
            return
        for batch in stored(partition.log, start, mark):
            if committed.differs(batch):
                self.wrong(f"{member} follows {partition.topic_partition}, and has other records for committed at {batch.base_offset}")
                return
        self._checked[life] = mark

    # the end

    def is_given_up(self) -> bool:
        """Tells whether a partition's last leader lost its disk, so that only an administrator can have a leader elected."""
        image = self.images[max(self.images)]
        return any(
            said.leader == NO_LEADER and not (said.isr or said.elr or said.last_known_elr)
            for topic in image.topics.values()
            for said in topic.partitions
        )

    def unequal(self) -> str | None:
        """The first difference between the replicas; None once all are equal, to the last byte."""
        members = [one for one in self.fleet.members.values() if one.is_up]
        for member in members:
            if member.node is None:
                return f"{member} has not started"
        image = max((one.shared.loader.image for one in members if one.shared is not None), key=lambda one: one.offset)
        for topic in image.topics.values():
            for number, said in enumerate(topic.partitions):
                found = self._unequal_partition(topic.name, number, said)
                if found is not None:
                    return found
        return self._unequal_metadata(members)

    def _unequal_partition(self, topic: str, number: int, said: PartitionRegistration) -> str | None:
        if said.adding_replicas or said.removing_replicas:
            return f"{topic}-{number} is still moved"
        if set(said.isr) != set(said.replicas) or said.leader == NO_LEADER:
            return f"{topic}-{number}: leader {said.leader}, in sync {said.isr} of {said.replicas}"
        logs = []
        for broker_id in said.replicas:
            broker = self.fleet.members[broker_id].broker
            partition = None if broker is None else broker.replicas.hosted.get((topic, number))
            if partition is None or partition.leader_epoch != said.leader_epoch:
                return f"{topic}-{number}: {broker_id} does not know of epoch {said.leader_epoch}"
            logs.append(partition.log)
        ends = {(log.log_end_offset, log.high_watermark) for log in logs}
        if len(ends) > 1 or logs[0].log_end_offset != logs[0].high_watermark:
            return f"{topic}-{number}: ends and high watermarks {ends}"
        if _is_compacted(topic):
            return None
        return None if _are_equal(logs, logs[0].log_end_offset) else f"{topic}-{number}: the replicas' bytes differ"

    def _unequal_metadata(self, members: Iterable[Member]) -> str | None:
        drivers = [one.shared.driver for one in members if one.shared is not None]
        end = min(driver.high_watermark for driver in drivers)
        known = {driver.node.leader_id for driver in drivers}
        if len(known) > 1 or NO_LEADER in known or not end:
            return f"leaders of the quorum are {known}"
        return None if _are_equal([driver.log for driver in drivers], end) else "the metadata logs' bytes differ"


def _is_compacted(topic: str) -> bool:
    return topic.startswith("__")


def _are_equal(logs: list[Log], end: int) -> bool:
    start = max(log.log_start_offset for log in logs)
    contents = [[batch.content for batch in stored(log, start, end)] for log in logs]
    return all(content == contents[0] for content in contents)
