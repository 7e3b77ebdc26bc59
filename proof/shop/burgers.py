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
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from moldau.pipelines.demo.figures import quantile
from moldau.testing.process import BrokerProcess
from proof.shop.clients import PAUSE_S
from proof.shop.connection import Connection, Posted
from proof.shop.parts import Web
from proof.shop.stored import records_of_topic

MOST: Final = 5
CONNECTIONS: Final = 64


async def claim_all(url: str, customers: int, claims: int, rate: float, seed: int) -> tuple[Counter[int], list[float], dict[str, Any]]:
    """The number of answers by status, the seconds that each took from when it was due, and the accepted claims by id."""
    chance = random.Random(seed)
    statuses: Counter[int] = Counter()
    seconds: list[float] = []
    accepted: dict[str, Any] = {}
    due: asyncio.Queue[tuple[int, float] | None] = asyncio.Queue()

    async def answered(connection: Connection, number: int) -> Posted:
        customer = number if number < customers else chance.randrange(customers)
        body = {"customer_id": f"c{customer}", "quantity": chance.randint(1, 3)}
        while True:
            try:
                answer = await connection.post("/burgers", f"k{number}", body)
            except (OSError, EOFError):
                answer = Posted(503, {})
            if answer.status != 503:
                return answer
            await asyncio.sleep(PAUSE_S)

    async def client() -> None:
        with closing(Connection(url)) as connection:
            while (claim := await due.get()) is not None:
                number, due_s = claim
                answer = await answered(connection, number)
                seconds.append(time.perf_counter() - due_s)
                statuses[answer.status] += 1
                if answer.status == 201:
                    accepted[answer.body["claim_id"]] = answer.body

    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(client())
        began_s = time.perf_counter()
        for number in range(claims):
            due_s = began_s + number / rate
            if (pause_s := due_s - time.perf_counter()) > 0:
                await asyncio.sleep(pause_s)
            due.put_nowait((number, due_s))
        for _ in range(CONNECTIONS):
            due.put_nowait(None)
    return statuses, seconds, accepted


def run(directory: Path, customers: int, claims: int, rate: float, seed: int) -> dict[str, Any]:
    """The figures.  `mistakes` is empty when everything is right."""
    with BrokerProcess() as broker, Web(directory, broker.bootstrap) as web:
        began = web.cpu_seconds, broker.cpu_seconds
        statuses, seconds, accepted = asyncio.run(claim_all(web.url, customers, claims, rate, seed))
        cpu_s, broker_cpu_s = web.cpu_seconds - began[0], broker.cpu_seconds - began[1]
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
        "cpu_ms_a_claim": {"shop": round(1000 * cpu_s / claims, 2), "broker": round(1000 * broker_cpu_s / claims, 2)},
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
