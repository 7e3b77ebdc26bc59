"""Groups beside Apache Kafka's: every API of groups in all versions, with good, edge and hostile inputs, and whole lives of groups.

Ids that a broker makes up are exchanged for names before two answers are compared.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from moldau.protocol.consumer_protocol import ConsumerProtocolSubscription
from moldau.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from moldau.protocol.stored import encode_versioned
from moldau.protocol.wire import Request, Struct
from proof.kafka.differential import Differential, Differs, NoAnswer, RawClient, differences

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("differential")]

TOPIC = "group-orders"
PARTITIONS = 3
ADDRESSES = {"host", "port", "node_id", "coordinators.host", "coordinators.port", "coordinators.node_id"}
TEXTS = {"error_message", "groups.error_message", "coordinators.error_message"}
UNKNOWN_ID = UUID("12345678-1234-4234-8234-123456789abc")
PATIENCE_S = 60


class Side:
    """One of the two brokers, and the ids that it made up, by the names that the tests give them."""

    def __init__(self, client: RawClient) -> None:
        self.clients: dict[str, RawClient] = {"": client}
        self._address = client.address
        self.ids: dict[str, str] = {}
        self.topic_id = UNKNOWN_ID

    def ask(self, request: Request[Any], version: int, by: str = "") -> Any:
        if by not in self.clients:
            self.clients[by] = RawClient(self._address)
        return self.clients[by].ask(request, version)

    def __getitem__(self, name: str) -> str:
        return self.ids.get(name, "")

    def named(self, value: Any) -> Any:
        """The value with names instead of ids; a struct is changed itself."""
        if isinstance(value, Struct):
            for field in value.FIELDS:
                setattr(value, field.name, self.named(getattr(value, field.name)))
        elif isinstance(value, list):
            return [self.named(one) for one in value]
        elif isinstance(value, str) and value:
            return next((f"<{name}>" for name, made_up in self.ids.items() if made_up == value), value)
        elif value == self.topic_id and isinstance(value, UUID):
            return UNKNOWN_ID
        return value


Make = Callable[[Side], Request[Any]]


class Both:
    def __init__(self, differential: Differential) -> None:
        self.ours, self.theirs = Side(differential.ours), Side(differential.theirs)

    def ask(
        self, make: Make, version: int | None = None, *, by: str = "", ignoring: Sequence[str] = (), learn: str = ""
    ) -> tuple[Any, Any]:
        """Asks both the same and compares the answers.  `learn`: a name for the answers' member id from now on.  Errors: Differs."""
        answers, requests = [], []
        for side in (self.ours, self.theirs):
            request = make(side)
            answer = side.ask(request, type(request).VERSIONS[-1] if version is None else version, by)
            if learn and not isinstance(answer, NoAnswer):
                side.ids[learn] = answer.member_id
            requests.append(request)
            answers.append(side.named(answer))
        self.compare(answers[0], answers[1], requests[1], ignoring)
        return answers[0], answers[1]

    def compare(self, ours: Any, theirs: Any, request: object, ignoring: Sequence[str] = ()) -> None:
        found = list(differences(ours, theirs, ignoring={*ADDRESSES, *TEXTS, *ignoring}))
        if found:
            raise Differs(f"{request!r}:\n" + "\n".join(found))

    def ask_later(self, pool: ThreadPoolExecutor, make: Make, *, by: str) -> Callable[[], tuple[Any, Any]]:
        """Asks both now.  The function that it returns waits for the answers, compares them and returns them."""
        requests = [make(side) for side in (self.ours, self.theirs)]
        waiting = [
            pool.submit(side.ask, request, type(request).VERSIONS[-1], by)
            for side, request in zip((self.ours, self.theirs), requests, strict=True)
        ]

        def answers() -> tuple[Any, Any]:
            ours, theirs = (side.named(one.result(PATIENCE_S)) for side, one in zip((self.ours, self.theirs), waiting, strict=True))
            self.compare(ours, theirs, requests[0])
            return ours, theirs

        return answers


