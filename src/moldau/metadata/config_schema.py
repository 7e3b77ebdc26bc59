"""◇ The options of topics, brokers, groups and client metrics: their valid values, the effective value, and its source.

A value comes from the first of these that has it: the resource itself, this broker's dynamic configs, those of all brokers, the
properties file, the default.  `synonyms` lists all of them in that order, as DescribeConfigs tells it.

Made once from the node's properties and its rooms' option classes.

Source: KafkaConfigSchema, ConfigHelper.scala, LogConfig.validate, DynamicBrokerConfig, ControllerConfigurationValidator; KIP-226.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from moldau.config import ConfigError, Configs, Kind, Option, first_refusal
from moldau.errors import ErrorCode
from moldau.metadata.client_metrics import CLIENT_METRICS
from moldau.metadata.group_configs import GroupOptions
from moldau.metadata.image import MetadataImage, Resource, ResourceType
from moldau.metadata.outcome import Refusal
from moldau.storage.config import LogConfig
from moldau.storage.tiered.config import RemoteLogConfig, local_retention_refusal
from moldau.storage.tiered.config import refusal_of as tiering_refusal

_Room = TypeVar("_Room", bound=Configs)

UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"


SEVERAL_BROKERS: Final = (
    "remote.storage.enable=true: tiered storage works on a cluster of one broker only, and {} are registered.  "
    "Where the others are gone for good, unregister them first (moldau kafka-cluster unregister --id N)"
)


class Source(IntEnum):
    """The source of a value, by Kafka's numbers."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: Source


class Effective(NamedTuple):
    """The effective value of one option of one resource.  A sensitive value is None."""

    option: Option
    name: str
    value: str | None
    source: Source
    synonyms: tuple[Synonym, ...]
    is_read_only: bool = False


