"""The burger promotion over HTTP: no customer gets more than five, whatever is killed, and given answers stay."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import httpx
import pytest

from moldau.testing.process import BrokerProcess
from proof.shop.clients import Answered, ask
from proof.shop.parts import Web
from proof.shop.stored import records_of_topic

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("shop"), pytest.mark.timeout(240)]


async def test_nobody_has_more_than_five_though_the_shop_is_killed(tmp_path: Path) -> None:
    chance = random.Random(1)
    wishes = [(f"c{number % 60}", chance.randint(1, 4), f"k{number}") for number in range(360)]
    chance.shuffle(wishes)
    with BrokerProcess() as broker, Web(tmp_path, broker.bootstrap) as web:
        answers: dict[str, Answered] = {}
        reached = asyncio.Event()

        async def client(http: httpx.AsyncClient, mine: list[tuple[str, int, str]]) -> None:
            for customer_id, quantity, key in mine:
                answers[key] = await ask(http, "/burgers", key, {"customer_id": customer_id, "quantity": quantity})
                if len(answers) == 120:
                    reached.set()

        async with httpx.AsyncClient(base_url=web.url, timeout=30, trust_env=False) as http:
            clients = [asyncio.create_task(client(http, wishes[number::12])) for number in range(12)]
            await reached.wait()
            await asyncio.to_thread(web.kill)
            await asyncio.to_thread(web.start)
            await asyncio.gather(*clients)
            accepted = {one.body["claim_id"]: one.body for one in answers.values() if one.status == 201}
            assert {one.status for one in answers.values()} == {201, 409}
            again = await ask(http, "/burgers", wishes[0][2], {"customer_id": wishes[0][0], "quantity": wishes[0][1]})
            assert again.status == answers[wishes[0][2]].status
            other = await ask(http, "/burgers", next(iter(answers)), {"customer_id": "other", "quantity": 1})
            assert other.status == 201, "a key belongs to one customer"
            claim_id = next(iter(accepted))
            paid = await http.post(f"/burgers/{claim_id}/payment")
            assert (paid.json()["state"], paid.json()["cents"]) == ("PAID", 269 * int(paid.json()["quantity"]))
            assert (await http.post(f"/burgers/{claim_id}/payment")).json() == paid.json()
            web.kill()
            web.start()
            assert (await http.get(f"/burgers/{claim_id}")).json() == paid.json()
            assert (await http.post("/burgers/none/payment")).status_code == 404
        stored = {claim["claim_id"]: claim for claim in records_of_topic(broker.bootstrap, "burger-claims")}
        assert accepted.keys() <= stored.keys(), "every accepted claim is stored"
        units: Counter[str] = Counter()
        for claim in stored.values():
            units[str(claim["customer_id"])] += int(str(claim["quantity"]))
        assert max(units.values()) == 5


async def test_a_promotion_begins_and_ends(tmp_path: Path) -> None:
    with BrokerProcess() as broker:
        for arguments, reason in (
            (("--starts", "2999-01-01T00:00"), "NOT_STARTED"),
            (("--ends", "2020-01-01T00:00"), "ENDED"),
            (("--most", "2", "--list-price", "1000", "--percent-off", "50"), "OVER_LIMIT"),
        ):
            with Web(tmp_path / reason, broker.bootstrap, *arguments, "--topic-prefix", f"{reason}-") as web:
                async with httpx.AsyncClient(base_url=web.url, timeout=30, trust_env=False) as http:
                    found = await ask(http, "/burgers", "k", {"customer_id": "anna", "quantity": 3})
                    assert (found.status, found.body["reason"]) == (409, reason)
