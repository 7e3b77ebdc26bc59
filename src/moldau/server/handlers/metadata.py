"""● Metadata: brokers, topics, partitions and their leaders; creates missing topics for clients that allow it.

Versions       0-13.
Authorises     DESCRIBE on each topic, CREATE on those that are to be created.
Behaviour      Null topics: all of them, and so an empty list in version 0.  With ids, names are ignored.  In the order
               of the request, topics that exist first, then the others; a topic that is named twice is answered once.
Errors         UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST (null name or id before version 12);
               of a partition LEADER_NOT_AVAILABLE, from version 6 on LISTENER_NOT_FOUND; in version 0 REPLICA_NOT_AVAILABLE.
Version notes  Topic ids 10, asked for by id 12, authorized operations 8 (those of the cluster until 10), offline replicas 5.
Differs from Kafka: a missing topic is created before the answer, which has UNKNOWN_TOPIC_OR_PARTITION for it as Kafka's does, so the next
               request finds it; Kafka answers first.  The answer gives the reason of a refused creation; Kafka says
               UNKNOWN_TOPIC_OR_PARTITION.  Topics are created 500 at a time, and not at all when more than 5,000 are missing.  A null name
               without an id in version 12 is INVALID_REQUEST, not UNKNOWN_SERVER_ERROR.  A broker whose process died is fenced at once,
               and listed for another session, as long as Kafka would list it; see `peers/listed_brokers.py`.
"""

from collections.abc import Awaitable, Iterable, Sequence

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from moldau.metadata.topic_names import invalid_topic_reason
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.server.handlers.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles
from moldau.types import INTERNAL_TOPICS, ZERO_UUID

IDS_SINCE = 12
CREATION_TIMEOUT_MS = 30_000
CREATED_AT_ONCE = 500
"""The topics of one decision of the controller, which takes one turn of its loop."""
MOST_CREATED = 5_000
"""The most topics that one request creates: the controller would refuse to write the records of more."""


@handles(MetadataRequest)
def metadata(broker: Broker, context: RequestContext, request: MetadataRequest) -> MetadataResponse | Awaitable[MetadataResponse]:
    _check(request, context.version)
    if request.topics is not None and request.allow_auto_topic_creation and broker.config.server.auto_create_topics_enable:
        missing = [name for name in _names(request) if name not in broker.loader.image.topics and invalid_topic_reason(name) is None]
        if missing and not _ids(request):
            return _after_creation(broker, context, request, missing)
    return _answer(broker, context, request, broker.loader.image)


def _check(request: MetadataRequest, version: int) -> None:
    for topic in request.topics or ():
        if topic.name is None and version < IDS_SINCE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {version}")
        if topic.topic_id != ZERO_UUID and version < IDS_SINCE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic IDs are not supported in requests for version {version}")
        if topic.name is None and topic.topic_id == ZERO_UUID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")


def _names(request: MetadataRequest) -> list[str]:
    return list(dict.fromkeys(topic.name for topic in request.topics or () if topic.name is not None))


def _ids(request: MetadataRequest) -> list[object]:
    return list(dict.fromkeys(topic.topic_id for topic in request.topics or () if topic.topic_id != ZERO_UUID))


async def _after_creation(broker: Broker, context: RequestContext, request: MetadataRequest, missing: Sequence[str]) -> MetadataResponse:
    internal = [name for name in missing if name in INTERNAL_TOPICS]
    plain = [
        CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=[], configs=[])
        for name in missing
        if name not in INTERNAL_TOPICS
    ]
    image = broker.loader.image
    refused: dict[str, int] = {}
    for name in internal:
        broker.coordinators.create_topic(name)
    if len(plain) > MOST_CREATED:
        refused = {topic.name: ErrorCode.POLICY_VIOLATION for topic in plain}
        plain = []
    for begin in range(0, len(plain), CREATED_AT_ONCE):
        wanted = CreateTopicsRequest(topics=plain[begin : begin + CREATED_AT_ONCE], timeout_ms=CREATION_TIMEOUT_MS)
        created = await broker.controller.ask(wanted)
        refused |= {topic.name: topic.error_code for topic in created.topics if topic.error_code not in _AS_UNKNOWN}
    # The image from before the creation: a client that has deleted a topic and checks for it must not see the one that its request created.
    return _answer(broker, context, request, image, refused)


_AS_UNKNOWN = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def _answer(
    broker: Broker, context: RequestContext, request: MetadataRequest, image: MetadataImage, refused: dict[str, int] | None = None
) -> MetadataResponse:
    listener, version = context.client.listener, context.version
    view = _View(image, listener, version)
    topics = _topics(view, request, refused or {})
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_ID:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=one.id, host=endpoint.host, port=endpoint.port, rack=one.rack)
            for one in broker.listed_brokers(image)
            if (endpoint := one.endpoint(listener)) is not None
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.any_broker_id(),
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED,
    )


def _topics(view: "_View", request: MetadataRequest, refused: dict[str, int]) -> list[MetadataResponseTopic]:
    image = view.image
    if request.topics is None or (view.version == 0 and not request.topics):
        return [view.topic(topic) for topic in image.topics.values()]
    ids = list(dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id != ZERO_UUID))
    if ids:
        unknown = [
            MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id, partitions=[])
            for topic_id in ids
            if topic_id not in image.topic_names
        ]
        return unknown + [view.topic(topic) for topic in map(image.topic, ids) if topic is not None]
    names = _names(request)
    found = [view.topic(image.topics[name]) for name in names if name in image.topics]
    return found + [_absent(name, refused.get(name)) for name in names if name not in image.topics]


def _absent(name: str, refusal: int | None) -> MetadataResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if invalid_topic_reason(name) is None else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error_code=refusal or code, name=name, is_internal=name in INTERNAL_TOPICS, partitions=[])


class _View:
    """An image as clients of one listener see it, in one version."""

    def __init__(self, image: MetadataImage, listener: str, version: int) -> None:
        self.image = image
        self.version = version
        self._reachable = {one.id for one in image.alive_brokers() if one.endpoint(listener) is not None}

    def topic(self, topic: TopicImage) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=[self._partition(number, one) for number, one in enumerate(topic.partitions)],
        )

    def _partition(self, number: int, one: PartitionRegistration) -> MetadataResponsePartition:
        offline = [replica for replica in one.replicas if not self._is_online(replica, one)]
        replicas, isr = list(one.replicas), list(one.isr)
        code, leader = ErrorCode.NONE, one.leader
        if one.leader not in self._reachable:
            broker = self.image.brokers.get(one.leader)
            is_elsewhere = broker is not None and not broker.fenced
            code = ErrorCode.LISTENER_NOT_FOUND if is_elsewhere and self.version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
            leader = -1
        elif self.version == 0 and (len(_kept(replicas, self._reachable)) < len(replicas) or len(_kept(isr, self._reachable)) < len(isr)):
            code = ErrorCode.REPLICA_NOT_AVAILABLE
        if self.version == 0:
            replicas, isr = _kept(replicas, self._reachable), _kept(isr, self._reachable)
        return MetadataResponsePartition(
            error_code=code,
            partition_index=number,
            leader_id=leader,
            leader_epoch=one.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=offline,
        )

    def _is_online(self, replica: int, one: PartitionRegistration) -> bool:
        broker = self.image.brokers.get(replica)
        directory = one.directory_of(replica)
        return replica in self._reachable and broker is not None and (directory is None or broker.has_online_dir(directory))


def _kept(replicas: Iterable[int], among: set[int]) -> list[int]:
    return [replica for replica in replicas if replica in among]
