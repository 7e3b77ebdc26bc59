"""● Reads the past of a replica that begins after a remote segment: the leader epochs and the producers up to its end.

Both objects were written with the segment; each is compared with the metadata and checked in itself before it is used.
Source: TierStateMachine.readLeaderEpochCheckpoint, buildProducerSnapshotFile; KIP-405.
Called by `server/tier/manager.py`, beside the loop.
"""

from moldau.storage.epochs import CorruptCheckpoint, EpochEntry, parsed_epochs
from moldau.storage.log import Past
from moldau.storage.producers.state import SNAPSHOT_SUFFIX, CorruptSnapshot, ProducerStates
from moldau.storage.tiered.copy_and_expiry import leader_epochs_in
from moldau.storage.tiered.objects import LEADER_EPOCHS_SUFFIX, object_name
from moldau.storage.tiered.segments import RemoteSegment
from moldau.storage.tiered.store import ObjectStore


class UnusablePast(Exception):
    """The segment does not tell what a replica has to know: the text says which object and why."""


def read_past(store: ObjectStore, segment: RemoteSegment) -> Past:
    """Blocks.  Errors: UnusablePast, OSError of the store."""
    end_offset = segment.end_offset + 1
    return Past(end_offset, _epochs(store, segment), _snapshot(store, segment, end_offset))


def _epochs(store: ObjectStore, segment: RemoteSegment) -> list[EpochEntry]:
    name = object_name(segment, LEADER_EPOCHS_SUFFIX)
    try:
        entries = parsed_epochs(name, bytes(store.get(name)))
    except (CorruptCheckpoint, FileNotFoundError) as error:
        raise UnusablePast(str(error)) from None
    if leader_epochs_in(entries, segment.start_offset, segment.end_offset + 1) != segment.leader_epochs:
        raise UnusablePast(f"{name} holds {entries}, the metadata {segment.leader_epochs}")
    return [entry for entry in entries if entry.start_offset <= segment.end_offset]


def _snapshot(store: ObjectStore, segment: RemoteSegment, end_offset: int) -> bytes:
    name = object_name(segment, SNAPSHOT_SUFFIX)
    producers = ProducerStates(name)
    try:
        content = bytes(store.get(name))
        producers.restore(content, end_offset)
    except (CorruptSnapshot, FileNotFoundError) as error:
        raise UnusablePast(f"{name}: {error}") from None
    beyond = [entry.producer_id for entry in producers.producers.values() if entry.last_offset >= end_offset]
    if beyond:
        raise UnusablePast(f"{name} tells of batches of producer {beyond[0]} that come after the segment")
    return content
