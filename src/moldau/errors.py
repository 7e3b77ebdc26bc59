"""◇ Every error code of the protocol: number, whether a client may try again, text.

Inside, expected failures are values of `ErrorCode`; bugs are assertions; `KafkaError` is raised only to leave several frames at once.

Source: org.apache.kafka.common.protocol.Errors.
"""

from enum import IntEnum
from typing import cast


class ErrorCode(IntEnum):
    """`code.retriable`: the client may send the same request again.  `code.text`: one sentence for people."""

    retriable: bool
    text: str

    def __new__(cls, number: int, retriable: bool, text: str) -> "ErrorCode":
        code = int.__new__(cls, number)
        code._value_ = number
        code.retriable = retriable
        code.text = text
        return code

    @classmethod
    def of(cls, number: int) -> "ErrorCode":
        """The code of a number from the wire.  A number that only a newer peer knows counts as UNKNOWN_SERVER_ERROR."""
        return cast(ErrorCode, cls._value2member_map_.get(number, cls.UNKNOWN_SERVER_ERROR))

    UNKNOWN_SERVER_ERROR = -1, False, "The server met something it did not expect; its log says what."
    NONE = 0, False, "All is well."
    OFFSET_OUT_OF_RANGE = 1, False, "The requested offset is outside the log."
    CORRUPT_MESSAGE = (
        2,
        True,
        "The records are damaged: a checksum does not match, a size is wrong, or a compacted topic got a record without key.",
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "This broker knows no such topic or partition."
    INVALID_FETCH_SIZE = 4, False, "The fetch asks for an impossible number of bytes."
    LEADER_NOT_AVAILABLE = 5, True, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = 6, True, "This broker is not a replica that can serve the request."
    REQUEST_TIMED_OUT = 7, True, "The request could not be finished in the time it allowed."
    BROKER_NOT_AVAILABLE = 8, False, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, True, "The replica asked for is not on this broker."
    MESSAGE_TOO_LARGE = 10, False, "A record batch is larger than the broker or topic accepts."
    STALE_CONTROLLER_EPOCH = 11, False, "The request comes from a controller that has been replaced."
    OFFSET_METADATA_TOO_LARGE = 12, False, "The metadata string with a committed offset is longer than allowed."
    NETWORK_EXCEPTION = 13, True, "The connection was lost before the answer came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "The coordinator is still loading its state."
    COORDINATOR_NOT_AVAILABLE = 15, True, "There is no coordinator at the moment."
    NOT_COORDINATOR = 16, True, "This broker does not coordinate that group or transaction."
    INVALID_TOPIC_EXCEPTION = 17, False, "The topic's name is not allowed, or the topic cannot be used this way."
    RECORD_LIST_TOO_LARGE = 18, False, "The batch is larger than a log segment may be."
    NOT_ENOUGH_REPLICAS = 19, True, "Fewer replicas are in sync than min.insync.replicas asks for; nothing was written."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        True,
        "The records are written, but fewer replicas are in sync than min.insync.replicas asks for.",
    )
    INVALID_REQUIRED_ACKS = 21, False, "Acks must be -1, 0 or 1."
    ILLEGAL_GENERATION = 22, False, "The group has moved on to another generation."
    INCONSISTENT_GROUP_PROTOCOL = 23, False, "The member shares no protocol with the group's other members."
    INVALID_GROUP_ID = 24, False, "The group id is empty or not allowed."
    UNKNOWN_MEMBER_ID = 25, False, "The group has no such member."
    INVALID_SESSION_TIMEOUT = 26, False, "The session timeout is outside the range that the broker allows."
    REBALANCE_IN_PROGRESS = 27, False, "The group is rebalancing: the member should join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "The offset commit is too large for a record batch."
    TOPIC_AUTHORIZATION_FAILED = 29, False, "The client may not do this with the topic."
    GROUP_AUTHORIZATION_FAILED = 30, False, "The client may not do this with the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "The client may not do this with the cluster."
    INVALID_TIMESTAMP = 32, False, "A record's timestamp is further from the broker's clock than the topic allows."
    UNSUPPORTED_SASL_MECHANISM = 33, False, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, False, "The request does not fit the state of the authentication."
    UNSUPPORTED_VERSION = 35, False, "This version of the API is not supported."
    TOPIC_ALREADY_EXISTS = 36, False, "A topic of this name exists already."
    INVALID_PARTITIONS = 37, False, "The number of partitions is not allowed."
    INVALID_REPLICATION_FACTOR = 38, False, "The replication factor is below one or above the number of usable brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, False, "The replicas given by hand are not a valid assignment."
    INVALID_CONFIG = 40, False, "A config is unknown or its value is not allowed."
    NOT_CONTROLLER = 41, True, "This node is not the active controller."
    INVALID_REQUEST = 42, False, "The request contradicts itself or breaks the protocol; the broker's log says how."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "The log's message format cannot do this."
    POLICY_VIOLATION = 44, False, "A policy of this cluster forbids the request."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "The producer's sequence number leaves a gap."
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "The producer's sequence number was seen before."
    INVALID_PRODUCER_EPOCH = 47, False, "The producer's epoch is older than the one in use."
    INVALID_TXN_STATE = 48, False, "The transaction's state does not allow this."
    INVALID_PRODUCER_ID_MAPPING = 49, False, "The producer id does not belong to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, False, "The transaction timeout is above transaction.max.timeout.ms or not positive."
    CONCURRENT_TRANSACTIONS = 51, True, "An earlier transaction of this producer is still being completed."
    TRANSACTION_COORDINATOR_FENCED = 52, False, "The markers come from a transaction coordinator that has been replaced."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, "The client may not use this transactional id."
    SECURITY_DISABLED = 54, False, "Security features are not switched on here."
    OPERATION_NOT_ATTEMPTED = 55, False, "Not tried, since another part of the request failed."
    KAFKA_STORAGE_ERROR = 56, True, "The broker's disk failed."
    LOG_DIR_NOT_FOUND = 57, False, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, False, "The credentials were not accepted."
    UNKNOWN_PRODUCER_ID = 59, False, "The broker remembers nothing of this producer: its records may be deleted."
    REASSIGNMENT_IN_PROGRESS = 60, False, "The partition is being moved."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "Delegation tokens are not switched on here."
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "The delegation token belongs to someone else."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, False, "Delegation tokens are not given on this kind of connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, "The client may not do this with delegation tokens."
    DELEGATION_TOKEN_EXPIRED = 66, False, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, False, "A principal of this type cannot be used here."
    NON_EMPTY_GROUP = 68, False, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, False, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "The broker has no such fetch session."
    INVALID_FETCH_SESSION_EPOCH = 71, True, "The fetch session is at another epoch."
    LISTENER_NOT_FOUND = 72, True, "The leader has no listener of the name that this request came through."
    TOPIC_DELETION_DISABLED = 73, False, "Deleting topics is switched off."
    FENCED_LEADER_EPOCH = 74, True, "The leader epoch in the request is older than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, True, "The leader epoch in the request is newer than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = 76, False, "This version of the API does not allow the batch's compression."
    STALE_BROKER_EPOCH = 77, False, "The broker has registered anew since this request was sent."
    OFFSET_NOT_AVAILABLE = 78, True, "A new leader does not know the high watermark yet."
    MEMBER_ID_REQUIRED = 79, False, "Join again with the member id given here."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, False, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, False, "Another member uses this group.instance.id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "No replica that could lead is available."
    ELECTION_NOT_NEEDED = 84, True, "The partition has the right leader already."
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "The partition is not being moved."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "The group is subscribed to the topic, so its offsets stay."
    INVALID_RECORD = 87, False, "A record does not pass the broker's checks."
    UNSTABLE_OFFSET_COMMIT = 88, True, "Offsets of an open transaction are still to be decided."
    THROTTLING_QUOTA_EXCEEDED = 89, True, "The quota is used up: try again after the time given."
    PRODUCER_FENCED = 90, False, "A newer producer uses this transactional id."
    RESOURCE_NOT_FOUND = 91, False, "There is no such resource."
    DUPLICATE_RESOURCE = 92, False, "The resource exists already, or is named twice."
    UNACCEPTABLE_CREDENTIAL = 93, False, "The credential does not meet the requirements."
    INCONSISTENT_VOTER_SET = 94, False, "The request does not fit the set of voters."
    INVALID_UPDATE_VERSION = 95, False, "The partition's state was changed by another request first."
    FEATURE_UPDATE_FAILED = 96, False, "The feature could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "The principal in a forwarded request cannot be read."
    SNAPSHOT_NOT_FOUND = 98, False, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, False, "The position is outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, True, "This broker knows no topic of this id."
    DUPLICATE_BROKER_REGISTRATION = 101, False, "A live broker has registered under this id."
    BROKER_ID_NOT_REGISTERED = 102, False, "No broker of this id is registered."
    INCONSISTENT_TOPIC_ID = 103, True, "The topic id is not the one in the log."
    INCONSISTENT_CLUSTER_ID = 104, False, "The request comes from another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "The fetch session mixes requests with and without topic ids."
    INELIGIBLE_REPLICA = 107, False, "The new in-sync replica set holds a broker that may not be in it."
    NEW_LEADER_ELECTED = 108, False, "The change has made another replica the leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "The offset lies in remote storage only."
    FENCED_MEMBER_EPOCH = 110, False, "The member's epoch is not the one that the coordinator knows: it has to join again."
    UNRELEASED_INSTANCE_ID = 111, False, "Another member still holds this group.instance.id."
    UNSUPPORTED_ASSIGNOR = 112, False, "The group's coordinator does not offer this assignor."
    STALE_MEMBER_EPOCH = 113, False, "The member's epoch has moved on: heartbeat, then try again."
    MISMATCHED_ENDPOINT_TYPE = 114, False, "The request belongs to the other kind of listener, broker or controller."
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "This endpoint type is not known here."
    UNKNOWN_CONTROLLER_ID = 116, False, "There is no controller of this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "The telemetry subscription has changed: ask for it anew."
    TELEMETRY_TOO_LARGE = 118, False, "The client metrics are larger than the broker accepts."
    INVALID_REGISTRATION = 119, False, "The controller refused the broker's registration."
    TRANSACTION_ABORTABLE = 120, False, "The transaction can only be aborted; the producer may go on after that."
    INVALID_RECORD_STATE = 121, False, "The record is not in a state that this acknowledgement fits."
    SHARE_SESSION_NOT_FOUND = 122, True, "The broker has no such share session."
    INVALID_SHARE_SESSION_EPOCH = 123, True, "The share session is at another epoch."
    FENCED_STATE_EPOCH = 124, False, "The share partition's state is at a newer epoch."
    INVALID_VOTER_KEY = 125, False, "The voter's id and directory id do not name a voter here."
    DUPLICATE_VOTER = 126, False, "The voter is in the quorum already."
    VOTER_NOT_FOUND = 127, False, "The quorum has no such voter."
    INVALID_REGULAR_EXPRESSION = 128, False, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = 129, False, "The client should forget what it knows and start from its bootstrap servers."
    STREAMS_INVALID_TOPOLOGY = 130, False, "The streams topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "The streams topology's epoch is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, False, "The streams topology's epoch is out of date."
    SHARE_SESSION_LIMIT_REACHED = 133, True, "The broker has as many share sessions as it may have."


class KafkaError(Exception):
    """Leaves several frames at once with a code for the client; `server/requests/dispatch.py` is the one place that catches it."""

    def __init__(self, code: ErrorCode, detail: str | None = None) -> None:
        super().__init__(f"{code.name}: {detail or code.text}")
        self.code = code
        self.detail = detail or code.text
