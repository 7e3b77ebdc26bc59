"""● The order system as a black box under kills.  Java's console producer sends half of the baskets, REST clients the other half.

    python -m proof.shop.black_box --baskets 20000 --clients 200 --kills 12

Java's producer sends to the gateway's topic, keyed by customer, by its default partitioner.  It keeps step with the REST clients, who
repeat a share of their keys.  Broker, web, gateway, Spark's driver, mails and the worker of the search view get SIGKILL in turn
while orders come in.  In the end each order has the oracle's verdict, is in its topics once, and has one mail for each of its two
states.  Some orders are deleted.  The view and the search index are wiped and built anew, and then equal the topic.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from moldau.clients.producer.partitioners import partition_for_key
from moldau.pipelines import retail
from moldau.pipelines.demo.figures import quantile
from moldau.pipelines.validation import oracle
from moldau.pipelines.validation.ledger import Ledger
from moldau.pipelines.validation.model import Order, Topics, order_json
from moldau.shop.mails.mails import CONNECTIONS
from moldau.shop.topics import ShopTopics
from moldau.shop.web.keys import id_of
from moldau.sync import Producer
from moldau.testing.child import ChildProcess
from moldau.testing.process import BrokerProcess
from proof.shop.clients import place_all
from proof.shop.java import JavaProducer
from proof.shop.parts import MailServer, Part, Pipeline, Web
from proof.shop.search import Search
from proof.shop.stored import Stored, expected, newest, stored

PARTITIONS: Final = 2
QUIET_S: Final = 300.0
DELETED: Final = 5
REPEATED: Final = 0.05


class Outcome(NamedTuple):
    orders: int
    mistakes: list[str]
    """The mistakes in words; empty when everything is right."""
    states: Counter[str]
    mails: int
    mails_repeated: int
    documents: int
    p50_s: float | None
    p99_s: float | None
    kills: Counter[str]
    seconds: dict[str, float]
    """The time at which each step of the run ended."""


class Run:
    def __init__(self, directory: Path, *, baskets: int, clients: int, kills: int, seed: int) -> None:
        self.directory = directory
        self.orders = list(retail.orders(baskets))
        self.clients = clients
        self.kills = kills
        self.seed = seed
        self.mistakes: list[str] = []
        self.killed: Counter[str] = Counter()
        self._began_s = time.monotonic()
        self._ended: dict[str, float] = {}

    def go(self) -> Outcome:
        with ExitStack() as stack:
            mails = stack.enter_context(MailServer())
            broker = stack.enter_context(BrokerProcess(properties={"transaction.state.log.num.partitions": "5"}))
            common = ("--bootstrap-server", broker.bootstrap, "--partitions", str(PARTITIONS))
            web = Web(self.directory / "web", broker.bootstrap, "--partitions", str(PARTITIONS))
            gateway = Part(self.directory / "gateway", "--only", "gateway", *common)
            mailing = Part(self.directory / "mails", "--only", "mails", "--smtp", mails.address, *common)
            pipeline = Pipeline(self.directory / "pipeline", broker.bootstrap, PARTITIONS)
            for part in (web, gateway, mailing, pipeline):
                stack.enter_context(part)
            search = stack.enter_context(Search(broker.bootstrap))
            self._end("start")
            victims = {"broker": broker, "web": web, "gateway": gateway, "pipeline": pipeline, "mails": mailing, "search": search.worker}
            seconds = asyncio.run(self._send(broker.bootstrap, web, victims))
            self._end("placed")
            with closing(Ledger(broker.bootstrap, Topics())) as ledger:
                self._wait("verdicts", lambda: _verdicts(ledger), len(self.orders))
                ledger.read(1.0)
                self._end("judged")
                found = stored(broker.bootstrap, Topics())
                self._compare(found, ledger)
            self._end("compared")
            self._wait("mails", lambda: len(mails.seen), 2 * len(self.orders))
            self._end("mailed")
            self._check_mails(mails, found)
            _delete(broker.bootstrap, found.created[:DELETED])
            documents = newest(broker.bootstrap, Topics().orders)
            self.mistakes += search.wait_until(documents, QUIET_S)
            self._end("searched")
            search.wipe()
            self.mistakes += search.wait_until(documents, QUIET_S)
            self._end("index rebuilt")
            web.wipe()
            self._check_view(web, documents)
            self._end("view rebuilt")
        states = Counter(str(judged.outcome.state) for judged in ledger.verdicts.values())
        middle, slow = quantile(seconds, 0.5), quantile(seconds, 0.99)
        numbers = (mails.seen.total(), mails.repeated, len(documents))
        return Outcome(len(self.orders), self.mistakes, states, *numbers, middle, slow, self.killed, self._ended)

    async def _send(self, bootstrap: str, web: Web, victims: dict[str, ChildProcess]) -> list[float]:
        by_java = [order for order in self.orders if int(order.customer_id) % 2]
        by_rest = [order for order in self.orders if not int(order.customer_id) % 2]
        lines = [f"{order.customer_id}\t{order_json(order).decode()}" for order in by_java]
        java = JavaProducer(bootstrap, ShopTopics().requests, lines)
        names, killing = list(victims), {name: asyncio.Lock() for name in victims}
        marks = [int((number + 0.5) * len(by_rest) / self.kills) for number in range(self.kills)]
        kills: list[asyncio.Task[None]] = []

        async def kill(name: str) -> None:
            async with killing[name]:
                await asyncio.to_thread(victims[name].kill)
                await asyncio.to_thread(victims[name].start)
                self.killed[name] += 1
                self._say(f"{name} was killed, and is back")

        def told(count: int) -> None:
            java.reached(count / len(by_rest))
            while len(kills) < len(marks) and count >= marks[len(kills)]:
                kills.append(asyncio.create_task(kill(names[len(kills) % len(names)])))
            if count % max(1, len(by_rest) // 10) == 0:
                self._say(f"{count:,} of {len(by_rest):,} orders are placed by REST")

        placing = place_all(web.url, by_rest, clients=self.clients, repeated=REPEATED, seed=self.seed, told=told)
        (placed, seconds), _ = await asyncio.gather(placing, java.run())
        await asyncio.gather(*kills)
        self.mistakes += [f"{key} became {order_id}" for key, order_id in placed.items() if order_id != id_of("o", key)]
        return seconds

    def _wait(self, what: str, count: Callable[[], int], wanted: int) -> None:
        """Wait until so many are there, or until none has come for long."""
        last, moved_s = -1, time.monotonic()
        while (there := count()) < wanted:
            if there != last:
                last, moved_s = there, time.monotonic()
            elif time.monotonic() > moved_s + QUIET_S:
                self.mistakes.append(f"{there} of {wanted} {what}, and none came for {QUIET_S:.0f} s")
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
        if ledger.dead_letters:
            self.mistakes.append(f"{len(ledger.dead_letters)} records are dead letters: {dict(ledger.dead_letter_counts())}")

    def _check_mails(self, mails: MailServer, found: Stored) -> None:
        about = Counter(message_id.rpartition(".")[0].partition("@")[0].rpartition(".")[0] for message_id in mails.seen)
        wrong = [one for one in (f"order.{order.order_id}" for order in found.created) if about[one] != 2]
        self.mistakes += [f"{one} has mails for {about[one]} states" for one in wrong[:5]]
        if len(mails.seen) != 2 * len(self.orders):
            self.mistakes.append(f"{len(mails.seen)} different mails, not {2 * len(self.orders)}")
        self.mistakes += [f"{message_id} came in two texts" for message_id, texts in mails.texts.items() if len(texts) > 1][:5]
        # On each of the four connections a kill may fall between the answer 250 and the line in the journal.
        most = self.killed["mails"] * CONNECTIONS
        if mails.repeated > most:
            self.mistakes.append(f"{mails.repeated} mails came again, and {most} may")

    def _check_view(self, web: Web, documents: dict[str, dict[str, Any]]) -> None:
        with httpx.Client(base_url=web.url, timeout=30, trust_env=False) as http:
            for order_id in list(documents)[:: max(1, len(documents) // 200)]:
                body, wanted = http.get(f"/orders/{order_id}").json(), documents[order_id]
                if (body.get("state"), body.get("reasons")) != (wanted["state"], wanted["reasons"]):
                    self.mistakes.append(f"the view built anew says of {order_id}: {body}")
            event = next(line for line in _lines(http) if line.startswith("data: "))
            counts = json.loads(event[6:])["states"]
            states = Counter(str(one["state"]) for one in documents.values())
            if Counter({state: count for state, count in counts.items() if count}) != states:
                self.mistakes.append(f"the page counts {counts}, not {dict(states)}")

    def _end(self, step: str) -> None:
        self._ended[step] = round(time.monotonic() - self._began_s, 1)
        self._say(f"{step}, {len(self.mistakes)} mistakes so far")

    def _say(self, what: str) -> None:
        print(f"{time.monotonic() - self._began_s:7.1f} s  {what}", file=sys.stderr, flush=True)


def _delete(bootstrap: str, orders: Sequence[Order]) -> None:
    with Producer(bootstrap) as producer:
        for order in orders:
            where = partition_for_key(order.customer_id.encode(), PARTITIONS)
            producer.send(Topics().orders, None, key=order.order_id.encode(), partition=where)
        producer.flush()


def _verdicts(ledger: Ledger) -> int:
    ledger.read(0.2)
    return len(ledger.verdicts)


def _lines(http: httpx.Client) -> Any:
    with http.stream("GET", "/events") as answer:
        yield from answer.iter_lines()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baskets", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="moldau-black-box-"))
    print(f"The parts' logs are in {directory}", file=sys.stderr)
    outcome = Run(directory, baskets=given.baskets, clients=given.clients, kills=given.kills, seed=given.seed).go()
    print(json.dumps(outcome._asdict(), indent=1))
    if outcome.mistakes:
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
