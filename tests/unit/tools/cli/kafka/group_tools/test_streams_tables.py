"""Tables of streams groups, as Kafka 4.3.1's tool was seen to print them, and the rules of its options."""

import pytest

from moldau.clients.admin.streams_groups import StreamsGroupDescription, StreamsMember, Subtopology, Tasks
from moldau.clients.view import Node
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.group_tools import streams_tables as tables
from moldau.tools.cli.kafka.streams_groups import INTERNAL_NAME, main
from moldau.types import TopicPartition

NOTHING = Tasks({}, {}, {})
GROUP = StreamsGroupDescription(
    "word-count",
    "Stable",
    Node(1, "127.0.0.1", 43629),
    4,
    4,
    0,
    {"0": Subtopology(["lines"], [], []), "1": Subtopology([], ["words"], ["counts"])},
    [
        StreamsMember("m2", "process", "two", "/127.0.0.1", 4, Tasks({"0": [1]}, {"1": [0]}, {}), NOTHING),
        StreamsMember("m1", "process", "one", "/127.0.0.1", 4, Tasks({"0": [0], "1": [0, 1]}, {}, {}), Tasks({"0": [0]}, {}, {})),
    ],
)


def test_offsets() -> None:
    rows = [tables.PartitionRow(TopicPartition("lines", 0), 7, 0, 10, 3), tables.PartitionRow(TopicPartition("lines", 1), None, None, 5, 5)]
    assert tables.offset_lines("word-count", rows, verbose=False) == [
        "GROUP           TOPIC           PARTITION  OFFSET-LAG",
        "word-count      lines           0          3",
        "word-count      lines           1          5",
    ]
    assert tables.offset_lines("word-count", rows, verbose=True) == [
        "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LEADER-EPOCH    LOG-END-OFFSET  OFFSET-LAG     ",
        "word-count      lines           0          7               0               10              3              ",
        "word-count      lines           1          -               -               5               5              ",
    ]


def test_state_and_members() -> None:
    assert tables.state_lines(GROUP, verbose=False) == [
        "GROUP           COORDINATOR (ID)          STATE                     #MEMBERS",
        "word-count      127.0.0.1:43629 (1)       Stable                    2",
    ]
    assert tables.member_lines(GROUP, verbose=False) == [
        "GROUP           MEMBER          PROCESS         CLIENT-ID       ASSIGNMENTS",
        "word-count      m1              process         one             ACTIVE: 0:[0]; 1:[0,1]; ",
        "word-count      m2              process         two             ACTIVE: 0:[1]; STANDBY: 1:[0]; ",
    ]
    assert tables.member_lines(GROUP, verbose=True)[1] == (
        "word-count      4                         0              m1              streams         4               process         one"
        "             ACTIVE: 0:[0]; 1:[0,1]; TARGET-ACTIVE: 0:[0]; "
    )
    assert GROUP.read_by(GROUP.members[1]) == [TopicPartition("lines", 0), TopicPartition("words", 0), TopicPartition("words", 1)]
    assert (GROUP.input_topics(), GROUP.internal_topics()) == ({"lines"}, {"words", "counts"})


@pytest.mark.parametrize("name", ["g-counts-changelog", "g-words-repartition", "g-X-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000004-topic"])
def test_internal_topics_are_known_by_their_names(name: str) -> None:
    assert INTERNAL_NAME.fullmatch(name)
    assert not INTERNAL_NAME.fullmatch(name + "s")


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("--describe", "Option [describe] takes one of these options: [all-groups], [group]"),
        ("--describe --group g --members --state", "Option [describe] takes at most one of these options: [members], [offsets], [state]"),
        ("--list --members", "Option(s) [members] are unavailable given other options on the command line"),
        ("--list --state Nosuch", "Invalid state list 'Nosuch'."),
        ("--delete --group g --input-topic t", "Kafka Streams does not support topic-specific offset deletion from a streams group."),
        (
            "--delete-offsets --group g",
            "Option [delete-offsets] takes the [group] and one of these options: [all-input-topics], [input-topic]",
        ),
        ("--reset-offsets --group g", "Option [reset-offsets] takes the option: [execute] or [dry-run]"),
        ("--reset-offsets --group g --dry-run --to-latest", "One of the reset scopes should be defined: --all-topics, --topic."),
        (
            "--reset-offsets --group g --dry-run --all-input-topics --to-latest --to-earliest",
            'Option "[to-earliest]" can\'t be used with option "[to-latest]"',
        ),
        (
            "--reset-offsets --group g --dry-run --all-input-topics --to-latest --delete-all-internal-topics",
            "Option [delete-all-internal-topics] takes [execute] when [reset-offsets] is used.",
        ),
        ("--list --execute", "Only Option [reset-offsets] accepts [execute] or [dry-run]"),
        ("--delete --group g --all-groups", 'Option "[group]" can\'t be used with option "[all-groups]"'),
        ("--state", "Option(s) [state] are unavailable given other options on the command line"),
        ("--list --delete --all-groups", "Command must include exactly one action"),
    ],
)
def test_options_that_do_not_go_together(command: str, wrong: str) -> None:
    with pytest.raises(Failure) as failure:
        main(["--bootstrap-server", "localhost:1", *command.split()])
    assert failure.value.what.startswith(wrong)
