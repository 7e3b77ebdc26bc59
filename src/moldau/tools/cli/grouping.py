"""◇ From a consumer's properties to the options of a member of a group."""

from collections.abc import Mapping

from moldau.clients.consumer import ConsumerOptions
from moldau.clients.group_consumer import GroupConsumerOptions
from moldau.clients.membership import MembershipOptions
from moldau.tools.cli.failure import Failure


def group_options(consumer: ConsumerOptions, properties: Mapping[str, str]) -> GroupConsumerOptions:
    """Errors: Failure."""
    protocol = properties.get("group.protocol", "classic").lower()
    if protocol != "classic":
        raise Failure(f"group.protocol={protocol} is not spoken by this client", "It joins by the classic protocol")
    known = MembershipOptions()
    membership = MembershipOptions(
        session_timeout_ms=_number(properties, "session.timeout.ms", known.session_timeout_ms),
        heartbeat_interval_ms=_number(properties, "heartbeat.interval.ms", known.heartbeat_interval_ms),
        max_poll_interval_ms=_number(properties, "max.poll.interval.ms", known.max_poll_interval_ms),
        group_instance_id=properties.get("group.instance.id") or None,
    )
    return GroupConsumerOptions(
        consumer=consumer,
        membership=membership,
        auto_commit=properties.get("enable.auto.commit", "true").lower() != "false",
        auto_commit_interval_ms=_number(properties, "auto.commit.interval.ms", GroupConsumerOptions().auto_commit_interval_ms),
    )


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key, str(default)).strip()
    if not text.isdigit():
        raise Failure(f"{key}={text} is not a number of milliseconds", f"The default is {default}")
    return int(text)
