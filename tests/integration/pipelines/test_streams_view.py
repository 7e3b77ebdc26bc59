"""A table asked from outside: a view of a compacted topic, and `moldau pipelines table`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from moldau.pipelines.running.command import main
from moldau.pipelines.streams.view import View, ViewError
from moldau.pipelines.topics import create_topics
from proof.connect.postgres import IS_INSTALLED, MISSING, Postgres

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


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The address of a PostgreSQL."""
    if not IS_INSTALLED:
        pytest.skip(MISSING)
    with Postgres() as server:
        yield f"postgresql://postgres@127.0.0.1:{server.port}/postgres"


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of a view."""
    return str(tmp_path / "tables.db") if request.param == "sqlite" else str(request.getfixturevalue("database"))


def test_a_view_is_what_the_topic_says_and_goes_on_where_it_was(bootstrap: str, prefix: str, place: str) -> None:
    topic = prefix + "table"
    create_topics(bootstrap, {topic: {"cleanup.policy": "compact"}}, partitions=2)
    write(bootstrap, topic, [("anna", "1"), ("ben", "2"), ("anna", "3"), ("carl", "4")])
    write(bootstrap, topic, [("anna", "not committed")], aborts=True)
    with View(place) as view:
        assert view.follow(bootstrap, topic) == 4
        assert view.rows(topic) == {b"anna": b"3", b"ben": b"2", b"carl": b"4"}
    write(bootstrap, topic, [("ben", None), ("dora", "5")])
    with View(place) as view:
        assert view.follow(bootstrap, topic) == 2
        assert view.rows(topic) == {b"anna": b"3", b"carl": b"4", b"dora": b"5"}
        assert view.follow(bootstrap, topic) == 0
        assert view.get(topic, b"ben") is None
        found = view.get(topic, b"dora")
        assert found is not None
        assert found.value == b"5"


def test_two_processes_may_follow_one_view(bootstrap: str, prefix: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one has read records and not yet written them, when the second one comes and takes these records and newer ones."""
    topic = prefix + "table"
    create_topics(bootstrap, {topic: {"cleanup.policy": "compact"}}, partitions=1)
    write(bootstrap, topic, [("anna", "1"), ("ben", "1")])
    taken = View._take

    def overtaken(self: View, *arguments: Any) -> int:
        monkeypatch.setattr(View, "_take", taken)
        write(bootstrap, topic, [("anna", "2"), ("ben", None)])
        with View(place) as second:
            assert second.follow(bootstrap, topic) == 4
        return taken(self, *arguments)

    with View(place) as first:
        monkeypatch.setattr(View, "_take", overtaken)
        first.follow(bootstrap, topic)
        assert first.rows(topic) == {b"anna": b"2"}


def test_a_database_that_cannot_be_asked_is_told_without_its_password() -> None:
    with pytest.raises(ViewError, match="the view's database") as told:
        View("postgresql://anna:secret@127.0.0.1:1/none")
    assert "secret" not in str(told.value)
    with pytest.raises(ViewError, match="mysql is neither"):
        View("mysql://anna@host/none")


def test_the_command_prints_a_row(bootstrap: str, prefix: str, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    topic = prefix + "table"
    create_topics(bootstrap, {topic: {"cleanup.policy": "compact"}}, partitions=1)
    write(bootstrap, topic, [("anna", '{"spent": 3}'), ("ben", "7")])
    view = ["--view", place]
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
