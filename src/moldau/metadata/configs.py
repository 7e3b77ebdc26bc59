"""◇ AlterConfigs, IncrementalAlterConfigs, ListConfigResources: changes of the configs of topics, brokers, groups and client metrics.

Each resource of a request is decided by itself: a refused one does not keep the others from being written.  A resource named
twice is refused each time.

Source: ConfigurationControlManager, ConfigAdminManager.scala, ControllerConfigurationValidator; KIP-133, 339, 1142.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from moldau.errors import ErrorCode
from moldau.metadata.client_metrics import validate_client_metrics
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.image import MetadataImage, Resource, ResourceType
from moldau.metadata.outcome import MAX_BATCH_RECORDS, Outcome, Refusal
from moldau.metadata.records import ClearElrRecord, ConfigRecord
from moldau.metadata.topic_names import invalid_topic_reason
from moldau.protocol.codegen import MAX_STRING
from moldau.protocol.messages import alter_configs as legacy
from moldau.protocol.messages import incremental_alter_configs as incremental
from moldau.protocol.messages.list_config_resources import ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse
from moldau.protocol.wire import StoredRecord

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


Changes = Mapping[str, str | None]
"""The new value of each key; None removes the key."""


def incremental_alter_configs(
    image: MetadataImage, schema: ConfigSchema, request: incremental.IncrementalAlterConfigsRequest
) -> Outcome[incremental.IncrementalAlterConfigsResponse]:
    """Change single options.  Errors per resource: INVALID_REQUEST, INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, POLICY_VIOLATION."""

    def changes(resource: Resource, asked: incremental.AlterConfigsResource) -> Changes | Refusal:
        return _operations(image, schema, resource, asked.configs)

    results, records = _alter(image, schema, request.resources, changes, validate_only=request.validate_only)
    responses = [incremental.AlterConfigsResourceResponse(**result) for result in results]
    return Outcome(incremental.IncrementalAlterConfigsResponse(responses=responses), records)


def alter_configs(image: MetadataImage, schema: ConfigSchema, request: legacy.AlterConfigsRequest) -> Outcome[legacy.AlterConfigsResponse]:
    """Replace all options of a resource.  Errors: as `incremental_alter_configs`."""

    def changes(resource: Resource, asked: legacy.AlterConfigsResource) -> Changes | Refusal:
        current = image.configs.get(resource, {})
        return dict.fromkeys(current) | {one.name: one.value for one in asked.configs}

    results, records = _alter(image, schema, request.resources, changes, validate_only=request.validate_only)
    responses = [legacy.AlterConfigsResourceResponse(**result) for result in results]
    return Outcome(legacy.AlterConfigsResponse(responses=responses), records)


def list_config_resources(
    image: MetadataImage, request: ListConfigResourcesRequest, groups: Sequence[str] = (), *, version: int = 1
) -> ListConfigResourcesResponse:
    """The resources of these types that have configs.  Errors: UNSUPPORTED_VERSION for an unknown type."""
    supported = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS, ResourceType.GROUP)
    kinds = [ResourceType.CLIENT_METRICS] if version == 0 else list(dict.fromkeys(request.resource_types)) or list(supported)
    if any(kind not in supported for kind in kinds):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    found: list[ConfigResource] = []
    for kind in kinds:
        names: list[str]
        if kind == ResourceType.TOPIC:
            names = list(image.topics)
        elif kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
            names = [str(broker) for broker in image.brokers]
        else:
            names = list(
                dict.fromkeys([*(one.name for one in image.configs if one.type == kind), *(groups if kind == ResourceType.GROUP else ())])
            )
        found += [ConfigResource(resource_name=name, resource_type=kind) for name in names]
    return ListConfigResourcesResponse(error_code=0, config_resources=found)


def set_records(resource: Resource, changes: Changes, current: Mapping[str, str]) -> list[StoredRecord]:
    """The records for values that differ from the present ones.  A broker's values are always written: the broker then reads files and
    secrets anew.
    """
    return [
        ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
        for name, value in changes.items()
        if resource.type == ResourceType.BROKER or current.get(name) != value
    ]


# How


def malformed(asked: Sequence[Any]) -> list[Refusal | None]:
    """The error of each malformed resource of a request, whatever its type; the request may be of the new or of the legacy kind."""
    times = Counter((one.resource_type, one.resource_name) for one in asked)

    def refusal(one: Any) -> Refusal | None:
        if times[one.resource_type, one.resource_name] > 1:
            return Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        if len({config.name for config in one.configs}) < len(one.configs):
            return Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        nulls = [each.name for each in one.configs if each.value is None and getattr(each, "config_operation", None) != Operation.DELETE]
        return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}") if nulls else None

    return [refusal(one) for one in asked]


def _alter(
    image: MetadataImage,
    schema: ConfigSchema,
    asked: Sequence[Any],
    changes_of: Callable[[Resource, Any], Changes | Refusal],
    *,
    validate_only: bool,
) -> tuple[list[dict[str, Any]], list[StoredRecord]]:
    """A result for each resource in the request's order, and the records of the valid changes."""
    results: list[dict[str, Any]] = []
    records: list[StoredRecord] = []
    for one, refusal in zip(asked, malformed(asked), strict=True):
        resource = Resource(one.resource_type, one.resource_name)
        if refusal is None:
            changes = changes_of(resource, one)
            refusal = changes if isinstance(changes, Refusal) else _validate(image, schema, resource, changes)
            if refusal is None and not isinstance(changes, Refusal):
                made = set_records(resource, changes, image.configs.get(resource, {}))
                if image.is_elr_enabled:
                    made += _cleared_elr(made)
                if len(records) + len(made) > MAX_BATCH_RECORDS:
                    refusal = Refusal(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
                else:
                    records += made
        results.append(
            {
                "error_code": ErrorCode.NONE if refusal is None else refusal.code,
                "error_message": None if refusal is None else refusal.message,
                "resource_type": one.resource_type,
                "resource_name": one.resource_name,
            }
        )
    return results, [] if validate_only else records


def _cleared_elr(records: Sequence[StoredRecord]) -> list[StoredRecord]:
    """The record that clears eligible sets.

    A replica that was eligible under another min.insync.replicas may lack records that count now (KIP-966).
    """
    cleared: list[StoredRecord] = []
    for record in records:
        if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS:
            cleared.append(ClearElrRecord(topic_name=record.resource_name if record.resource_type == ResourceType.TOPIC else ""))
    return cleared


def elr_safety_records(image: MetadataImage, schema: ConfigSchema) -> list[StoredRecord]:
    """The records that make min.insync.replicas a config of the cluster: with eligible leader replicas it is the same for all brokers
    (KIP-966).
    """
    records: list[StoredRecord] = []
    if MIN_INSYNC_REPLICAS not in image.config_of(ResourceType.BROKER, ""):
        value = str(schema.min_insync_replicas(image, ""))
        records.append(ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=MIN_INSYNC_REPLICAS, value=value))
    for resource, configs in image.configs.items():
        if resource.type == ResourceType.BROKER and resource.name and MIN_INSYNC_REPLICAS in configs:
            records.append(
                ConfigRecord(resource_type=ResourceType.BROKER, resource_name=resource.name, name=MIN_INSYNC_REPLICAS, value=None)
            )
    return records


