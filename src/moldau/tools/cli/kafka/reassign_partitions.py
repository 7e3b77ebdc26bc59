"""● `moldau kafka-reassign-partitions`: moves partitions to other brokers, and replicas to other folders.

Options and output are those of kafka-reassign-partitions.sh.  Differs from Kafka: no stack trace follows an error.
"""

import argparse
import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.partitions import Replica
from moldau.clients.admin.values import AlterOperation, ConfigChange, ResourceType
from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.placement import UsableBroker, place
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.kafka import reassignment as plans
from moldau.tools.cli.kafka.group_tools.common import given_of
from moldau.tools.cli.kafka.java_errors import PACKAGE, java_error, message
from moldau.tools.cli.kafka.options import KafkaParser
from moldau.tools.cli.kafka.reassignment import EXISTING, PlanError, Targets
from moldau.types import TopicPartition

ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")
NEEDED: Final = {
    "verify": ("reassignment-json-file",),
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
ALLOWED: Final = {
    "verify": ("bootstrap-server", "command-config", "preserve-throttles"),
    "generate": ("bootstrap-server", "command-config", "disable-rack-aware"),
    "execute": (
        "additional",
        "bootstrap-server",
        "command-config",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
    ),
    "cancel": ("bootstrap-server", "bootstrap-controller", "command-config", "preserve-throttles", "timeout"),
    "list": ("bootstrap-server", "bootstrap-controller", "command-config"),
}
OPTIONS: Final = tuple(dict.fromkeys(name for names in (*NEEDED.values(), *ALLOWED.values()) for name in names))

BROKER_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
FOLDER_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
THROTTLED_REPLICAS: Final = {side: f"{side}.replication.throttled.replicas" for side in ("leader", "follower")}
DEFAULT_TIMEOUT_MS: Final = 10_000
BETWEEN_TRIES_S: Final = 0.1


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    given = given_of(options, ACTIONS)
    if len(given) != 1:
        raise parser.usage_error(f"Command must include exactly one action: {', '.join(f'--{name}' for name in ACTIONS)}")
    action = given[0]
    _check(parser, options, action)
    options.bootstrap_server = options.bootstrap_server or options.bootstrap_controller

    async def work(cluster: Cluster) -> int:
        actions = {"generate": _generate, "execute": _execute, "verify": _verify, "cancel": _cancel, "list": _list}
        try:
            await actions[action](Admin(cluster), options)
        except PlanError as error:
            print(error if error.is_terse else f"Error: {error}")
            return 1
        except KafkaError as error:
            print(f"Error: {java_error(error)}")
            return 1
        return 0

    return on_cluster(options, work)


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-reassign-partitions",
        "Move partitions to other brokers, and replicas to other folders, as kafka-reassign-partitions.sh does.  The form of a plan:\n"
        '  {"version": 1, "partitions": [{"topic": "foo", "partition": 1, "replicas": [1, 2], "log_dirs": ["any", "/disk2"]}]}\n'
        "The form of a list of topics to move:\n"
        '  {"version": 1, "topics": [{"topic": "foo"}]}',
        examples=[
            "--bootstrap-server localhost:9092 --generate --topics-to-move-json-file topics.json --broker-list 1,2",
            "--bootstrap-server localhost:9092 --execute --reassignment-json-file plan.json --throttle 50000000",
            "--bootstrap-server localhost:9092 --verify --reassignment-json-file plan.json",
        ],
    )
    parser.add_common()
    add = parser.add_argument
    add("--bootstrap-controller", metavar="HOST:PORT", help="cancel, list: one or more controllers, instead of brokers")
    add("--generate", action="store_true", help="propose a plan; nothing is moved")
    add("--execute", action="store_true", help="begin a plan")
    add("--verify", action="store_true", help="show how far a plan is; remove its throttles when it is done")
    add("--cancel", action="store_true", help="cancel the moves of a plan that are not done")
    add("--list", action="store_true", help="list partitions that are on their way to other brokers")
    add("--reassignment-json-file", metavar="FILE", help="the plan's file")
    add("--topics-to-move-json-file", metavar="FILE", help="generate: the topics to move")
    add("--broker-list", metavar="ID,ID", help="generate: the brokers to move to")
    add("--disable-rack-aware", action="store_true", help="generate: do not spread replicas over racks")
    add("--throttle", type=int, metavar="BYTES/S", help="execute: limit for copies between brokers")
    add("--replica-alter-log-dirs-throttle", type=int, metavar="BYTES/S", help="execute: limit for copies between folders")
    add(
        "--timeout",
        type=int,
        metavar="MS",
        help=f"execute, cancel: how long a move between folders may take to begin ({DEFAULT_TIMEOUT_MS})",
    )
    add("--additional", action="store_true", help="execute: start beside other moves, or change their throttles")
    add("--preserve-throttles", action="store_true", help="verify, cancel: leave throttles alone")
    add("--disallow-replication-factor-change", action="store_true", help="execute: refuse to change the number of replicas")
    return parser


