"""Options are found, parsed, and refused with their names and the way out."""

import pytest

from pyspark_moldau.options import OptionError, read_options

SERVER = {"kafka.bootstrap.servers": "h:1"}


def given(**options: str) -> dict[str, str]:
    return SERVER | {name.replace("__", "."): value for name, value in options.items()}


def test_names_are_found_whatever_their_case() -> None:
    found = read_options({"KAFKA.Bootstrap.Servers": "h:1", "startingoffsets": "earliest", "MAXOFFSETSPERTRIGGER": "5"})
    assert found.get("startingOffsets") == -2
    assert found.get("maxOffsetsPerTrigger") == 5
    assert found.get("kafka.bootstrap.servers") == "h:1"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscrbe": "t"}, "option 'subscrbe': it is not known: did you mean subscribe?"),
        ({"startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"kafka.isolation.levl": "x"}, "did you mean kafka.isolation.level?"),
        ({"qwertz": "1"}, "option 'qwertz': it is not known"),
        ({"bootstrap.servers": "h:1"}, "call it kafka.bootstrap.servers"),
        ({"kafka.auto.offset.reset": "earliest"}, "use startingOffsets"),
        ({"startingOffsets": "first"}, "option 'startingOffsets': earliest or latest, or JSON such as"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "-3 of t-0 is no offset"),
        ({"startingOffsets": '{"t":{"x":1}}'}, "no partition and number"),
        ({"startingOffsets": '{"t":{"0":true}}'}, "no partition and number"),
        ({"startingOffsets": '{"t":3}'}, "topic t has no partitions"),
        ({"endingOffsets": "earliest"}, "latest or offsets are expected"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "latest or offsets are expected"),
        ({"startingTimestamp": "-1"}, "at least 0"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":-5}}'}, "none below 0"),
        ({"assign": '{"t":0}'}, "option 'assign': partitions as in"),
        ({"subscribePattern": "("}, "regular expression"),
        ({"maxOffsetsPerTrigger": "many"}, "at least 1 is expected, not 'many'"),
        ({"minPartitions": "0"}, "at least 1"),
        ({"maxTriggerDelay": "soon"}, "a duration such as"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"kafka.isolation.level": "serializable"}, "read_uncommitted or read_committed"),
        ({"kafka.acks": "1"}, "all or -1"),
    ],
)
def test_what_cannot_be_taken_is_said(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_options(SERVER | options)
    assert said in str(caught.value)


def test_the_server_is_needed() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        read_options({"subscribe": "t"})


def test_values() -> None:
    found = read_options(
        given(
            subscribe="a, b,a",
            assign='{"t":[1,0]}',
            startingOffsets='{"t":{"0":7,"1":-1}}',
            maxTriggerDelay="2m",
            kafka__max__poll__records="500",
        )
    )
    assert found.get("subscribe") == ("a", "b")
    assert found.get("assign") == {"t": (0, 1)}
    assert found.get("startingOffsets") == {"t": {0: 7, 1: -1}}
    assert found.get("maxTriggerDelay") == 120_000
    assert "kafka.max.poll.records" not in found


def test_what_spark_adds_is_left_alone() -> None:
    assert read_options(given(checkpointLocation="/x", path="y")).values == read_options(SERVER).values
