"""● The one Spark session of a process, with the settings that a small streaming job wants.

From a laptop (`local[*]`) to a cluster only the master changes.  The settings and their reasons: two shuffle partitions
instead of 200 (each is a task and a state store a micro-batch), RocksDB state with changelog checkpoints, UTC
everywhere, no web UI, and Python workers that are this very interpreter.
"""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession

import moldau
from moldau.pipelines.provision import java_environment, spark_connector_jars

_STREAMING = "org.apache.spark.sql.execution.streaming"
SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": f"{_STREAMING}.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # The slowest input decides how far time has come: see validation/job.py.
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
# Halves the cost of the two log writes of a micro-batch; it relies on an atomic rename, so for local paths only.
LOCAL_CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager",
}
# For runs of minutes: the second compiler never earns back what it costs (half the CPU of the first minutes).
SHORT_LIVED = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def open_session(
    name: str, *, master: str = "local[*]", log_file: Path | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark with the stock Kafka connector, or return the session that runs already.

    Java and the connector's jars are brought when missing (ProvisionError if they cannot be).  What the JVM has to say goes
    to `log_file` when given.
    """
    os.environ.update(java_environment())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_local = master.startswith("local")
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ["PYTHONPATH"] = this_tree_first()
    builder = SparkSession.builder.appName(name).master(master).config("spark.jars", ",".join(map(str, spark_connector_jars())))
    chosen = {**SETTINGS, **(LOCAL_CHECKPOINTS if is_local else {}), **(settings or {})}
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with _stderr_to(log_file):
        return builder.getOrCreate()


def noted_interrupts() -> Event:
    """Ctrl-C and SIGTERM set it, from now on: call this once Spark has started, which takes Ctrl-C for itself.

    An exception in the middle of a call into the JVM would break its connection, so whoever waits looks here now and then.
    """
    noted = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: noted.set())
    return noted


def this_tree_first() -> str:
    """A PYTHONPATH with which a child process imports the very code that runs here, installed or not."""
    here = str(Path(moldau.__file__).parents[1])
    inherited = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != here]
    return os.pathsep.join([here, *inherited])


@contextmanager
def _stderr_to(path: Path | None) -> Iterator[None]:
    """The JVM inherits our stderr when it starts: lend it a file for that moment, so that it cannot write over a progress bar."""
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
