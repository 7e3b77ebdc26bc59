"""Configs: what may be set where, what APPEND begins with, where a value comes from."""

from collections.abc import Mapping
from typing import Any

import pytest

from moldau.config import MiB, Option
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.errors import ErrorCode
from moldau.metadata.config_schema import ConfigSchema, Source
from moldau.metadata.configs import alter_configs, elr_safety_records, incremental_alter_configs, list_config_resources
from moldau.metadata.delta import replay
from moldau.metadata.features import level_of_release, record_version
from moldau.metadata.image import MetadataImage, ResourceType
from moldau.metadata.records import ClearElrRecord, ConfigRecord, TopicRecord
from moldau.protocol.messages import alter_configs as legacy
from moldau.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from moldau.protocol.messages.list_config_resources import ListConfigResourcesRequest
from moldau.replication.share.config import SharePartitionConfig
from moldau.storage.config import CleanerConfig, LogConfig
from moldau.types import METADATA_TOPIC_ID
from proof.cluster.images import a_broker, an_image

ROOMS = (LogConfig, CleanerConfig, GroupCoordinatorConfig, SharePartitionConfig)
TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP
SET, DELETE, APPEND, SUBTRACT = range(4)


def the_image(**configs: str) -> MetadataImage:
    """An image with a topic `t` that has these configs; `_` stands for `.`."""
    records = [
        ConfigRecord(resource_type=TOPIC, resource_name="t", name=key.replace("_", "."), value=value) for key, value in configs.items()
    ]
    return replay(an_image(1), [TopicRecord(name="t", topic_id=METADATA_TOPIC_ID), *records])


def schema(**properties: str) -> ConfigSchema:
    return ConfigSchema({key.replace("_", "."): value for key, value in properties.items()}, ROOMS, node_id=1)


def change(
    image: MetadataImage, kind: int, name: str, *ops: tuple[str, int, str | None], **properties: str
) -> tuple[dict[str, str | None], int]:
    configs = [AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in ops]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    outcome = incremental_alter_configs(image, schema(**properties), request)
    written = {record.name: record.value for record in outcome.records if isinstance(record, ConfigRecord)}
    return written, outcome.response.responses[0].error_code


def test_setting_writes_what_differs() -> None:
    image = the_image(retention_ms="5")
    assert change(image, TOPIC, "t", ("retention.ms", SET, "5"), ("flush.ms", SET, "1")) == ({"flush.ms": "1"}, 0)
    assert change(image, TOPIC, "t", ("retention.ms", DELETE, None)) == ({"retention.ms": None}, 0)
    assert change(image, TOPIC, "t", ("flush.ms", DELETE, None)) == ({}, 0)


def test_no_topic_is_tiered_where_another_broker_would_have_its_replicas_without_the_store() -> None:
    tiered = ("remote.storage.enable", SET, "true")
    system = {"remote_log_storage_system_enable": "true"}
    alone = the_image()
    two = replay(alone, [a_broker(2)])
    assert change(alone, TOPIC, "t", tiered, **system) == ({"remote.storage.enable": "true"}, 0)
    assert change(two, TOPIC, "t", tiered, **system) == ({}, ErrorCode.INVALID_CONFIG)
    was = replay(two, [ConfigRecord(resource_type=TOPIC, resource_name="t", name="remote.storage.enable", value="true")])
    assert change(was, TOPIC, "t", ("retention.ms", SET, "5"), **system) == ({"retention.ms": "5"}, 0)


def test_what_another_release_accepted_keeps_nobody_from_starting() -> None:
    """A topic keeps such a value; a broker's value counts as not set."""
    image = the_image(segment_bytes="20000", retention_ms="what?", flush_ms="7")
    image = replay(image, [ConfigRecord(resource_type=BROKER, resource_name="", name="log.segment.bytes", value="14")])
    config = schema().log_config(image, "t")
    assert (config.segment_bytes, config.retention_ms, config.flush_ms) == (20_000, LogConfig.load({}).retention_ms, 7)
    assert schema().log_config(image, "u").segment_bytes == LogConfig.load({}).segment_bytes
    assert schema().options(image, LogConfig).segment_bytes == LogConfig.load({}).segment_bytes
    shown = {one.name: one.value for one in schema().topic_configs(image, image.topic_config("t"))}
    assert shown["segment.bytes"] == "20000"
    assert change(image, TOPIC, "t", ("segment.bytes", SET, "30000"))[1] == ErrorCode.INVALID_CONFIG