@pytest.fixture(scope="module")
def groups(both: Differential) -> Iterator[Both]:
    asks = Both(both)
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[])
    for side in (asks.ours, asks.theirs):
        side.topic_id = side.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0].topic_id
        while (found := side.ask(FindCoordinatorRequest(key="any"), 3)).error_code or side.ask(heartbeat("any"), 4).error_code in (
            14,
            15,
            16,
        ):
            assert found.error_code in (0, 15)
    yield asks
    for side in (asks.ours, asks.theirs):
        for client in side.clients.values():
            client.close()


def metadata(*topics: str) -> bytes:
    return encode_versioned(ConsumerProtocolSubscription(topics=list(topics or (TOPIC,))), 1)


def join(group: str, member_id: str = "", **more: Any) -> JoinGroupRequest:
    names = more.pop("names", ("range", "roundrobin"))
    more = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer", **more}
    protocols = [JoinGroupRequestProtocol(name=name, metadata=metadata()) for name in names]
    return JoinGroupRequest(group_id=group, member_id=member_id, protocols=protocols, **more)


def sync(
    group: str, member_id: str = "nobody", generation_id: int = 1, given: dict[str, bytes] | None = None, **more: Any
) -> SyncGroupRequest:
    more = {"protocol_type": "consumer", "protocol_name": "range", **more}
    assignments = [SyncGroupRequestAssignment(member_id=key, assignment=each) for key, each in (given or {}).items()]
    return SyncGroupRequest(group_id=group, generation_id=generation_id, member_id=member_id, assignments=assignments, **more)


def heartbeat(group: str, member_id: str = "nobody", generation_id: int = 1, **more: Any) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=generation_id, member_id=member_id, **more)


def leave(group: str, *members: tuple[str, str | None]) -> LeaveGroupRequest:
    return LeaveGroupRequest(
        group_id=group, members=[MemberIdentity(member_id=one, group_instance_id=instance) for one, instance in members]
    )


def commit(
    group: str, offset: int = 1, *, member_id: str = "", epoch: int = -1, topic: str = TOPIC, partitions: Sequence[int] = (0,), **more: Any
) -> Make:
    text = more.pop("text", "")

    def make(side: Side) -> OffsetCommitRequest:
        wanted = [OffsetCommitRequestPartition(partition_index=one, committed_offset=offset, committed_metadata=text) for one in partitions]
        topic_id = side.topic_id if topic == TOPIC else UNKNOWN_ID if topic else UUID(int=0)
        return OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=epoch,
            member_id=side[member_id] or member_id,
            topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=wanted)],
            **more,
        )

    return make


def fetch(group: str, partitions: Sequence[int] | None = (0, 1, 2, 7), *, version: int = 10, topic: str = TOPIC, **more: Any) -> Make:
    def make(side: Side) -> OffsetFetchRequest:
        if version < 8:
            old = None if partitions is None else [OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))]
            return OffsetFetchRequest(group_id=group, topics=old, **more)
        topic_id = side.topic_id if topic == TOPIC else UNKNOWN_ID
        wanted = None
        if partitions is not None:
            wanted = [OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=list(partitions))]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=wanted, **more)])

    return make


def delete_offsets(group: str, topic: str = TOPIC, *partitions: int) -> OffsetDeleteRequest:
    wanted = [OffsetDeleteRequestPartition(partition_index=one) for one in partitions]
    return OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=wanted)])


def report(group: str, member_id: str = "m", epoch: int = 0, **more: Any) -> ConsumerGroupHeartbeatRequest:
    if epoch == 0:
        more = {"rebalance_timeout_ms": 20_000, "subscribed_topic_names": [TOPIC], "topic_partitions": [], **more}
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch, **more)


class Case(NamedTuple):
    """`version` None: every version that there is."""

    request: Request[Any]
    version: int | None = None
    known: Sequence[str] = ()


