"""● The live page beside a run: `moldau shop` as a child process, fed with the figures of the run's queries."""

import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql.streaming.query import StreamingQuery

from moldau.pipelines.demo.broker import TIED, free_port, stop
from moldau.pipelines.running.metrics import Metrics
from moldau.pipelines.session import this_tree_first

START_WITHIN_S: Final = 60.0
LOOK_S: Final = 1.0


class PageError(RuntimeError):
    """The page did not open; the message says why."""


class Watched:
    """Looks at the queries once a second and serves their figures in Prometheus' form."""

    def __init__(self) -> None:
        self.port = free_port()
        self._metrics = Metrics(lambda _: None)
        self._metrics.serve(self.port)
        self._queries: Sequence[StreamingQuery] = ()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, name="figures", daemon=True)
        self._thread.start()

    def follow(self, queries: Sequence[StreamingQuery]) -> None:
        self._queries = queries

    def _look(self) -> None:
        while not self._stopped.wait(LOOK_S):
            try:
                for query in self._queries:
                    self._metrics.look(query.name or "", query)
            except Exception:  # Spark is being stopped: the page shows what it saw last
                continue

    def close(self) -> None:
        self._stopped.set()
        self._thread.join(2 * LOOK_S)


@contextmanager
def page(directory: Path, bootstrap: str, prefix: str, partitions: int, port: int, watched: Watched, *, is_open: bool) -> Iterator[str]:
    """The page's address.  `is_open`: it takes orders; else it only shows.  Errors: PageError."""
    # A run on somebody else's Kafka may follow another run, whose views are of other topics.
    command = [sys.executable, "-m", TIED, "shop", "--bootstrap-server", bootstrap, "--port", str(port)]
    command += ["--dir", str(directory / f"{prefix}shop"), "--topic-prefix", prefix, "--partitions", str(partitions)]
    command += ["--metrics", f"http://127.0.0.1:{watched.port}/metrics", "--only", "web", *([] if is_open else ["--read-only"])]
    with (directory / "shop.log").open("ab") as log:
        environment = {**os.environ, "PYTHONPATH": this_tree_first()}
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.PIPE, env=environment, start_new_session=True
        )
        url = f"http://127.0.0.1:{port}"
        try:
            _wait(process, url, directory / "shop.log")
            yield url
        finally:
            stop(process)


def _wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    deadline_s = time.monotonic() + START_WITHIN_S
    while process.poll() is None and time.monotonic() < deadline_s:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    last_words = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
    raise PageError(f"the live page did not open at {url}:\n{last_words}\n`--no-page` does without it")
