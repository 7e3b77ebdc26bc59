import pytest

from moldau.config import ConfigError
from moldau.storage.config import LogConfig
from moldau.storage.tiered.config import MetadataTopicConfig, StoreConfig, refusal_of


@pytest.mark.parametrize(
    ("options", "was_enabled", "reason"),
    [
        ({"remote_storage_enable": True}, False, None),
        ({"remote_storage_enable": True, "cleanup_policy": ()}, False, None),
        ({"remote_storage_enable": True, "cleanup_policy": ("compact",)}, False, "cleanup.policy=delete"),
        ({"remote_storage_enable": True, "cleanup_policy": ("delete", "compact")}, False, "cleanup.policy=delete"),
        (
            {"remote_storage_enable": True, "local_retention_ms": -1},
            False,
            "Value must not be -1 as retention.ms value is set as 604800000.",
        ),
        ({"remote_storage_enable": True, "local_retention_ms": -1, "retention_ms": -1}, False, None),
        (
            {"remote_storage_enable": True, "local_retention_ms": 5, "retention_ms": 4},
            False,
            "not be more than retention.ms property value: 4",
        ),
        ({"remote_storage_enable": True, "local_retention_ms": 5, "retention_ms": -1}, False, None),
        ({"remote_storage_enable": True, "local_retention_bytes": 5}, False, None),
        ({"remote_storage_enable": True, "local_retention_bytes": 5, "retention_bytes": 4}, False, "retention.bytes property value: 4"),
        ({"remote_storage_enable": True, "remote_log_copy_disable": True}, False, None),
        (
            {"remote_storage_enable": True, "remote_log_copy_disable": True, "local_retention_ms": 5},
            True,
            "must be set to the identical value",
        ),
        ({"local_retention_ms": -1}, False, None),
        ({}, True, "It is invalid to disable remote storage without deleting remote data"),
        ({"remote_log_delete_on_disable": True}, True, None),
    ],
)
def test_which_topic_options_go_together(options: dict[str, object], was_enabled: bool, reason: str | None) -> None:
    refusal = refusal_of(LogConfig(**options), was_enabled=was_enabled, is_system_enabled=True)  # type: ignore[arg-type]
    assert refusal is None if reason is None else reason in str(refusal)


def test_no_topic_is_tiered_where_the_broker_is_not() -> None:
    refusal = refusal_of(LogConfig(remote_storage_enable=True), was_enabled=False, is_system_enabled=False)
    assert refusal is not None and "disabled in the broker" in refusal


def test_store_options_stand_behind_a_prefix() -> None:
    config = StoreConfig.behind(
        "rsm.config.", {"rsm.config.storage.url": "file:///tier", "rsm.config.chunk.size": "65536", "chunk.size": "1"}
    )
    assert (config.url, config.chunk_size) == ("file:///tier", 65536)
    assert MetadataTopicConfig.behind("rlmm.config.", {"rlmm.config.remote.log.metadata.topic.num.partitions": "3"}).partition_count == 3


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("rsm.config.storage.url", "gs://bucket", "file:///folder or s3://bucket/folder"),
        ("rsm.config.chunk.sise", "1", "did you mean rsm.config.chunk.size"),
        ("rsm.config.chunk.size", "1", "rsm.config.chunk.size"),
        ("rsm.config.storage.aws.access.key.id", "me", "go together"),
    ],
)
def test_wrong_store_options_name_the_key_and_the_way_out(key: str, value: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        StoreConfig.behind("rsm.config.", {"rsm.config.storage.url": "file:///tier", key: value})
    with pytest.raises(ConfigError, match="say where segments go"):
        StoreConfig.behind("rsm.config.", {})
