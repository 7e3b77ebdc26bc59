"""The live page in a real browser: an order placed by its form is seen, with what became of it."""

import json
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from moldau.clients.producer.partitioners import partition_for_key
from moldau.sync import Producer
from moldau.testing.process import BrokerProcess
from proof.shop.parts import Web

CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("shop"),
    pytest.mark.timeout(180),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium brings it"),
]
WITHIN_S = 120.0


def seen(url: str, profile: Path) -> str:
    """The page as the browser has it after some frames."""
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={profile}",
        "--timeout=8000",
        "--dump-dom",
        url,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=True).stdout


def test_orders_verdicts_and_burgers_are_seen(tmp_path: Path) -> None:
    with BrokerProcess() as broker, Web(tmp_path / "web", broker.bootstrap) as web:
        with httpx.Client(base_url=web.url, timeout=30, trust_env=False) as http:
            body = {"customer_id": "<b>42", "store_id": "7", "lines": [], "total_cents": 1234}
            order_id = http.post("/orders", json=body, headers={"Idempotency-Key": "page"}).json()["order_id"]
            http.post("/burgers", json={"customer_id": "anna", "quantity": 3}, headers={"Idempotency-Key": "page"})
        verdict = {**body, "order_id": order_id, "ordered_ms": 1, "state": "FAILED", "reasons": ["NO_LINES"]}
        with Producer(broker.bootstrap) as producer:
            place = partition_for_key(b"<b>42", 2)
            producer.send("orders", json.dumps(verdict).encode(), key=order_id.encode(), partition=place).result()
        page = seen(web.url, tmp_path / "profile")
        assert f'href="/orders/{order_id}"' in page
        assert "FAILED · NO_LINES" in page
        assert "12.34" in page
        assert '<p id="FAILED">1</p>' in page
        assert '<p id="status" class="pill open" role="status">open</p>' in page
        assert '<dd id="reserved">3</dd>' in page
        assert "&lt;b&gt;42" in page, "what somebody sent is text, never HTML"
        docs = seen(f"{web.url}/docs", tmp_path / "profile")
        assert "Idempotency-Key" in docs
        assert "/burgers/{claim_id}/payment" in docs
