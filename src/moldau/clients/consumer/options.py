"""◇ The consumer's options, by Kafka's names.

Source: ConsumerConfig.java.

Defaults that differ from Kafka's: max_poll_records is none, because whole batches are handed out.  An option of its own,
prefetch_max_bytes, limits the bytes fetched ahead.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final

from moldau.clients.options import ClientOptions, OptionError, require, require_objects

ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
JAVA_ASSIGNORS: Final = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
OF_CLASSIC: Final = frozenset({"session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy"})
"""The options of the classic protocol.  With the consumer protocol these are the broker's, for the whole group."""
OF_CONSUMER: Final = frozenset({"group_remote_assignor"})
BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_INSTANCE_ID: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
EARLIEST: Final = -2
LATEST: Final = -1

Deserializer = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions(ClientOptions):
    """The consumer's options.

    `auto_offset_reset`: earliest, latest, none, or by_duration: followed by an ISO-8601 duration.  `max_poll_records` None: whole batches.
    `interceptors`: objects with `on_consume` or `on_commit`, see `interceptors.py`.
    """

    group_id: str | None = None
    group_instance_id: str | None = None
    group_protocol: str = "classic"
    group_remote_assignor: str | None = None
    partition_assignment_strategy: str | tuple[str, ...] = ("range", "cooperative-sticky")
    auto_offset_reset: str = "latest"
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    max_poll_records: int | None = None
    isolation_level: str = "read_uncommitted"
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1024 * 1024
    prefetch_max_bytes: int = 64 * 1024 * 1024
    check_crcs: bool = True
    default_api_timeout_ms: int = 60_000
    allow_auto_create_topics: bool = True
    exclude_internal_topics: bool = True
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None
    interceptors: Any = ()

    def check(self) -> None:
        ClientOptions.check(self)
        require(self.group_protocol.lower() in ("classic", "consumer"), "group_protocol", self.group_protocol, "classic or consumer")
        require(self.group_id is None or bool(self.group_id.strip()), "group_id", self.group_id, "it cannot be empty")
        require(
            self.group_instance_id is None or _INSTANCE_ID.fullmatch(self.group_instance_id) is not None,
            "group_instance_id",
            self.group_instance_id,
            "1 to 249 letters of ASCII, digits, '.', '_' and '-' are expected",
        )
        require_objects("interceptors", self.interceptors)
        levels = ("read_uncommitted", "read_committed")
        require(self.isolation_level in levels, "isolation_level", self.isolation_level, " or ".join(levels))
        for name in ("fetch_max_wait_ms", "fetch_min_bytes", "auto_commit_interval_ms"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "it cannot be negative")
        for name in ("fetch_max_bytes", "max_partition_fetch_bytes", "prefetch_max_bytes", "session_timeout_ms", "max_poll_interval_ms"):
            require(getattr(self, name) > 0, name, getattr(self, name), "it has to be above 0")
        require(
            self.max_poll_records is None or self.max_poll_records > 0, "max_poll_records", self.max_poll_records, "it has to be above 0"
        )
        require(
            0 < self.heartbeat_interval_ms < self.session_timeout_ms,
            "heartbeat_interval_ms",
            self.heartbeat_interval_ms,
            f"it has to be above 0 and below session.timeout.ms={self.session_timeout_ms}",
        )
        _ = self.assignors, self.reset_before_ms

    @property
    def without_meaning(self) -> list[str]:
        """Options that are given, and that the group's protocol does not look at.  Java's client and librdkafka refuse them."""
        of_others = OF_CLASSIC if self.speaks_consumer_protocol else OF_CONSUMER
        return [one.name for one in fields(self) if one.name in of_others and getattr(self, one.name) != one.default]

    @property
    def reads_committed(self) -> bool:
        return self.isolation_level == "read_committed"

    @property
    def speaks_consumer_protocol(self) -> bool:
        return self.group_protocol.lower() == "consumer"

    @property
    def assignors(self) -> tuple[str, ...]:
        """The assignors by the names that members vote for.  Errors: OptionError."""
        given = self.partition_assignment_strategy
        names = [part.strip() for part in given.split(",")] if isinstance(given, str) else list(given)
        found = tuple(JAVA_ASSIGNORS.get(name, name) for name in names if name)
        for name in found:
            if name not in ASSIGNORS:
                known = ", ".join(ASSIGNORS)
                raise OptionError(f"partition.assignment.strategy cannot be {name!r}: one or more of {known} are expected")
        if not found:
            raise OptionError("partition.assignment.strategy cannot be empty")
        return found

    @property
    def reset_target(self) -> int | None:
        """EARLIEST or LATEST.  None: an error is raised instead.  For a duration see `reset_before_ms`."""
        return {"earliest": EARLIEST, "latest": LATEST}.get(self.auto_offset_reset.lower())

    @property
    def reset_before_ms(self) -> int | None:
        """How many milliseconds before now reading begins; None unless the policy is a duration.  Errors: OptionError."""
        text = self.auto_offset_reset
        if text.lower() in ("earliest", "latest", "none"):
            return None
        found = _DURATION.fullmatch(text.removeprefix(BY_DURATION)) if text.startswith(BY_DURATION) else None
        if found is None or not any(found.groups()):
            raise OptionError(
                f"auto.offset.reset cannot be {text!r}: earliest, latest, none, or a duration as in by_duration:PT1H is expected"
            )
        days, hours, minutes, seconds = (float(one or 0) for one in found.groups())
        return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
