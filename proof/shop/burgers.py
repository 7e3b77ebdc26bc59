"""● Ten thousand customers want burgers at once: checks that nobody gets more than five in any 24 hours, and times the answers.

    python -m proof.shop.burgers --customers 10000 --claims 30000 --rate 200

Each customer claims once, then random customers claim.  Claims arrive at a rate, whether or not earlier claims were answered, and each
answer is timed from when its claim was due.
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import httpx

from moldau.pipelines.demo.figures import quantile
from moldau.testing.process import BrokerProcess
from proof.shop.black_box import records_of_topic
from proof.shop.clients import ask
from proof.shop.parts import Web

MOST: Final = 5
CONNECTIONS: Final = 64


async def claim_all(url: str, customers: int, claims: int, rate: float, seed: int) -> tuple[Counter[int], list[float], dict[str, Any]]:
    """The number of answers by status, the seconds that each took from when it was due, and the accepted claims by id."""
    chance = random.Random(seed)
    statuses: Counter[int] = Counter()
    seconds: list[float] = []
    accepted: dict[str, Any] = {}

    async def one(http: httpx.AsyncClient, number: int, due_s: float) -> None:
        customer = number if number < customers else chance.randrange(customers)
        body = {"customer_id": f"c{customer}", "quantity": chance.randint(1, 3)}
        answer = await ask(http, "/burgers", f"k{number}", body)
        seconds.append(time.perf_counter() - due_s)
        statuses[answer.status] += 1
        if answer.status == 201:
            accepted[answer.body["claim_id"]] = answer.body

    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    async with httpx.AsyncClient(base_url=url, timeout=30, limits=limits, trust_env=False) as http, asyncio.TaskGroup() as group:
        began_s = time.perf_counter()
        for number in range(claims):
            due_s = began_s + number / rate
            if (pause_s := due_s - time.perf_counter()) > 0:
                await asyncio.sleep(pause_s)
            group.create_task(one(http, number, due_s))
    return statuses, seconds, accepted


def run(directory: Path, customers: int, claims: int, rate: float, seed: int) -> dict[str, Any]:
    """The figures.  `mistakes` is empty when everything is right."""
    with BrokerProcess() as broker, Web(directory, broker.bootstrap) as web:
        statuses, seconds, accepted = asyncio.run(claim_all(web.url, customers, claims, rate, seed))
        cpu_s = web.cpu_seconds
        units: Counter[str] = Counter()
        stored = {claim["claim_id"]: claim for claim in records_of_topic(broker.bootstrap, "burger-claims")}
        for claim in stored.values():
            units[claim["customer_id"]] += claim["quantity"]
    mistakes = [f"{name} has {count}" for name, count in units.items() if count > MOST]
    if accepted.keys() != stored.keys():
        mistakes.append(f"{len(accepted)} claims were accepted, and {len(stored)} are stored")
    told = {f"p{share * 100:g}_ms": round(1000 * (quantile(seconds, share) or 0), 1) for share in (0.5, 0.9, 0.99, 0.999)}
    return {
        "claims": claims,
        "customers": len(units),
        "answers": dict(statuses),
        "most": max(units.values()),
        **told,
        "cpu_ms_a_claim": round(1000 * cpu_s / claims, 2),
        "mistakes": mistakes,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--customers", type=int, default=10_000)
    parser.add_argument("--claims", type=int, default=30_000)
    parser.add_argument("--rate", type=float, default=200.0, help="claims a second")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moldau-burgers-") as directory:
        outcome = run(Path(directory), given.customers, given.claims, given.rate, given.seed)
    print(json.dumps(outcome, indent=1))
    return 1 if outcome["mistakes"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
