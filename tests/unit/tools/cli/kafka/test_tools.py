"""The pure parts of Kafka's tools: patterns, tables, parsing."""

from argparse import Namespace
from uuid import UUID

import pytest

from moldau.clients.admin.quorum import QuorumDescription
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey
from moldau.protocol.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym
from moldau.protocol.messages.describe_quorum import DescribeQuorumResponsePartitionData, Listener, Node, ReplicaState
from moldau.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from moldau.protocol.messages.list_partition_reassignments import OngoingPartitionReassignment
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.broker_api_versions import api_lines
from moldau.tools.cli.kafka.cluster import endpoint_lines
from moldau.tools.cli.kafka.configs import Entity, config_line, entity_of, parse_added
from moldau.tools.cli.kafka.configs import main as kafka_configs
from moldau.tools.cli.kafka.delete_records import read_offsets
from moldau.tools.cli.kafka.features import feature_lines
from moldau.tools.cli.kafka.get_offsets import parse_topic_partitions
from moldau.tools.cli.kafka.groups import main as kafka_groups
from moldau.tools.cli.kafka.java_errors import PACKAGE, java_error
from moldau.tools.cli.kafka.metadata_quorum import replication_lines, status_lines
from moldau.tools.cli.kafka.options import TopicFilter
from moldau.tools.cli.kafka.topics import PartitionLine, parse_assignment, topic_line
from moldau.tools.cli.main import main as moldau
from moldau.types import TopicPartition

DIRECTORY = UUID(int=0xABC << 64)


def a_partition(**changes: object) -> DescribeTopicPartitionsResponsePartition:
    given = {
        "partition_index": 1,
        "leader_id": 3,
        "replica_nodes": [3, 4],
        "isr_nodes": [3],
        "eligible_leader_replicas": [4],
        "last_known_elr": [],
        "offline_replicas": [],
    }
    return DescribeTopicPartitionsResponsePartition(**{**given, **changes})


def test_partition_lines() -> None:
    assert str(PartitionLine("t", a_partition(), None, True)) == (
        "\tTopic: t\tPartition: 1\tLeader: 3\tReplicas: 3,4\tIsr: 3\tElr: 4\tLastKnownElr: "
    )
    moving = OngoingPartitionReassignment(partition_index=1, replicas=[3, 4], adding_replicas=[4], removing_replicas=[])
    unknown = a_partition(leader_id=-1, eligible_leader_replicas=None, last_known_elr=None)
    line = PartitionLine("t", unknown, moving, False)
    assert str(line) == (
        "\tTopic: t\tPartition: 1\tLeader: none\tReplicas: 3,4\tIsr: 3"
        "\tAdding Replicas: 4\tRemoving Replicas: \tElr: N/A\tLastKnownElr: N/A"
    )
    assert line.replication_factor == 1


def test_partition_filters() -> None:
    def wanted(name: str, *, live: bool = True, minimum: int = 1) -> bool:
        names = ("under_replicated_partitions", "unavailable_partitions", "under_min_isr_partitions", "at_min_isr_partitions")
        return PartitionLine("t", a_partition(), None, live).is_wanted(Namespace(**{one: one == name for one in names}), minimum)

    assert wanted("under_replicated_partitions")
    assert (wanted("unavailable_partitions"), wanted("unavailable_partitions", live=False)) == (False, True)
    assert (wanted("under_min_isr_partitions"), wanted("under_min_isr_partitions", minimum=2)) == (False, True)
    assert (wanted("at_min_isr_partitions"), wanted("at_min_isr_partitions", minimum=2)) == (True, False)


def test_topic_line() -> None:
    topic = DescribeTopicPartitionsResponseTopic(name="t", topic_id=DIRECTORY, partitions=[a_partition()])
    changed = [a_config("retention.ms", "5"), a_config("cleanup.policy", "compact,delete")]
    assert topic_line(topic, [PartitionLine("t", a_partition(), None, True)], changed) == (
        "Topic: t\tTopicId: AAAAAAAACrwAAAAAAAAAAA\tPartitionCount: 1\tReplicationFactor: 2"
        "\tConfigs: retention.ms=5,cleanup.policy=compact,delete"
    )


def test_assignments() -> None:
    assert parse_assignment("1:2,2:1") == [[1, 2], [2, 1]]
    for text, reason in (
        ("1:1", "duplicate entries: 1"),
        ("1,1:2", r"Partition 1 has different replication factor: \[1, 2\]"),
        ("a", "form"),
    ):
        with pytest.raises(Failure, match=reason):
            parse_assignment(text)


