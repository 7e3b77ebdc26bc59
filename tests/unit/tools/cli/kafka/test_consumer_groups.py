"""Kafka's rules for the options of kafka-consumer-groups."""

import pytest

from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.consumer_groups import main
from moldau.tools.cli.kafka.group_tools.tables import plan_csv
from moldau.types import TopicPartition

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("--list --describe --all-groups", "Command must include exactly one action"),
        ("--describe", "Option [describe] takes one of these options: [group], [all-groups]"),
        ("--describe --group g --all-groups", 'Option "[group]" can\'t be used with option "[all-groups]"'),
        ("--describe --group g --members --offsets", "Option [describe] takes at most one of these options"),
        ("--describe --group g --state Empty", "Option [describe] does not take a value for [state]"),
        ("--delete --group g --topic t", "The consumer does not support topic-specific offset deletion from a consumer group."),
        ("--delete-offsets --group g", "Option [delete-offsets] takes the following options: [group], [topic]"),
        ("--list --state Nosuch", "Invalid state list 'Nosuch'. Valid states are: PreparingRebalance,"),
        ("--list --type Nosuch", "Invalid types list 'Nosuch'. Valid types are: Consumer, Classic"),
        ("--reset-offsets --group g --dry-run --execute", "Option [reset-offsets] only accepts one of [execute] and [dry-run]"),
        ("--reset-offsets --group g --to-latest", "One of the reset scopes should be defined: --all-topics, --topic."),
        ("--reset-offsets --group g --topic t", "Option '[reset-offsets]' requires one of the following scenarios: [to-offset],"),
        (
            "--reset-offsets --group g --topic t --to-offset 0 --to-latest",
            'Option "[to-offset]" can\'t be used with option "[to-latest]"',
        ),
    ],
)
def test_options_that_do_not_go_together(command: str, wrong: str) -> None:
    with pytest.raises(Failure) as failure:
        main(["--bootstrap-server", NOBODY, *command.split()])
    assert failure.value.what.startswith(wrong)


@pytest.mark.parametrize("scenario", ["--to-offset 0", "--shift-by 0", "--to-current"])
def test_a_reset_to_zero_is_a_reset(scenario: str) -> None:
    with pytest.raises(Failure, match="no broker can be reached"):
        main(["--bootstrap-server", NOBODY, *f"--reset-offsets --group g --topic t --dry-run {scenario}".split()])


def test_a_plan_as_csv() -> None:
    plan = [("g", TopicPartition("t", 0), 7), ("h", TopicPartition("a,b", 1), 8)]
    assert plan_csv(plan, has_groups=False) == 't,0,7\n"a,b",1,8\n'
    assert plan_csv(plan, has_groups=True) == 'g,t,0,7\nh,"a,b",1,8\n'
