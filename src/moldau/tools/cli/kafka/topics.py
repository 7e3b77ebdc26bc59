"""● `moldau kafka-topics`: create, list, describe, alter and delete topics, as kafka-topics.sh does."""

import argparse
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.values import ConfigSource, NewTopic, ResourceType
from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_configs import DescribeConfigsResourceResult
from moldau.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from moldau.protocol.messages.list_partition_reassignments import OngoingPartitionReassignment
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.group_tools.common import given_of
from moldau.tools.cli.kafka.options import KafkaParser, TopicFilter
from moldau.types import ZERO_UUID, TopicPartition, uuid_from_text, uuid_to_text

ACTIONS: Final = ("create", "list", "alter", "describe", "delete")
REPORTS: Final = ("under-replicated-partitions", "under-min-isr-partitions", "at-min-isr-partitions", "unavailable-partitions")
ALLOWED: Final = {
    "config": ("alter", "create"),
    "partitions": ("alter", "create"),
    "replication-factor": ("create",),
    "replica-assignment": ("alter", "create"),
    **dict.fromkeys((*REPORTS, "topics-with-overrides"), ("describe",)),
    "if-exists": ("alter", "delete", "describe"),
    "if-not-exists": ("create",),
    "exclude-internal": ("list", "describe"),
}
"""The actions of each option that not all of them take."""
MAX_REPLICATION_FACTOR: Final = 32767
COLLISION_WARNING: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    check(parser, options)

    async def work(cluster: Cluster) -> int:
        await Tool(Admin(cluster), options).run()
        return 0

    try:
        return on_cluster(options, work)
    except Failure as failure:
        # Kafka's tool prints this on stdout, and scripts look for it there.
        print(f"Error while executing topic command : {failure.what}")
        print(f"moldau: {failure}", file=sys.stderr)
        return 1


def check(parser: KafkaParser, options: argparse.Namespace) -> None:
    """Kafka's rules, in its words.  Errors: Failure."""
    given = given_of(options, (*ACTIONS, *ALLOWED))
    actions = [action for action in ACTIONS if action in given]
    if len(actions) != 1:
        raise parser.usage_error("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    action = actions[0]
    if options.bootstrap_server is None:
        raise parser.usage_error("--bootstrap-server must be specified")
    if action == "describe" and options.if_exists and options.topic is None and options.topic_id is None:
        raise parser.usage_error("--topic or --topic-id is required to describe a topic")
    if action in ("create", "alter", "delete") and options.topic is None:
        raise parser.missing("topic")
    if action == "alter" and options.config:
        raise parser.usage_error(
            'Option combination "[[config], [bootstrap-server]]" can\'t be used with option "[alter]" '
            "(To alter topic configurations, the kafka-configs tool can be used.)"
        )
    if action == "alter" and options.partitions is None:
        raise parser.missing("partitions")
    for name in given:
        if name in ALLOWED and action not in ALLOWED[name]:
            raise parser.conflict(name, action)
    if action == "create" and "replica-assignment" in given:
        for name in ("partitions", "replication-factor"):
            if name in given:
                raise parser.conflict("replica-assignment", name)
    for name in REPORTS:
        if name in given and options.topics_with_overrides:
            raise parser.conflict(name, "topics-with-overrides")


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-topics",
        "Create, list, describe, alter and delete topics, as kafka-topics.sh does.",
        examples=[
            "--bootstrap-server localhost:9092 --create --topic orders --partitions 4",
            "--bootstrap-server localhost:9092 --describe --topic orders",
        ],
    )
    parser.add_common()
    for action in ACTIONS:
        parser.add_argument(f"--{action}", action="store_true", help=f"{action} topics")
    add = parser.add_argument
    add("--topic", help="the topic; a regular expression, except with --create")
    add("--topic-id", help="describe the topic with this id")
    add("--partitions", type=int, help="number of partitions")
    add("--replication-factor", type=int, help="replicas of each partition")
    add("--replica-assignment", metavar="1:2,2:1", help="the brokers of each partition, instead of both numbers")
    add("--config", action="append", default=[], metavar="NAME=VALUE", help="an option of the new topic; may be given several times")
    add("--if-exists", action="store_true", help="do nothing when the topic is not there")
    add("--if-not-exists", action="store_true", help="do nothing when the topic is there")
    add("--exclude-internal", action="store_true", help="leave out the topics that Kafka keeps for itself")
    add("--topics-with-overrides", action="store_true", help="describe only topics that have options of their own")
    add("--under-replicated-partitions", action="store_true", help="describe only partitions that lack replicas in sync")
    add("--unavailable-partitions", action="store_true", help="describe only partitions without a live leader")
    add("--under-min-isr-partitions", action="store_true", help="describe only partitions below min.insync.replicas")
    add("--at-min-isr-partitions", action="store_true", help="describe only partitions at min.insync.replicas")
    add("--partition-size-limit-per-response", type=int, default=2000, metavar="COUNT", help="partitions in one answer of the broker")
    return parser


