"""● The one Spark session of a process, with the settings that a small streaming job wants.

From a laptop (`local[*]`) to a cluster only the master changes.  The settings and their reasons: two shuffle partitions
instead of 200 (each is a task and a state store a micro-batch), projections that are interpreted (each micro-batch
generates and compiles its own otherwise: a fifth of its CPU time, for a few hundred rows), RocksDB state with changelog
checkpoints, UTC everywhere, no web UI, and, on this machine, Python workers that are this very interpreter.  Spark runs no
stage a second time, since the sink's tasks could not tell (`pyspark_moldau.attempts`).
"""

import os
import signal
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from urllib.parse import urlparse

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import moldau
from moldau.pipelines.provision import java_environment
from moldau.pipelines.spark_home import home_without_archive
from pyspark_moldau.attempts import RUN_STAGES_ONCE

_STREAMING = "org.apache.spark.sql.execution.streaming"
SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.stateStore.providerClass": f"{_STREAMING}.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    **RUN_STAGES_ONCE,
}
# Halves the cost of the two log writes of a micro-batch; it relies on an atomic rename, so for checkpoints on a file system only.
LOCAL_CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager",
}
# For runs of minutes: the second compiler never earns back what it costs (half the CPU of the first minutes).
SHORT_LIVED = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


# Settings that Spark makes by itself in a session that `spark-submit` did not start.
UNSAID: Mapping[str, str] = {
    "spark.master": "local[*]",
    "spark.app.name": "pyspark-shell",
    "spark.ui.showConsoleProgress": "true",
}
LAUNCHED_WITH = ("spark.driver.", "spark.jars")
"""Settings that come too late once the JVM runs: the settings of its memory, and of the jars that it loads classes from."""
SUBMITTED = "PYSPARK_GATEWAY_PORT"
ARCHIVE = "#moldau"  # the name that an archive of `moldau pipelines pack` must have


def open_session(
    name: str, *, master: str = "local[*]", checkpoint: str = "", log_file: Path | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark, or return the session that runs already.

    Settings of `spark-submit` win (options, `--conf`, spark-defaults.conf), then `settings`, then ours.  `checkpoint` is where
    queries will keep their checkpoints.  Java is brought when missing (ProvisionError if it cannot be).  The JVM's output goes to
    `log_file` when given.
    """
    is_submitted = SUBMITTED in os.environ
    wanted = {**SETTINGS, "spark.master": master, "spark.app.name": name, **(settings or {})}
    if not is_submitted:
        os.environ.update(java_environment())
        if wanted["spark.master"].startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            if os.environ["PYSPARK_PYTHON"] == sys.executable and "SPARK_HOME" not in os.environ and (home := home_without_archive()):
                os.environ["SPARK_HOME"] = str(home)
            os.environ["PYTHONPATH"] = this_tree_first()
    launch = SparkConf(loadDefaults=False)
    for key, value in (settings or {}).items():
        if key.startswith(LAUNCHED_WITH):
            launch.set(key, value)
    with _stderr_to(log_file):
        SparkContext._ensure_initialized(conf=launch)
        said = dict(SparkConf().getAll())
        builder = SparkSession.builder
        for key, value in gaps_filled(wanted, said, checkpoint, is_submitted=is_submitted, here=_package_folders()).items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


def gaps_filled(
    wanted: Mapping[str, str], said: Mapping[str, str], checkpoint: str, *, is_submitted: bool, here: Sequence[str] = ()
) -> dict[str, str]:
    """`wanted` without the settings that were `said`, with settings that follow from the places of checkpoints and tasks.

    `here` are the driver's folders of packages: Spark runs some of its Python workers beside the driver, where no archive is unpacked.
    """
    told = {key: value for key, value in said.items() if is_submitted or UNSAID.get(key) != value}
    derived: dict[str, str] = {}
    if is_local_path(checkpoint, told.get("spark.hadoop.fs.defaultFS", "")):
        derived |= LOCAL_CHECKPOINTS
    if not told.get("spark.master", wanted["spark.master"]).startswith("local") and ARCHIVE in told.get("spark.archives", ""):
        derived["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(["./" + ARCHIVE.removeprefix("#"), *here])
    return {key: value for key, value in {**derived, **wanted}.items() if key not in told}


def _package_folders() -> list[str]:
    paths = sysconfig.get_paths()
    return list(dict.fromkeys([str(Path(moldau.__file__).parents[1]), paths["purelib"], paths["platlib"]]))


def is_local_path(checkpoint: str, default_file_system: str = "") -> bool:
    scheme = urlparse(checkpoint).scheme or urlparse(default_file_system).scheme
    return scheme in ("", "file")


def noted_interrupts() -> Event:
    """The event that Ctrl-C and SIGTERM set from now on.  Call this once Spark has started, since Spark takes Ctrl-C for itself.

    An exception in the middle of a call into the JVM would break its connection, so waiting code looks at the event now and then.
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
