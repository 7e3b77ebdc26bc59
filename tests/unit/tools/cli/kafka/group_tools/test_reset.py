"""The texts that kafka-consumer-groups --reset-offsets takes."""

from pathlib import Path

import pytest

from moldau.tools.cli.kafka.group_tools.reset import ResetRefused, parse_datetime, parse_duration, parse_topic, read_plan
from moldau.types import TopicPartition


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("PT1H", 3_600_000), ("P1D", 86_400_000), ("P1DT2H3M4.5S", 93_784_500), ("PT-5M", -300_000), ("-PT5M", -300_000), ("pt1s", 1_000)],
)
def test_durations(text: str, expected_ms: int) -> None:
    assert parse_duration(text) == expected_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "P1H", "PT1D", "PT1X"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ResetRefused):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("1970-01-01T00:00:01.500", 1_500), ("1970-01-01T00:00:01.500Z", 1_500), ("1970-01-01T01:00:00.000+01:00", 0)],
)
def test_times_are_utc_unless_they_say_otherwise(text: str, expected_ms: int) -> None:
    assert parse_datetime(text) == expected_ms


def test_topics() -> None:
    assert parse_topic("t") == ("t", None)
    assert parse_topic("t:0,2") == ("t", [0, 2])
    with pytest.raises(ResetRefused):
        parse_topic("t:a")


def test_a_plan_for_one_group_needs_no_name(tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("t,0,5\nt,1,7\n\n")
    assert read_plan(str(plan), "g", is_single=True) == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 7}
    with pytest.raises(ResetRefused):
        read_plan(str(plan), "g", is_single=False)


def test_a_plan_for_several_groups_names_them(tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("g,t,0,5\nother,t,0,7\n")
    assert read_plan(str(plan), "g", is_single=False) == {TopicPartition("t", 0): 5}
    assert read_plan(str(plan), "unknown", is_single=False) is None