def a_config(name: str, value: str | None, **more: object) -> DescribeConfigsResourceResult:
    synonyms = [DescribeConfigsSynonym(name=name, value=value, source=1), DescribeConfigsSynonym(name=f"log.{name}", value="9", source=5)]
    return DescribeConfigsResourceResult(name=name, value=value, read_only=False, is_sensitive=bool(more.get("secret")), synonyms=synonyms)


def test_config_lines() -> None:
    assert config_line(a_config("a", "1")) == "  a=1 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:a=1, DEFAULT_CONFIG:log.a=9}"
    assert config_line(a_config("a", None, secret=True)).startswith("  a=null sensitive=true ")


def test_added_configs() -> None:
    assert parse_added("a=1, b=[x,y],c=") == {"a": "1", "b": "x,y", "c": ""}
    assert parse_added("match=[client_id=a.*,client_software_name=b],c=1") == {"match": "client_id=a.*,client_software_name=b", "c": "1"}
    for text in ("a", "a=b=c", "a=[x],b=c=d"):
        with pytest.raises(Failure, match="key=val"):
            parse_added(text)


def test_added_configs_are_in_a_file_or_in_the_command() -> None:
    both = ["--add-config", "a=1", "--add-config-file", "nosuch.properties"]
    with pytest.raises(Failure, match="Only one of --add-config or --add-config-file must be specified"):
        kafka_configs(["--bootstrap-server", "127.0.0.1:1", "--alter", "--topic", "t", *both])


def options_for(**given: object) -> Namespace:
    names = ["topic", "broker", "broker_logger", "client_metrics", "group", "user", "client", "ip", "entity_type", "entity_name"]
    flags = ["broker_defaults", "user_defaults", "client_defaults", "ip_defaults", "entity_default", "alter", "describe", "all"]
    return Namespace(**{**dict.fromkeys(names), **dict.fromkeys(flags, False), **given})


def test_entities_in_both_spellings() -> None:
    assert entity_of(options_for(topic="t")) == entity_of(options_for(entity_type="topics", entity_name="t")) == Entity("topics", "t")
    assert entity_of(options_for(broker_defaults=True)) == entity_of(options_for(entity_type="brokers", entity_default=True))
    assert entity_of(options_for(entity_type="topics")).name is None
    for given, reason in (
        ({}, "At least one"),
        ({"topic": "t", "broker": "1"}, "Only 'users' and 'clients' entity types may be specified together"),
        ({"broker": "x"}, "valid integer"),
        ({"user": "u"}, "not supported"),
        ({"alter": True, "entity_type": "brokers"}, "An entity-name or default entity must be specified with --alter"),
        ({"alter": True, "entity_type": "topics"}, "An entity name must be specified with --alter of topics"),
        ({"describe": True, "entity_type": "topics", "entity_default": True}, "--entity-default must not be specified with --describe"),
        ({"describe": True, "entity_type": "broker-loggers"}, "An entity name must be specified with --describe of broker-loggers"),
        ({"describe": True, "topic": "no/such"}, "Topic name is invalid: 'no/such' contains"),
    ):
        with pytest.raises(Failure, match=reason):
            entity_of(options_for(**given))


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ("--share --streams", ("share", "streams")),
        ("--share --group-type share", ("share", "group-type")),
        ("--consumer --protocol consumer", ("consumer", "protocol")),
        ("--streams --consumer", ("consumer", "streams")),
    ],
)
def test_groups_are_chosen_in_one_way(given: str, wrong: tuple[str, str]) -> None:
    with pytest.raises(Failure) as failure:
        kafka_groups(["--bootstrap-server", "127.0.0.1:1", "--list", *given.split()])
    assert failure.value.what == f'Option "[{wrong[0]}]" can\'t be used with option "[{wrong[1]}]"'


def test_topic_filters() -> None:
    assert [TopicFilter("a.*, b").matches(name) for name in ("abc", "b", "xb")] == [True, True, False]
    assert not TopicFilter(".*").matches("__consumer_offsets", exclude_internal=True)
    with pytest.raises(Failure, match="invalid regex"):
        TopicFilter("[")


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [("t", [0, 1, 2, 3]), ("t:1", [1]), ("t:1-", [1, 2, 3]), ("t:-2", [0, 1]), ("t:1-3", [1, 2]), (":3", [3]), ("x,t:0", [0]), ("x", [])],
)
def test_topic_partition_patterns(pattern: str, matched: list[int]) -> None:
    wanted = parse_topic_partitions(pattern)
    assert [number for number in range(4) if wanted(TopicPartition("t", number))] == matched


