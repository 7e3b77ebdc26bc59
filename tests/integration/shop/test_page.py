"""The live page in a real browser: an order placed by its form is seen, with what became of it."""

import json
from pathlib import Path

import pytest

from moldau.clients.producer.partitioners import partition_for_key
from moldau.sync import Producer
from moldau.testing.process import BrokerProcess
from proof.shop.browser import CHROMIUM, Browser
from proof.shop.parts import Web

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("shop"),
    pytest.mark.timeout(180),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium brings it"),
]
CUSTOMER = "<b>42"


def submit(form: str, customer: str, quantity: int) -> str:
    return (
        f'(() => {{ const form = document.getElementById("{form}"); form.customer_id.value = "{customer}"; '
        f"form.quantity.value = {quantity}; form.requestSubmit(); }})()"
    )


def test_what_is_ordered_and_claimed_on_the_page_is_seen_there(tmp_path: Path) -> None:
    with BrokerProcess() as broker, Web(tmp_path / "web", broker.bootstrap) as web, Browser(tmp_path / "profile") as browser:
        page = browser.open(web.url)
        page.until('document.getElementById("status").textContent == "open"')
        page.run(submit("order", CUSTOMER, 3))
        order_id = page.until('document.getElementById("ordered").textContent.match(/^o-[0-9a-f]+/)?.[0]')
        assert page.until('document.querySelector("#recent .state")?.textContent') == "CREATED"
        verdict = {"order_id": order_id, "customer_id": CUSTOMER, "store_id": "367", "total_cents": 897, "state": "FAILED"}
        value = json.dumps({**verdict, "reasons": ["OUT_OF_STOCK"]}).encode()
        with Producer(broker.bootstrap) as producer:
            producer.send("orders", value, key=order_id.encode(), partition=partition_for_key(CUSTOMER.encode(), 2)).result()
        page.until('document.getElementById("ordered").textContent.includes("FAILED OUT_OF_STOCK")')
        page.until('document.getElementById("FAILED").textContent == "1"')
        assert page.run('document.querySelectorAll("#recent tr").length') == 1, "an order is one row, whatever becomes of it"
        row = page.until('document.querySelector("#recent tr")?.innerText')
        assert row.split("\t")[1:4] == [CUSTOMER, "8.97", "FAILED · OUT_OF_STOCK"], "user input is shown as text, never as HTML"
        assert page.run('document.getElementById("reasons").innerText').split() == ["OUT_OF_STOCK", "1"]
        page.run(submit("claim", "anna", 5))
        page.until('document.getElementById("claimed").textContent.startsWith("5 reserved for 13.45")')
        page.run('document.querySelector("#claimed button").click()')
        page.until('document.getElementById("claimed").textContent.startsWith("5 paid with 13.45")')
        page.until('document.getElementById("paid").textContent == "5"')
        page.run(submit("claim", "anna", 1))
        page.until('document.getElementById("claimed").textContent.startsWith("Refused: OVER_LIMIT")')
        page.until('document.getElementById("reserved").textContent == "0"')
        web.kill()
        page.until('document.getElementById("status").classList.contains("closed")')
        web.start()
        page.until('document.getElementById("status").textContent == "open"')
        docs = browser.open(f"{web.url}/docs")
        docs.until('document.body.innerText.includes("/burgers/{claim_id}/payment")')
