"""● The order system as a black box under kills.  Java's console producer sends half of the baskets, REST clients the other half.

    python -m proof.shop.black_box --baskets 2000 --kills 6

Java's producer sends to the gateway's topic, keyed by customer, by its default partitioner.  REST clients repeat a share of their keys.
Parts get SIGKILL while orders come in.  In the end each order has the oracle's verdict, is in its topics once, and has one mail for each of
its two states.  The view is wiped and built anew, and then equals the topic.
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from moldau.pipelines import retail
from moldau.pipelines.demo.figures import quantile
from moldau.pipelines.validation import oracle
from moldau.pipelines.validation.faults import Sent
from moldau.pipelines.validation.ledger import Ledger
from moldau.pipelines.validation.model import Line, Order, State, Topics, order_json
from moldau.pipelines.validation.oracle import Expected
from moldau.shop.topics import ShopTopics
from moldau.shop.web.keys import id_of
from moldau.sync import Consumer
from moldau.testing.process import BrokerProcess
from moldau.types import TopicPartition
from proof.kafka.apache import console_produce
from proof.shop.clients import place_all
from proof.shop.parts import MailServer, Part, Pipeline, Web

PARTITIONS: Final = 2
WITHIN_S: Final = 600.0
BETWEEN_S: Final = 0.5


class Outcome(NamedTuple):
    orders: int
    mistakes: list[str]
    """The mistakes in words; empty when everything is right."""
    states: Counter[str]
    mails: int
    mails_repeated: int
    p50_s: float | None
    p99_s: float | None
    kills: int
    seconds: float


class Stored(NamedTuple):
    """The records of the topics, in the order of their partitions."""

    created: list[Order]
    requested: list[str]
    finals: int


def stored(bootstrap: str, topics: Topics) -> Stored:
    created: list[Order] = []
    requested: list[str] = []
    finals = 0
    for record in records_of_topic(bootstrap, topics.orders):
        if record["state"] == State.CREATED:
            lines = tuple(Line(**line) for line in record["lines"])
            created.append(Order(**{**{name: record[name] for name in Order._fields}, "lines": lines}))
        else:
            finals += 1
    for record in records_of_topic(bootstrap, topics.stock_requests):
        if not record.get("released"):
            requested.append(record["order_id"])
    return Stored(created, requested, finals)


def records_of_topic(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    found = []
    with Consumer(bootstrap, {"isolation.level": "read_committed", "enable.auto.commit": "false"}) as consumer:
        for number in consumer.partitions_for(topic):
            one = TopicPartition(topic, number)
            end = consumer.end_offsets([one])[one]
            consumer.assign({one: 0})
            while consumer.positions.get(one, 0) < end:
                found += [json.loads(record.value) for records in consumer.poll(1.0) for record in records]
    return found


def expected(found: Stored, ledger: Ledger, catalogue: dict[int, int]) -> dict[str, Expected]:
    """The verdict of each order.  Each check's answers follow its own topic, because two producers write side by side."""
    by_id = {order.order_id: order for order in found.created}
    money = oracle.expect([Sent(order) for order in found.created], catalogue, ledger.freed.money).orders
    stock = oracle.expect([Sent(by_id[order_id]) for order_id in found.requested], catalogue, {}, ledger.freed.stock).orders
    outcomes = {}
    for order_id in by_id:
        ours, theirs = money[order_id].reasons, stock[order_id].reasons
        shelf = [reason for reason in theirs if reason in ("UNKNOWN_PRODUCT", "OUT_OF_STOCK")]
        spent = [reason for reason in ours if reason in ("LATE", "SPENT_LIMIT")]
        rest = [reason for reason in ours if reason not in ("LATE", "SPENT_LIMIT", "UNKNOWN_PRODUCT", "OUT_OF_STOCK")]
        reasons = [*spent, *shelf, *rest]
        outcomes[order_id] = Expected(State.FAILED if reasons else State.VALIDATED, reasons)
    return outcomes