CASES = {
    "find a group's": Case(FindCoordinatorRequest(key="g"), 3),
    "find with an empty key": Case(FindCoordinatorRequest(key=""), 3),
    "find of an unknown kind": Case(FindCoordinatorRequest(key="g", key_type=9), 3),
    "find several": Case(FindCoordinatorRequest(coordinator_keys=["a", "b", ""]), 4),
    "find none": Case(FindCoordinatorRequest(coordinator_keys=[]), 6),
    "find several of an unknown kind": Case(FindCoordinatorRequest(coordinator_keys=["a"], key_type=9), 6),
    "find a share group's before there are any": Case(FindCoordinatorRequest(coordinator_keys=["a:b"], key_type=2), 5),
    "join without a group": Case(join("")),
    "join with too short a session": Case(join("j1", session_timeout_ms=1)),
    "join with too long a session": Case(join("j1", session_timeout_ms=2_000_000)),
    "join as nobody": Case(join("j1", "nobody")),
    "join without protocols": Case(join("j1", names=())),
    "join as nobody without protocols": Case(join("nosuch", "nobody", names=())),
    "join as nobody without a type": Case(join("nosuch", "nobody", protocol_type="")),
    "join without a type": Case(join("j1", protocol_type="")),
    "join as an unknown static member": Case(join("j1", "nobody", group_instance_id="i"), 9),
    "sync without a group": Case(sync("")),
    "sync with an unknown group": Case(sync("nosuch")),
    "sync without type and name where both must be": Case(sync("nosuch", protocol_type=None, protocol_name=None), 5),
    "beat without a group": Case(heartbeat("")),
    "beat in an unknown group": Case(heartbeat("nosuch")),
    "leave no group": Case(leave("", ("nobody", None)), 5),
    "leave an unknown group": Case(leave("nosuch", ("nobody", None)), 5),
    "leave an unknown group in the old way": Case(LeaveGroupRequest(group_id="nosuch", member_id="nobody"), 2),
    "leave with nobody": Case(leave("nosuch"), 5),
    "report without a group": Case(report(""), 1),
    "report without a member": Case(report("c1", ""), 1),
    "report with an empty instance": Case(report("c1", instance_id=""), 1),
    "report with an empty rack": Case(report("c1", rack_id=""), 1),
    "report without a time-out": Case(report("c1", rebalance_timeout_ms=-1), 1),
    "report with a time-out of nothing": Case(report("c2", rebalance_timeout_ms=0), 1),
    "report partitions when joining": Case(report("c1", topic_partitions=[TopicPartitions(topic_id=UNKNOWN_ID, partitions=[1])]), 1),
    "report without a subscription": Case(report("c1", subscribed_topic_names=None), 1),
    "report an unknown assignor": Case(report("c1", server_assignor="best"), 1),
    "report an unknown assignor in an unknown group": Case(report("c1", epoch=5, server_assignor="best"), 1),
    "report an unknown assignor when leaving": Case(report("c1", epoch=-1, server_assignor="best"), 1),
    "report an assignor without a name": Case(report("c1", server_assignor=""), 1),
    "report an unknown assignor and a wrong expression": Case(report("c1", server_assignor="best", subscribed_topic_regex="("), 1),
    "leave for a while without a member, in the old way": Case(report("c1", "", epoch=-2), 0),
    "leave for a while as an instance without a member, in the old way": Case(report("c1", "", epoch=-2, instance_id="i"), 0),
    "leave without a member, in the old way": Case(report("c1", "", epoch=-1), 0),
    "report a wrong expression": Case(report("c1", subscribed_topic_regex="(", subscribed_topic_names=None), 1),
    "report an epoch below all": Case(report("c1", epoch=-3), 1),
    "report an epoch of an unknown group": Case(report("c1", epoch=5), 1),
    "leave an unknown consumer group": Case(report("c1", epoch=-1), 1),
    "leave for a while without an instance": Case(report("c1", epoch=-2), 1),
    "describe unknown groups": Case(DescribeGroupsRequest(groups=["nosuch"])),
    "describe the group without a name": Case(DescribeGroupsRequest(groups=[""])),
    "describe none": Case(DescribeGroupsRequest(groups=[])),
    "describe with rights": Case(DescribeGroupsRequest(groups=["nosuch"], include_authorized_operations=True), 6),
    "describe unknown consumer groups": Case(ConsumerGroupDescribeRequest(group_ids=["nosuch", ""], include_authorized_operations=False)),
    "delete unknown groups": Case(DeleteGroupsRequest(groups_names=["nosuch", ""])),
    "delete none": Case(DeleteGroupsRequest(groups_names=[])),
    "list in a state that there is not": Case(ListGroupsRequest(states_filter=["Nowhere"]), 5),
    "list of a type that there is not": Case(ListGroupsRequest(types_filter=["Nothing"]), 5),
    "delete offsets of an unknown group": Case(delete_offsets("nosuch", TOPIC, 0)),
    "delete offsets without a group": Case(delete_offsets("", TOPIC, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_needs_no_group(groups: Both, name: str) -> None:
    case = CASES[name]
    for version in type(case.request).VERSIONS if case.version is None else [case.version]:
        learn = "new" if isinstance(case.request, JoinGroupRequest) and not case.request.member_id else ""
        groups.ask(lambda _: case.request, version, ignoring=case.known, learn=learn)


def test_offsets_of_a_group_without_members(groups: Both) -> None:
    for version in OffsetCommitRequest.VERSIONS:
        group = f"simple-{version}"
        groups.ask(commit(group, 5, partitions=(0, 1), text="half way"), version)
        groups.ask(commit(group, 5, epoch=3, member_id="nobody"), version)
        groups.ask(commit(group, 5, member_id="nobody"), version)
        groups.ask(commit(group, 5, topic="nosuch"), version)
        groups.ask(commit(group, 5, topic=""), version)
        groups.ask(commit(group, 5, text="x" * 5_000), version)
        groups.ask(commit(group, 5, partitions=(7,)), version)
        groups.ask(commit(group, 5, partitions=(-1,)), version)
        groups.ask(commit(group, -5, partitions=(2,)), version)
        groups.ask(commit(group, 5, partitions=()), version)
        groups.ask(commit("", 5), version)
    for version in OffsetFetchRequest.VERSIONS:
        for group in ("simple-8", "nosuch", ""):
            groups.ask(fetch(group, version=version), version)
            groups.ask(fetch(group, (), version=version), version)
            groups.ask(fetch(group, (0, 0), version=version), version)
            groups.ask(fetch(group, (0,), version=version, topic="nosuch"), version)
            if version >= 2:
                groups.ask(fetch(group, None, version=version), version)
        if version >= 9:
            groups.ask(fetch("simple-8", version=version, member_id="nobody", member_epoch=3), version)
    several = [OffsetFetchRequestGroup(group_id=one, topics=None) for one in ("simple-8", "nosuch", "simple-9")]
    groups.ask(lambda _: OffsetFetchRequest(groups=several), 9)
    groups.ask(lambda _: OffsetFetchRequest(groups=[]), 9)
    groups.ask(lambda _: delete_offsets("simple-8", TOPIC, 1, 2))
    groups.ask(lambda _: delete_offsets("simple-8", "nosuch", 1))
    groups.ask(fetch("simple-8", None))
    for version in ListGroupsRequest.VERSIONS:
        groups.ask(lambda _: ListGroupsRequest(), version)
    for version in DescribeGroupsRequest.VERSIONS:
        groups.ask(lambda _: DescribeGroupsRequest(groups=["simple-8"]), version)
    groups.ask(lambda _: ConsumerGroupDescribeRequest(group_ids=["simple-8"], include_authorized_operations=False))
    for version in DeleteGroupsRequest.VERSIONS:
        groups.ask(lambda _: DeleteGroupsRequest(groups_names=["simple-8", "simple-9", "nosuch"]), version)
    groups.ask(fetch("simple-8", None))


@pytest.mark.parametrize("version", JoinGroupRequest.VERSIONS)
def test_a_life_of_a_classic_group(groups: Both, version: int) -> None:
    group, name = f"life-{version}", f"a{version}"
    groups.ask(lambda _: join(group), version, learn=name)
    if version >= 4:
        groups.ask(lambda side: join(group, side[name]), version, learn=name)
    sync_version = min(version, 5)
    groups.ask(lambda side: sync(group, side[name], 2), sync_version)
    groups.ask(
        lambda side: sync(group, side[name], 1, {side[name]: b"mine"}, protocol_type="consumer", protocol_name="range"), sync_version
    )
    groups.ask(lambda side: sync(group, side[name], 1, protocol_type="consumer", protocol_name="sticky"), 5)
    groups.ask(lambda side: sync(group, side[name], 1, protocol_type="connect", protocol_name="range"), 5)
    groups.ask(lambda side: sync(group, side[name], 1), 3)
    for generation_id in (1, 0, 2, -1):
        groups.ask(lambda side: heartbeat(group, side[name], generation_id), min(version, 4))  # noqa: B023  asked at once
    groups.ask(lambda side: heartbeat(group, side[name], 1, group_instance_id="i"), 4)
    groups.ask(lambda side: join(group, side[name]), version)
    groups.ask(lambda side: sync(group, side[name], 2, {side[name]: b"again"}), 3)
    groups.ask(lambda side: join(group, side[name], protocol_type="connect"), version)
    groups.ask(lambda side: join(group, side[name], names=("other",)), version)
    for epoch in (2, 1, 3, -1):
        groups.ask(commit(group, 3, member_id=name, epoch=epoch), 9)
    groups.ask(commit(group, 3), 9)
    groups.ask(commit(group, 3, member_id="nobody", epoch=2), 9)
    groups.ask(commit(group, 3, member_id="nobody", epoch=2, group_instance_id="i"), 9)
    for seen in DescribeGroupsRequest.VERSIONS:
        groups.ask(lambda _: DescribeGroupsRequest(groups=[group]), seen)
    groups.ask(lambda _: ListGroupsRequest(states_filter=["Stable"], types_filter=["classic"]), 5)
    groups.ask(lambda _: ListGroupsRequest(states_filter=["STABLE"]), 5)
    groups.ask(lambda _: DeleteGroupsRequest(groups_names=[group]))
    groups.ask(lambda _: delete_offsets(group, TOPIC, 0))
    groups.ask(lambda _: report(group, epoch=3))
    groups.ask(lambda side: leave(group, (side[name], "i"), ("nobody", None), ("", "i")), 5)
    groups.ask(lambda side: leave(group, (side[name], None), (side[name], None)), 5)
    groups.ask(lambda _: DescribeGroupsRequest(groups=[group]))
    groups.ask(commit(group, 4, member_id="nobody", epoch=2), 9)
    groups.ask(commit(group, 4, epoch=-1), 9)
    groups.ask(lambda _: delete_offsets(group, TOPIC, 0))
    groups.ask(lambda _: DeleteGroupsRequest(groups_names=[group]))


def test_members_come_and_go_and_the_group_is_full(groups: Both) -> None:
    group = "crowd"
    with ThreadPoolExecutor(8) as pool:
        for name in ("a", "b", "c", "d"):
            groups.ask(lambda _: join(group), learn=name, by=name)
        groups.ask(lambda side: leave(group, *((side[one], None) for one in "bcd")))
        groups.ask(lambda side: join(group, side["a"]), by="a")
        groups.ask(lambda side: sync(group, side["a"], 1, {side["a"]: b"all"}))
        for name in ("b", "c"):
            groups.ask(lambda _: join(group), learn=name, by=name)
        second = groups.ask_later(pool, lambda side: join(group, side["b"]), by="b")
        third = groups.ask_later(pool, lambda side: join(group, side["c"]), by="c")
        while any(side.ask(heartbeat(group, side["a"], 1), 4).error_code == 0 for side in (groups.ours, groups.theirs)):
            pass
        groups.ask(lambda side: heartbeat(group, side["a"], 1))
        groups.ask(lambda side: sync(group, side["a"], 1))
        groups.ask(commit(group, 3, member_id="a", epoch=1), 9)
        groups.ask(lambda _: DescribeGroupsRequest(groups=[group]), ignoring=["groups.members"])
        groups.ask(lambda side: join(group, side["a"]), by="a", ignoring=["members"])
        second(), third()
        groups.ask(commit(group, 3, member_id="a", epoch=2), 9)
        waiting = groups.ask_later(pool, lambda side: sync(group, side["b"], 2), by="b")
        groups.ask(lambda side: sync(group, side["a"], 2, {side[one]: one.encode() for one in "ab"}))
        waiting()
        groups.ask(lambda side: sync(group, side["c"], 2))
        groups.ask(lambda _: join(group), learn="d", by="d", ignoring=["member_id"])
        groups.ask(lambda _: join(group, "", group_instance_id="static"), by="d")
        groups.ask(lambda _: DescribeGroupsRequest(groups=[group]), ignoring=["groups.members.client_host"])
        groups.ask(lambda side: leave(group, *((side[one], None) for one in "abc")))


def test_static_members_are_fenced_and_come_back(groups: Both) -> None:
    group, instance = "static", {"group_instance_id": "i"}
    groups.ask(lambda _: join(group, **instance), learn="s1")
    groups.ask(lambda side: sync(group, side["s1"], 1, {side["s1"]: b"all"}, **instance))
    groups.ask(lambda side: heartbeat(group, side["s1"], 1, **instance))
    groups.ask(lambda _: join(group, **instance), learn="s2")
    groups.ask(lambda side: heartbeat(group, side["s1"], 1, **instance))
    groups.ask(lambda side: heartbeat(group, side["s1"], 1))
    groups.ask(lambda side: sync(group, side["s1"], 1, **instance))
    groups.ask(lambda side: join(group, side["s1"], **instance))
    groups.ask(commit(group, 3, member_id="s1", epoch=1, **instance), 9)
    groups.ask(commit(group, 3, member_id="s2", epoch=1, **instance), 9)
    groups.ask(lambda side: sync(group, side["s2"], 1, **instance))
    groups.ask(lambda side: heartbeat(group, side["s2"], 1, group_instance_id="other"))
    groups.ask(lambda _: join(group, **instance), 8, learn="s3")
    groups.ask(lambda side: leave(group, (side["s1"], "i")))
    groups.ask(lambda side: leave(group, ("", "other"), ("", "i")))
    groups.ask(lambda _: DescribeGroupsRequest(groups=[group]))


def test_a_life_of_a_consumer_group(groups: Both) -> None:
    group = "modern"
    on = {"by": "modern"}

    def holding(side: Side, *partitions: int) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=side.topic_id, partitions=list(partitions))] if partitions else []

    groups.ask(lambda _: report(group, "a"), **on)
    groups.ask(lambda side: report(group, "a", 2, topic_partitions=holding(side, 0, 1, 2)), **on)
    groups.ask(lambda _: report(group, "a", 2), **on)
    for epoch in (1, 3, 7):
        groups.ask(lambda _: report(group, "a", epoch), **on)  # noqa: B023  asked at once
    groups.ask(lambda _: report(group, "nobody", 2), **on)
    groups.ask(lambda _: report(group, "a", 2, server_assignor="best"), **on)
    groups.ask(lambda _: report(group, "a", 2, server_assignor="range"), **on)
    for version in (8, 9, 10):
        for epoch in (2, 3, 1, -1):
            groups.ask(commit(group, 3, member_id="a", epoch=epoch), version)
        groups.ask(commit(group, 3, member_id="nobody", epoch=2), version)
        groups.ask(commit(group, 3), version)
    for epoch in (3, 2, 0, -1):
        groups.ask(fetch(group, member_id="a", member_epoch=epoch), 10)
    groups.ask(fetch(group, member_id="nobody", member_epoch=3), 10)
    groups.ask(fetch(group), 10)
    for version in ConsumerGroupDescribeRequest.VERSIONS:
        groups.ask(
            lambda _: ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False),
            version,
            ignoring=["groups.members.client_host"],
        )
    for version in DescribeGroupsRequest.VERSIONS:
        groups.ask(lambda _: DescribeGroupsRequest(groups=[group]), version)
    groups.ask(lambda _: ListGroupsRequest(types_filter=["consumer"]), 5)
    groups.ask(lambda _: DeleteGroupsRequest(groups_names=[group]))
    groups.ask(lambda _: delete_offsets(group, TOPIC, 0))
    groups.ask(lambda _: heartbeat(group, "a", 2))
    groups.ask(lambda _: sync(group, "a", 2))
    groups.ask(lambda _: leave(group, ("nobody", None), ("", "i")))
    groups.ask(lambda _: join(group, protocol_type="connect"))
    groups.ask(lambda _: report(group, "s1", instance_id="i"), **on)
    kept, _ = groups.ask(lambda side: report(group, "a", 2, topic_partitions=holding(side, 0, 1, 2)), **on)
    left = kept.assignment.topic_partitions[0].partitions
    moved, _ = groups.ask(lambda side: report(group, "a", 2, topic_partitions=holding(side, *left)), **on)
    assert moved.member_epoch == 3
    for epoch in (3, 2, 1):
        groups.ask(commit(group, 3, member_id="a", epoch=epoch, partitions=(0, 1, 2)), 10)
        groups.ask(fetch(group, member_id="a", member_epoch=epoch), 10)
    groups.ask(lambda _: report(group, "s2", instance_id="i"), **on)
    groups.ask(lambda _: report(group, "s2", 3, instance_id="i"), **on)
    groups.ask(lambda _: report(group, "s1", -2, instance_id="i"), **on)
    groups.ask(lambda _: report(group, "s2", instance_id="i"), **on)
    groups.ask(lambda _: report(group, "s1", -2, instance_id="i"), **on)
    groups.ask(lambda _: report(group, "third"), **on)
    groups.ask(lambda _: report(group, "fourth"), **on)
    groups.ask(lambda _: leave(group, ("third", None), ("third", None), ("s1", "i")))
    for member_id in ("third", "a", "a"):
        groups.ask(lambda _: report(group, member_id, -1), **on)  # noqa: B023  asked at once
    groups.ask(lambda _: report(group, "s2", -1, instance_id="i"), **on)
    groups.ask(lambda _: ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False))
    groups.ask(commit(group, 4, member_id="a", epoch=3), 10)
    groups.ask(commit(group, 4), 10)
    groups.ask(lambda _: DeleteGroupsRequest(groups_names=[group]))
    groups.ask(lambda _: ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False))


