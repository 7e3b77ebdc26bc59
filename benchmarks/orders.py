"""● The order validation: orders a second in a flood, seconds from CREATED to verdict in a steady stream, and CPU time an order.

    python -m benchmarks.orders ours          python -m benchmarks.orders apache --flood 6000 --steady 1000 --rate 100

CPU time is printed by process: Spark's JVM, its Python workers, the broker, and this process, which sends and reads.  From it follows the
most that two cores could do, whatever else runs on the machine.  The JVM's compilers are told apart: a service that has run for some
minutes needs them no more, so `--warm-up` decides what is measured.  Every verdict is held against the oracle.
"""

import argparse
import os
import tempfile
import time
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Final

from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.processes import cpu_by_kind, cpu_by_thread, jvm_below
from moldau.pipelines import retail
from moldau.pipelines.demo.figures import quantile
from moldau.pipelines.ends import Ends
from moldau.pipelines.session import open_session
from moldau.pipelines.validation import job, oracle
from moldau.pipelines.validation.faults import NO_FAULTS, with_faults
from moldau.pipelines.validation.ledger import Ledger
from moldau.pipelines.validation.model import Topics
from moldau.pipelines.validation.service import OrderService
from moldau.testing.child import NodeProcess
from moldau.testing.process import BrokerProcess
from proof.kafka.apache import ApacheKafka

PARTITIONS: Final = 2
WITHIN_S: Final = 600.0
COMPILERS: Final = "C CompilerThre"
"""The names of C1's and C2's threads without their numbers."""
SHOWN_THREADS: Final = 6


def judge(ledger: Ledger, query: StreamingQuery, count: int) -> None:
    deadline = time.monotonic() + WITHIN_S
    while len(ledger.verdicts) < count:
        ledger.read(0.05)
        assert query.exception() is None, query.exception()
        assert time.monotonic() < deadline, f"{len(ledger.verdicts)} of {count} verdicts"


def newest_batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else progress.batchId


def spent(before: dict[str, float], after: dict[str, float], among: int) -> dict[str, float]:
    """Milliseconds of CPU by kind of process, for each of so many."""
    return {kind: (seconds - before.get(kind, 0)) * 1000 / among for kind, seconds in after.items()}


def said(each: dict[str, float]) -> str:
    return ", ".join(f"{kind} {ms:.2f}" for kind, ms in each.items()) + f" = {sum(each.values()):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker", choices=["ours", "apache"])
    parser.add_argument("--warm-up", type=int, default=1_000, help="orders that are judged before (%(default)s)")
    parser.add_argument("--flood", type=int, default=6_000)
    parser.add_argument("--steady", type=int, default=1_500)
    parser.add_argument("--rate", type=float, default=100.0, help="orders a second of the steady stream")
    parser.add_argument("--trigger-ms", type=int, default=500)
    parser.add_argument("--conf", action="append", default=[], help="a setting of Spark's session, name=value; may be given often")
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-orders-"))
    broker: NodeProcess = BrokerProcess() if told.broker == "ours" else ApacheKafka()
    sent = list(with_faults(retail.orders(told.warm_up + told.flood + told.steady), NO_FAULTS))
    catalogue = retail.catalogue()
    with broker:
        topics = Topics()
        spark = open_session(
            "orders", master="local[2]", log_file=folder / "spark.log", settings=dict(one.split("=", 1) for one in told.conf)
        )
        service = OrderService(broker.bootstrap, topics, partitions=PARTITIONS)
        ends = Ends(broker.bootstrap, str(folder / "checkpoint"), trigger_ms=told.trigger_ms)
        query = job.start(spark, job.JobConfig(ends, catalogue, topics))
        with closing(Ledger(broker.bootstrap, topics)) as ledger:
            service.send(sent[: told.warm_up])
            judge(ledger, query, told.warm_up)
            jvm = jvm_below(os.getpid())
            before, of_threads, begun = cpu_by_kind(broker.pid), cpu_by_thread(jvm), time.perf_counter()
            service.send(sent[told.warm_up : told.warm_up + told.flood])
            judge(ledger, query, told.warm_up + told.flood)
            took_s = time.perf_counter() - begun
            print(f"flood of {told.flood}: {told.flood / took_s:,.0f} orders/s, load {os.getloadavg()[0]:.0f}")
            each = spent(before, cpu_by_kind(broker.pid), told.flood)
            print("CPU ms an order:", said(each))
            threads = {name: (s - of_threads.get(name, 0)) * 1000 / told.flood for name, s in cpu_by_thread(jvm).items()}
            most = sorted(threads.items(), key=lambda one: -one[1])[:SHOWN_THREADS]
            print("of the JVM's, by thread:", ", ".join(f"{name} {ms:.2f}" for name, ms in most))
            without = sum(each.values()) - threads.get(COMPILERS, 0)
            bound = f"{2000 / sum(each.values()):,.0f} orders/s, and {2000 / without:,.0f} when nothing is left to compile"
            print(f"two cores of their own would bear at most {bound}")
            for progress in query.recentProgress[-60:]:
                if progress.numInputRows:
                    told_of = f"{progress.numInputRows} rows, {progress.batchDuration} ms"
                    print(f"  micro-batch {progress.batchId}: {told_of}", progress.durationMs)
            rest = sent[told.warm_up + told.flood :]
            sender = Thread(target=service.send, args=(rest,), kwargs={"rate": told.rate}, daemon=True)
            before, first, begun = cpu_by_kind(broker.pid), newest_batch(query), time.perf_counter()
            sender.start()
            judge(ledger, query, len(sent))
            sender.join()
            batches, took_s = newest_batch(query) - first, time.perf_counter() - begun
            newest = [one.order.order_id for one in sent[told.warm_up + told.flood :] if one.order]
            waited = [(ledger.verdicts[one].judged_ms - ledger.verdicts[one].created_ms) / 1000 for one in newest]
            shown = ", ".join(f"p{share * 100:.0f} {quantile(waited, share):.2f} s" for share in (0.5, 0.99))
            print(f"steady at {told.rate:g}/s: {shown}, load {os.getloadavg()[0]:.0f}; {batches} micro-batches in {took_s:.0f} s")
            print("CPU ms a micro-batch:", said(spent(before, cpu_by_kind(broker.pid), batches)))
            while ledger.read(1.0):
                pass
            differences = oracle.differences(oracle.expect(sent, catalogue, *ledger.freed).orders, ledger.outcomes())
            assert not differences and not ledger.repeats, differences[:5]
        query.stop()
        spark.stop()


if __name__ == "__main__":
    main()