class Tool:
    """One call of the tool."""

    def __init__(self, admin: Admin, options: argparse.Namespace) -> None:
        self.admin = admin
        self.options = options

    async def run(self) -> None:
        for action in ACTIONS:
            if getattr(self.options, action):
                await getattr(self, action)()

    async def create(self) -> None:
        options = self.options
        if options.partitions is not None and options.partitions < 1:
            raise Failure("The partitions must be greater than 0")
        if options.replication_factor is not None and not 1 <= options.replication_factor <= MAX_REPLICATION_FACTOR:
            raise Failure(f"The replication factor must be between 1 and {MAX_REPLICATION_FACTOR} inclusive")
        assignment = parse_assignment(options.replica_assignment) if options.replica_assignment else ()
        if "." in options.topic or "_" in options.topic:
            print(COLLISION_WARNING)
        topic = NewTopic(
            options.topic,
            -1 if options.partitions is None else options.partitions,
            -1 if options.replication_factor is None else options.replication_factor,
            parse_configs(options.config),
            assignment,
        )
        for answer in (await self.admin.topics.create([topic], retry_on_quota_violation=False)).values():
            if isinstance(answer, KafkaError):
                if answer.code is ErrorCode.TOPIC_ALREADY_EXISTS and options.if_not_exists:
                    return
                raise Failure(answer.detail)
        print(f"Created topic {options.topic}.")

    async def list(self) -> None:
        print("\n".join(await self._names(must_exist=False)))

    async def alter(self) -> None:
        placed = parse_assignment(self.options.replica_assignment) if self.options.replica_assignment else None
        for name in await self._names():
            described = await self._described([name])
            old_count = len(described[0].partitions)
            await self.admin.topics.create_partitions(
                name,
                self.options.partitions,
                assignments=None if placed is None else placed[old_count:],
                retry_on_quota_violation=False,
            )

    async def delete(self) -> None:
        names = await self._names()
        if names:
            for answer in (await self.admin.topics.delete(names, retry_on_quota_violation=False)).values():
                if answer is not None:
                    raise Failure(answer.detail)

    async def describe(self) -> None:
        options = self.options
        names = await self._names_by_id() if options.topic_id else await self._names()
        if not names:
            return
        topics = await self._described(names)
        configs = await self._configs_of(names)
        live = {broker.broker_id for broker in (await self.admin.describe_cluster()).brokers}
        reassignments = await self._reassignments(topics)
        filters = any(
            (
                options.under_replicated_partitions,
                options.unavailable_partitions,
                options.under_min_isr_partitions,
                options.at_min_isr_partitions,
            )
        )
        for topic in topics:
            assert topic.name is not None
            changed = [one for one in configs[topic.name] if one.config_source != ConfigSource.DEFAULT_CONFIG]
            if options.topics_with_overrides and not changed:
                continue
            partitions = [
                PartitionLine(topic.name, one, reassignments.get(TopicPartition(topic.name, one.partition_index)), one.leader_id in live)
                for one in sorted(topic.partitions, key=lambda one: one.partition_index)
            ]
            if not filters:
                print(topic_line(topic, partitions, changed))
            if options.topics_with_overrides:
                continue
            minimum = min_insync_replicas(configs[topic.name])
            for line in partitions:
                if not filters or line.is_wanted(options, minimum):
                    print(line)

    # ------------------------------------------------------------ requests

    async def _names(self, *, must_exist: bool = True) -> Sequence[str]:
        """The topics that --topic matches; all topics without --topic."""
        options = self.options
        topics = await self.admin.topics.list(include_internal=not options.exclude_internal)
        names = [topic.name for topic in topics if topic.name is not None]
        if options.topic is not None:
            wanted = TopicFilter(options.topic)
            names = [name for name in names if wanted.matches(name)]
            if must_exist and not names and not options.if_exists:
                raise Failure(f"Topic '{options.topic}' does not exist as expected")
        return names

    async def _names_by_id(self) -> Sequence[str]:
        text = self.options.topic_id
        try:
            wanted = uuid_from_text(text)
        except ValueError as error:
            raise Failure(str(error)) from error
        names = [topic.name for topic in await self.admin.topics.list() if topic.topic_id == wanted and topic.name is not None]
        if not names and not self.options.if_exists:
            raise Failure(f"TopicId '{text}' does not exist as expected")
        return names

    async def _described(self, names: Sequence[str]) -> Sequence[DescribeTopicPartitionsResponseTopic]:
        found = await self.admin.topics.describe(names, partitions_per_response=self.options.partition_size_limit_per_response)
        topics = []
        for name in names:
            answer = found[name]
            if isinstance(answer, KafkaError):
                raise answer
            topics.append(answer)
        return topics

    async def _configs_of(self, names: Sequence[str]) -> Mapping[str, Sequence[DescribeConfigsResourceResult]]:
        found = await self.admin.configs.describe([(ResourceType.TOPIC, name) for name in names], synonyms=False)
        configs = {}
        for (_, name), answer in found.items():
            if isinstance(answer, KafkaError):
                raise answer
            configs[name] = answer
        return configs

    async def _reassignments(
        self, topics: Iterable[DescribeTopicPartitionsResponseTopic]
    ) -> Mapping[TopicPartition, OngoingPartitionReassignment]:
        partitions = [TopicPartition(topic.name or "", one.partition_index) for topic in topics for one in topic.partitions]
        with suppress(KafkaError):  # a broker that cannot list reassignments has none under way
            return await self.admin.partitions.list_reassignments(partitions)
        return {}