class ConfigSchema:
    """See the module."""

    def __init__(
        self,
        properties: Mapping[str, str],
        rooms: Sequence[type[Configs]] = (LogConfig,),
        *,
        node_id: int = -1,
        is_fixed: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`is_fixed` says of a broker's key that no room declares whether it cannot be set while the broker runs."""
        self.properties: Final = properties
        self._is_fixed: Final = is_fixed
        self.node_id: Final = node_id
        self.topic_options: Final[Mapping[str, Option]] = LogConfig.by_topic_key()
        self._rooms: Final = tuple(rooms)
        self._groups: Final = GroupOptions(properties, rooms)
        declared = [option for room in rooms for option in room.OPTIONS.values()]
        self.broker_options: Final[Mapping[str, Option]] = {
            **{key: option for option in declared for key, _ in option.fallbacks},
            **{option.key: option for option in declared if option.key},
        }
        self._static_log: Final = LogConfig.load(properties)
        self._is_tiering_enabled: Final = RemoteLogConfig.load(properties).system_enable
        self._base: tuple[Mapping[str, str], Mapping[str, str], list[Effective]] | None = None
        self._log: tuple[Mapping[str, str], Mapping[str, str], LogConfig] | None = None
        self._synonyms: tuple[Mapping[str, str], Mapping[str, str], dict[str, tuple[Synonym, ...]]] | None = None

    def options(self, image: MetadataImage, room: type[_Room]) -> _Room:
        """The effective options of a room on this node, those set at run time included."""
        return room.load(self._dynamic_properties(image) or self.properties)

    # ---------------------------------------------------------------- topics

    def log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        """The options of the log of a partition of `topic` on this node."""
        return self._log_of_broker(image).stored_override(image.topic_config(topic))

    def _log_of_broker(self, image: MetadataImage) -> LogConfig:
        """The broker's part of a log's options, without those of topics.

        The result is cached: every partition needs it, and images share their options until these change.
        """
        of_all, own = image.config_of(ResourceType.BROKER, ""), image.config_of(ResourceType.BROKER, str(self.node_id))
        if self._log is None or self._log[0] is not of_all or self._log[1] is not own:
            properties = self._dynamic_properties(image)
            self._log = of_all, own, LogConfig.load(properties) if properties else self._static_log
        return self._log[2]

    def min_insync_replicas(self, image: MetadataImage, topic: str) -> int:
        """The controller's value of min.insync.replicas: the topic's own, or that of all brokers."""
        own = image.topic_config(topic).get("min.insync.replicas")
        if own is None:
            own = image.config_of(ResourceType.BROKER, "").get("min.insync.replicas")
        return int(own) if own is not None else self._static_log.min_insync_replicas

    def is_unclean_election_enabled(self, image: MetadataImage, topic: str) -> bool:
        """The value in `log_config`.  Every partition of a leaving broker needs it, so the topic's other options are not read."""
        own = image.topic_config(topic).get(UNCLEAN_ELECTION)
        config = self._log_of_broker(image)
        return (config if own is None else config.stored_override({UNCLEAN_ELECTION: own})).unclean_leader_election_enable

    def topic_configs(self, image: MetadataImage, overrides: Mapping[str, str]) -> list[Effective]:
        """Every option of a topic with these overrides, by name.  Options that Kafka does not have are listed only if they are set."""
        names = sorted(name for name, option in self.topic_options.items() if not option.is_ours or name in overrides)
        return [self._topic_config(image, overrides, name) for name in names]

    def _topic_config(self, image: MetadataImage, overrides: Mapping[str, str], name: str) -> Effective:
        option = self.topic_options[name]
        synonyms = self.broker_synonyms(image, option.key) if option.key else ()
        if name in overrides:
            synonyms = (Synonym(name, _shown(option, overrides[name]), Source.DYNAMIC_TOPIC), *synonyms)
        if synonyms:
            return Effective(option, name, synonyms[0].value, synonyms[0].source, synonyms)
        return Effective(option, name, option.text(getattr(self._static_log, option.field)), Source.DEFAULT, ())

    def new_topic_configs(self, image: MetadataImage, overrides: Mapping[str, str]) -> list[Effective]:
        """The options in the answer to CreateTopics: the effective value of each, in whatever unit it was given, and its source."""
        base = self._without_overrides(image)
        config = self._static_log.override(overrides)
        return [
            _overridden(one, one.option.text(getattr(config, one.option.field))) if one.name in overrides else one
            for one in base
            if not one.option.is_ours or one.name in overrides
        ]

    def _without_overrides(self, image: MetadataImage) -> list[Effective]:
        """The options of a topic without overrides.  Cached while the brokers' configs stay: a request may create thousands of topics."""
        of_all = image.config_of(ResourceType.BROKER, "")
        own = image.config_of(ResourceType.BROKER, str(self.node_id))
        if self._base is not None and self._base[0] is of_all and self._base[1] is own:
            return self._base[2]
        properties = self._dynamic_properties(image)
        config = LogConfig.load(properties) if properties else self._static_log
        found = []
        for name, option in sorted(self.topic_options.items()):
            sources = [one.source for one in self._all_synonyms(image, option)]
            found.append(Effective(option, name, option.text(getattr(config, option.field)), sources[0] if sources else Source.DEFAULT, ()))
        self._base = of_all, own, found
        return found

    def validate_topic(
        self, overrides: Mapping[str, str], existing: Mapping[str, str] = MappingProxyType({}), *, broker_count: int = 1
    ) -> Refusal | None:
        """Whether a topic that has `existing` may have these instead, on a cluster of so many brokers.  Errors: INVALID_CONFIG."""
        for name in overrides:
            if name not in self.topic_options:
                return Refusal(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        try:
            config = self._static_log.override(overrides)
        except ConfigError as error:
            return Refusal(ErrorCode.INVALID_CONFIG, str(error))
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            return Refusal(
                ErrorCode.INVALID_CONFIG,
                f"conflict topic config setting min.compaction.lag.ms ({config.min_compaction_lag_ms}) > "
                f"max.compaction.lag.ms ({config.max_compaction_lag_ms})",
            )
        was_enabled = existing.get("remote.storage.enable", "").lower() == "true"
        reason = tiering_refusal(config, was_enabled=was_enabled, is_system_enabled=self._is_tiering_enabled)
        if reason is None and config.remote_storage_enable and not was_enabled and broker_count > 1:
            reason = SEVERAL_BROKERS.format(broker_count)
        return None if reason is None else Refusal(ErrorCode.INVALID_CONFIG, reason)

    # ---------------------------------------------------------------- brokers

    def broker_synonyms(self, image: MetadataImage, key: str) -> tuple[Synonym, ...]:
        """Every place that sets the broker's option `key`, in falling precedence, the default last.

        Entries before the first one named `key` itself are left out, as in Kafka: log.retention.hours alone is no synonym of
        log.retention.ms.  The result is cached while the brokers' configs stay: every topic and group has it behind its own values.
        """
        of_all, own = image.config_of(ResourceType.BROKER, ""), image.config_of(ResourceType.BROKER, str(self.node_id))
        if self._synonyms is None or self._synonyms[0] is not of_all or self._synonyms[1] is not own:
            self._synonyms = of_all, own, {}
        known = self._synonyms[2]
        found = known.get(key)
        if found is None:
            found = known[key] = self._find_broker_synonyms(image, key)
        return found

    def _find_broker_synonyms(self, image: MetadataImage, key: str) -> tuple[Synonym, ...]:
        option = self.broker_options.get(key)
        if option is None:
            return ()
        found = self._all_synonyms(image, option)
        if key == option.key and not option.has_default:
            return tuple(one for one in found if one.name == key and one.source is not Source.DEFAULT)
        first = next((number for number, one in enumerate(found) if one.name == key), len(found))
        return tuple(found[first:])

    def _all_synonyms(self, image: MetadataImage, option: Option) -> list[Synonym]:
        found: list[Synonym] = []
        for configs, source in (
            (image.config_of(ResourceType.BROKER, str(self.node_id)), Source.DYNAMIC_BROKER),
            (image.config_of(ResourceType.BROKER, ""), Source.DYNAMIC_DEFAULT_BROKER),
            (self.properties, Source.STATIC_BROKER),
        ):
            found += [Synonym(name, _shown(option, configs[name]), source) for name in option.keys if name in configs]
        return found + _default_synonym(option)

    def broker_config(self, image: MetadataImage, key: str) -> Effective:
        """The effective value of one option of this broker."""
        option = self.broker_options[key]
        synonyms = self.broker_synonyms(image, key)
        value, source = (synonyms[0].value, synonyms[0].source) if synonyms else (None, Source.DEFAULT)
        if key == option.key:
            return Effective(option, key, value, source, synonyms, is_read_only=option.update == "read-only")
        in_units = replace(option, key=key, kind=Kind.INT if dict(option.fallbacks)[key] > 1 else option.kind)
        return Effective(in_units, key, value, source, synonyms, is_read_only=True)

    def group_configs(self, image: MetadataImage, group: str) -> list[Effective]:
        """Every option of a group: its own value, or that of the broker's option behind it.

        Options that Kafka does not have are listed only if set.
        """
        own = image.config_of(ResourceType.GROUP, group)
        found = []
        for name, option in sorted(self._groups.options.items()):
            if option.is_ours and name not in own:
                continue
            synonyms = [Synonym(name, own[name], Source.GROUP)] if name in own else []
            behind = option.key or name
            of_broker = self.broker_synonyms(image, behind)
            synonyms += of_broker
            if not of_broker and (option.key or not option.is_ours):
                synonyms.append(Synonym(behind, option.text(option.default), Source.DEFAULT))
            found.append(Effective(option, name, synonyms[0].value, synonyms[0].source, tuple(synonyms)))
        return found

    def group_values(self, image: MetadataImage, group: str) -> Mapping[str, Any]:
        """The valid values that were set for the group, by name; empty for most groups."""
        return self._groups.values(image.config_of(ResourceType.GROUP, group))

    def validate_group(self, configs: Mapping[str, str]) -> Refusal | None:
        """Check a group's values.  Errors: INVALID_CONFIG."""
        reason = self._groups.refusal(configs)
        return None if reason is None else Refusal(ErrorCode.INVALID_CONFIG, reason)

    def validate_broker(self, image: MetadataImage, name: str, configs: Mapping[str, str]) -> Refusal | None:
        """Check whether a running broker, or all brokers for an empty name, can take these values.  Errors: INVALID_REQUEST.

        Kafka checks fewer relations here than at the start, and then runs with values that it would not start with.  Another node's file is
        not known here, so for another broker only the values themselves are checked.
        """
        fixed = [
            key
            for key in configs
            if (self._is_fixed(key) if (option := self.broker_options.get(key)) is None else option.update == "read-only")
        ]
        if fixed:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: {_listed(fixed)}")
        own = [key for key in configs if (option := self.broker_options.get(key)) is not None and option.update == "per-broker"]
        if own and not name:
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Cannot update these configs at default cluster level, broker id must be specified: {_listed(own)}",
            )
        of_all = self._held(image.config_of(ResourceType.BROKER, "")) if name else configs
        of_one = configs if name else self._held(image.config_of(ResourceType.BROKER, str(self.node_id)))
        before, after = self._dynamic_properties(image) or self.properties, {**self.properties, **of_all, **of_one}
        try:
            for key, text in configs.items():
                if key in self.broker_options:
                    self.broker_options[key].parse(text, key=key)
            if name and int(name) != self.node_id:
                return None
            reason = self._refusal_together([room.load(before) for room in self._rooms], [room.load(after) for room in self._rooms])
        except ConfigError as error:
            reason = str(error)
        return None if reason is None else Refusal(ErrorCode.INVALID_REQUEST, reason)

    def _refusal_together(self, before: Sequence[Configs], after: Sequence[Configs]) -> str | None:
        """The reason why a running broker cannot change its options from `before` to `after`; None if it can."""
        for old, new in zip(before, after, strict=True):
            for field, option in new.OPTIONS.items():
                reason = _pool_refusal(option, getattr(old, field), getattr(new, field)) if option.is_pool_size else None
                if reason is not None:
                    return reason
        found, known = _what_does_not_fit(after), _what_does_not_fit(before)
        return found if found != known else None

    # ---------------------------------------------------------------- all kinds

    def option_of(self, resource: Resource, name: str) -> Option | None:
        match resource.type:
            case ResourceType.TOPIC:
                return self.topic_options.get(name)
            case ResourceType.BROKER:
                return self.broker_options.get(name)
            case ResourceType.GROUP:
                return self._groups.options.get(name)
            case ResourceType.CLIENT_METRICS:
                return CLIENT_METRICS.get(name)
        return None

    def is_list(self, resource: Resource, name: str) -> bool:
        option = self.option_of(resource, name)
        return option is not None and option.kind is Kind.LIST

    def default_text(self, resource: Resource, name: str) -> str | None:
        """The value with which APPEND and SUBTRACT begin when none is set."""
        option = self.option_of(resource, name)
        if option is None:
            return None
        if resource.type == ResourceType.TOPIC:
            return option.text(getattr(self._static_log, option.field))
        return option.text(option.default)

    def _held(self, configs: Mapping[str, str]) -> Mapping[str, str]:
        """The values that are still valid.  A value that an older release took and that is refused today counts as not set, as in Kafka."""
        return {
            key: text
            for key, text in configs.items()
            if key not in self.broker_options or _is_possible(self.broker_options[key], key, text)
        }

    def _dynamic_properties(self, image: MetadataImage) -> Mapping[str, str] | None:
        """The properties with the values set at run time over them; None if there are none."""
        of_all = image.config_of(ResourceType.BROKER, "")
        own = image.config_of(ResourceType.BROKER, str(self.node_id))
        if not of_all and not own:
            return None
        return {**self.properties, **self._held({**of_all, **own})}


def _is_possible(option: Option, key: str, text: str) -> bool:
    try:
        option.parse(text, key=key)
    except ConfigError:
        return False
    return True


def _what_does_not_fit(rooms: Sequence[Configs]) -> str | None:
    log = next((room for room in rooms if isinstance(room, LogConfig)), None)
    error = first_refusal(rooms) or (local_retention_refusal(log, prefix="log.") if log is not None else None)
    return None if error is None else str(error)


def _pool_refusal(option: Option, current: int, wanted: int) -> str | None:
    what = f"Dynamic thread count update validation failed for {option.key}={wanted}"
    if wanted < 1:
        return f"{what}, value should be at least 1"
    if wanted < current // 2:
        return f"{what}, value should be at least half the current value {current}"
    if wanted > current * 2:
        return f"{what}, value should not be greater than double the current value {current}"
    return None


def _overridden(one: Effective, value: str | None) -> Effective:
    """A synonym list entry with a topic's own value."""
    return one._replace(value=value, source=Source.DYNAMIC_TOPIC)


def _shown(option: Option, text: str) -> str | None:
    """A value as clients see it: parsed and spelled anew, so that `1E3` and ` a , b` look like the effective value."""
    if option.is_sensitive:
        return None
    try:
        return option.text(option.parse(text))
    except ConfigError:
        return text


def _default_synonym(option: Option) -> list[Synonym]:
    """The synonym for the default.  An option with fallbacks has its default at the last of them, as in log.retention.hours=168."""
    if option.default is None or (option.nullable and option.default == ()):
        return []
    key, factor = option.fallbacks[-1] if option.fallbacks else (option.key, 1)
    value = option.default if factor == 1 else option.default // factor
    return [Synonym(key, None if option.is_sensitive else option.text(value), Source.DEFAULT)]


def _listed(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"