def test_java_errors() -> None:
    assert java_error(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)) == (
        "org.apache.kafka.common.errors.OffsetOutOfRangeException: "
        "The requested offset is not within the range of offsets maintained by the server."
    )
    assert java_error(KafkaError(ErrorCode.INVALID_GROUP_ID)) == f"{PACKAGE}InvalidGroupIdException: The group id is invalid."
    assert java_error(KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, "why")) == f"{PACKAGE}InvalidTxnTimeoutException: why"
    assert java_error(KafkaError(ErrorCode.INVALID_CONFIG, "why")) == "org.apache.kafka.common.errors.InvalidConfigurationException: why"


def a_quorum(*voters: tuple[int, int, int]) -> QuorumDescription:
    def replica(number: int, end: int, caught_up: int) -> ReplicaState:
        return ReplicaState(
            replica_id=number,
            replica_directory_id=DIRECTORY,
            log_end_offset=end,
            last_fetch_timestamp=caught_up,
            last_caught_up_timestamp=caught_up,
        )

    state = DescribeQuorumResponsePartitionData(
        partition_index=0,
        leader_id=1,
        leader_epoch=4,
        high_watermark=90,
        current_voters=[replica(1, 100, 5000), *(replica(*voter) for voter in voters)],
        observers=[replica(7, 80, 4000)],
    )
    return QuorumDescription(state, [Node(node_id=1, listeners=[Listener(name="CONTROLLER", host="::1", port=9093)])])


def test_quorum_status() -> None:
    lines = dict(status_lines("c", a_quorum()))
    assert (lines["MaxFollowerLag"], lines["MaxFollowerLagTimeMs"], lines["HighWatermark"]) == (0, 0, 90), "observers do not count"
    assert lines["CurrentVoters"] == '[{"id": 1, "directoryId": "AAAAAAAACrwAAAAAAAAAAA", "endpoints": ["CONTROLLER://[::1]:9093"]}]'
    assert lines["CurrentObservers"] == '[{"id": 7, "directoryId": "AAAAAAAACrwAAAAAAAAAAA"}]'


@pytest.mark.parametrize(
    ("voters", "lag", "lag_ms"), [([(2, 90, 4500), (3, 95, 4000)], 10, 500), ([(2, 90, -1)], 10, -1), ([(2, 100, 4900)], 0, 0)]
)
def test_quorum_lag(voters: list[tuple[int, int, int]], lag: int, lag_ms: int) -> None:
    lines = dict(status_lines("c", a_quorum(*voters)))
    assert (lines["MaxFollowerLag"], lines["MaxFollowerLagTimeMs"]) == (lag, lag_ms), "the lag is the lag of the voter that has the least"


def test_quorum_replication() -> None:
    title, leader, observer = replication_lines(a_quorum(), None)
    assert title.split("\t")[:4] == ["NodeId", "DirectoryId           ", "LogEndOffset", "Lag"]
    assert [cell.strip() for cell in leader.split("\t")] == ["1", "AAAAAAAACrwAAAAAAAAAAA", "100", "0", "5000", "5000", "Leader", ""]
    assert [cell.strip() for cell in observer.split("\t")][-3:] == ["4000", "Observer", ""]
    assert "2000 ms ago" in replication_lines(a_quorum(), 6000)[2]


def test_endpoints() -> None:
    bare = ("1", "h", "9092", None, "unfenced")
    assert endpoint_lines([bare], "broker", with_state=True) == [
        "ID         HOST PORT       RACK       STATE      ENDPOINT_TYPE  ",
        "1          h 9092       null       unfenced   broker         ",
    ]
    assert endpoint_lines([bare, ("2", "h", "9092", "r1", "unfenced")], "broker", with_state=True) == [
        "ID         HOST PORT       RACK STATE      ENDPOINT_TYPE  ",
        "1          h 9092       null unfenced   broker         ",
        "2          h 9092       r1 unfenced   broker         ",
    ]


