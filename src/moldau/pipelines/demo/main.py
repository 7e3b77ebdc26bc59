"""● The run from start to end: broker, orders, Spark, phases, promotion, oracle, table, report."""

import logging
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

from moldau.errors import KafkaError
from moldau.pipelines import retail
from moldau.pipelines.demo.broker import BrokerError, free_port, is_free, own_broker, see_that_it_answers
from moldau.pipelines.demo.figures import Figures, Judgement, MicroBatch
from moldau.pipelines.demo.options import PAGE_PORT, Options, Phase, phases
from moldau.pipelines.demo.page import PageError, Watched, page
from moldau.pipelines.demo.progress import progress_on, step
from moldau.pipelines.demo.report import write_report
from moldau.pipelines.demo.stage import RunError, Stage, Stopped
from moldau.pipelines.ends import Ends
from moldau.pipelines.promo import job as promo_job
from moldau.pipelines.promo import oracle as promo_oracle
from moldau.pipelines.promo import shop
from moldau.pipelines.promo.model import PromoTopics, promo_lines
from moldau.pipelines.provision import ProvisionError
from moldau.pipelines.session import SHORT_LIVED, noted_interrupts, open_session
from moldau.pipelines.validation import job, oracle
from moldau.pipelines.validation.faults import FaultPlan, Sent, with_faults
from moldau.pipelines.validation.ledger import Ledger
from moldau.pipelines.validation.model import Topics
from moldau.pipelines.validation.oracle import Expectation
from moldau.pipelines.validation.service import OrderService

SHOWN_DIFFERENCES = 10
LOOKS_EVERY_S = 1
# In the flood an order may wait long for its first answer; a check that was not asked is given up soon after the others.
DEADLINE_MS, STRAGGLER_MS = 24 * 3_600_000, 30_000
INTERRUPTED = 130


def play(options: Options) -> int:
    """Play the demo.  Returns the exit code of `command.main`."""
    console = Console()
    # Ctrl-C while Spark starts: py4j logs a stack trace for each call that was cut short, and the exception reaches us all the same.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        return run(options, console, lambda figures: _tell(options, console, figures))
    except (KeyboardInterrupt, Stopped):
        console.print("\nStopped. Broker, queries and temporary files are gone.")
        return INTERRUPTED
    except (RunError, BrokerError, PageError, ProvisionError, KafkaError, OSError) as error:
        console.print(f"[bold red]The run broke:[/] {error}", highlight=False)
        return 1


def _tell(options: Options, console: Console, figures: Figures) -> int:
    console.print(summary(figures))
    for remark in figures.remarks():
        console.print(f"[bold yellow]{remark}[/]", highlight=False)
    report = Path(options.report)
    write_report(report, figures)
    console.print(f"Report: {report.resolve()}", soft_wrap=True)
    return verdict(console, figures)


def run(options: Options, console: Console, tell: Callable[[Figures], int]) -> int:
    """Run the demo.  Returns the result of `tell`, which gets the figures while everything still runs."""
    started = time.monotonic()
    with ExitStack() as stack:
        progress = stack.enter_context(progress_on(console))
        directory = stack.enter_context(_directory(options.directory))
        bootstrap = options.bootstrap_servers
        if bootstrap is not None:
            with step(progress, f"asking {bootstrap}"):
                see_that_it_answers(bootstrap)
        else:
            with step(progress, "starting the broker"):
                bootstrap = stack.enter_context(own_broker(directory))
        with step(progress, f"reading {options.orders:,} real orders"):
            catalogue = retail.catalogue()
            sent = list(with_faults(retail.orders(options.orders), FaultPlan()))
        with step(progress, "starting Spark"):
            settings = {**SHORT_LIVED, "spark.sql.streaming.numRecentProgressUpdates": "100000"}
            spark = open_session("moldau demo", master=options.master, log_file=directory / "spark.log", settings=settings)
        stack.callback(spark.stop)
        stopping = noted_interrupts()
        # A Kafka that runs already may hold an earlier run's topics.
        prefix = f"demo-{time.time_ns() // 1_000_000}-" if options.bootstrap_servers else ""
        ends = Ends(bootstrap, str(directory / "checkpoints" / prefix))
        topics = Topics.prefixed(prefix)
        service = OrderService(bootstrap, topics, partitions=options.partitions)
        ledger = stack.enter_context(closing(Ledger(bootstrap, topics)))
        config = job.JobConfig(ends, catalogue, topics, deadline_ms=DEADLINE_MS, straggler_ms=STRAGGLER_MS)
        query = job.start(spark, config)
        watched, port = stack.enter_context(closing(Watched())), _page_port(options)
        watched.follow([query])
        shown = stack.enter_context(ExitStack())
        if port:
            with step(progress, "opening the live page"):
                url = shown.enter_context(page(directory, bootstrap, prefix, options.partitions, port, watched, is_open=False))
            console.print(f"Watch it in a browser: {url}", highlight=False)
        stage = Stage(service, ledger, [query], progress, stopping)
        stack.callback(stage.stop)
        judgements = _play(stage, phases(options), sent)
        with step(progress, "stopping the query"):
            batches = list(_micro_batches(query))
            query.stop()
            ledger.read(1.0)  # a verdict too many would come now
        with step(progress, "asking the oracle"):
            expectation = oracle.expect(sent, catalogue, *ledger.freed)
        differences = _differences(expectation, ledger)
        lines, rejected = 0, 0
        if options.with_promo:
            with step(progress, "the burger promotion: every burger line of the year"):
                lines, rejected, wrong = _promote(spark, ends, PromoTopics.prefixed(prefix), options.partitions, stopping)
            differences += wrong
        figures = _figures(options, expectation, judgements, ledger, batches, differences, lines, rejected, spark.version, started)
        code = tell(figures)
        if options.stays:
            shown.close()
            watched.follow([job.start(spark, config)])
            with page(directory, bootstrap, prefix, options.partitions, port, watched, is_open=True) as url:
                console.print(f"The page takes orders now: {url}  Ctrl-C ends it.", highlight=False)
                stopping.wait()
        return code


