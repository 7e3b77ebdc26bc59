"""The REST API against Kafka Connect 4.3.1's own worker, in a group and alone: the same requests to both, the same answers."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from moldau.testing.process import BrokerProcess
from proof.connect.comparison import shown
from proof.connect.dialogue import WITHIN_S, Step, steps
from proof.connect.java_worker import JavaWorker
from proof.connect.own_worker import WorkerProcess
from proof.kafka.apache import ApacheKafka

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(900)]
LINES = "one\ntwo\nthree\n"
AT_LEAST = 150
LISTED_ALONE = (
    "PUT /connectors/nope/stop ",
    "POST /connectors/nope/restart",
    "POST /connectors/nope/tasks/0/restart ",
    "POST /connectors {'name': 'a', 'config': {'connector.class': 'FileStreamSource', 'tasks.max': '1', "
    "'file': 'FOLDER/in.txt', 'topic': None}}",
    "PUT /connector-plugins/FileStreamSource/config/validate {'connector.class': 'FileStreamSource', 'tasks.max': '1', "
    "'file': 'FOLDER/in.txt', 'topic': 'lines', 'name': 'v', 'transaction.boundary': 'connector'}",
)
"""How the steps begin in which Kafka's worker alone differs from its worker in a group, and ours does not: docs/reliability/connect.md."""
JAVAS_FAULT = "/connectors/s/tasks/9/restart"
"""Kafka's worker alone answers 204 to this, and lists a task that nobody configured, FAILED with a NullPointerException, from then on."""


def ask(client: httpx.Client, step: Step, *, forgives: int) -> httpx.Response:
    """The answer to a step, which is asked again until the answer is as the step wants it.

    `forgives`: how often a GET that ends in 500 is asked again.  The Java worker answers so, seldom, while it reads its topics.
    """
    deadline = time.monotonic() + WITHIN_S
    while True:
        body: dict[str, Any] = {"json": step.json} if step.raw is None else {"content": step.raw}
        try:
            answer = client.request(step.method, step.path, headers=step.headers, **body)
        except httpx.RemoteProtocolError:  # Java's web server closes a connection behind a body that it did not read
            assert time.monotonic() < deadline, f"{step}: no answer"
            continue
        is_forgiven = forgives > 0 and step.method == "GET" and answer.status_code == 500
        if not is_forgiven and (step.until is None or step.until(answer)):
            return answer
        forgives -= is_forgiven
        assert time.monotonic() < deadline, f"{step}: still {answer.status_code} {answer.text}"
        time.sleep(0.1)


def dialogue(url: str, folder: Path, forgives: int, without: str) -> Iterator[tuple[str, Any]]:
    folder.mkdir()
    (folder / "in.txt").write_text(LINES, encoding="utf-8")
    with httpx.Client(base_url=url, timeout=100) as client:
        for step in (one for one in steps(folder) if one.path != without):
            yield str(step).replace(str(folder), "FOLDER"), shown(ask(client, step, forgives=forgives), str(folder))


@pytest.mark.parametrize("connectors", [None, {}], ids=["in a group", "alone"])
def test_every_answer_is_the_java_workers(tmp_path: Path, connectors: dict[str, str] | None) -> None:
    with (
        ApacheKafka() as kafka,
        JavaWorker(kafka.bootstrap, connectors=connectors) as java,
        BrokerProcess() as broker,
        WorkerProcess(broker.bootstrap, connectors=connectors) as own,
        ThreadPoolExecutor(2) as pool,
    ):
        without = "" if connectors is None else JAVAS_FAULT
        both = [(java.url, tmp_path / "java", 3, without), (own.url, tmp_path / "own", 0, without)]
        theirs, ours = pool.map(lambda one: list(dialogue(*one)), both)
    assert len(theirs) >= AT_LEAST
    listed = () if connectors is None else LISTED_ALONE
    compared = [one for one in zip(theirs, ours, strict=True) if not one[0][0].startswith(listed)]
    different = [(step, expected, got) for (step, expected), (_, got) in compared if expected != got]
    assert not different, "\n\n".join(f"{step}\n  Java: {expected}\n  ours: {got}" for step, expected, got in different)
