"""◇ The values of KRaft's control records: elections, ends of snapshots, versions and voters.

They lie in control batches without a prefix (the batch's key names the type), and say their version in their first field.

Source: KIP-595, KIP-630, KIP-853.
"""

from uuid import UUID

from moldau.protocol.wire import StoredRecord, array, int16, int32, int64, nested, record, string, struct, uint16, uuid
from moldau.types import ZERO_UUID


@struct
class LeaderChangeMessageVoter:
    voter_id: int = int32()
    voter_directory_id: UUID = uuid("1+", default=ZERO_UUID)


@record(versions="0-1", flexible="0+")
class LeaderChangeMessage(StoredRecord):
    """The leader that was elected in this epoch, and its voters.  It is the first record of every epoch.  Source: KIP-853."""

    version: int = int16()
    leader_id: int = int32()
    voters: list[LeaderChangeMessageVoter] = array(LeaderChangeMessageVoter)
    granting_voters: list[LeaderChangeMessageVoter] = array(LeaderChangeMessageVoter)


@record(versions="0", flexible="0+")
class SnapshotHeaderRecord(StoredRecord):
    """The first record of a snapshot."""

    version: int = int16(about="Of this record itself.")
    last_contained_log_timestamp: int = int64()


@record(versions="0", flexible="0+")
class SnapshotFooterRecord(StoredRecord):
    """The last record of a snapshot; without it the snapshot is not whole."""

    version: int = int16()


@record(versions="0", flexible="0+")
class KRaftVersionRecord(StoredRecord):
    """The finalized kraft.version."""

    version: int = int16()
    kraft_version: int = int16()


@struct
class Endpoint:
    name: str = string()
    host: str = string()
    port: int = uint16()


@struct
class KRaftVersionFeature:
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@struct
class VotersRecordVoter:
    voter_id: int = int32()
    voter_directory_id: UUID = uuid()
    endpoints: list[Endpoint] = array(Endpoint)
    kraft_version_feature: KRaftVersionFeature = nested(KRaftVersionFeature)


@record(versions="0", flexible="0+")
class VotersRecord(StoredRecord):
    """The voters, their addresses and their kraft.version ranges."""

    version: int = int16()
    voters: list[VotersRecordVoter] = array(VotersRecordVoter)
