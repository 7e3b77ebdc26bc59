import pytest

from moldau.config import MAX_LONG, ConfigError
from moldau.storage.config import LogConfig

DAY = 86_400_000


def test_defaults_are_kafkas() -> None:
    config = LogConfig.load({})
    assert (config.segment_bytes, config.segment_ms, config.retention_ms, config.retention_bytes) == (1 << 30, 7 * DAY, 7 * DAY, -1)
    assert (config.max_message_bytes, config.index_interval_bytes, config.segment_index_bytes) == (1_048_588, 4096, 10 << 20)
    assert (config.flush_messages, config.flush_ms, config.file_delete_delay_ms) == (MAX_LONG, MAX_LONG, 60_000)
    assert (config.cleanup_policy, config.compression_type, config.message_timestamp_type) == (("delete",), "producer", "CreateTime")
    assert (config.message_timestamp_after_max_ms, config.delete_retention_ms, config.flush_policy) == (3_600_000, DAY, "ack")


def test_the_finer_unit_wins() -> None:
    hours, minutes, ms = {"log.retention.hours": "2"}, {"log.retention.minutes": "3"}, {"log.retention.ms": "4"}
    assert LogConfig.load(hours).retention_ms == 7_200_000
    assert LogConfig.load(hours | minutes).retention_ms == 180_000
    assert LogConfig.load(hours | minutes | ms).retention_ms == 4
    assert LogConfig.load({"log.retention.hours": "-1"}).retention_ms == -1
    assert LogConfig.load({"log.roll.hours": "1", "log.roll.jitter.hours": "2"}).segment_ms == 3_600_000


def test_a_topics_own_options_go_over_the_brokers() -> None:
    config = LogConfig.load({"log.segment.bytes": "2097152"}).override({"cleanup.policy": "compact,delete", "retention.ms": "5", "x": "y"})
    assert (config.segment_bytes, config.retention_ms, config.is_compacted, config.is_deleted) == (2_097_152, 5, True, True)
    assert config.override({"cleanup.policy": ""}).cleanup_policy == ()
    assert config.effective_local_retention_ms == 5


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("segment.bytes", "1000"),
        ("cleanup.policy", "compacted"),
        ("compression.type", "none"),
        ("compression.gzip.level", "10"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.insync.replicas", "0"),
        ("message.timestamp.type", "createtime"),
        ("leader.replication.throttled.replicas", "1-2"),
        ("leader.replication.throttled.replicas", "\u00b2:1"),
        ("retention.ms", "-2"),
    ],
)
def test_what_kafka_refuses_is_refused_by_name(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value .* for configuration {key}"):
        LogConfig.load({}).override({key: text})


def test_throttled_replicas() -> None:
    for text in ("*", "", "0:1,1:2"):
        config = LogConfig.load({}).override({"leader.replication.throttled.replicas": text})
        assert config.leader_replication_throttled_replicas == tuple(text.split(",") if text else ())


def test_every_option_is_documented_and_topic_keys_are_unique() -> None:
    topics = [option.topic for option in LogConfig.OPTIONS.values() if option.topic]
    assert len(topics) == len(set(topics)) == 37
    assert all(option.doc.endswith(".") for option in LogConfig.OPTIONS.values())
