"""Plans of kafka-reassign-partitions and lists of kafka-leader-election: files, throttles and progress."""

import json
from pathlib import Path

import pytest

from moldau.clients.admin.partitions import ElectionType, Replica, ReplicaFolders
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.list_partition_reassignments import OngoingPartitionReassignment
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka import leader_election
from moldau.tools.cli.kafka import reassign_partitions as tool
from moldau.tools.cli.kafka import reassignment as plans
from moldau.tools.cli.kafka.reassignment import Move, PlanError
from moldau.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def a_row(where: TopicPartition, replicas: list[int], **more: object) -> dict[str, object]:
    return {"topic": where.topic, "partition": where.partition, "replicas": replicas, **more}


def a_plan(*rows: dict[str, object], version: int = 1) -> str:
    return json.dumps({"version": version, "partitions": rows})


def ongoing(replicas: list[int], adding: list[int], removing: list[int]) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(partition_index=0, replicas=replicas, adding_replicas=adding, removing_replicas=removing)


def test_a_plan_is_read_and_written() -> None:
    text = a_plan(a_row(T0, [2, 1], log_dirs=["any", "/b"]), a_row(U0, [3]))
    plan = plans.read_plan(text)
    assert plan == ([(T0, [2, 1]), (U0, [3])], {Replica("t", 0, 1): "/b"})
    assert plan.topics == ["t", "u"]
    again = plans.plan_json(plans.targets_of(plan), plan.folders)
    assert again == (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1],"log_dirs":["any","/b"]},'
        '{"topic":"u","partition":0,"replicas":[3],"log_dirs":["any"]}]}'
    )
    assert plans.read_plan(again) == plan


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "The input string is not a valid JSON"),
        ("[]", "The input string is not a valid JSON"),
        (a_plan(a_row(T0, [1]), version=2), "Not supported version field value 2"),
        (a_plan(), "Partition reassignment list cannot be empty"),
        (a_plan(a_row(T0, [])), "Partition replica list cannot be empty"),
        (a_plan(a_row(T0, [1]), a_row(T0, [2])), "Partition reassignment contains duplicate topic partitions: t-0"),
        (a_plan(a_row(T0, [1, 1])), "Partition replica lists may not contain duplicate entries: t-0 contains multiple entries for 1"),
        (a_plan(a_row(T0, [1], log_dirs=[])), "Size of replicas list [1] is different from size of log dirs list [] for partition t-0"),
        (a_plan({"topic": "t"}), "is not of the form that --help shows: KeyError: 'partition'"),
        (a_plan({"topic": "t", "partition": 0, "replicas": 1}), "is not of the form that --help shows: TypeError"),
        ('{"partitions": 1}', '"partitions" is not a list'),
    ],
)
def test_what_is_wrong_with_a_plan(text: str, says: str) -> None:
    with pytest.raises(PlanError) as error:
        plans.targets_of(plans.read_plan(text))
    assert says in str(error.value)


def test_what_is_to_be_moved_where() -> None:
    assert plans.read_topics('{"topics": [{"topic": "a"}, {"topic": "b"}]}') == ["a", "b"]
    assert plans.read_brokers("2,1") == [2, 1]
    for read, text, says in (
        (plans.read_topics, '{"topics": [{"topic": "a"}, {"topic": "a"}]}', "List of topics to reassign contains duplicate entries: [a]"),
        (plans.read_topics, '{"topics": [{}]}', "The topics are not of the form"),
        (plans.read_brokers, "1,2,1", "Broker list contains duplicate entries: [1]"),
        (plans.read_brokers, "1,x", "--broker-list 1,x is not a list of numbers"),
    ):
        with pytest.raises(PlanError) as error:
            read(text)
        assert says in str(error.value)


def test_sources_and_destinations_are_held_back() -> None:
    moves = plans.moves_of({T1: ongoing([1, 2, 3], [3], [1])}, {T0: [2, 4], T1: [5]}, {T0: [1, 2]})
    assert moves == {
        T1: Move(frozenset({1, 2}), frozenset({5})),  # the new target counts, and the sources stay
        T0: Move(frozenset({1, 2}), frozenset({4})),
    }
    assert plans.throttled_replicas(moves, "leader") == {"t": "0:1,0:2,1:1,1:2"}
    assert plans.throttled_replicas(moves, "follower") == {"t": "0:4,1:5"}
    assert plans.moving_brokers(moves) == [1, 2, 4, 5]


