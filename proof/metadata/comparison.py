"""● Compares our decisions with Kafka's, case by case.

`begin` draws a case and decides it with our rules; `differences` compares the answers of Kafka's classes with ours.  Records are compared
field by field, in any order, since Kafka walks hash maps; responses field by field; refusals by their kind.

`ACCEPTED` lists the differences that are on purpose.  Each entry gives its reason.  The entries that cases meet are counted, so that an
entry without any case is noticed.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata import automatic_elections, brokers, departures, directories, elections, heartbeats, topics
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.delta import replay
from moldau.metadata.image import EMPTY, MetadataImage, encode_record
from moldau.metadata.outcome import Outcome, Piece
from moldau.metadata.records import METADATA_RECORDS, BrokerRegistrationChangeRecord, RegisterBrokerRecord
from moldau.protocol.compiler import decode, encode_bytes
from moldau.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from moldau.protocol.messages.elect_leaders import ElectLeadersResponse
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.protocol.wire import Response, StoredRecord
from moldau.types import DIRECTORY_UNASSIGNED
from proof.metadata.cases import Cluster, Step

SESSION_MS: Final = 9_000
SCHEMA: Final = ConfigSchema({}, node_id=1)
Fields = tuple[tuple[str, Any], ...]


class JavaRandom:
    """`java.util.Random`, as Kafka's placement of replicas uses it.  Source: the class's documented algorithm."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)

    def _next_31(self) -> int:
        self._state = (self._state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        return self._state >> 17

    def randrange(self, stop: int, /) -> int:
        if stop & (stop - 1) == 0:
            return (stop * self._next_31()) >> 31
        while True:
            bits = self._next_31()
            if bits - bits % stop + stop - 1 < 1 << 31:
                return bits % stop

    def shuffle(self, items: list[int], /) -> None:
        for size in range(len(items), 1, -1):
            other = self.randrange(size)
            items[size - 1], items[other] = items[other], items[size - 1]


class Decided(NamedTuple):
    """Our decision at one step."""

    step: Step
    before: MetadataImage
    records: list[StoredRecord]
    response: Response | None
    refusal: ErrorCode | None


@dataclass(slots=True)
class Case:
    """A case that was drawn from a seed and decided by us."""

    seed: int
    records: list[StoredRecord]
    level: int
    decided: list[Decided] = field(default_factory=list)

    def question(self) -> dict[str, Any]:
        """The question in the form of `Oracle.ask`."""
        steps = []
        for one in self.decided:
            step = one.step
            request = "" if step.request is None else encode_bytes(step.request, step.version).hex()
            steps.append({"op": step.op, "version": step.version, "at": step.at_ms, "request": request})
        return {"seed": self.seed, "records": [encode_record(record, self.level).hex() for record in self.records], "steps": steps}


def begin(seed: int, *, most_steps: int = 4) -> Case:
    """Draw a cluster, and decide some random events in it."""
    chance = Random(seed)
    cluster = Cluster(chance)
    records = cluster.draw()
    image = replay(EMPTY, records, offset=len(records) - 1)
    case = Case(seed, records, image.metadata_version)
    controller = _Controller(image, JavaRandom(seed))
    for _ in range(chance.randint(1, most_steps)):
        if not controller.image.brokers:
            break
        step = cluster.next_step(controller.image, controller.image.offset + 1)
        if step.op == "fence_overdue" and controller.has_choice(step.at_ms):
            continue
        decided = controller.decide(step)
        case.decided.append(decided)
        if decided.step.op == "register" and decided.records:
            break  # our broker epochs and Kafka's are different numbers
    return case


class _Controller:
    def __init__(self, image: MetadataImage, chance: JavaRandom) -> None:
        self.image = image
        self.schema = SCHEMA
        self.sessions = heartbeats.Sessions(SESSION_MS)
        self.sessions.adopt(image.brokers, 0)
        self.chance = chance

    def decide(self, step: Step) -> Decided:
        before, response, refusal = self.image, None, None
        records: list[StoredRecord] = []
        try:
            decided = self._asked(step)
            records = decided.records
            response = decided.response if isinstance(decided, Outcome) else None
        except KafkaError as error:
            refusal = error.code
        if records:
            self.image = replay(self.image, records, offset=self.image.offset + len(records))
        return Decided(step, before, records, response, refusal)

    def _asked(self, step: Step) -> Outcome[Any] | Piece:
        image, schema, request, next_offset = self.image, self.schema, step.request, self.image.offset + 1
        decisions: Mapping[str, Callable[[Any], Outcome[Any] | Piece]] = {
            "alter_partition": lambda asked: elections.alter_partition(image, schema, asked, version=step.version),
            "reassign": lambda asked: elections.alter_partition_reassignments(image, schema, asked),
            "elect_leaders": lambda asked: elections.elect_leaders(image, schema, asked),
            "assign_directories": lambda asked: directories.assign_replicas_to_dirs(image, schema, asked),
            "heartbeat": lambda asked: heartbeats.broker_heartbeat(
                image, schema, self.sessions, asked, now_ms=step.at_ms, next_offset=next_offset
            ),
            "register": lambda asked: brokers.register_broker(
                image,
                schema,
                asked,
                cluster_id="cluster",
                next_offset=next_offset,
                is_session_valid=self.sessions.is_valid(asked.broker_id, step.at_ms),
            ),
            "unregister": lambda asked: brokers.unregister_broker(image, schema, asked),
            "create_partitions": lambda asked: topics.create_partitions(image, topics.TopicRules(schema, 1, 1, _no_id, self.chance), asked),
            "fence_overdue": lambda _: self._fence_overdue(step.at_ms),
            "balance": lambda _: automatic_elections.balance_leaders(image, schema),
            "elect_uncleanly": lambda _: automatic_elections.elect_uncleanly(image, schema),
        }
        return decisions[step.op](request)

    def _fence_overdue(self, now_ms: int) -> Piece:
        overdue = self.overdue(now_ms)
        return departures.fence(self.image, self.schema, overdue[0]) if overdue else Piece([], is_complete=True)

    def overdue(self, now_ms: int) -> list[int]:
        return self.sessions.overdue(self.image, now_ms)

    def has_choice(self, now_ms: int) -> bool:
        """Tells whether several sessions have ended, those of fenced brokers too: Kafka fences one of them, in the order of a hash map."""
        ended = [one for one, session in self.sessions.by_broker.items() if session.heard_ms is not None]
        return sum(not self.sessions.is_valid(one, now_ms) for one in ended) > 1


def _no_id() -> Any:
    raise AssertionError("no topic is created")


# ---------------------------------------------------------------------- comparing


class Difference(NamedTuple):
    """A difference at one step.  The case stops there."""

    step: Step
    what: str
    ours: Any
    theirs: Any
    accepted: str | None


def differences(case: Case, answers: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """The first step at which we and Kafka part, if any."""
    for ours, theirs in zip(case.decided, answers, strict=True):
        found = _difference(case, ours, theirs)
        if found is not None:
            return [found]
    return []


def _difference(case: Case, ours: Decided, theirs: Mapping[str, Any]) -> Difference | None:
    error = theirs.get("error")
    refusal = _code_name(error) if error is not None else None
    mine = ours.refusal.name if ours.refusal is not None else _refused(ours.response)
    if refusal != mine:
        return _named(ours, "refusal", mine, error)
    if refusal is not None:
        return None
    records = [METADATA_RECORDS.decode(bytes.fromhex(one)) for one in theirs["records"]]
    records = [one for one in records if not _fences_again(ours.before, one)]
    written = [METADATA_RECORDS.decode(encode_record(one, case.level)) for one in ours.records]
    mine_records = Counter(_canonical(one) for one in written if not _fences_again(ours.before, one))
    their_records = Counter(map(_canonical, records))
    if mine_records != their_records:
        return _named(ours, "records", sorted(map(str, mine_records - their_records)), sorted(map(str, their_records - mine_records)))
    if ours.response is not None and theirs.get("response") is not None:
        data = memoryview(bytes.fromhex(theirs["response"]))
        answer = decode(type(ours.response), ours.step.version, data)
        again = decode(type(ours.response), ours.step.version, memoryview(encode_bytes(ours.response, ours.step.version)))
        if _in_order(answer) != _in_order(again):
            return _named(ours, "response", again, answer)
    return None


def _code_name(error: str) -> str:
    name = error.partition(":")[0].removesuffix("Exception")
    return "".join(f"_{letter}" if letter.isupper() and index else letter for index, letter in enumerate(name)).upper()


def _refused(response: Response | None) -> str | None:
    code = getattr(response, "error_code", 0) or 0
    return next(one.name for one in ErrorCode if one == code) if code else None


def _fences_again(image: MetadataImage, record: StoredRecord) -> bool:
    """Tells whether a record fences a broker that is fenced already.  Kafka writes such records more often, and they change nothing."""
    if not isinstance(record, BrokerRegistrationChangeRecord) or record.fenced != departures.FENCE:
        return False
    broker = image.brokers.get(record.broker_id)
    return broker is not None and broker.fenced


def _canonical(record: StoredRecord) -> Fields:
    """The fields that differ from their defaults, with sets as sorted lists."""
    found = []
    for declared in type(record).FIELDS:
        value = getattr(record, declared.name)
        if declared.name in ("eligible_leader_replicas", "last_known_elr") and value is not None:
            value = sorted(value)
        if isinstance(record, RegisterBrokerRecord) and declared.name == "broker_epoch":
            continue
        if value != declared.default or declared.name in ("partition_id", "broker_id"):
            found.append((declared.name, str(value)))
    return (("", type(record).__name__), *found)


def _in_order(response: Response) -> Response:
    """The response in a fixed order, because Kafka answers for all partitions in the order of a hash map."""
    if isinstance(response, ElectLeadersResponse):
        response.replica_election_results.sort(key=lambda one: one.topic)
        for topic in response.replica_election_results:
            topic.partition_result.sort(key=lambda one: one.partition_id)
    if isinstance(response, BrokerRegistrationResponse):
        response.broker_epoch = 0  # Kafka's epoch is the offset of the first record, ours the offset of the registration
    return response


# ---------------------------------------------------------------------- where we differ on purpose


def _named(ours: Decided, what: str, mine: Any, theirs: Any) -> Difference:
    names = [name for name, holds in ACCEPTED.items() if holds(ours, str(theirs))]
    return Difference(ours.step, what, mine, theirs, names[0] if names else None)


def _reassigns_to_what_is_there(ours: Decided, _: str) -> bool:
    if not isinstance(ours.step.request, AlterPartitionReassignmentsRequest):
        return False
    for topic in ours.step.request.topics:
        for asked in topic.partitions:
            found = ours.before.partition(topic.name, asked.partition_index)
            if found is None or asked.replicas is None:
                continue
            targets, replicas = set(asked.replicas), set(found.replicas)
            if (found.adding_replicas and targets <= replicas) or (found.removing_replicas and replicas <= targets):
                return True
    return False


def _unregisters_an_eligible_replica(ours: Decided, _: str) -> bool:
    request = ours.step.request
    return isinstance(request, UnregisterBrokerRequest) and any(
        request.broker_id in (*one.isr, *one.elr) for topic in ours.before.topics.values() for one in topic.partitions
    )


def _moves_an_eligible_replica_away(ours: Decided, _: str) -> bool:
    after = replay(ours.before, ours.records, offset=ours.before.offset + len(ours.records))
    return after.is_elr_enabled and any(
        not {*one.isr, *one.elr} <= set(after.topics[name].partitions[number].replicas)
        for name, topic in ours.before.topics.items()
        for number, one in enumerate(topic.partitions)
    )


def _takes_a_directory_for_lost(ours: Decided, _: str) -> bool:
    request = ours.step.request
    return isinstance(request, BrokerRegistrationRequest) and any(
        one.directory_of(request.broker_id) == DIRECTORY_UNASSIGNED for topic in ours.before.topics.values() for one in topic.partitions
    )


def _has_partitions_of_many_sizes(ours: Decided, _: str) -> bool:
    return any(len({len(one.replicas) for one in topic.partitions}) > 1 for topic in ours.before.topics.values())


ACCEPTED: Final[Mapping[str, Callable[[Decided, str], bool]]] = {
    "a second reassignment to present replicas: Kafka keeps the first one's list, and never ends or removes too many": (
        _reassigns_to_what_is_there
    ),
    "an unregistered broker: Kafka leaves it in the eligible sets": _unregisters_an_eligible_replica,
    "a replica that is moved away: Kafka leaves it in the eligible set, so it may lead with an empty log when it is added again": (
        _moves_an_eligible_replica_away
    ),
    "a broker that shuts down, under a new controller: Kafka has forgotten the shutdown, and places new replicas there": (
        lambda ours, _: ours.step.op == "create_partitions" and any(one.in_controlled_shutdown for one in ours.before.brokers.values())
    ),
    "partitions of one topic with different numbers of replicas: Kafka takes any partition's number for new ones, and the first one's for "
    "min.insync.replicas": _has_partitions_of_many_sizes,
    "a broker whose state changes and whose directory fails in one heartbeat: Kafka decides both on the state before": (
        lambda ours, _: isinstance(ours.step.request, BrokerHeartbeatRequest) and bool(ours.step.request.offline_log_dirs and ours.records)
    ),
    "a broker that comes back with other directories before it told where a replica is: Kafka lets the replica lead with an empty log": (
        _takes_a_directory_for_lost
    ),
    "a partition without a leader gets a new epoch: Kafka notes -1 as its last known leader": (lambda _, theirs: "[-1]" in theirs),
    "a replica that is assigned to a directory: Kafka judges by the directory before, and writes two records; it lets a last known leader "
    "lead on the empty disk that replaced its own, and without eligible replicas the last one in sync": (
        lambda ours, _: ours.step.op == "assign_directories"
    ),
}
"""The reason of a difference → the test that recognises its steps."""
