"""● Topics that a source writes to, made as its topic.creation options say.  Source: TopicCreation, NewTopicCreationGroup (KIP-158).

topic.creation.default.replication.factor=1      topic.creation.default.partitions=3      topic.creation.default.cleanup.policy=compact
topic.creation.groups=logs                       topic.creation.logs.include=log-.*       topic.creation.logs.partitions=12
"""

import re
from typing import NamedTuple

from moldau.clients.admin import Admin, NewTopic
from moldau.connect.declare.definition import Config
from moldau.connect.errors import ConfigError, ConnectError
from moldau.errors import ErrorCode, KafkaError

PREFIX = "topic.creation."
RESERVED = ("include", "exclude", "replication.factor", "partitions")


class Group(NamedTuple):
    include: list[re.Pattern[str]]
    exclude: list[re.Pattern[str]]
    new: NewTopic

    def takes(self, topic: str) -> bool:
        return any(one.fullmatch(topic) for one in self.include) and not any(one.fullmatch(topic) for one in self.exclude)


class TopicCreation(NamedTuple):
    groups: list[Group]

    @classmethod
    def of(cls, config: Config) -> "TopicCreation | None":
        """None: the broker makes the topics.  Errors: ConfigError."""
        options = {key.removeprefix(PREFIX): value or "" for key, value in config.items() if key.startswith(PREFIX)}
        if "default.replication.factor" not in options or "default.partitions" not in options:
            return None
        default = _group("default", {**options, "default.include": ".*"}, NewTopic("", -1, -1))
        names = [one.strip() for one in options.get("groups", "").split(",") if one.strip()]
        return cls([*(_group(name, options, default.new) for name in names), default])

    async def ensure(self, admin: Admin, topic: str) -> None:
        """Errors: ConnectError."""
        chosen = next(group for group in self.groups if group.takes(topic))
        new = NewTopic(topic, chosen.new.partition_count, chosen.new.replication_factor, configs=chosen.new.configs)
        for answer in (await admin.topics.create([new])).values():
            if isinstance(answer, KafkaError) and answer.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise ConnectError(f"topic {topic} cannot be created: {answer}") from answer


def _group(name: str, options: dict[str, str], default: NewTopic) -> Group:
    own = {key.removeprefix(f"{name}."): value for key, value in options.items() if key.startswith(f"{name}.")}
    try:
        include, exclude = (
            [re.compile(one.strip()) for one in own.get(key, "").split(",") if one.strip()] for key in ("include", "exclude")
        )
        count, factor = int(own.get("partitions", default.partition_count)), int(own.get("replication.factor", default.replication_factor))
    except (re.error, ValueError) as error:
        raise ConfigError(f"the options of {PREFIX}{name} cannot be read: {error}") from error
    configs = {key: value for key, value in own.items() if key not in RESERVED}
    return Group(include, exclude, NewTopic("", count, factor, configs={**default.configs, **configs}))