def _page_port(options: Options) -> int:
    """The port of the page; 0: no page.  If the usual port is taken, another one is found; a port that was asked for has to be free."""
    if options.page_port is None:
        return 0
    return free_port() if options.page_port == 0 or (options.page_port == PAGE_PORT and not is_free(PAGE_PORT)) else options.page_port


def _figures(
    options: Options,
    expectation: Expectation,
    judgements: list[Judgement],
    ledger: Ledger,
    batches: list[MicroBatch],
    differences: list[str],
    lines: int,
    rejected: int,
    spark_version: str,
    started: float,
) -> Figures:
    return Figures(
        orders=len(expectation.orders),
        judgements=judgements,
        dead_letters=ledger.dead_letter_counts(),
        repeats=ledger.repeats,
        micro_batches=batches,
        differences=differences,
        promo_lines=lines,
        promo_rejected=rejected,
        settings={
            "orders": f"{options.orders:,}",
            "broker": options.bootstrap_servers or "our own, started for the run",
            "Spark": f"{spark_version}, {options.master}",
            "partitions a topic": str(options.partitions),
            "phases": "; ".join(
                f"{phase.name} {phase.orders:,}" + (f" at {phase.rate:g}/s" if phase.rate else "") for phase in phases(options)
            ),
        },
        elapsed_s=time.monotonic() - started,
        steady_rate=next((phase.rate for phase in phases(options) if phase.name == "steady"), 0.0),
    )


def _play(stage: Stage, planned: Sequence[Phase], sent: Sequence[Sent]) -> list[Judgement]:
    """Run all phases, then wait for the deadlines.  Returns the outcome of every order that was sent."""
    origin: dict[str, tuple[str, bool]] = {}
    for phase, steps in _split(planned, sent):
        origin |= {step.order.order_id: (phase.name, step.has_request) for step in steps if step.order}
        stage.run(phase, steps)
    stage.pass_deadlines()
    return [
        Judgement(*origin[order_id], judged.created_ms, judged.judged_ms, judged.outcome)
        for order_id, judged in stage.ledger.verdicts.items()
        if order_id in origin
    ]


def _split(planned: Sequence[Phase], sent: Sequence[Sent]) -> Iterator[tuple[Phase, list[Sent]]]:
    """Cut after each phase's number of orders; the last phase takes the rest."""
    rest = iter(sent)
    for phase in planned[:-1]:
        steps: list[Sent] = []
        missing = phase.orders
        while missing and (step := next(rest, None)) is not None:
            steps.append(step)
            missing -= step.order is not None
        yield phase, steps
    yield planned[-1], list(islice(rest, None))