class Run:
    def __init__(self, directory: Path, baskets: int, kills: int, seed: int, clients: int, *, kills_pipeline: bool) -> None:
        self.directory = directory
        self.orders = list(retail.orders(baskets))
        self.kills = kills
        self.seed = seed
        self.clients = clients
        self.kills_pipeline = kills_pipeline
        self.mistakes: list[str] = []
        self.killed = 0

    def go(self) -> Outcome:
        began_s = time.monotonic()
        with ExitStack() as stack:
            mails = stack.enter_context(MailServer())
            broker = stack.enter_context(BrokerProcess(properties={"transaction.state.log.num.partitions": "5"}))
            pipeline = Pipeline(self.directory / "pipeline", broker.bootstrap, PARTITIONS)
            web = Web(self.directory / "web", broker.bootstrap, "--partitions", str(PARTITIONS))
            common = ("--bootstrap-server", broker.bootstrap, "--partitions", str(PARTITIONS))
            gateway = Part(self.directory / "gateway", "--only", "gateway", *common)
            mailing = Part(self.directory / "mails", "--only", "mails", "--smtp", mails.address, *common)
            for part in (web, gateway, mailing, pipeline):
                stack.enter_context(part)
            victims: list[Part] = [web, gateway, mailing, *([pipeline] if self.kills_pipeline else [])]
            seconds = asyncio.run(self._send(broker.bootstrap, web, victims))
            with closing(Ledger(broker.bootstrap, Topics())) as ledger:
                self._wait("verdicts", lambda: _verdicts(ledger), len(self.orders))
                ledger.read(1.0)
                found = stored(broker.bootstrap, Topics())
                self._compare(found, ledger)
            wanted = 2 * len(self.orders)
            self._wait("mails", lambda: len(mails.seen), wanted)
            self._check_mails(mails, found)
            self._check_view(web, ledger)
        states = Counter(str(judged.outcome.state) for judged in ledger.verdicts.values())
        middle, slow = quantile(seconds, 0.5), quantile(seconds, 0.99)
        took_s = time.monotonic() - began_s
        return Outcome(len(self.orders), self.mistakes, states, mails.seen.total(), mails.repeated, middle, slow, self.killed, took_s)

    async def _send(self, bootstrap: str, web: Web, victims: Sequence[Part]) -> list[float]:
        by_java = [order for order in self.orders if int(order.customer_id) % 2]
        by_rest = [order for order in self.orders if not int(order.customer_id) % 2]
        lines = [f"{order.customer_id}\t{order_json(order).decode()}" for order in by_java]
        properties = ("--property", "parse.key=true")
        java = asyncio.to_thread(console_produce, bootstrap, ShopTopics().requests, lines, *properties)
        killing = asyncio.create_task(self._kill(victims))
        placing = place_all(web.url, by_rest, clients=self.clients, repeated=0.05, seed=self.seed)
        (placed, seconds), _ = await asyncio.gather(placing, java)
        await killing
        self.mistakes += [f"{key} became {order_id}" for key, order_id in placed.items() if order_id != id_of("o", key)]
        return seconds

    async def _kill(self, victims: Sequence[Part]) -> None:
        chance = random.Random(self.seed)
        for number in range(self.kills):
            await asyncio.sleep(chance.uniform(0.2, 2 * BETWEEN_S))
            victim = victims[number % len(victims)]
            await asyncio.to_thread(victim.kill)
            await asyncio.to_thread(victim.start)
            self.killed += 1

    def _wait(self, what: str, count: Any, wanted: int) -> None:
        deadline_s = time.monotonic() + WITHIN_S
        while (there := count()) < wanted:
            if time.monotonic() > deadline_s:
                self.mistakes.append(f"{there} of {wanted} {what} after {WITHIN_S:.0f} s")
                return
            time.sleep(0.05)

    def _compare(self, found: Stored, ledger: Ledger) -> None:
        for what, count in (("created", Counter(order.order_id for order in found.created)), ("asked for", Counter(found.requested))):
            twice = [order_id for order_id, times in count.items() if times > 1]
            self.mistakes += [f"order {order_id} is {what} {count[order_id]} times" for order_id in twice[:5]]
            if len(count) != len(self.orders):
                self.mistakes.append(f"{len(count)} orders are {what}, not {len(self.orders)}")
        if not self.mistakes:
            self.mistakes += oracle.differences(expected(found, ledger, retail.catalogue()), ledger.outcomes())
        self.mistakes += ledger.contradictions
        if ledger.repeats:
            self.mistakes.append(f"{ledger.repeats} verdicts came again")

    def _check_mails(self, mails: MailServer, found: Stored) -> None:
        about = Counter(message_id.rpartition(".")[0].partition("@")[0].rpartition(".")[0] for message_id in mails.seen)
        wrong = [one for one in (f"order.{order.order_id}" for order in found.created) if about[one] != 2]
        self.mistakes += [f"{one} has mails for {about[one]} states" for one in wrong[:5]]
        if len(mails.seen) != 2 * len(self.orders):
            self.mistakes.append(f"{len(mails.seen)} different mails, not {2 * len(self.orders)}")
        self.mistakes += [f"{message_id} came in two texts" for message_id, texts in mails.texts.items() if len(texts) > 1][:5]
        most = self.kills * 4  # on each of the four connections a kill may fall between the answer 250 and the line in the journal
        if mails.repeated > most:
            self.mistakes.append(f"{mails.repeated} mails came again, and {most} may")

    def _check_view(self, web: Web, ledger: Ledger) -> None:
        web.wipe()
        with httpx.Client(base_url=web.url, timeout=30, trust_env=False) as http:
            for order_id, judged in list(ledger.verdicts.items())[:: max(1, len(self.orders) // 200)]:
                body = http.get(f"/orders/{order_id}").json()
                if (body.get("state"), body.get("reasons")) != (judged.outcome.state, judged.outcome.reasons):
                    self.mistakes.append(f"the view built anew says of {order_id}: {body}")
            event = next(line for line in _lines(http) if line.startswith("data: "))
            counts = json.loads(event[6:])["states"]
            wanted = Counter(str(judged.outcome.state) for judged in ledger.verdicts.values())
            if Counter({state: count for state, count in counts.items() if count}) != wanted:
                self.mistakes.append(f"the page counts {counts}, not {dict(wanted)}")


def _verdicts(ledger: Ledger) -> int:
    ledger.read(0.2)
    return len(ledger.verdicts)


def _lines(http: httpx.Client) -> Any:
    with http.stream("GET", "/events") as answer:
        yield from answer.iter_lines()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baskets", type=int, default=2_000)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moldau-black-box-") as directory:
        run = Run(Path(directory), given.baskets, given.kills, given.seed, given.clients, kills_pipeline=True)
        outcome = run.go()
    print(json.dumps(outcome._asdict(), indent=1))
    return 1 if outcome.mistakes else 0


if __name__ == "__main__":
    raise SystemExit(main())