def _check(parser: KafkaParser, options: argparse.Namespace, action: str) -> None:
    """Kafka's rules, in its words.  Errors: Failure."""
    if options.bootstrap_server is not None and options.bootstrap_controller is not None:
        raise parser.usage_error("Please don't specify both --bootstrap-server and --bootstrap-controller")
    if options.bootstrap_server is None and options.bootstrap_controller is None:
        raise parser.usage_error("Please specify either --bootstrap-server or --bootstrap-controller")
    given = given_of(options, OPTIONS)
    for name in NEEDED[action]:
        if name not in given:
            raise parser.missing(name)
    for name in given:
        if name not in NEEDED[action] and name not in ALLOWED[action]:
            raise parser.usage_error(f'Option "[{name}]" can\'t be used with action "[{action}]"')


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error


# ------------------------------------------------------------ generate


async def _generate(admin: Admin, options: argparse.Namespace) -> None:
    wanted = plans.read_brokers(options.broker_list)
    topics = plans.read_topics(_read(options.topics_to_move_json_file))
    current = await _replicas_of(admin, topics)
    brokers = await _usable_brokers(admin, wanted, with_racks=not options.disable_rack_aware)
    proposed = _proposal(current, brokers)
    print(f"Current partition replica assignment\n{plans.plan_json(current, await _current_folders(admin, current))}\n")
    print(f"Proposed partition reassignment configuration\n{plans.plan_json(proposed, {})}")


async def _usable_brokers(admin: Admin, wanted: Collection[int], *, with_racks: bool) -> list[UsableBroker]:
    found = [
        UsableBroker(one.broker_id, one.rack if with_racks else None, fenced=False)
        for one in (await admin.describe_cluster()).brokers
        if one.broker_id in wanted
    ]
    if len({broker.rack is None for broker in found}) > 1:
        raise PlanError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment without rack "
            "information."
        )
    return found


def _proposal(current: Targets, brokers: Sequence[UsableBroker]) -> Targets:
    """Each topic keeps as many replicas as its first partition has.  Errors: PlanError."""
    proposed: Targets = {}
    for topic in dict.fromkeys(where.topic for where in current):
        own = sorted(where for where in current if where.topic == topic)
        factor = len(current[own[0]])
        try:
            placed = place(brokers, partition_count=len(own), replication_factor=factor, chance=Random())
        except KafkaError as error:
            raise PlanError(error.detail) from error
        proposed |= {where: list(replicas) for where, replicas in zip(own, placed, strict=True)}
    return proposed


# ------------------------------------------------------------ execute


async def _execute(admin: Admin, options: argparse.Namespace) -> None:
    plan = plans.read_plan(_read(options.reassignment_json_file))
    targets = plans.targets_of(plan)
    ongoing = await admin.partitions.list_reassignments(None)
    if ongoing and not options.additional:
        raise PlanError(EXISTING, is_terse=True)
    known = {one.broker_id for one in (await admin.describe_cluster()).brokers}
    unknown = [broker for replicas in targets.values() for broker in replicas if broker not in known]
    if unknown:
        raise PlanError(f"Unknown broker id {unknown[0]}")
    current = await _current_of(admin, targets)
    shown = plans.plan_json(current, await _current_folders(admin, current))
    print(f"Current partition replica assignment\n\n{shown}\n\nSave this to use as the --reassignment-json-file option during rollback")
    await _set_throttles(admin, plan, plans.moves_of(ongoing, targets, current), options)
    answers = await admin.partitions.reassign(targets, may_change_factor=not options.disallow_replication_factor_change)
    errors = [f"{where}: {message(error)}" for where, error in sorted(answers.items()) if error is not None]
    if errors:
        raise PlanError("\n".join(["Error reassigning partition(s):", *errors]), is_terse=True)
    print(f"Successfully started partition reassignment{_s(targets)} for {','.join(map(str, sorted(targets)))}")
    if plan.folders:
        await _move(admin, plan.folders, options)