def test_features_and_api_versions() -> None:
    response = ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=0, min_version=3, max_version=99), ApiVersion(api_key=9999, min_version=0, max_version=0)],
        supported_features=[SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30)],
        finalized_features=[FinalizedFeatureKey(name="metadata.version", min_version_level=7, max_version_level=25)],
        finalized_features_epoch=12,
    )
    (line,) = feature_lines(response)
    assert line.startswith("Feature: metadata.version  ")
    assert line.split()[2:] == [
        *("SupportedMinVersion:", "3.3-IV3", "SupportedMaxVersion:", "4.3-IV0"),
        *("FinalizedVersionLevel:", "4.0-IV3", "Epoch:", "12"),
    ]
    lines = list(api_lines(response))
    assert lines[0] == "\tProduce(0): 3 to 99 [usable: 13]"
    assert lines[1] == "\tFetch(1): UNSUPPORTED"
    assert lines[-1] == "\tUNKNOWN(9999): 0"


def test_offsets_from_json(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "offsets.json"
    path.write_text('{"partitions": [{"topic": "t", "partition": 1, "offset": 5}], "version": 1}')
    assert read_offsets(str(path)) == {TopicPartition("t", 1): 5}
    for text, reason in (
        ("nothing", "not of the form"),
        ('{"partitions": [], "version": 2}', "Not supported version field value 2"),
        (
            '{"partitions": [{"topic": "t", "partition": 1, "offset": 5}, {"topic": "t", "partition": 1, "offset": 6}]}',
            "duplicate topic partitions: t-1",
        ),
    ):
        path.write_text(text)
        with pytest.raises(Failure, match=reason):
            read_offsets(str(path))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("kafka-topics --list --under-replicated-partitions", 'Option "[under-replicated-partitions]" can\'t be used with option "[list]"'),
        ("kafka-topics --create --topic t --if-exists", 'Option "[if-exists]" can\'t be used with option "[create]"'),
        ("kafka-topics --delete --topic t --if-not-exists", 'Option "[if-not-exists]" can\'t be used with option "[delete]"'),
        ("kafka-topics --delete --topic a --topic b", "Found multiple arguments for option topic, but you asked for only one"),
        (
            "kafka-topics --create --topic t --replica-assignment 1:2 --partitions 1",
            '"[replica-assignment]" can\'t be used with option "[partitions]"',
        ),
        ("kafka-topics --alter --topic t --config retention.ms=5", "(To alter topic configurations, the kafka-configs tool can be used.)"),
        ("kafka-topics --describe --if-exists", "--topic or --topic-id is required to describe a topic"),
        (
            "kafka-topics --describe --unavailable-partitions --topics-with-overrides",
            'can\'t be used with option "[topics-with-overrides]"',
        ),
        (
            "kafka-configs --describe --topic t --bootstrap-controller x:1",
            "Only one of --bootstrap-server or --bootstrap-controller can be",
        ),
        ("kafka-metadata-quorum describe --status --replication", "Only one of --status or --replication should be specified"),
        (
            "kafka-features upgrade --feature group.version=x",
            "Can't parse feature=level string group.version=x: unable to parse x as a short.",
        ),
        ("kafka-features upgrade --release-version 9.9", "Unknown metadata.version '9.9'. Supported metadata.version are: 3.3-IV3, "),
        ("kafka-client-metrics --list --describe", "Command must include exactly one action: --alter, --delete, --describe or --list."),
        ("kafka-client-metrics --list --name a", 'Option "[list]" can\'t be used with option "[name]"'),
        ("kafka-client-metrics --delete --name a --interval 5", 'Option "[delete]" can\'t be used with option "[interval]"'),
        ("kafka-client-metrics --alter", "One of --name or --generate-name must be specified with --alter."),
        ("kafka-client-metrics --alter --name a --generate-name", "One of --name or --generate-name must be specified with --alter."),
        ("kafka-client-metrics --alter --name a --interval x", "Invalid interval value. Enter an integer, or leave empty to reset."),
        ("kafka-client-metrics --delete", "A client metrics resource name must be specified with --delete."),
    ],
)
def test_what_options_rule_out_is_said_in_kafkas_words(command: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    tool, *arguments = command.split()
    # Port 1 is nobody's: a tool that asked the cluster would say that it cannot be reached.
    assert moldau([tool, "--bootstrap-server", "127.0.0.1:1", *arguments]) == 1
    assert said in capsys.readouterr().err