@pytest.mark.parametrize("version", JoinGroupRequest.VERSIONS)
def test_a_protocol_without_a_name(groups: Both, version: int) -> None:
    group, name = f"nameless-{version}", f"nameless{version}"
    groups.ask(lambda _: join(group, names=("",)), version, learn=name)
    if version >= 4:
        groups.ask(lambda side: join(group, side[name], names=("",)), version, learn=name)


def test_assignments_are_shown_while_the_group_rebalances(groups: Both) -> None:
    def described() -> list[tuple[Any, ...]]:
        _, theirs = groups.ask(lambda _: DescribeGroupsRequest(groups=["moving"]), 5)
        (group,) = theirs.groups
        return [(group.group_state, sorted(member.member_assignment for member in group.members))]

    groups.ask(lambda _: join("moving"), 9, learn="old")
    groups.ask(lambda side: join("moving", side["old"]), 9)
    groups.ask(lambda side: sync("moving", side["old"], 1, {side["old"]: b"mine"}), 5)
    groups.ask(lambda _: join("moving"), 9, learn="newer")
    with ThreadPoolExecutor(2) as pool:
        joined = groups.ask_later(pool, lambda side: join("moving", side["newer"]), by="newer")
        for side in (groups.ours, groups.theirs):
            deadline = time.monotonic() + PATIENCE_S
            while side.ask(DescribeGroupsRequest(groups=["moving"]), 5).groups[0].group_state != "PreparingRebalance":
                assert time.monotonic() < deadline
        assert described() == [("PreparingRebalance", [b"", b"mine"])]
        groups.ask(lambda side: join("moving", side["old"]), 9)
        joined()
        assert described() == [("CompletingRebalance", [b"", b"mine"])]
        groups.ask(lambda side: leave("moving", (side["newer"], None)), 5)
        assert described() == [("PreparingRebalance", [b""])]
        groups.ask(lambda side: leave("moving", (side["old"], None)), 5)


def test_an_assignment_that_is_too_large_is_followed_by_a_rebalance(groups: Both) -> None:
    groups.ask(lambda _: join("large"), 9, learn="large")
    groups.ask(lambda side: join("large", side["large"]), 9)
    ours, theirs = (
        side.ask(sync("large", side["large"], 1, {side["large"]: b"x" * 1_200_000}), 5) for side in (groups.ours, groups.theirs)
    )
    assert (ours.error_code, theirs.error_code) == (10, -1)
    groups.ask(lambda side: heartbeat("large", side["large"], 1), 4)
    groups.ask(lambda side: join("large", side["large"]), 9)
    groups.ask(lambda side: sync("large", side["large"], 2, {side["large"]: b"small"}), 5)
    groups.ask(lambda side: leave("large", (side["large"], None)), 5)