async def _set_throttles(admin: Admin, plan: plans.Plan, moves: plans.Moves, options: argparse.Namespace) -> None:
    rate, folder_rate = options.throttle, options.replica_alter_log_dirs_throttle
    between_brokers, between_folders = rate is not None and rate >= 0, folder_rate is not None and folder_rate >= 0
    if between_brokers or between_folders:
        print("Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed.")
    if between_brokers:
        held_back = {side: plans.throttled_replicas(moves, side) for side in THROTTLED_REPLICAS}
        for topic in sorted({where.topic for where in moves}):
            changes = {key: held_back[side][topic] for side, key in THROTTLED_REPLICAS.items()}
            await _alter(admin, ResourceType.TOPIC, [topic], changes)
        await _alter(admin, ResourceType.BROKER, plans.moving_brokers(moves), dict.fromkeys(BROKER_RATES, str(rate)))
        print(f"The inter-broker throttle limit was set to {rate} B/s")
    if between_folders:
        brokers = sorted({replica.broker_id for replica in plan.folders})
        await _alter(admin, ResourceType.BROKER, brokers, {FOLDER_RATE: str(folder_rate)})
        print(f"The replica-alter-dir throttle limit was set to {folder_rate} B/s")


async def _move(admin: Admin, folders: Mapping[Replica, str], options: argparse.Namespace) -> None:
    """Asks again while a replica is not on its broker yet: until then it is not sure that the broker takes the folder."""
    timeout_ms = DEFAULT_TIMEOUT_MS if options.timeout is None else options.timeout
    pending, started = dict(folders), time.monotonic()
    while True:
        for replica, error in sorted((await admin.partitions.move_replicas(pending)).items(), key=lambda item: _by_broker(item[0])):
            if error is None:
                print(
                    f"Successfully started moving log directory to {pending.pop(replica)} for replica {replica.topic_partition} "
                    f"with broker {replica.broker_id} "
                )
            elif error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                raise PlanError(f"Failed to alter dir for {replica}") from error
        if not pending:
            return
        if time.monotonic() - started >= timeout_ms / 1000:
            left = ",".join(map(str, sorted(pending, key=_by_broker)))
            raise PlanError(f"Timed out before log directory move{_s(pending)} could be started for: {left}", is_terse=True)
        await asyncio.sleep(BETWEEN_TRIES_S)


# ------------------------------------------------------------ verify, cancel, list


async def _verify(admin: Admin, options: argparse.Namespace) -> None:
    plan = plans.read_plan(_read(options.reassignment_json_file))
    ongoing = await admin.partitions.list_reassignments(None)
    current = await _known_replicas(admin, [where for where, _ in plan.brokers])
    print("Status of partition reassignment:")
    for where, target in sorted(plan.brokers):
        print(plans.partition_line(where, current.get(where, []), target, is_moving=where in ongoing))
    folders = await admin.partitions.folders_of(plan.folders)
    print("\n".join(plans.replica_line(one, folders[one], plan.folders[one]) for one in sorted(folders, key=_by_broker)))
    # The limits are those of all moves: while any partition moves, also one of another plan, they stay.
    is_moving = bool(ongoing) or any(one.future is not None for one in folders.values())
    if not is_moving and not options.preserve_throttles:
        await _clear_throttles(admin, plan)


async def _cancel(admin: Admin, options: argparse.Namespace) -> None:
    plan = plans.read_plan(_read(options.reassignment_json_file))
    moving = sorted(await admin.partitions.list_reassignments([where for where, _ in plan.brokers]))
    if moving:
        answers = await admin.partitions.reassign(dict.fromkeys(moving))
        errors = [f"{where}: {message(error)}" for where, error in sorted(answers.items()) if error is not None]
        if errors:
            raise PlanError("\n".join([f"Error cancelling partition reassignment{_s(errors)} for:", *errors]), is_terse=True)
        print(f"Successfully cancelled partition reassignment{_s(moving)} for: {','.join(map(str, moving))}")
    else:
        print("None of the specified partition reassignments are active.")
    folders = await admin.partitions.folders_of(plan.folders)
    back = {replica: one.current for replica, one in folders.items() if one.future is not None and one.current is not None}
    if back:
        await _move(admin, back, options)
    else:
        print("None of the specified partition moves are active.", end="")  # the next text stands in the same line, as in Kafka
    if not options.preserve_throttles:
        await _clear_throttles(admin, plan)


