"""The rules between options that kafka-consumer-groups, kafka-share-groups and kafka-streams-groups share."""

from collections.abc import Callable

import pytest

from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.consumer_groups import main as consumer
from moldau.tools.cli.kafka.share_groups import main as share
from moldau.tools.cli.kafka.streams_groups import main as streams

NOBODY = ["--bootstrap-server", "127.0.0.1:1"]
Tool = Callable[[list[str]], int]


def refusal(tool: Tool, command: str) -> str:
    with pytest.raises(Failure) as failure:
        tool([*NOBODY, *command.split()])
    return failure.value.what


@pytest.mark.parametrize("tool", [consumer, share, streams])
@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("--list --members", "members"),
        ("--list --offsets", "offsets"),
        ("--delete --group g --verbose", "verbose"),
        ("--delete --group g --members --verbose --state", "members, verbose, state"),
    ],
)
def test_what_only_describe_takes(tool: Tool, command: str, named: str) -> None:
    assert refusal(tool, command) == f"Option(s) [{named}] are unavailable given other options on the command line"


def test_a_type_is_only_for_a_list() -> None:
    for command in ("--describe --group g --type consumer", "--delete --group g --type"):
        assert refusal(consumer, command) == "Option(s) [type] are unavailable given other options on the command line"


@pytest.mark.parametrize(
    ("tool", "command", "pair"),
    [
        (consumer, "--list --group g", ("group", "list")),
        (consumer, "--list --topic t", ("topic", "list")),
        (consumer, "--describe --group g --topic t", ("topic", "describe")),
        (share, "--describe --group g --topic t", ("topic", "describe")),
        (streams, "--describe --group g --input-topic t", ("input-topic", "describe")),
    ],
)
def test_what_does_not_go_together(tool: Tool, command: str, pair: tuple[str, str]) -> None:
    assert refusal(tool, command) == f'Option "[{pair[0]}]" can\'t be used with option "[{pair[1]}]"'


@pytest.mark.parametrize(
    ("tool", "command"),
    [
        (consumer, "--delete-offsets --group g --group h --topic t"),
        (share, "--delete-offsets --group g --group h --topic t"),
        (share, "--reset-offsets --group g --group h --topic t --to-latest --dry-run"),
    ],
)
def test_one_group_where_one_counts(tool: Tool, command: str) -> None:
    assert refusal(tool, command) == "Found multiple arguments for option group, but you asked for only one"
