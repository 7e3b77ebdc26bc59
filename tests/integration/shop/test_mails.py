"""One mail an order and state, counted by a real SMTP server by Message-ID, with the mail service killed again and again."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.clients.admin import NewTopic
from moldau.sync import Admin, Consumer, Producer
from moldau.testing.process import BrokerProcess
from moldau.types import TopicPartition
from proof.shop.parts import MailServer, Part

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("shop"), pytest.mark.timeout(240)]
WITHIN_S = 90.0


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as broker:
        yield broker


def write_orders(bootstrap: str, topic: str, count: int) -> set[str]:
    """Writes orders, created and judged; returns the Message-IDs that they ask for.  Each verdict is there twice, as it never should be."""
    with Admin(bootstrap) as admin:
        admin.topics.create([NewTopic(topic, 2)])
    wanted = set()
    with Producer(bootstrap) as producer:
        for number in range(count):
            for state in ("CREATED", "VALIDATED" if number % 3 else "FAILED"):
                body = {"order_id": f"o-{number}", "customer_id": "1", "store_id": "1", "total_cents": 1, "state": state, "reasons": []}
                for _ in range(1 if state == "CREATED" else 2):
                    producer.send(topic, json.dumps(body).encode(), key=f"o-{number}".encode())
                wanted.add(f"order.o-{number}.{state.lower()}@moldau.example")
    return wanted


class Count:
    """Says again and again that `each` more mails were taken."""

    def __init__(self, each: int) -> None:
        self.each = each
        self.count = 0
        self.reached = threading.Semaphore(0)

    def __call__(self, message_id: str) -> None:
        self.count += 1
        if self.count % self.each == 0:
            self.reached.release()


def all_there(mails: MailServer, wanted: set[str], part: Part) -> None:
    """Waits for the wanted mails, by the server's own count."""
    deadline = threading.Event()
    timer = threading.Timer(WITHIN_S, deadline.set)
    timer.start()
    while len(mails.seen) < len(wanted):
        assert not deadline.is_set(), f"{len(mails.seen)} of {len(wanted)} mails: {part.said[-1000:]}"
        assert part.process is not None and part.process.poll() is None, part.said
    timer.cancel()


def test_one_mail_an_order_and_state_though_the_service_is_killed(broker: BrokerProcess, tmp_path: Path) -> None:
    wanted, kills, counted = write_orders(broker.bootstrap, "mail-orders", 200), 3, Count(80)
    with MailServer(counted) as mails:
        part = Part(
            tmp_path,
            *("--only", "mails", "--smtp", mails.address, "--bootstrap-server", broker.bootstrap, "--topic-prefix", "mail-"),
        )
        with part:
            for _ in range(kills):
                assert counted.reached.acquire(timeout=WITHIN_S)
                part.kill()
                part.start()
            all_there(mails, wanted, part)
            wait_until_caught_up(broker, "mail-orders", "mail-shop-mails")
            part.stop()
        assert set(mails.seen) == wanted
        assert mails.repeated <= kills * 4, "each kill may fall between a 250 and the journal on each of four connections"
        assert all(len(texts) == 1 for texts in mails.texts.values()), "a mail that came again is the same"
        for path in tmp_path.glob("mails.db*"):
            path.unlink()
        taken = mails.seen.total()
        begin_again(broker, "mail-orders", "mail-shop-mails")
        with part:  # the journal is lost and the offsets are back at the beginning: the topic of mails tells what was sent
            wait_until_caught_up(broker, "mail-orders", "mail-shop-mails")
        assert mails.seen.total() == taken


def begin_again(broker: BrokerProcess, topic: str, group: str) -> None:
    with Consumer(broker.bootstrap, {"group.id": group, "enable.auto.commit": "false"}) as consumer:
        consumer.commit({TopicPartition(topic, number): 0 for number in consumer.partitions_for(topic)})


def wait_until_caught_up(broker: BrokerProcess, topic: str, group: str) -> None:
    with Consumer(broker.bootstrap, {"group.id": group, "enable.auto.commit": "false"}) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
        ends = consumer.end_offsets(partitions)
        while any(found is None or found.offset < ends[one] for one, found in consumer.committed(partitions).items()):
            pass


def test_a_mail_that_was_taken_and_never_answered_comes_again_as_the_same_mail(broker: BrokerProcess, tmp_path: Path) -> None:
    """The gap that SMTP leaves: the server has the mail, and its sender died before it heard so."""
    wanted = write_orders(broker.bootstrap, "gap-orders", 3)
    first, parts = threading.Event(), []

    def die(message_id: str) -> None:
        if not first.is_set():
            first.set()
            os.kill(parts[0].pid, signal.SIGKILL)

    with MailServer(die) as mails:
        arguments = ("--only", "mails", "--smtp", mails.address, "--bootstrap-server", broker.bootstrap, "--topic-prefix", "gap-")
        with Part(tmp_path, *arguments) as part:
            parts.append(part)
            assert first.wait(WITHIN_S)
            part.kill()
            part.start()
            all_there(mails, wanted, part)
        assert set(mails.seen) == wanted
        assert 1 <= mails.repeated <= 4
        assert all(len(texts) == 1 for texts in mails.texts.values())