class PartitionLine(NamedTuple):
    """One partition, ready to be printed."""

    topic: str
    partition: DescribeTopicPartitionsResponsePartition
    reassignment: OngoingPartitionReassignment | None
    has_live_leader: bool

    @property
    def replication_factor(self) -> int:
        """The replication factor without the replicas that a reassignment adds."""
        replicas = self.partition.replica_nodes
        added = len(self.reassignment.adding_replicas) if self.reassignment else 0
        return len(replicas) - added

    def is_wanted(self, options: argparse.Namespace, minimum: int) -> bool:
        in_sync = len(self.partition.isr_nodes)
        return (
            (options.under_replicated_partitions and in_sync < self.replication_factor)
            or (options.unavailable_partitions and not self.has_live_leader)
            or (options.under_min_isr_partitions and in_sync < minimum)
            or (options.at_min_isr_partitions and in_sync == minimum)
        )

    def __str__(self) -> str:
        one = self.partition
        fields = [
            f"\tTopic: {self.topic}",
            f"Partition: {one.partition_index}",
            f"Leader: {one.leader_id if one.leader_id >= 0 else 'none'}",
            f"Replicas: {_ids(one.replica_nodes)}",
            f"Isr: {_ids(one.isr_nodes)}",
        ]
        if self.reassignment is not None:
            fields.append(f"Adding Replicas: {_ids(self.reassignment.adding_replicas)}")
            fields.append(f"Removing Replicas: {_ids(self.reassignment.removing_replicas)}")
        fields.append(f"Elr: {_known(one.eligible_leader_replicas)}")
        fields.append(f"LastKnownElr: {_known(one.last_known_elr)}")
        return "\t".join(fields)


def topic_line(
    topic: DescribeTopicPartitionsResponseTopic, partitions: Sequence[PartitionLine], changed: Iterable[DescribeConfigsResourceResult]
) -> str:
    fields = [f"Topic: {topic.name}"]
    if topic.topic_id != ZERO_UUID:
        fields.append(f"TopicId: {uuid_to_text(topic.topic_id)}")
    fields.append(f"PartitionCount: {len(partitions)}")
    fields.append(f"ReplicationFactor: {partitions[0].replication_factor if partitions else 0}")
    fields.append("Configs: " + ",".join(f"{one.name}={one.value}" for one in changed))
    return "\t".join(fields)


def min_insync_replicas(configs: Iterable[DescribeConfigsResourceResult]) -> int:
    return next((int(one.value) for one in configs if one.name == "min.insync.replicas" and one.value), 1)


def parse_configs(texts: Iterable[str]) -> dict[str, str | None]:
    """Errors: Failure."""
    configs: dict[str, str | None] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise Failure('requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".')
        configs[key.strip()] = value.strip()
    return configs


def parse_assignment(text: str) -> list[list[int]]:
    """`1:2,2:1` → the replicas of each partition.  Errors: Failure."""
    try:
        assignment = [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError as error:
        raise Failure(f"{text!r} is not of the form 1:2,2:1") from error
    for index, replicas in enumerate(assignment):
        if len(set(replicas)) < len(replicas):
            raise Failure(f"Partition replica lists may not contain duplicate entries: {_ids(sorted(_repeated(replicas)))}")
        if len(replicas) != len(assignment[0]):
            raise Failure(f"Partition {index} has different replication factor: {replicas}")
    return assignment


def _repeated(replicas: Collection[int]) -> set[int]:
    return {one for one in replicas if list(replicas).count(one) > 1}


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def _known(ids: Sequence[int] | None) -> str:
    return "N/A" if ids is None else _ids(ids)
