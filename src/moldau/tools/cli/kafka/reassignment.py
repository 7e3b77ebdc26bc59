"""◇ Plans of kafka-reassign-partitions.sh: their files, their throttles and their progress, in Kafka's words.

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/disk2"]}]}

Source: ReassignPartitionsCommand.java.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from moldau.clients.admin.partitions import Replica, ReplicaFolders
from moldau.protocol.messages.list_partition_reassignments import OngoingPartitionReassignment
from moldau.tools.cli.dump.message_json import compact
from moldau.types import TopicPartition

ANY_FOLDER: Final = "any"
VERSION: Final = 1
EXISTING: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a new partition "
    "assignment in addition to the existing one. The --additional flag can also be used to change the throttle by resubmitting the "
    "current reassignment."
)


class PlanError(Exception):
    """A plan that is invalid, or that the tool cannot carry out.  `is_terse`: printed without `Error:` before it."""

    def __init__(self, text: str, *, is_terse: bool = False) -> None:
        super().__init__(text)
        self.is_terse = is_terse


Targets = dict[TopicPartition, list[int]]


class Plan(NamedTuple):
    """The target brokers of partitions, and the target folders of replicas."""

    brokers: list[tuple[TopicPartition, list[int]]]
    folders: dict[Replica, str]

    @property
    def topics(self) -> list[str]:
        return sorted({one.topic for one, _ in self.brokers})


# ------------------------------------------------------------ files


def read_plan(text: str) -> Plan:
    """Errors: PlanError."""
    brokers: list[tuple[TopicPartition, list[int]]] = []
    folders: dict[Replica, str] = {}
    for row in _rows(text, "partitions"):
        try:
            where = TopicPartition(row["topic"], int(row["partition"]))
            replicas = [int(broker) for broker in row["replicas"]]
            paths = [str(path) for path in row.get("log_dirs", [ANY_FOLDER] * len(replicas))]
        except (KeyError, TypeError, ValueError) as error:
            raise PlanError(f"{compact(row)} is not of the form that --help shows: {type(error).__name__}: {error}") from error
        if len(replicas) != len(paths):
            raise PlanError(
                f"Size of replicas list {replicas} is different from size of log dirs list [{', '.join(paths)}] for partition {where}"
            )
        brokers.append((where, replicas))
        folders |= {Replica(*where, broker): path for broker, path in zip(replicas, paths, strict=True) if path != ANY_FOLDER}
    return Plan(brokers, folders)


def targets_of(plan: Plan) -> Targets:
    """The targets for --execute, where nothing may be named twice.  Errors: PlanError."""
    if not plan.brokers:
        raise PlanError("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in plan.brokers):
        raise PlanError("Partition replica list cannot be empty")
    twice = _repeated(where for where, _ in plan.brokers)
    if twice:
        raise PlanError(f"Partition reassignment contains duplicate topic partitions: {','.join(map(str, twice))}")
    wrong = [f"{where} contains multiple entries for {_ids(_repeated(ids))}" for where, ids in plan.brokers if _repeated(ids)]
    if wrong:
        raise PlanError(f"Partition replica lists may not contain duplicate entries: {'. '.join(wrong)}")
    return dict(plan.brokers)


def read_topics(text: str) -> list[str]:
    """The topics that --generate moves.  Errors: PlanError."""
    try:
        topics = [str(row["topic"]) for row in _rows(text, "topics")]
    except (KeyError, TypeError) as error:
        raise PlanError("The topics are not of the form that --help shows") from error
    twice = _repeated(topics)
    if twice:
        raise PlanError(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return topics


def read_brokers(text: str) -> list[int]:
    """Errors: PlanError."""
    try:
        brokers = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise PlanError(f"--broker-list {text} is not a list of numbers") from error
    twice = _repeated(brokers)
    if twice:
        raise PlanError(f"Broker list contains duplicate entries: [{', '.join(map(str, twice))}]")
    return brokers


def plan_json(targets: Mapping[TopicPartition, Sequence[int]], folders: Mapping[Replica, str]) -> str:
    rows = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "replicas": list(replicas),
            "log_dirs": [folders.get(Replica(*where, broker), ANY_FOLDER) for broker in replicas],
        }
        for where, replicas in sorted(targets.items())
    ]
    return compact({"version": VERSION, "partitions": rows})


def _rows(text: str, key: str) -> list[Any]:
    try:
        found = json.loads(text)
        version, rows = found.get("version", VERSION), found.get(key, [])
    except (ValueError, AttributeError) as error:
        raise PlanError("The input string is not a valid JSON") from error
    if version != VERSION:
        raise PlanError(f"Not supported version field value {version}")
    if not isinstance(rows, list):
        raise PlanError(f'"{key}" is not a list')
    return rows


def _repeated(items: Iterable[Any]) -> list[Any]:
    return sorted(item for item, count in Counter(items).items() if count > 1)


# ------------------------------------------------------------ throttles


class Move(NamedTuple):
    """The brokers that a partition is copied from, and the brokers that it is copied to."""

    sources: frozenset[int]
    destinations: frozenset[int]


Moves = dict[TopicPartition, Move]


def moves_of(
    ongoing: Mapping[TopicPartition, OngoingPartitionReassignment], targets: Targets, current: Mapping[TopicPartition, Sequence[int]]
) -> Moves:
    """All moves that will be under way with `targets`."""
    moves = {
        where: Move(frozenset(one.replicas) - frozenset(one.adding_replicas), frozenset(one.adding_replicas))
        for where, one in ongoing.items()
    }
    for where, replicas in targets.items():
        sources = moves[where].sources if where in moves else frozenset(current[where])
        moves[where] = Move(sources, frozenset(replicas) - sources)
    return moves


def throttled_replicas(moves: Moves, side: str) -> dict[str, str]:
    """Topic → its `leader` or `follower` replicas that are held back, as partition:broker,…"""
    found: dict[str, set[str]] = {where.topic: set() for where in moves}
    for where, move in moves.items():
        brokers = move.sources if side == "leader" else move.destinations
        found[where.topic] |= {f"{where.partition}:{broker}" for broker in brokers}
    return {topic: ",".join(sorted(entries)) for topic, entries in found.items()}


def moving_brokers(moves: Moves) -> list[int]:
    return sorted({broker for move in moves.values() for broker in move.sources | move.destinations})


# ------------------------------------------------------------ progress


def partition_line(where: TopicPartition, current: Sequence[int], target: Sequence[int], *, is_moving: bool) -> str:
    if is_moving:
        return f"Reassignment of partition {where} is still in progress."
    if list(current) == list(target):
        return f"Reassignment of partition {where} is completed."
    return f"There is no active reassignment of partition {where}, but replica set is {_ids(current)} rather than {_ids(target)}."


def replica_line(replica: Replica, folders: ReplicaFolders, target: str) -> str:
    where = f"Partition {replica.topic_partition}"
    if folders.current is None:
        offline = "There is likely an offline log directory on the broker."
        return f"{where} is not found in any live log dir on broker {replica.broker_id}. {offline}"
    if folders.future == target:
        return f"Reassignment of replica {replica} is still in progress."
    if folders.future is not None:
        return f"{where} on broker {replica.broker_id} is being moved to log dir {folders.future} instead of {target}."
    if folders.current == target:
        return f"Reassignment of replica {replica} completed successfully."
    return f"{where} on broker {replica.broker_id} is not being moved from log dir {folders.current} to {target}."


def ongoing_lines(ongoing: Mapping[TopicPartition, OngoingPartitionReassignment]) -> list[str]:
    if not ongoing:
        return ["No partition reassignments found."]
    lines = ["Current partition reassignments:"]
    for where, one in sorted(ongoing.items()):
        adding = f" adding: {_ids(one.adding_replicas)}." if one.adding_replicas else ""
        removing = f" removing: {_ids(one.removing_replicas)}." if one.removing_replicas else ""
        lines.append(f"{where}: replicas: {_ids(one.replicas)}.{adding}{removing}")
    return lines


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))
