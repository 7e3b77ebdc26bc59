"""Orders by REST and by the gateway, with the parts killed while orders come in; and the answers to wrong requests."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from moldau.pipelines.validation.model import Line, Order, Topics, order_json
from moldau.shop.topics import ShopTopics
from moldau.sync import Producer
from moldau.testing.process import BrokerProcess
from proof.shop.clients import ask, order_body, place_all
from proof.shop.parts import Part, Web
from proof.shop.stored import stored

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("shop"), pytest.mark.timeout(240)]
WAIT_S = 60.0


def an_order(number: int) -> Order:
    return Order(f"n{number}", f"{number % 20}", f"{number % 3}", 1_700_000_000_000 + number, (Line(7, 1, 99),), 99)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as broker:
        yield broker


async def test_every_order_is_there_once_though_shop_and_broker_are_killed(broker: BrokerProcess, tmp_path: Path) -> None:
    orders = [an_order(number) for number in range(150)]
    with Web(tmp_path, broker.bootstrap, "--topic-prefix", "rest-") as web:
        reached = {50: asyncio.Event(), 100: asyncio.Event()}
        placing = asyncio.create_task(
            place_all(web.url, orders, clients=8, repeated=0.2, seed=1, told=lambda count: count in reached and reached[count].set())
        )
        await reached[50].wait()
        await asyncio.to_thread(web.kill)
        await asyncio.to_thread(web.start)
        await reached[100].wait()
        async with httpx.AsyncClient(base_url=web.url, trust_env=False, timeout=90) as http:
            asked_s = time.monotonic()
            waiting = asyncio.create_task(http.get("/orders/none", params={"wait": str(WAIT_S)}))
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            placed, _ = await placing
            told = (await waiting).status_code
            assert told == 503 or (told == 404 and time.monotonic() - asked_s >= WAIT_S), "ask again, unless the shop never lost the broker"
        found = stored(broker.bootstrap, Topics.prefixed("rest-"))
        assert Counter(order.order_id for order in found.created) == Counter(placed.values())
        assert Counter(found.requested) == Counter(placed.values())
        await told_rightly(web, an_order(0), placed["key-n0"])
        web.wipe()
        await told_rightly(web, an_order(0), placed["key-n0"])


async def told_rightly(web: Web, first: Order, order_id: str) -> None:
    async with httpx.AsyncClient(base_url=web.url, trust_env=False, timeout=30) as http:
        again = await http.post("/orders", json=order_body(first), headers={"Idempotency-Key": "key-n0"})
        assert (again.status_code, again.headers["Location"], again.headers["Idempotent-Replayed"]) == (202, f"/orders/{order_id}", "true")
        other = await http.post("/orders", json=order_body(an_order(1)), headers={"Idempotency-Key": "key-n0"})
        assert (other.status_code, other.headers["Content-Type"]) == (422, "application/problem+json")
        assert other.json()["errors"][0]["pointer"] == "Idempotency-Key"
        one = await http.get(again.headers["Location"])
        assert (one.json()["state"], one.json()["customer_id"]) == ("CREATED", "0")
        found = await http.get("/orders", params={"q": "customer:0 CREATED"})
        assert order_id in {order["order_id"] for order in found.json()["orders"]}


async def test_problems_name_the_field_and_waiting_has_an_end(broker: BrokerProcess, tmp_path: Path) -> None:
    with Web(tmp_path, broker.bootstrap, "--topic-prefix", "wrong-") as web:
        async with httpx.AsyncClient(base_url=web.url, trust_env=False, timeout=30) as http:
            body, key = order_body(an_order(1)), {"Idempotency-Key": "k"}
            assert (await http.post("/orders", json=body)).json()["errors"][0]["pointer"] == "Idempotency-Key"
            wrong = await http.post("/orders", json={**body, "lines": [{"product_id": 1}]}, headers=key)
            assert [one["pointer"] for one in wrong.json()["errors"]] == ["#/lines/0/quantity", "#/lines/0/cents"]
            assert (await http.post("/orders", content=b"x" * 300_000, headers=key)).status_code == 413
            assert (await http.post("/orders", content=b"{}", headers={**key, "Content-Type": "text/xml"})).status_code == 415
            assert (await http.get("/orders/none")).status_code == 404
            assert (await http.get("/orders/none", params={"wait": "61"})).json()["errors"][0]["pointer"] == "wait"
            assert (await http.get("/orders/none", params={"wait": "0.2"})).status_code == 404
            assert (await http.delete("/orders/none")).status_code == 405
            assert (await http.get("/nowhere")).json()["status"] == 404
            document = (await http.get("/openapi.json")).json()
            assert {"/orders", "/orders/{order_id}", "/burgers"} <= document["paths"].keys()
            assert (await http.get("/docs")).text.startswith("<!doctype html>")
            placed = await ask(http, "/orders", "waits", body)
            waiting = asyncio.create_task(http.get(f"/orders/{placed.body['order_id']}", params={"wait": "25"}))
            value = json.dumps({**body, "order_id": placed.body["order_id"], "state": "FAILED", "reasons": ["LATE"]}).encode()
            await asyncio.to_thread(_write, broker.bootstrap, "wrong-orders", placed.body["order_id"], value)
            assert (await waiting).json()["reasons"] == ["LATE"]
            assert (await http.get("/orders", params={"q": "LATE"})).json()["orders"][0]["state"] == "FAILED"
            await asyncio.to_thread(_write, broker.bootstrap, "wrong-orders", placed.body["order_id"], None)
            async with asyncio.timeout(20):
                while (await http.get("/orders", params={"q": "LATE"})).json()["orders"]:
                    pass


def _write(bootstrap: str, topic: str, key: str, value: bytes | None) -> None:
    """Writes to the partition of customer 1, as the checks do."""
    from moldau.clients.producer.partitioners import partition_for_key

    with Producer(bootstrap) as producer:
        producer.send(topic, value, key=key.encode(), partition=partition_for_key(b"1", 2)).result()


def test_the_gateway_moves_each_order_once_though_it_is_killed(broker: BrokerProcess, tmp_path: Path) -> None:
    topics = Topics.prefixed("gate-")
    arguments = ("--only", "gateway", "--bootstrap-server", broker.bootstrap, "--topic-prefix", "gate-")
    orders = [an_order(number) for number in range(2_000)]
    with Part(tmp_path, *arguments) as gateway, Producer(broker.bootstrap) as producer:
        wait_for_topic(broker, "gate-order-requests")
        for turn in range(4):
            for order in orders[turn * 500 : turn * 500 + 500]:
                producer.send(ShopTopics.prefixed("gate-").requests, order_json(order), key=order.customer_id.encode())
            producer.send(ShopTopics.prefixed("gate-").requests, b"no order")
            producer.flush()
            gateway.kill()
            gateway.start()
        # A transaction is committed in one partition a moment before another.
        while min(len((found := stored(broker.bootstrap, topics)).created), len(found.requested)) < len(orders):
            assert gateway.process is not None and gateway.process.poll() is None
    assert Counter(order.order_id for order in found.created) == Counter(order.order_id for order in orders)
    assert Counter(found.requested) == Counter(order.order_id for order in orders)
    customers = [order for order in found.created if order.customer_id == "7"]
    assert customers == sorted(customers, key=lambda order: order.ordered_ms), "a customer's orders keep their order"


def wait_for_topic(broker: BrokerProcess, name: str) -> None:
    while not any(topic.partitions for topic in broker.metadata().topics if topic.name == name):
        pass
