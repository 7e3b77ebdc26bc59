"""◇ Options of tiered storage: Kafka's of the broker, those of the object store and of `__remote_log_metadata` behind their prefixes.

    remote.log.storage.system.enable=true
    rsm.config.storage.url=s3://bucket/folder            what stands behind the prefix is ours; names as in the plug-ins people know
    rlmm.config.remote.log.metadata.topic.replication.factor=1

A topic is tiered by remote.storage.enable=true; `refusal_of` says which topic options do not go together.
Source: RemoteLogManagerConfig, TopicBasedRemoteLogMetadataManagerConfig, LogConfig.validateTopicLogConfigValues; KIP-405, 950.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from moldau.config import MAX_LONG, ConfigError, Configs, GiB, Long, MiB, Password, Short, at_least, between, nearest, option
from moldau.storage.config import SAME_AS_RETENTION, LogConfig

TOPIC_BASED: Final = "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
NO_LIMIT: Final = -1
SYSTEM_ENABLE: Final = "remote.log.storage.system.enable"
STORAGE_URL: Final = "storage.url"
SCHEMES: Final = ("file://", "s3://")

C = TypeVar("C", bound=Configs)


class RemoteLogConfig(Configs):
    """The options of a broker that copies, reads and expires remote segments."""

    system_enable: bool = option(
        SYSTEM_ENABLE, False, "Whether topics may keep their older segments in an object store; rsm.config.storage.url says where."
    )
    storage_prefix: str = option("remote.log.storage.manager.impl.prefix", "rsm.config.", "The prefix of the options of the object store.")
    metadata_prefix: str = option(
        "remote.log.metadata.manager.impl.prefix", "rlmm.config.", "The prefix of the options of the topic __remote_log_metadata."
    )
    task_interval_ms: Long = option(
        "remote.log.manager.task.interval.ms",
        30_000,
        "How often a tiered partition is looked at for segments to copy and to expire.",
        check=at_least(1),
        importance="low",
    )
    copier_threads: int = option(
        "remote.log.manager.copier.thread.pool.size",
        10,
        "How many segments are copied at a time.",
        check=at_least(1),
        update="cluster-wide",
        is_pool_size=True,
    )
    expiration_threads: int = option(
        "remote.log.manager.expiration.thread.pool.size",
        10,
        "How many segments are deleted at a time.",
        check=at_least(1),
        update="cluster-wide",
        is_pool_size=True,
    )
    reader_threads: int = option(
        "remote.log.reader.threads",
        10,
        "How many reads of the object store run at a time.",
        check=at_least(1),
        update="cluster-wide",
        is_pool_size=True,
    )
    reader_max_pending: int = option(
        "remote.log.reader.max.pending.tasks",
        100,
        "How many reads of the object store may wait; a fetch that finds no room is answered empty and comes again.",
        check=at_least(1),
    )
    index_cache_bytes: Long = option(
        "remote.log.index.file.cache.total.size.bytes",
        GiB,
        "Memory for the indexes of remote segments that are read; the least recently used go first.",
        check=at_least(1),
        update="cluster-wide",
        importance="low",
    )
    index_cache_ttl_ms: Long = option(
        "remote.log.index.file.cache.ttl.ms",
        900_000,
        "How long the indexes of a remote segment that nobody reads stay in memory.",
        check=at_least(1),
        importance="low",
    )
    copy_max_bytes_per_second: Long = option(
        "remote.log.manager.copy.max.bytes.per.second",
        MAX_LONG,
        "How much this broker copies to the object store a second, on average.",
        check=at_least(1),
        update="cluster-wide",
    )
    fetch_max_bytes_per_second: Long = option(
        "remote.log.manager.fetch.max.bytes.per.second",
        MAX_LONG,
        "How much this broker reads from the object store a second, on average.",
        check=at_least(1),
        update="cluster-wide",
    )
    fetch_max_wait_ms: int = option(
        "remote.fetch.max.wait.ms",
        500,
        "How long a fetch waits for the object store; then it is answered without the records, which the next fetch finds.",
        check=at_least(1),
        update="cluster-wide",
    )
    list_offsets_timeout_ms: Long = option(
        "remote.list.offsets.request.timeout.ms",
        30_000,
        "How long ListOffsets waits for the object store.",
        check=at_least(1),
        update="cluster-wide",
    )


class StoreConfig(Configs):
    """The object store; keys stand behind remote.log.storage.manager.impl.prefix."""

    url: str | None = option(
        STORAGE_URL,
        None,
        "Where segments go: file:///folder, or s3://bucket/folder for anything that speaks S3.",
        importance="high",
        is_ours=True,
    )
    chunk_size: int = option("chunk.size", 4 * MiB, "Bytes of a segment that are read at a time.", check=between(1024, GiB), is_ours=True)
    cache_size: Long = option("fetch.chunk.cache.size", 128 * MiB, "Memory for chunks that were read.", check=at_least(0), is_ours=True)
    prefetch_size: Long = option(
        "fetch.chunk.cache.prefetch.max.size", 8 * MiB, "Bytes that are read ahead of a reader.", check=at_least(0), is_ours=True
    )
    s3_endpoint_url: str | None = option(
        "storage.s3.endpoint.url", None, "The S3 server; without it, the server of AWS in the region.", is_ours=True
    )
    s3_region: str | None = option("storage.s3.region", None, "The region of the bucket.", is_ours=True)
    s3_path_style: bool = option(
        "storage.s3.path.style.access.enabled",
        True,
        "Whether the bucket stands in the path of a request; else it is part of the server's name.",
        is_ours=True,
    )
    access_key_id: str | None = option(
        "storage.aws.access.key.id",
        None,
        "Without it, the keys of the environment, the web identity or the instance are used.",
        is_ours=True,
    )
    secret_access_key: Password | None = option("storage.aws.secret.access.key", None, "The secret key to the access key id.", is_ours=True)
    session_token: Password | None = option("storage.aws.session.token", None, "The token of temporary keys.", is_ours=True)

    @classmethod
    def behind(cls, prefix: str, properties: Mapping[str, str]) -> "StoreConfig":
        """Errors: ConfigError, with the whole key."""
        own = _behind(prefix, properties)
        known = [declared.key for declared in cls.OPTIONS.values()]
        for key, value in own.items():
            if key not in known:
                meant = nearest(key, known)
                text = f"did you mean {prefix}{meant}?" if meant else f"the object store's options are {', '.join(known)}"
                raise ConfigError(prefix + key, value, f"there is no such option; {text}")
        config = _loaded(cls, prefix, own)
        if config.url is None or not config.url.startswith(SCHEMES):
            raise ConfigError(prefix + STORAGE_URL, config.url or "", "say where segments go, as in file:///folder or s3://bucket/folder")
        if (config.access_key_id is None) != (config.secret_access_key is None):
            raise ConfigError(prefix + "storage.aws.access.key.id", config.access_key_id, "the key id and the secret key go together")
        return config


class MetadataTopicConfig(Configs):
    """`__remote_log_metadata`; keys stand behind remote.log.metadata.manager.impl.prefix."""

    partition_count: int = option(
        "remote.log.metadata.topic.num.partitions", 50, "Partitions of the topic; never to be changed afterwards.", check=at_least(1)
    )
    replication_factor: Short = option(
        "remote.log.metadata.topic.replication.factor", 3, "Replicas of each of its partitions.", check=at_least(1)
    )
    retention_ms: Long = option(
        "remote.log.metadata.topic.retention.ms", -1, "How long its records stay: longer than those of any tiered topic; -1 for ever."
    )

    @classmethod
    def behind(cls, prefix: str, properties: Mapping[str, str]) -> "MetadataTopicConfig":
        """Errors: ConfigError, with the whole key."""
        config = _loaded(cls, prefix, _behind(prefix, properties))
        if config.retention_ms != -1 and config.retention_ms <= 0:
            raise ConfigError(prefix + "remote.log.metadata.topic.retention.ms", config.retention_ms, "give a number above 0, or -1")
        return config


def _behind(prefix: str, properties: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in properties.items() if key.startswith(prefix)}


def _loaded(cls: type[C], prefix: str, own: Mapping[str, str]) -> C:
    try:
        return cls.load(own)
    except ConfigError as error:
        raise ConfigError(prefix + error.key, error.value, error.reason) from None


def refusal_of(config: LogConfig, *, was_enabled: bool, is_system_enabled: bool) -> str | None:
    """Why a topic may not have these options, in Kafka's words."""
    if not config.remote_storage_enable:
        if was_enabled and not config.remote_log_delete_on_disable:
            return (
                "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data and turn to "
                "read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable remote storage "
                "and delete all remote data, please set `remote.storage.enable=false,remote.log.delete.on.disable=true`."
            )
        return None
    if not is_system_enabled:
        return "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
    if config.cleanup_policy not in ((), ("delete",)):
        return "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
    error = local_retention_refusal(config)
    if error is not None:
        return str(error)
    return _copy_disabled_refusal(config) if config.remote_log_copy_disable else None


