"""Commands read their arguments and show records."""

import json
from pathlib import Path

import pytest

from moldau.clients.records import ConsumerRecord
from moldau.tools.cli.connecting import client_settings
from moldau.tools.cli.consume import as_json, as_text
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.offsets import moment
from moldau.tools.cli.storage import random_id
from moldau.tools.cli.terminal import size
from moldau.tools.cli.up.properties import properties_text
from moldau.types import uuid_to_text

RECORD = ConsumerRecord("t", 2, 7, 1_700_000_000_123, 0, b"key", b"\xff\x00", (("h", b"v"), ("n", None)), 1)


def test_text_shows_what_was_asked_for_in_a_fixed_order() -> None:
    assert as_text(RECORD._replace(value=b"value"), ["key", "offset"]) == b"7\tkey\tvalue\n"
    assert as_text(RECORD._replace(value=None), []) == b"\n"


def test_json_shows_everything_and_bytes_that_are_no_text_as_hex() -> None:
    shown = json.loads(as_json(RECORD))
    assert shown == {
        "topic": "t",
        "partition": 2,
        "offset": 7,
        "time": "2023-11-14T22:13:20.123Z",
        "timestamp": 1_700_000_000_123,
        "headers": [["h", "v"], ["n", None]],
        "key": "key",
        "value": {"hex": "ff00"},
    }


def test_a_timestamp_beyond_the_calendar_is_shown_as_its_number() -> None:
    assert json.loads(as_json(RECORD._replace(timestamp=1 << 62)))["time"] == str(1 << 62)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("1700000000000", 1700000000000), ("2023-11-14T22:13:20", 1700000000000), ("2023-11-14T23:13:20+01:00", 1700000000000)],
)
def test_moments(text: str, milliseconds: int) -> None:
    assert moment(text) == milliseconds


def test_client_settings_are_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("client.id=me\nrequest.timeout.ms=1500\n")
    assert client_settings(str(path))[:2] == ("me", 1500)
    assert client_settings(str(path), {"client.id": "other"}).client_id == "other"
    for wrong in ("security.protocol=TELNET", "request.timeout.ms=soon", "request.timeout.ms=0"):
        path.write_text(wrong)
        with pytest.raises(Failure, match=wrong.partition("=")[2].rstrip()):
            client_settings(str(path))


def test_random_ids_are_no_options() -> None:
    assert not any(uuid_to_text(random_id()).startswith("-") for _ in range(500))


@pytest.mark.parametrize("replicas", [1, 3])
def test_the_file_that_up_writes_is_one_that_serve_takes(replicas: int, tmp_path: Path) -> None:
    from moldau.tools.cli.node import load_config

    path = tmp_path / "server.properties"
    path.write_text(
        properties_text(
            node_id=1,
            host="localhost",
            port=9092,
            controller_port=9093,
            bootstrap="localhost:9093",
            data=tmp_path / "data",
            replicas=replicas,
        )
    )
    config = load_config(path)
    assert config.warnings == ()
    assert config.log.min_insync_replicas == max(1, replicas - 1)
    assert [(one.host, one.port) for one in config.advertised_broker_listeners] == [("localhost", 9092)]
    path.write_text(path.read_text() + "log.retention.hour=1\n")
    with pytest.raises(
        Failure, match=r"server.properties, line \d+: there is no option log.retention.hour; did you mean log.retention.hours"
    ):
        load_config(path)


@pytest.mark.parametrize(("count", "words"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB")])
def test_sizes(count: int, words: str) -> None:
    assert size(count) == words