def _operations(
    image: MetadataImage, schema: ConfigSchema, resource: Resource, asked: Sequence[incremental.AlterableConfig]
) -> Changes | Refusal:
    current = image.configs.get(resource, {})
    changes: dict[str, str | None] = {}
    for one in asked:
        value = one.value or ""
        match one.config_operation:
            case Operation.SET:
                changes[one.name] = value
            case Operation.DELETE:
                changes[one.name] = None
            case Operation.APPEND | Operation.SUBTRACT:
                if not schema.is_list(resource, one.name):
                    name = Operation(one.config_operation).name
                    return Refusal(ErrorCode.INVALID_CONFIG, f"Can't {name} to key {one.name} because its type is not LIST.")
                text = current.get(one.name, schema.default_text(resource, one.name)) or ""
                parts = [part for part in text.split(",") if part]
                given = dict.fromkeys(value.split(","))
                if one.config_operation == Operation.APPEND:
                    parts = list(dict.fromkeys(parts) | given)
                else:
                    parts = [part for part in parts if part not in given]
                changes[one.name] = ",".join(parts)
            case _:
                return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown operations type {one.config_operation}")
    return changes


def _validate(image: MetadataImage, schema: ConfigSchema, resource: Resource, changes: Changes) -> Refusal | None:
    if any(value is not None and len(value.encode()) > MAX_STRING for value in changes.values()):
        # After APPEND the value may be longer than a request can carry.
        text = f"The configuration value cannot be added because it exceeds the maximum value size of {MAX_STRING} bytes."
        return Refusal(ErrorCode.INVALID_CONFIG, text)
    after = {name: value for name, value in {**image.configs.get(resource, {}), **changes}.items() if value is not None}
    match resource.type:
        case ResourceType.TOPIC:
            return _validate_topic(image, schema, resource.name, after)
        case ResourceType.BROKER:
            return _validate_broker(image, schema, resource.name, after, changes)
        case ResourceType.CLIENT_METRICS:
            return validate_client_metrics(resource.name, after)
        case ResourceType.GROUP:
            return _validate_group(schema, resource.name, after)
    return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.type}")


def _validate_topic(image: MetadataImage, schema: ConfigSchema, name: str, after: Mapping[str, str]) -> Refusal | None:
    if not name:
        return Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    reason = invalid_topic_reason(name)
    if reason is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    refusal = schema.validate_topic(after, image.topic_config(name), broker_count=len(image.brokers))
    if refusal is None and name not in image.topics:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return refusal


def _validate_broker(image: MetadataImage, schema: ConfigSchema, name: str, after: Mapping[str, str], changes: Changes) -> Refusal | None:
    if name:
        if not name.lstrip("-").isdigit():
            return Refusal(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
        if int(name) != schema.node_id and int(name) not in image.brokers:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {schema.node_id}, but received {name}")
    if MIN_INSYNC_REPLICAS in changes and image.is_elr_enabled:
        if name:
            text = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
            return Refusal(ErrorCode.INVALID_CONFIG, text)
        if changes[MIN_INSYNC_REPLICAS] is None:
            text = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
            return Refusal(ErrorCode.INVALID_CONFIG, text)
    return schema.validate_broker(image, name, after)


def _validate_group(schema: ConfigSchema, name: str, after: Mapping[str, str]) -> Refusal | None:
    if not name:
        return Refusal(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    return schema.validate_group(after)