def local_retention_refusal(config: LogConfig, *, prefix: str = "") -> ConfigError | None:
    """The refusal of a local retention beyond the whole one; None if there is none.  `prefix`: `log.` for a broker's own values."""
    for unit, total, local, is_limited in (
        ("bytes", config.retention_bytes, config.local_retention_bytes, config.retention_bytes > NO_LIMIT),
        ("ms", config.retention_ms, config.local_retention_ms, config.retention_ms != NO_LIMIT),
    ):
        if not is_limited or local == SAME_AS_RETENTION:
            continue
        key, whole = f"{prefix}local.retention.{unit}", f"{prefix}retention.{unit}"
        if local == NO_LIMIT:
            return ConfigError(key, local, f"Value must not be -1 as {whole} value is set as {total}.")
        if local > total:
            return ConfigError(key, local, f"Value must not be more than {whole} property value: {total}")
    return None


def _copy_disabled_refusal(config: LogConfig) -> str | None:
    for unit, total, local in (
        ("bytes", config.retention_bytes, config.local_retention_bytes),
        ("ms", config.retention_ms, config.local_retention_ms),
    ):
        if local not in (SAME_AS_RETENTION, total):
            return (
                f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and `retention.{unit}` must be set to the "
                "identical value because there will be no more logs copied to the remote storage."
            )
    return None
