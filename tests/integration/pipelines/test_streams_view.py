"""A table asked from outside: a view of a compacted topic, and `moldau pipelines table`."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from moldau.pipelines.running.command import main
from moldau.pipelines.streams.view import View
from moldau.pipelines.topics import create_topics

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]


def write(bootstrap: str, topic: str, rows: list[tuple[str | None, str | None]], *, aborts: bool = False) -> None:
    """Writes the rows in one transaction."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for key, value in rows:
        producer.produce(topic, key=key, value=value)
    assert producer.flush(30) == 0
    if aborts:
        producer.abort_transaction(30)
    else:
        producer.commit_transaction(30)


def test_a_view_is_what_the_topic_says_and_goes_on_where_it_was(bootstrap: str, prefix: str, tmp_path: Path) -> None:
    topic = prefix + "table"
    create_topics(bootstrap, {topic: {"cleanup.policy": "compact"}}, partitions=2)
    write(bootstrap, topic, [("anna", "1"), ("ben", "2"), ("anna", "3"), ("carl", "4")])
    write(bootstrap, topic, [("anna", "not committed")], aborts=True)
    with View(tmp_path / "tables.db") as view:
        assert view.follow(bootstrap, topic) == 4
        assert view.rows(topic) == {b"anna": b"3", b"ben": b"2", b"carl": b"4"}
    write(bootstrap, topic, [("ben", None), ("dora", "5")])
    with View(tmp_path / "tables.db") as view:
        assert view.follow(bootstrap, topic) == 2
        assert view.rows(topic) == {b"anna": b"3", b"carl": b"4", b"dora": b"5"}
        assert view.follow(bootstrap, topic) == 0
        assert view.get(topic, b"ben") is None


def test_the_command_prints_a_row(bootstrap: str, prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topic = prefix + "table"
    create_topics(bootstrap, {topic: {"cleanup.policy": "compact"}}, partitions=1)
    write(bootstrap, topic, [("anna", '{"spent": 3}'), ("ben", "7")])
    view = ["--view", str(tmp_path / "tables.db")]
    assert main(["table", topic, "anna", *view, "-b", bootstrap]) == 0
    assert capsys.readouterr().out == '{"spent": 3}\n'
    assert main(["table", topic, *view, "--offline"]) == 0
    assert capsys.readouterr().out == 'anna\t{"spent": 3}\nben\t7\n'
    assert main(["table", topic, "dora", *view, "--offline"]) == 1
    assert "has no row dora" in capsys.readouterr().err
    assert main(["table", topic, "x", *view, "--key-type", "long"]) == 1
    assert "--key-type says" in capsys.readouterr().err
    assert main(["table", topic, "anna", *view, "--offline", "--value-type", "long"]) == 1
    assert "--value-type" in capsys.readouterr().err
