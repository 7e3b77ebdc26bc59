"""◇ Turns the consensus machine's entries into batches of the metadata log, and batches into what the machine needs to know of them."""

import logging
from typing import Final

from moldau.protocol.records.batch import BatchHeader, CorruptBatch, batches, records_of, verify_crc
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.control import ControlType, build_control_batch, parse_control_key
from moldau.protocol.wire import DecodeError
from moldau.raft.control import control_value, parse_control_value
from moldau.raft.events import Entry, LeaderChange, VotersChange
from moldau.raft.listener import CommittedBatch
from moldau.raft.messages import Batch, FetchAnswer
from moldau.raft.records import KRaftVersionRecord, LeaderChangeMessage, LeaderChangeMessageVoter, VotersRecord
from moldau.raft.voters import HostPort, VoterSet
from moldau.types import METADATA_TOPIC, TopicPartition

LOG: Final = logging.getLogger(__name__)

METADATA_PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)


def encoded(entry: Entry, now_ms: int) -> bytearray:
    """The batch of one of this replica's own entries."""
    payload = entry.payload
    match payload:
        case LeaderChange():
            message = LeaderChangeMessage(
                version=0,
                leader_id=payload.leader_id,
                voters=[LeaderChangeMessageVoter(voter_id=voter) for voter in payload.voters],
                granting_voters=[LeaderChangeMessageVoter(voter_id=voter) for voter in payload.granting_voters],
            )
            records = [(ControlType.LEADER_CHANGE, control_value(message))]
            voters, kraft_version = payload.written, None if payload.written is None else payload.kraft_version
        case VotersChange():
            records, voters, kraft_version = [], payload.voters, payload.kraft_version
        case _:
            return build_batch(NewRecord(now_ms, None, record) for record in payload)
    if kraft_version is not None:
        version = KRaftVersionRecord(version=0, kraft_version=kraft_version)
        records.append((ControlType.KRAFT_VERSION, control_value(version)))
    if voters is not None:
        records.append((ControlType.KRAFT_VOTERS, control_value(voters.to_record())))
    return build_control_batch(records, timestamp_ms=now_ms)


def examined(answer: FetchAnswer, at: HostPort) -> FetchAnswer | None:
    """The batches that came whole; None if they are not what a leader sends."""
    assert isinstance(answer.records, bytes | bytearray | memoryview)
    view = memoryview(answer.records)
    found: list[Batch] = []
    end = 0
    try:
        for position, header in batches(view):
            batch = view[position : position + header.size]
            if not verify_crc(view, position, header):
                raise CorruptBatch(f"the batch at offset {header.base_offset} does not match its checksum")
            found.append(batch_of(header, batch))
            end = position + header.size
    except (CorruptBatch, DecodeError, KeyError) as error:
        LOG.error("what %s:%d sent of %s cannot be read, and is fetched again: %s", *at, METADATA_PARTITION, error)
        return None
    return answer._replace(batches=tuple(found), records=view[:end])


def committed_batches(view: memoryview, offset: int) -> list[CommittedBatch]:
    """The batches from the one on that holds `offset`.  Errors: CorruptBatch."""
    found = []
    for position, header in batches(view):
        if header.next_offset <= offset:
            continue
        batch = view[position : position + header.size]
        records = [] if header.is_control else [record.value for record in records_of(batch) if record.value is not None]
        found.append(
            CommittedBatch(
                header.base_offset, header.partition_leader_epoch, header.max_timestamp, records, header.next_offset, header.size
            )
        )
    return found


def batch_of(header: BatchHeader, batch: memoryview) -> Batch:
    """The machine's knowledge of a batch.  Errors: CorruptBatch, DecodeError; KeyError for an unreadable control record."""
    voters: VoterSet | None = None
    kraft_version: int | None = None
    if header.is_control:
        for record in records_of(batch):
            message = parse_control_value(parse_control_key(record.key).type, record.value)
            if isinstance(message, KRaftVersionRecord):
                kraft_version = message.kraft_version
            elif isinstance(message, VotersRecord):
                voters = VoterSet.from_record(message)
    return Batch(header.base_offset, header.next_offset, header.partition_leader_epoch, voters, kraft_version)