def test_a_broker_is_told_again() -> None:
    assert change(an_image(1), BROKER, "1", ("log.retention.ms", DELETE, None)) == ({"log.retention.ms": None}, 0)


def test_the_controller_takes_options_for_every_broker_of_the_cluster() -> None:
    """A throttle is set on brokers one by one, whichever of them is the active controller."""
    throttle = ("leader.replication.throttled.rate", SET, "1000")
    image = an_image(2)
    assert change(image, BROKER, "2", throttle) == ({throttle[0]: "1000"}, 0)
    assert change(image, BROKER, "2", ("log.cleaner.threads", SET, "none")) == ({}, ErrorCode.INVALID_REQUEST)
    assert change(image, BROKER, "3", throttle) == ({}, ErrorCode.INVALID_REQUEST)


def test_appending_begins_with_what_holds() -> None:
    image = the_image()
    assert change(image, TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == ({"cleanup.policy": "delete,compact"}, 0)
    own = change(image, TOPIC, "t", ("cleanup.policy", APPEND, "delete"), log_cleanup_policy="compact")
    assert own == ({"cleanup.policy": "compact,delete"}, 0)
    image = the_image(cleanup_policy="compact")
    assert change(image, TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == ({}, 0)
    assert change(image, TOPIC, "t", ("cleanup.policy", SUBTRACT, "compact")) == ({"cleanup.policy": ""}, 0)
    assert change(image, TOPIC, "t", ("retention.ms", APPEND, "1")) == ({}, ErrorCode.INVALID_CONFIG)


def test_a_value_is_not_appended_to_beyond_what_a_record_holds() -> None:
    key, most = "follower.replication.throttled.replicas", 32_767
    replicas = ",".join(f"{number}:1" for number in range(1_000_000))
    image = the_image(**{key: replicas[: most - len(",7:42")]})
    assert change(image, TOPIC, "t", (key, APPEND, "7:42"))[1] == ErrorCode.NONE
    assert change(image, TOPIC, "t", (key, APPEND, "7:421")) == ({}, ErrorCode.INVALID_CONFIG)


@pytest.mark.parametrize(
    ("kind", "name", "op", "code"),
    [
        (TOPIC, "t", ("nosuch", SET, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "nosuch", ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "a b", ("retention.ms", SET, "1"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("log.retention.ms", SET, "x"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("log.flush.policy", SET, "os"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("min.insync.replicas", SET, "2"), ErrorCode.INVALID_CONFIG),
        (BROKER, "", ("min.insync.replicas", DELETE, None), ErrorCode.INVALID_CONFIG),
        (GROUP, "", ("consumer.session.timeout.ms", SET, "50000"), ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "1"), ErrorCode.INVALID_CONFIG),
        (GROUP, "g", ("nosuch", SET, "1"), ErrorCode.INVALID_CONFIG),
        (99, "x", ("a", SET, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_refused_writes_nothing(kind: int, name: str, op: tuple[str, int, str | None], code: ErrorCode) -> None:
    assert change(the_image(), kind, name, op) == ({}, code)


def test_another_min_insync_makes_nobody_eligible() -> None:
    config = AlterableConfig(name="min.insync.replicas", config_operation=SET, value="2")
    for kind, name, cleared in ((TOPIC, "t", "t"), (BROKER, "", "")):
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        assert ClearElrRecord(topic_name=cleared) in incremental_alter_configs(the_image(), schema(), request).records


def test_with_eligible_replicas_min_insync_is_the_clusters() -> None:
    def set_on(name: str, value: str | None) -> ConfigRecord:
        return ConfigRecord(resource_type=BROKER, resource_name=name, name="min.insync.replicas", value=value)

    assert elr_safety_records(an_image(), schema(min_insync_replicas="2")) == [set_on("", "2")]
    image = replay(an_image(), [set_on("", "3"), set_on("1", "4")])
    assert elr_safety_records(image, schema()) == [set_on("1", None)]


def test_a_group_keeps_within_the_brokers_limits() -> None:
    op = ("consumer.session.timeout.ms", SET, "30000")
    assert change(an_image(), GROUP, "g", op)[1] == ErrorCode.INVALID_CONFIG
    assert change(an_image(), GROUP, "g", op, group_consumer_min_session_timeout_ms="1000")[1] == 0


@pytest.mark.parametrize(
    ("configs", "says"),
    [
        ({"share.delivery.count.limit": "1"}, "Invalid value 1 for configuration share.delivery.count.limit: Value must be at least 2"),
        (
            {"share.delivery.count.limit": "11"},
            "share.delivery.count.limit must be less than or equal to group.share.max.delivery.count.limit",
        ),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            {"streams.session.timeout.ms": "6000", "streams.heartbeat.interval.ms": "6000"},
            "streams.session.timeout.ms must be greater than streams.heartbeat.interval.ms",
        ),
        ({"share.auto.offset.reset": "never"}, "Invalid value never for configuration share.auto.offset.reset"),
        ({"nosuch": "1"}, "Unknown group config name: nosuch"),
    ],
)
def test_what_a_group_is_told_when_it_cannot_have_something(configs: dict[str, str], says: str) -> None:
    refusal = schema(group_streams_min_session_timeout_ms="5000").validate_group(configs)
    assert refusal is not None
    assert refusal.message.startswith(says)


def test_what_a_group_was_given_is_kept_within_limits_that_came_later() -> None:
    values = {"share.session.timeout.ms": "60000", "share.delivery.count.limit": "10", "share.isolation.level": "read_committed"}
    records = [ConfigRecord(resource_type=GROUP, resource_name="g", name=name, value=value) for name, value in values.items()]
    narrow = schema(group_share_max_session_timeout_ms="50000", group_share_max_delivery_count_limit="7")
    assert narrow.group_values(replay(an_image(), records), "g") == {
        "share.session.timeout.ms": 50_000,
        "share.delivery.count.limit": 7,
        "share.isolation.level": "read_committed",
    }


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"log.retention.ms": "0"}, "Invalid value 0 for configuration log.retention.ms"),
        (
            {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"},
            "log.cleaner.max.compaction.lag.ms, which is 8",
        ),
        ({"log.cleaner.threads": "5"}, "log.cleaner.threads=5, value should not be greater than double the current value 2"),
        ({"log.cleaner.threads": "0"}, "log.cleaner.threads=0, value should be at least 1"),
        ({"log.cleaner.dedupe.buffer.size": str(2 * MiB)}, "above 1 MiB for each of log.cleaner.threads, which is 2"),
        ({"group.consumer.assignment.interval.ms": "15001"}, "group.consumer.max.assignment.interval.ms, which is 15000"),
        ({"log.local.retention.ms": "6", "log.retention.ms": "5"}, "Value must not be more than log.retention.ms property value: 5"),
    ],
    ids=str,
)
def test_a_running_broker_is_not_given_what_does_not_go_together(changes: dict[str, str], says: str) -> None:
    made = schema(log_cleaner_threads="2")
    assert "at least half the current value 8" in str(
        schema(log_cleaner_threads="8").validate_broker(an_image(1), "1", {"log.cleaner.threads": "3"})
    )
    for name in ("", "1"):
        refusal = made.validate_broker(an_image(1), name, changes)
        assert refusal is not None and refusal.code == ErrorCode.INVALID_REQUEST
        assert says in refusal.message
    assert made.validate_broker(an_image(1), "", {"log.cleaner.threads": "4", "log.retention.ms": "-1"}) is None


def test_what_an_older_release_took_holds_no_longer_and_keeps_nothing_else_from_being_set() -> None:
    def dynamic(name: str, value: str) -> ConfigRecord:
        return ConfigRecord(resource_type=BROKER, resource_name="1", name=name, value=value)

    image = replay(the_image(), [dynamic("log.segment.bytes", "1024"), dynamic("log.retention.ms", "5")])
    config = schema().log_config(image, "t")
    assert (config.segment_bytes, config.retention_ms) == (1 << 30, 5)
    assert schema().validate_broker(image, "", {"log.flush.interval.ms": "9"}) is None
    crossed = replay(the_image(), [dynamic("log.cleaner.min.compaction.lag.ms", "9"), dynamic("log.cleaner.max.compaction.lag.ms", "8")])
    assert schema().validate_broker(crossed, "", {"log.flush.interval.ms": "9"}) is None
    worse = schema().validate_broker(crossed, "1", {"log.cleaner.min.compaction.lag.ms": "7", "log.cleaner.max.compaction.lag.ms": "6"})
    assert worse is not None


def test_what_one_broker_has_counts_when_all_are_given_something() -> None:
    own = ConfigRecord(resource_type=BROKER, resource_name="1", name="log.cleaner.max.compaction.lag.ms", value="8")
    image = replay(an_image(1), [own])
    assert schema().validate_broker(image, "", {"log.cleaner.min.compaction.lag.ms": "9"}) is not None
    assert schema().validate_broker(an_image(1), "", {"log.cleaner.min.compaction.lag.ms": "9"}) is None


def test_replacing_takes_the_others_away() -> None:
    config = legacy.AlterableConfig(name="flush.ms", value="1")
    resource = legacy.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[config])
    request = legacy.AlterConfigsRequest(resources=[resource], validate_only=False)
    outcome = alter_configs(the_image(retention_ms="5"), schema(), request)
    written = {record.name: record.value for record in outcome.records if isinstance(record, ConfigRecord)}
    assert written == {"retention.ms": None, "flush.ms": "1"}
    twice = legacy.AlterConfigsRequest(resources=[resource, resource], validate_only=False)
    outcome = alter_configs(the_image(), schema(), twice)
    assert [one.error_code for one in outcome.response.responses] == [ErrorCode.INVALID_REQUEST] * 2 and not outcome.records


def test_where_a_value_comes_from() -> None:
    def source(image: MetadataImage, made: ConfigSchema) -> tuple[str | None, Source]:
        found = next(one for one in made.topic_configs(image, image.topic_config("t")) if one.name == "segment.bytes")
        return found.value, found.source

    def set_on(name: str, value: str) -> ConfigRecord:
        return ConfigRecord(resource_type=BROKER, resource_name=name, name="log.segment.bytes", value=value)

    image, static = the_image(), schema(log_segment_bytes="2000000")
    assert source(image, schema()) == (str(1 << 30), Source.DEFAULT)
    assert source(image, static) == ("2000000", Source.STATIC_BROKER)
    image = replay(image, [set_on("", "3000000")])
    assert source(image, static) == ("3000000", Source.DYNAMIC_DEFAULT_BROKER)
    image = replay(image, [set_on("1", "4000000")])
    assert source(image, static) == ("4000000", Source.DYNAMIC_BROKER)
    assert static.log_config(image, "t").segment_bytes == 4_000_000
    image = replay(image, [ConfigRecord(resource_type=TOPIC, resource_name="t", name="segment.bytes", value="5000000")])
    assert source(image, static) == ("5000000", Source.DYNAMIC_TOPIC)
    assert static.log_config(image, "t").segment_bytes == 5_000_000


def test_behind_a_group_stand_all_places_where_its_broker_has_its_options_from() -> None:
    places = (("1", "1500"), ("", "2000"))
    set_here = [
        ConfigRecord(resource_type=BROKER, resource_name=name, name="group.consumer.assignment.interval.ms", value=value)
        for name, value in places
    ]
    image = replay(an_image(1), set_here)
    for changed, begins in ((image, []), (replay(image, [_of_group("3000")]), [("3000", Source.GROUP)])):
        configs = schema(group_consumer_assignment_interval_ms="2500").group_configs(changed, "readers")
        found = next(each for each in configs if each.name == "consumer.assignment.interval.ms")
        assert [(each.value, each.source) for each in found.synonyms] == [
            *begins,
            ("1500", Source.DYNAMIC_BROKER),
            ("2000", Source.DYNAMIC_DEFAULT_BROKER),
            ("2500", Source.STATIC_BROKER),
            ("1000", Source.DEFAULT),
        ]
        assert (found.value, found.source) == (found.synonyms[0].value, found.synonyms[0].source)


def _of_group(interval_ms: str) -> ConfigRecord:
    return ConfigRecord(resource_type=GROUP, resource_name="readers", name="consumer.assignment.interval.ms", value=interval_ms)


def test_hours_are_no_synonym_of_milliseconds() -> None:
    made = schema(log_retention_hours="100")
    found = next(one for one in made.topic_configs(the_image(), {}) if one.name == "retention.ms")
    assert (found.value, found.source, found.synonyms) == ("360000000", Source.DEFAULT, ())
    assert made.broker_config(an_image(1), "log.retention.hours").value == "100"


def test_what_kafka_has_not_is_told_where_it_is_set() -> None:
    made, image = schema(), the_image()
    plain = {one.name for one in made.topic_configs(image, {})}
    delayed = {one.name for one in made.topic_configs(image, {"share.delivery.delay.ms": "5"})}
    assert delayed - plain == {"share.delivery.delay.ms"}
    assert {one.name for one in made.new_topic_configs(image, {})} == plain
    assert {one.name for one in made.new_topic_configs(image, {"share.delivery.delay.ms": "5"})} == delayed


def test_listing() -> None:
    answer = list_config_resources(the_image(), ListConfigResourcesRequest(resource_types=[TOPIC, BROKER]))
    assert [(one.resource_type, one.resource_name) for one in answer.config_resources] == [(TOPIC, "t"), (BROKER, "1")]
    refused = list_config_resources(the_image(), ListConfigResourcesRequest(resource_types=[99]))
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_releases_and_record_versions() -> None:
    assert (level_of_release("3.9"), level_of_release("4.0"), level_of_release("4.3.1"), level_of_release("4.4")) == (21, 25, 30, None)
    assert [record_version("RegisterBrokerRecord", level) for level in (7, 8, 17, 30)] == [1, 2, 3, 4]
    assert [record_version("PartitionRecord", level) for level in (16, 17, 23)] == [0, 1, 2]


def test_what_brokers_say_of_logs_is_read_once_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reassignments and elections ask for these options with every partition."""
    image = replay(the_image(), [ConfigRecord(resource_type=BROKER, resource_name="", name="log.flush.interval.ms", value="14")])
    rules = schema()
    loads: list[object] = []
    load = LogConfig.load

    def counted(properties: Mapping[str, str]) -> LogConfig:
        loads.append(properties)
        return load(properties)

    monkeypatch.setattr(LogConfig, "load", counted)
    assert [rules.log_config(image, "t").flush_ms for _ in range(5)] == 5 * [14] and len(loads) == 1
    image = replay(image, [ConfigRecord(resource_type=BROKER, resource_name="1", name="log.flush.interval.ms", value="15")])
    assert rules.log_config(image, "t").flush_ms == 15
    image = replay(image, [ConfigRecord(resource_type=BROKER, resource_name="1", name="log.flush.interval.ms", value=None)])
    assert rules.log_config(image, "t").flush_ms == 14
    image = replay(image, [ConfigRecord(resource_type=BROKER, resource_name="", name="log.flush.interval.ms", value=None)])
    assert rules.log_config(image, "t").flush_ms == load({}).flush_ms


def test_who_may_be_elected_is_asked_without_reading_a_topics_other_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that leaves asks for this option with every partition that it leads."""
    options = {"unclean.leader.election.enable": " TRUE ", "retention.ms": "5"}
    image = replay(
        the_image(), [ConfigRecord(resource_type=TOPIC, resource_name="t", name=name, value=value) for name, value in options.items()]
    )
    read: list[str] = []
    parse = Option.parse

    def noted(self: Option, text: str, **how: Any) -> Any:
        read.append(self.key)
        return parse(self, text, **how)

    rules = schema()
    monkeypatch.setattr(Option, "parse", noted)
    assert [rules.is_unclean_election_enabled(image, topic) for topic in ("t", "u")] == [True, False]
    assert read == ["unclean.leader.election.enable"]
