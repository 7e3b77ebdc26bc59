"""◇ A change of a partition when its brokers or replicas change: in-sync set, eligible leader replicas and leader, as one record.

Leaders are elected in this order: the present one; the first replica that is in sync (with an empty in-sync set: eligible) and may lead;
the last known leader, if both sets are empty; with `unclean`, the first replica that may lead at all.  The last two may lose
records, so the partition is then marked as recovering.

With eligible leader replicas (KIP-966) an in-sync set may become empty.  A replica that left it below min.insync.replicas without losing
its log stays eligible.  A replica that is moved away does not: with Kafka 4.3.1 it may lead with an empty log when it is added again.
Without eligible replicas the last one in sync stays in the set, unless it has lost its disk: then the set becomes empty there, too.

Source: PartitionChangeBuilder.java, ReplicationControlManager.generateLeaderAndIsrUpdates.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final
from uuid import UUID

from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.delta import UNCHANGED
from moldau.metadata.features import bumps_leader_epoch_on_shrink
from moldau.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from moldau.metadata.records import PartitionChangeRecord
from moldau.types import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, NO_LEADER

RECOVERED: Final = 0
RECOVERING: Final = 1


class Election(Enum):
    """PREFERRED: the first replica, if it is in sync.  ONLINE: any replica in sync or eligible.  UNCLEAN: if need be any that lives."""

    PREFERRED = "preferred"
    ONLINE = "online"
    UNCLEAN = "unclean"


@dataclass(slots=True)
class PartitionChange:
    """A change to be made.  A field that is None stays.  `may_lead` says whether a broker is there to lead."""

    topic_id: UUID
    number: int
    partition: PartitionRegistration
    may_lead: Callable[[int], bool]
    min_insync_replicas: int
    is_elr_enabled: bool
    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    removing: Sequence[int] | None = None
    adding: Sequence[int] | None = None
    lost_their_log: Collection[int] = ()
    """Brokers that stopped uncleanly: not eligible any more."""
    lost_their_disk: Collection[int] = ()
    """Brokers that have nothing of this partition any more: not even the last known leader leads then."""
    election: Election = Election.ONLINE
    recovery_state: int | None = None
    new_directories: dict[int, UUID] = field(default_factory=dict)
    """The directories that brokers have chosen for their replicas."""
    default_directory: Callable[[int], UUID] = lambda _: DIRECTORY_UNASSIGNED
    """The directory in which a broker puts a new replica."""
    bumps_epoch_on_shrink: bool = False
    """Whether a smaller in-sync set opens a new leader epoch: with metadata.version before 3.6."""

    def record(self) -> PartitionChangeRecord | None:
        """The record; None when nothing changes."""
        return _Build(self).run()


class _Build:
    """The targets while they are worked out."""

    def __init__(self, change: PartitionChange) -> None:
        self.change = change
        self.before = change.partition
        self.isr = tuple(self.before.isr if change.isr is None else change.isr)
        self.replicas = tuple(self.before.replicas if change.replicas is None else change.replicas)
        self.removing = tuple(self.before.removing_replicas if change.removing is None else change.removing)
        self.adding = tuple(self.before.adding_replicas if change.adding is None else change.adding)
        self.elr = self.before.elr
        self.made = PartitionChangeRecord(partition_id=change.number, topic_id=change.topic_id)

    def run(self) -> PartitionChangeRecord | None:
        self._maybe_complete_reassignment()
        if self.change.is_elr_enabled:
            self._find_eligible()
        self._elect()
        made, before = self.made, self.before
        if made.leader == UNCHANGED and not set(before.replicas) <= set(self.replicas):
            made.leader = before.leader  # the same leader in a new epoch: a replica that left must not go on as a follower
        if made.isr is not None or not self.change.is_elr_enabled:
            self.elr = ()
        if self.elr != before.elr:
            made.eligible_leader_replicas = list(self.elr)
        may_be_empty = self.change.is_elr_enabled or bool(self.change.lost_their_disk)
        if made.isr is None and (self.isr or may_be_empty) and self.isr != before.isr:
            made.isr = list(self.isr)
        has_shrunk = made.isr is not None and not set(before.isr) <= set(made.isr)
        if self.change.bumps_epoch_on_shrink and has_shrunk and made.leader == UNCHANGED:
            made.leader = before.leader
        if self.change.is_elr_enabled:
            self._note_last_known_leader()
        self._note_assignment()
        if self.change.recovery_state is not None and self.change.recovery_state != before.leader_recovery_state:
            made.leader_recovery_state = self.change.recovery_state
        nothing = PartitionChangeRecord(partition_id=self.change.number, topic_id=self.change.topic_id)
        return None if made == nothing else made

    def _maybe_complete_reassignment(self) -> None:
        """Complete the reassignment when all added replicas are in sync, or if fewer are added than removed, all remaining ones."""
        if not self.removing and not self.adding:
            return
        replicas = tuple(replica for replica in self.replicas if replica not in self.removing)
        isr = tuple(replica for replica in self.isr if replica not in self.removing)
        if self.removing and not (replicas and isr):
            return
        awaited = self.adding if len(self.adding) >= len(self.removing) else (*self.adding, *replicas)
        if set(awaited) <= set(isr):
            self.replicas, self.isr, self.removing, self.adding = replicas, isr, (), ()

    def _find_eligible(self) -> None:
        if len(self.isr) >= self.change.min_insync_replicas:
            self.elr = ()
            return
        stay = set(self.before.replicas) & set(self.replicas)  # a replica that leaves deletes its log, and may come back without it
        candidates = stay & {*self.before.elr, *self.before.isr}
        self.elr = tuple(one for one in sorted(candidates) if one not in self.isr and one not in self.change.lost_their_log)

    def _is_valid_leader(self, replica: int) -> bool:
        is_safe = replica in self.isr or (not self.isr and replica in self.elr)
        return is_safe and self.change.may_lead(replica)

    def _elected(self) -> tuple[int, bool]:
        """The elected leader, and whether records may be lost with it."""
        order = (self.before.leader, *self.replicas)
        if self.change.election is Election.PREFERRED and self.replicas:
            order = (self.replicas[0], *order)
        for replica in order:
            if self._is_valid_leader(replica):
                return replica, False
        if self.change.is_elr_enabled and not self.elr and not self.isr and len(self._last_known()) == 1:
            last_known = self._last_known()[0]
            if last_known in self.replicas and self.change.may_lead(last_known):
                return last_known, True
        if self.change.election is Election.UNCLEAN:
            for replica in self.replicas:
                if self.change.may_lead(replica):
                    return replica, True
        return NO_LEADER, False

    def _elect(self) -> None:
        leader, is_unclean = self._elected()
        if leader == self.before.leader:
            return
        self.made.leader = leader
        if leader in self.elr:
            self.isr = (leader,)
            self.elr = tuple(replica for replica in self.elr if replica != leader)
        if is_unclean:
            self.made.isr = [leader]
            if self.before.leader_recovery_state != RECOVERING:
                self.made.leader_recovery_state = RECOVERING

    def _last_known(self) -> tuple[int, ...]:
        return tuple(one for one in self.before.last_known_elr if one not in self.change.lost_their_disk)

    def _note_last_known_leader(self) -> None:
        made, before = self.made, self.before
        if self._last_known() != before.last_known_elr:
            made.last_known_elr = list(self._last_known())
        elif made.leader == NO_LEADER != before.leader and not before.last_known_elr:
            made.last_known_elr = [before.leader]
        elif made.leader >= 0 and before.last_known_elr:
            made.last_known_elr = []

    def _note_assignment(self) -> None:
        made, before = self.made, self.before
        known = dict(zip(before.replicas, before.directories, strict=True)) | self.change.new_directories
        default = self.change.default_directory
        directories = [known[replica] if replica in known else default(replica) for replica in self.replicas]
        if tuple(directories) != before.directories:
            made.directories = directories
        if self.replicas != before.replicas:
            made.replicas = list(self.replicas)
        if self.removing != before.removing_replicas:
            made.removing_replicas = list(self.removing)
        if self.adding != before.adding_replicas:
            made.adding_replicas = list(self.adding)


# ---------------------------------------------------------------------- changes of partitions of an image


def change_of(
    image: MetadataImage, schema: ConfigSchema, topic: TopicImage, number: int, *, is_active: Callable[[int], bool] | None = None
) -> PartitionChange:
    """A change of this partition that changes nothing yet.  `is_active` says which brokers may lead; by default the active ones of the
    image.  A replica whose log directory is offline never leads.
    """
    partition = topic.partitions[number]
    is_unclean_enabled = schema.is_unclean_election_enabled(image, topic.name)
    return PartitionChange(
        topic.id,
        number,
        partition,
        may_lead(image, partition, is_active),
        min(schema.min_insync_replicas(image, topic.name), len(partition.replicas)),
        image.is_elr_enabled,
        election=Election.UNCLEAN if is_unclean_enabled else Election.ONLINE,
        default_directory=lambda broker_id: default_directory(image, broker_id),
        bumps_epoch_on_shrink=bumps_leader_epoch_on_shrink(image.metadata_version),
    )


def may_lead(
    image: MetadataImage, partition: PartitionRegistration, is_active: Callable[[int], bool] | None = None
) -> Callable[[int], bool]:
    """Whether a broker may lead this partition: it is active, has a replica, and the directory of that replica is online."""

    def test(broker_id: int) -> bool:
        directory = partition.directory_of(broker_id)
        broker = image.brokers.get(broker_id)
        if directory is None or broker is None or not broker.has_online_dir(directory):
            return False
        return broker.is_active if is_active is None else is_active(broker_id)

    return test


def default_directory(image: MetadataImage, broker_id: int) -> UUID:
    """The directory of a new replica.  A broker with one directory has no choice; one with several chooses and reports it (KIP-858)."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return DIRECTORY_UNASSIGNED
    if len(broker.log_dirs) == 1:
        return broker.log_dirs[0]
    return DIRECTORY_UNASSIGNED if broker.log_dirs else DIRECTORY_MIGRATING
