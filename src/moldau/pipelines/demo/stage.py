"""● Getting orders in and verdicts out, phase by phase, with progress bars, while watching that nothing has died."""

import threading
import time
from collections.abc import Iterable, Sequence

from pyspark.sql.streaming.query import StreamingQuery
from rich.progress import Progress

from moldau.pipelines.demo.options import Phase
from moldau.pipelines.validation.faults import Sent
from moldau.pipelines.validation.ledger import Ledger
from moldau.pipelines.validation.service import OrderService

# If nothing is judged for so long while verdicts are owed, the run is stuck.  Spark's first micro-batch takes less, also on two
# cores that ten other programs use as well.
STALL_S = 600.0
READ_WAIT_S = 0.2


class RunError(RuntimeError):
    """The run cannot go on; the message says why."""


class Stopped(Exception):
    """Somebody has stopped the run."""


class Stage:
    def __init__(
        self, service: OrderService, ledger: Ledger, queries: Sequence[StreamingQuery], progress: Progress, stopping: threading.Event
    ) -> None:
        self.service = service
        self.ledger = ledger
        self.queries = queries
        self.progress = progress
        self.owed = 0  # orders that get a verdict without any deadline
        self.lost = 0  # orders whose stock request was never sent: the deadline gives their verdict
        self.heard_at = time.monotonic()
        self.stopping = stopping

    def run(self, phase: Phase, sent: Iterable[Sent]) -> None:
        """Send a phase and wait for its verdicts.  Errors: RunError, Stopped."""
        steps = list(sent)
        orders = [step for step in steps if step.order]
        lost = sum(not step.has_request for step in orders)
        self.lost += lost
        self.owed += len(orders) - lost
        pace = f"{phase.rate:g} a second" if phase.rate else "as fast as possible"
        sending = self.progress.add_task(f"{phase.name}: orders sent, {pace}", total=len(orders))
        judging = self.progress.add_task(f"{phase.name}: orders judged", total=len(orders) - lost)
        sent_before, judged_before = self.service.sent_count, len(self.ledger.verdicts)
        sender = _Sender(self, phase, steps)
        sender.start()
        while sender.is_alive() or len(self.ledger.verdicts) < self.owed:
            self._read()
            self.progress.update(sending, completed=self.service.sent_count - sent_before)
            self.progress.update(judging, completed=len(self.ledger.verdicts) - judged_before)
            if sender.error is not None:
                raise RunError(f"sending failed: {sender.error}") from sender.error
        self.progress.update(sending, completed=len(orders))

    def pass_deadlines(self) -> None:
        """Wait for the orders whose inventory check was never asked: they reach their deadline.  Errors: RunError, Stopped."""
        task = self.progress.add_task("deadlines passed", total=self.lost)
        before = len(self.ledger.verdicts)
        self.owed += self.lost
        while len(self.ledger.verdicts) < self.owed:
            self._read()
            self.progress.update(task, completed=len(self.ledger.verdicts) - before)
        self.progress.update(task, completed=self.lost)

    def _read(self) -> None:
        if self.stopping.is_set():
            raise Stopped
        for query in self.queries:
            if (failure := query.exception()) is not None:
                raise RunError(f"query {query.name} failed: {failure}")
        if self.ledger.read(READ_WAIT_S):
            self.heard_at = time.monotonic()
        elif time.monotonic() - self.heard_at > STALL_S:
            there = f"{len(self.ledger.verdicts)} of {self.owed} verdicts are there"
            raise RunError(f"nothing was judged for {STALL_S:.0f} s: {there}.  With --dir DIR a run keeps Spark's log, DIR/spark.log")

    def stop(self) -> None:
        self.stopping.set()


class _Sender(threading.Thread):
    def __init__(self, stage: Stage, phase: Phase, steps: Sequence[Sent]) -> None:
        super().__init__(name="order-service", daemon=True)
        self.stage = stage
        self.phase = phase
        self.steps = steps
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.stage.service.send(self.steps, rate=self.phase.rate, told=self._told)
        except Stopped:
            pass
        except Exception as error:  # a thread has no caller to raise to, so the stage raises the error
            self.error = error

    def _told(self, count: int) -> None:
        if self.stage.stopping.is_set():
            raise Stopped
