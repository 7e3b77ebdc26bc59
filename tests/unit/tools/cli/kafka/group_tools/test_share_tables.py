"""Tables of share groups, as Kafka 4.3.1's tool was seen to print them, and the rules of its options."""

import pytest

from moldau.clients.admin.share_groups import ShareGroupDescription, ShareMember, ShareOffset
from moldau.clients.view import Node
from moldau.protocol.messages.list_groups import ListedGroup
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.group_tools import share_tables as tables
from moldau.tools.cli.kafka.share_groups import main
from moldau.types import TopicPartition

T0, T1 = TopicPartition("jobs", 0), TopicPartition("jobs", 1)
GROUP = ShareGroupDescription(
    "printers",
    "Stable",
    "simple",
    Node(1, "127.0.0.1", 43629),
    [ShareMember("m2", "two", "/127.0.0.1", None, 3, []), ShareMember("m1", "one", "/127.0.0.1", None, 4, [T1, T0])],
    4,
    4,
)


def test_offsets() -> None:
    offsets = {T1: ShareOffset(None, None, None), T0: ShareOffset(7, 0, 3)}
    assert tables.offset_lines("printers", offsets, verbose=False) == [
        "GROUP           TOPIC           PARTITION  START-OFFSET  LAG",
        "printers        jobs            0          7             3",
        "printers        jobs            1          -             -",
    ]
    assert tables.offset_lines("printers", offsets, verbose=True)[0].split()[3:] == ["LEADER-EPOCH", "START-OFFSET", "LAG"]


def test_state_and_members() -> None:
    assert tables.state_lines(GROUP, verbose=True) == [
        "GROUP           COORDINATOR (ID)          STATE           GROUP-EPOCH  ASSIGNMENT-EPOCH  #MEMBERS",
        "printers        127.0.0.1:43629  (1)      Stable          4            4                 2",
    ]
    assert tables.member_lines(GROUP, verbose=False) == [
        "GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS  ASSIGNMENT",
        "printers        m1              /127.0.0.1      one             2            jobs:0,1",
        "printers        m2              /127.0.0.1      two             0            ",
    ]


def test_lists() -> None:
    listed = ListedGroup(group_id="a-group-with-a-long-name", protocol_type="share", group_state="Empty", group_type="share")
    assert tables.listing_lines([listed]) == ["GROUP                    STATE", "a-group-with-a-long-name Empty"]
    assert tables.deleted_lines([("jobs", "Successful")]) == ["TOPIC           STATUS", "jobs            Successful"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--list", "Missing required argument"),
        ("--list --delete --all-groups -B", "exactly one action"),
        ("--describe -B", "Option [describe] takes one of these options: [all-groups], [group]"),
        ("--describe --group g --members --state -B", "takes at most one of these options"),
        ("--describe --group g --state Empty -B", "does not take a value for [state]"),
        ("--delete -B", "Option [delete] takes the options [group] or [all-groups]"),
        ("--delete --group g --topic t -B", "does not take the option: [topic]"),
        ("--delete-offsets --group g -B", "Option [delete-offsets] takes the following options: [group], [topic]"),
        ("--reset-offsets --group g --all-topics --to-latest -B", "takes the option: [execute] or [dry-run]"),
        ("--reset-offsets --group g --all-topics --execute -B", "[to-datetime], [to-earliest], [to-latest]"),
        ("--reset-offsets --group g --dry-run --to-latest -B", "[all-topics], [topic]"),
        ("--reset-offsets --group g --all-topics --dry-run --to-latest --to-earliest -B", "can't be used with option"),
        ("--list --state Bogus -B", "Invalid state list 'Bogus'. Valid states are: Empty, Stable, Dead"),
        ("--list --group g -B", 'Option "[group]" can\'t be used with option "[list]"'),
    ],
)
def test_rules_of_the_options(arguments: str, says: str) -> None:
    with pytest.raises(Failure) as refused:
        main(arguments.replace("-B", "--bootstrap-server 127.0.0.1:1").split())
    assert says in str(refused.value)
