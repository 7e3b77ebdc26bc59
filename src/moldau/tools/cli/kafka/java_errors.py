"""◇ Errors as Java's exceptions print themselves: class name, then text.  Source: Errors.java."""

from typing import Final

from moldau.errors import ErrorCode, KafkaError

PACKAGE: Final = "org.apache.kafka.common.errors."

# The codes whose exception is not the code's name in camel case with Exception behind it.
_IRREGULAR: Final = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "UnsupportedForMessageFormatException",
}

# Texts of the codes that carry no message on the wire.
_TEXTS: Final = {
    ErrorCode.OFFSET_OUT_OF_RANGE: "The requested offset is not within the range of offsets maintained by the server.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "For requests intended only for the leader, this error indicates that the broker is not the current "
    "leader. For requests intended for any replica, this error indicates that the broker is not a replica of the topic partition.",
    ErrorCode.LEADER_NOT_AVAILABLE: "There is no leader for this topic-partition as we are in the middle of a leadership election.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    ErrorCode.POLICY_VIOLATION: "Request parameters do not satisfy the configured policy.",
}


def java_error(error: KafkaError) -> str:
    return f"{PACKAGE}{exception_name(error.code)}: {message(error)}"


def exception_name(code: ErrorCode) -> str:
    return _IRREGULAR.get(code) or "".join(word.capitalize() for word in code.name.split("_")) + "Exception"


def message(error: KafkaError) -> str:
    return _TEXTS.get(error.code, error.detail) if error.detail == error.code.text else error.detail
