"""Tables of groups, as Kafka 4.3.1's tool was seen to print them."""

from moldau.clients.admin.groups import GroupDescription, MemberDescription
from moldau.clients.view import Node
from moldau.protocol.messages.list_groups import ListedGroup
from moldau.tools.cli.kafka.group_tools import tables
from moldau.types import TopicPartition

NODE = Node(1, "127.0.0.1", 43629)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member(**changes: object) -> MemberDescription:
    known = {"member_id": "one-b1d0e7e9", "instance_id": None, "client_id": "one", "host": "/127.0.0.1", "assignment": [T1, T0]}
    return MemberDescription(**{**known, **changes})  # type: ignore[arg-type]


def classic(*members: MemberDescription) -> GroupDescription:
    return GroupDescription("g", "Classic", "Stable", "range", NODE, members)


def test_offsets() -> None:
    rows = [tables.PartitionRow("g-classic", T0, 0, 3, 10, member()), tables.PartitionRow("g-classic", T1, None, None, 10, None)]
    assert tables.offset_lines(rows, verbose=False) == [
        "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             "
        "CONSUMER-ID     HOST            CLIENT-ID",
        "g-classic       t               0          3               10              7               one-b1d0e7e9    /127.0.0.1      one",
        "g-classic       t               1          -               10              -               -               -               -",
    ]


def test_verbose_offsets_have_leader_epochs() -> None:
    header, row = tables.offset_lines([tables.PartitionRow("g", T0, 5, 3, 10, None)], verbose=True)
    assert header.split()[2:5] == ["PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET"]
    assert row.split()[2:5] == ["0", "5", "3"]


def test_state() -> None:
    assert tables.state_lines(classic(member()), verbose=True) == [
        "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                GROUP-EPOCH     "
        "TARGET-ASSIGNMENT-EPOCH   #MEMBERS",
        "g               127.0.0.1:43629  (1)      range                Stable               -               -                         1",
    ]


def test_a_group_without_members_has_no_strategy() -> None:
    _, row = tables.state_lines(GroupDescription("g", "Classic", "Empty", "", NODE, []), verbose=False)
    assert row == "g               127.0.0.1:43629  (1)      -                    Empty                0"


def test_members() -> None:
    assert tables.member_lines(classic(member()), verbose=False) == [
        "GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     ",
        "g               one-b1d0e7e9    /127.0.0.1      one             2               ",
    ]


def test_instance_ids_are_shown_when_somebody_has_one() -> None:
    header, static, dynamic = tables.member_lines(classic(member(instance_id="static-two"), member()), verbose=False)
    assert header.split()[2] == "GROUP-INSTANCE-ID"
    assert static.split()[2:4] == ["static-two", "/127.0.0.1"]
    assert dynamic.split()[2] == "/127.0.0.1"


def test_verbose_members_have_epochs_and_targets() -> None:
    group = GroupDescription("g", "Consumer", "Stable", "uniform", NODE, [member(epoch=3, target=[T0], is_upgraded=True)], 3, 3)
    assert tables.member_lines(group, verbose=True)[1] == (
        "g               one-b1d0e7e9    /127.0.0.1      one             2               3               "
        "t:0,1                3               t:0                 "
    )


def test_upgraded_is_shown_while_somebody_is_not() -> None:
    group = GroupDescription("g", "Consumer", "Stable", "uniform", NODE, [member(epoch=3, target=[], is_upgraded=False)], 3, 3)
    header, row = tables.member_lines(group, verbose=True)
    assert header.endswith("UPGRADED")
    assert row.endswith("false")


def test_list() -> None:
    groups = [ListedGroup(group_id="g", protocol_type="consumer", group_state="Stable", group_type="classic")]
    assert tables.listing_lines(groups, with_type=True, with_state=True) == [
        "GROUP                     TYPE                 STATE               ",
        "g                         Classic              Stable              ",
    ]


def test_assignments_as_text() -> None:
    assert tables.assignment_text([TopicPartition("u", 0), T1, T0]) == "t:0,1;u:0"
    assert tables.assignment_text([]) == "-"


def test_a_group_that_is_not_reset_widens_its_column() -> None:
    assert tables.reset_lines(["a-group-with-a-long-name"], []) == ["GROUP                    TOPIC           PARTITION  NEW-OFFSET"]
