"""● DescribeConfigs: every option of topics, brokers, groups and client metrics, with its value and the source of that value.

Versions       1-4.
Authorises     DESCRIBE_CONFIGS on the cluster or on each topic or group.
Behaviour      An empty broker name asks for the values set for all brokers at run time, a broker's own name for its effective values.
               Without keys all are listed.
Errors         UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST.
Version notes  Types and documentation since 3.
Differs from Kafka: documentation is in our own words; loggers are named after the modules of this broker; `listeners` is read-only.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from moldau.config import Kind, Option
from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.client_metrics import CLIENT_METRICS
from moldau.metadata.config_schema import ConfigSchema, Effective, Source, Synonym
from moldau.metadata.image import MetadataImage, ResourceType
from moldau.metadata.topic_names import invalid_topic_reason
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from moldau.server.node import loggers
from moldau.server.node.accepted import accepted_options, is_fixed
from moldau.server.requests.broker import Services
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.pieces import in_pieces
from moldau.server.requests.registry import handles

UNKNOWN_TYPE: Final = 0
MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. "
    "See the broker logs for more details."
)
INTERNAL: Final = frozenset(
    {
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "group.consumer.regex.refresh.interval.ms",
        "group.share.initialize.retry.interval.ms",
        "group.share.persister.class.name",
        "log.initial.task.delay.ms",
        "producer.id.expiration.check.interval.ms",
        "remote.log.index.file.cache.ttl.ms",
        "remote.log.manager.task.retry.backoff.max.ms",
        "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.jitter",
        "server.max.startup.time.ms",
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "share.coordinator.state.topic.prune.interval.ms",
        "unclean.leader.election.interval.ms",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
    }
)
"""Options that Kafka knows but does not list."""
ONCE_SET: Final = frozenset(
    {
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
    }
)
"""Options that can be set on a running broker only, and are listed only once they are set; Kafka names no default."""


@handles(DescribeConfigsRequest)
async def describe_configs(services: Services, context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    known = set(map(int, ResourceType)) - {ResourceType.UNKNOWN}
    for resource in request.resources:
        if resource.resource_type not in known:
            raise KafkaError(ErrorCode.INVALID_REQUEST, MALFORMED)
    return DescribeConfigsResponse(results=await in_pieces(services.clock, partial(_describe, services, request), request.resources))


def _describe(services: Services, request: DescribeConfigsRequest, resource: DescribeConfigsResource) -> DescribeConfigsResult:
    try:
        configs = _configs_of(services, resource)
    except KafkaError as error:
        text = "" if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error.detail
        return DescribeConfigsResult(
            error_code=error.code,
            error_message=text,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[],
        )
    keys = set(resource.configuration_keys or ())
    return DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            _result(config, synonyms=request.include_synonyms, docs=request.include_documentation)
            for config in configs
            if not keys or config.name in keys
        ],
    )


def _configs_of(services: Services, resource: DescribeConfigsResource) -> Iterable[Effective]:
    """The configs of one resource.  Errors: KafkaError."""
    image, schema, name = services.loader.image, services.schema, resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            return _topic(image, schema, name)
        case ResourceType.BROKER:
            return _broker(image, schema, name)
        case ResourceType.BROKER_LOGGER:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            if _broker_id(name) != schema.node_id:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {schema.node_id} but received {name}")
            return [_plain(logger, level, Source.DYNAMIC_BROKER_LOGGER) for logger, level in loggers.levels().items()]
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            return _metrics(image, name)
        case _:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return schema.group_configs(image, name)


def _topic(image: MetadataImage, schema: ConfigSchema, name: str) -> Sequence[Effective]:
    reason = invalid_topic_reason(name)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name not in image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return schema.topic_configs(image, image.topic_config(name))


def _broker_id(name: str) -> int:
    if not name.lstrip("-").isdigit():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    return int(name)


def _broker(image: MetadataImage, schema: ConfigSchema, name: str) -> Sequence[Effective]:
    if not name:
        known = schema.broker_options.keys() | accepted_options().keys()
        return [_of_all(image, schema, key, value) for key, value in image.config_of(ResourceType.BROKER, "").items() if key in known]
    if _broker_id(name) != schema.node_id:
        text = f"Unexpected broker id, expected {schema.node_id} or empty string, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    declared = [schema.broker_config(image, key) for key in schema.broker_options if key not in INTERNAL | ONCE_SET]
    others = accepted_options().keys() - schema.broker_options.keys() - INTERNAL
    rates = [_without_default(schema.broker_config(image, key)) for key in sorted(ONCE_SET)]
    return declared + [_accepted(image, schema, key) for key in sorted(others)] + [rate for rate in rates if rate.synonyms]


def _without_default(config: Effective) -> Effective:
    return config._replace(synonyms=tuple(one for one in config.synonyms if one.source is not Source.DEFAULT))


def _of_all(image: MetadataImage, schema: ConfigSchema, key: str, text: str) -> Effective:
    """The value that is set for all brokers, whatever this broker has of its own."""
    own = schema.broker_config(image, key) if key in schema.broker_options else _accepted(image, schema, key)
    value = None if own.option.is_sensitive else text
    synonyms = (Synonym(key, value, Source.DYNAMIC_DEFAULT_BROKER),)
    return own._replace(value=value, source=Source.DYNAMIC_DEFAULT_BROKER, synonyms=synonyms)


def _accepted(image: MetadataImage, schema: ConfigSchema, key: str) -> Effective:
    """An option of Kafka's without effect here."""
    known = accepted_options()[key]
    option = Option(key, known.kind, known.default, "Accepted, without effect.", importance="low", nullable=True)
    places = (
        (image.config_of(ResourceType.BROKER, str(schema.node_id)), Source.DYNAMIC_BROKER),
        (image.config_of(ResourceType.BROKER, ""), Source.DYNAMIC_DEFAULT_BROKER),
        (schema.properties, Source.STATIC_BROKER),
    )
    synonyms = [Synonym(key, None if option.is_sensitive else configs[key], source) for configs, source in places if key in configs]
    if known.default is not None:
        synonyms.append(Synonym(key, None if option.is_sensitive else known.default, Source.DEFAULT))
    value, source = (synonyms[0].value, synonyms[0].source) if synonyms else (None, Source.DEFAULT)
    return Effective(option, key, value, source, tuple(synonyms), is_read_only=is_fixed(key))


def _metrics(image: MetadataImage, name: str) -> Sequence[Effective]:
    own = image.config_of(ResourceType.CLIENT_METRICS, name)
    found = []
    for key, option in CLIENT_METRICS.items():
        if key in own:
            found.append(Effective(option, key, own[key], Source.CLIENT_METRICS, (Synonym(key, own[key], Source.CLIENT_METRICS),)))
        else:
            found.append(Effective(option, key, option.text(option.default), Source.DEFAULT, ()))
    return found


def _plain(name: str, value: str, source: Source) -> Effective:
    option = Option(name, Kind.STRING, None, update="cluster-wide", importance="low", nullable=True)
    return Effective(option, name, value, source, ())


def _result(config: Effective, *, synonyms: bool, docs: bool) -> DescribeConfigsResourceResult:
    is_plain = config.source is Source.DYNAMIC_BROKER_LOGGER
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.is_read_only,
        config_source=config.source,
        is_sensitive=config.option.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source) for one in config.synonyms] if synonyms else [],
        config_type=UNKNOWN_TYPE if is_plain else config.option.told_as or config.option.kind,
        documentation="" if is_plain else config.option.doc if docs else None,
    )
