"""`moldau perf` on a broker: every action ends with plausible figures and leaves no topic behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from moldau import NewTopic
from moldau.sync import Admin
from moldau.testing.process import BrokerProcess
from proof.kafka.twins import ours

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with BrokerProcess() as broker:
        yield broker.bootstrap


def measured(*words: str) -> dict[str, object]:
    ended = ours("perf", *words, "--json")
    assert ended.exit_code == 0, ended
    found: dict[str, object] = json.loads(ended.out)
    return found


@pytest.mark.parametrize("words", ["produce -n 5000", "produce -n 200 --rate 1000", "latency -n 20", "end-to-end -n 300 --rate 1000"])
def test_a_topic_is_made_for_it_and_deleted_again(bootstrap: str, words: str) -> None:
    action, *more = words.split()
    found = measured(action, "-b", bootstrap, *more)
    assert found["records"] == int(more[1])
    latency = found["latency_ms"]
    assert isinstance(latency, dict)
    assert 0 <= latency["p50"] <= latency["p99"] <= latency["max"] < 60_000
    with Admin(bootstrap) as admin:
        assert not [topic.name for topic in admin.topics.list() if "perf" in topic.name]


def test_what_was_produced_is_consumed_and_drawn(bootstrap: str) -> None:
    assert ours("perf", "produce", "orders", "-b", bootstrap, "-n", "1000").exit_code == 0
    assert measured("consume", "orders", "-b", bootstrap)["records"] == 1000
    drawn = ours("perf", "consume", "orders", "-b", bootstrap, "-n", "500")
    assert "records/s" in drawn.out


@pytest.mark.timeout(120)
def test_watching_shows_the_table_again_and_again_until_interrupted(bootstrap: str) -> None:
    with Admin(bootstrap) as admin:
        admin.topics.create([NewTopic("watched", 1)])
    command = [sys.executable, "-m", "moldau.tools.cli.main", "topics", "list", "-b", bootstrap, "--watch", "1"]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert watching.stdout is not None
    headers = 0
    for line in watching.stdout:
        headers += line.startswith("TOPIC")
        if headers == 2:
            break
    watching.send_signal(signal.SIGINT)
    assert watching.wait(30) == 0