def test_how_far_partitions_are() -> None:
    assert plans.partition_line(T0, [1], [1], is_moving=True) == "Reassignment of partition t-0 is still in progress."
    assert plans.partition_line(T0, [1], [1], is_moving=False) == "Reassignment of partition t-0 is completed."
    assert plans.partition_line(T0, [1, 2], [2, 1], is_moving=False) == (
        "There is no active reassignment of partition t-0, but replica set is 1,2 rather than 2,1."
    )
    assert plans.ongoing_lines({}) == ["No partition reassignments found."]
    assert plans.ongoing_lines({U0: ongoing([1, 2], [2], [1]), T0: ongoing([1], [], [])}) == [
        "Current partition reassignments:",
        "t-0: replicas: 1.",
        "u-0: replicas: 1,2. adding: 2. removing: 1.",
    ]


@pytest.mark.parametrize(
    ("folders", "says"),
    [
        (
            ReplicaFolders(),
            "Partition t-0 is not found in any live log dir on broker 1. There is likely an offline log directory on the broker.",
        ),
        (ReplicaFolders("/a", "/b"), "Reassignment of replica t-0-1 is still in progress."),
        (ReplicaFolders("/a", "/c"), "Partition t-0 on broker 1 is being moved to log dir /c instead of /b."),
        (ReplicaFolders("/b"), "Reassignment of replica t-0-1 completed successfully."),
        (ReplicaFolders("/a"), "Partition t-0 on broker 1 is not being moved from log dir /a to /b."),
    ],
)
def test_how_far_replicas_are(folders: ReplicaFolders, says: str) -> None:
    assert plans.replica_line(Replica("t", 0, 1), folders, "/b") == says


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("-B --list --verify", "Command must include exactly one action: --generate, --execute, --verify, --cancel, --list"),
        ("--list", "Please specify either --bootstrap-server or --bootstrap-controller"),
        ("-B --bootstrap-controller x:1 --list", "Please don't specify both"),
        ("-B --verify", 'Missing required argument "[reassignment-json-file]"'),
        ("-B --generate --topics-to-move-json-file f", 'Missing required argument "[broker-list]"'),
        ("-B --list --timeout 0", 'Option "[timeout]" can\'t be used with action "[list]"'),
        ("-B --verify --reassignment-json-file f --additional", 'Option "[additional]" can\'t be used with action "[verify]"'),
        ("--bootstrap-controller x:1 --execute --reassignment-json-file f", 'Option "[bootstrap-controller]" can\'t be used with action'),
    ],
)
def test_options_of_the_actions(command: str, says: str) -> None:
    with pytest.raises(Failure) as failure:
        tool.main(command.replace("-B", "--bootstrap-server 127.0.0.1:1").split())
    assert says in failure.value.what


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("--topic t --partition 0", "Missing required option(s): bootstrap-server, election-type"),
        ("-B", "One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file"),
        ("-B --all-topic-partitions --topic t", "One and only one of the following options is required"),
        ("-B --topic t", "Missing required option(s): partition"),
        ("-B --all-topic-partitions --partition 0", "Option partition is only allowed if topic is used"),
    ],
)
def test_options_of_an_election(command: str, says: str) -> None:
    with pytest.raises(Failure) as failure:
        leader_election.main(command.replace("-B", "--bootstrap-server 127.0.0.1:1 --election-type PREFERRED").split())
    assert failure.value.what.startswith(says)


def test_partitions_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text('{"partitions": [{"topic": "t", "partition": 1}, {"topic": "u", "partition": 0}]}')
    assert leader_election.read_partitions(str(path)) == [T1, U0]
    for text, says in (
        ("{}", 'Replica election data is missing "partitions" field'),
        ('{"partitions": [{"topic": "t", "partition": 1}, {"topic": "t", "partition": 1}]}', "contains duplicate partitions: [t-1]"),
        ('{"partitions": [{}]}', "is not of the form that --help shows"),
        ("x", "is not of the form that --help shows"),
    ):
        path.write_text(text)
        with pytest.raises(Failure) as failure:
            leader_election.read_partitions(str(path))
        assert says in failure.value.what


def test_what_became_of_an_election(capsys: pytest.CaptureFixture[str]) -> None:
    needless, unknown = KafkaError(ErrorCode.ELECTION_NOT_NEEDED), KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as u")
    leader_election.tell(ElectionType.PREFERRED, {T1: None, T0: None, U0: needless})
    assert capsys.readouterr().out == (
        "Successfully completed leader election (PREFERRED) for partitions t-0, t-1\nValid replica already elected for partitions u-0\n"
    )
    with pytest.raises(Failure, match=r"1 replica\(s\) could not be elected"):
        leader_election.tell(ElectionType.UNCLEAN, {U0: unknown})
    assert capsys.readouterr().out == (
        "Error completing leader election (UNCLEAN) for partition: u-0: "
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: No such topic as u\n"
    )