def _micro_batches(query: StreamingQuery) -> Iterator[MicroBatch]:
    for update in query.recentProgress:
        if update.numInputRows:
            started_ms = int(datetime.fromisoformat(update.timestamp).timestamp() * 1000)
            yield MicroBatch(query.name or "", started_ms + update.batchDuration, update.numInputRows, update.batchDuration)
        dropped = sum(operator.numRowsDroppedByWatermark for operator in update.stateOperators)
        if dropped:
            raise RunError(f"query {query.name} dropped {dropped} rows as too old for its watermark: their orders have no verdict")


def _promote(spark: SparkSession, ends: Ends, topics: PromoTopics, partitions: int, stopping: Event) -> tuple[int, int, list[str]]:
    lines = list(promo_lines(retail.orders(), retail.burger_product_ids()))
    expected = promo_oracle.expect(lines)
    shop.send_lines(ends.bootstrap_servers, topics, lines, partitions=partitions)
    query = promo_job.start_available(spark, promo_job.PromoConfig(ends, topics))
    while not query.awaitTermination(LOOKS_EVERY_S):
        if stopping.is_set():
            raise Stopped
    found = shop.read_verdicts(ends.bootstrap_servers, topics)
    wrong = [
        f"burger line {line_id}: expected {expected.get(line_id, 'nothing')}, found {found.get(line_id, 'nothing')}"
        for line_id in expected.keys() | found.keys()
        if line_id not in expected or line_id not in found or expected[line_id] != found[line_id]
    ]
    return len(found), sum(reason is not None for reason in found.values()), wrong


def _differences(expectation: Expectation, ledger: Ledger) -> list[str]:
    differences = oracle.differences(expectation.orders, ledger.outcomes()) + ledger.contradictions
    if expectation.dead_letters != ledger.dead_letter_counts():
        differences.append(f"dead letters: expected {dict(expectation.dead_letters)}, found {dict(ledger.dead_letter_counts())}")
    if ledger.released != Counter(expectation.released):
        differing = ledger.released - Counter(expectation.released) + (Counter(expectation.released) - ledger.released)
        differences.append(f"stock was not given back once by each order that failed, such as {sorted(differing)[:5]}")
    return differences


def summary(figures: Figures) -> Table:
    table = Table(title="Order validation", show_header=False, min_width=64)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("orders in", f"{figures.orders:,}")
    for state, count in sorted(figures.states.items(), key=lambda entry: -entry[1]):
        table.add_row(f"  {state}", f"{count:,}")
    for reason, count in figures.reasons.most_common():
        table.add_row(f"    FAILED because {reason}", f"{count:,}")
    table.add_row("dead letters", f"{figures.dead_letters.total():,}")
    for reason, count in figures.dead_letters.most_common():
        table.add_row(f"    {reason}", f"{count:,}")
    table.add_section()
    for phase in ("flood", "steady"):
        if rate := figures.orders_per_s(phase):
            table.add_row(f"{phase}: orders judged a second", f"{rate:,.0f}")
    for phase in ("steady",):
        for share in (0.5, 0.99):
            latency = figures.latency_s(phase, share)
            if latency is not None:
                table.add_row(f"{phase}: p{share * 100:.0f} seconds from CREATED to verdict", f"{latency:.2f}")
    if (sent := figures.sent_per_s("steady")) is not None:
        table.add_row("steady: orders sent a second", f"{sent:,.0f}")
    table.add_section()
    if figures.promo_lines:
        table.add_row("burger lines judged", f"{figures.promo_lines:,}")
        table.add_row("    over five in 24 hours", f"{figures.promo_rejected:,}")
    table.add_row("records repeated by the sink", f"{figures.repeats:,}")
    table.add_row("whole run, seconds", f"{figures.elapsed_s:.0f}")
    return table


def verdict(console: Console, figures: Figures) -> int:
    checked = figures.orders + figures.promo_lines
    if not figures.differences:
        console.print(f"[bold green]All {checked:,} verdicts are the oracle's.[/]")
        return 0
    console.print(f"[bold red]{len(figures.differences):,} of {checked:,} verdicts are not the oracle's:[/]")
    for line in figures.differences[:SHOWN_DIFFERENCES]:
        console.print(f"  {line}", highlight=False)
    return 1


@contextmanager
def _directory(chosen: str | None) -> Iterator[Path]:
    if chosen is not None:
        directory = Path(chosen)
        used = [name for name in ("broker", "checkpoints") if (directory / name).exists()]
        if used:
            raise RunError(f"{directory} holds an earlier run ({', '.join(used)}): name another folder as --dir, or delete that one")
        directory.mkdir(parents=True, exist_ok=True)
        yield directory
        return
    directory = Path(tempfile.mkdtemp(prefix="moldau-demo-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