async def _list(admin: Admin, options: argparse.Namespace) -> None:
    print("\n".join(plans.ongoing_lines(await admin.partitions.list_reassignments(None))))


async def _clear_throttles(admin: Admin, plan: plans.Plan) -> None:
    """Clear the throttles of all brokers: the brokers that the moves came from are no longer known."""
    brokers = {one.broker_id for one in (await admin.describe_cluster()).brokers}
    brokers |= {broker for _, replicas in plan.brokers for broker in replicas}
    print(f"Clearing broker-level throttles on broker{_s(brokers)} {','.join(map(str, sorted(brokers)))}")
    await _alter(admin, ResourceType.BROKER, sorted(brokers), dict.fromkeys((*BROKER_RATES, FOLDER_RATE)))
    print(f"Clearing topic-level throttles on topic{_s(plan.topics)} {','.join(plan.topics)}")
    await _alter(admin, ResourceType.TOPIC, plan.topics, dict.fromkeys(THROTTLED_REPLICAS.values()))


# ------------------------------------------------------------ common parts


async def _replicas_of(admin: Admin, topics: Sequence[str]) -> Targets:
    """The replicas of all partitions of the topics.  Errors: PlanError for a missing topic."""
    found: Targets = {}
    for name, topic in (await admin.topics.describe(topics)).items() if topics else ():
        if isinstance(topic, KafkaError):
            is_missing = topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            text = f"{PACKAGE}UnknownTopicOrPartitionException: Topic {name} not found." if is_missing else java_error(topic)
            raise PlanError(text)
        found |= {TopicPartition(name, one.partition_index): list(one.replica_nodes) for one in topic.partitions}
    return found


async def _current_of(admin: Admin, wanted: Collection[TopicPartition]) -> Targets:
    """The replicas of the wanted partitions.  Errors: PlanError for a missing partition."""
    found = await _replicas_of(admin, sorted({where.topic for where in wanted}))
    missing = sorted(where for where in wanted if where not in found)
    if missing:
        names = ", ".join(map(str, missing))
        raise PlanError(f"{PACKAGE}UnknownTopicOrPartitionException: Unable to find partition: {names}")
    return {where: found[where] for where in wanted}


async def _known_replicas(admin: Admin, wanted: Iterable[TopicPartition]) -> Targets:
    """The replicas of the existing partitions."""
    topics = sorted({where.topic for where in wanted})
    described = await admin.topics.describe(topics) if topics else {}
    return {
        TopicPartition(name, one.partition_index): list(one.replica_nodes)
        for name, topic in described.items()
        if not isinstance(topic, KafkaError)
        for one in topic.partitions
    }


async def _current_folders(admin: Admin, current: Targets) -> dict[Replica, str]:
    """The folders of the replicas on live brokers."""
    alive = {one.broker_id for one in (await admin.describe_cluster()).brokers}
    replicas = [Replica(*where, broker) for where, brokers in current.items() for broker in brokers if broker in alive]
    return {replica: one.current for replica, one in (await admin.partitions.folders_of(replicas)).items() if one.current is not None}


async def _alter(admin: Admin, kind: ResourceType, names: Iterable[object], changes: Mapping[str, str | None]) -> None:
    """Alter configs; None removes a value.  Errors: KafkaError, the first."""
    asked = [ConfigChange(key, value, AlterOperation.SET if value is not None else AlterOperation.DELETE) for key, value in changes.items()]
    for error in (await admin.configs.alter({(kind, str(name)): asked for name in names})).values():
        if error is not None:
            raise error


def _by_broker(replica: Replica) -> tuple[int, str, int]:
    return replica.broker_id, replica.topic, replica.partition


def _s(items: Collection[object]) -> str:
    return "" if len(items) == 1 else "s"
