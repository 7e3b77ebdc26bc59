"""● `moldau pipelines`: run a pipeline, list the pipelines, print a file of settings, pack an archive for workers, ask a table.

    moldau pipelines run order-validation --config orders.toml
    spark-submit --master spark://host:7077 --archives moldau.tar.gz#moldau \\
        "$(moldau pipelines script)" run order-validation --config orders.toml

Settings of `spark-submit` win, then those of the file's table `[spark]`, then our own.  Exit codes: 0 stopped, 1 refused.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from moldau.errors import KafkaError
from moldau.pipelines.running.known import PIPELINES, Pipeline
from moldau.pipelines.running.pack import PackError
from moldau.pipelines.running.settings import SettingsError, example, read
from moldau.pipelines.streams.command import add_table

EXAMPLES = """\
examples:
  moldau pipelines example order-validation
  moldau pipelines run order-validation --config orders.toml
  moldau pipelines pack moldau.tar.gz
  moldau pipelines table spent-by-customer anna --value-type long
"""
EXTRA = 'pip install "moldau[spark]"'


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    try:
        return int(given.action(given))
    except SettingsError as error:
        for mistake in error.mistakes:
            print(f"moldau: {given.config}: {mistake}", file=sys.stderr)
    except (OSError, ValueError, PackError) as error:
        print(f"moldau: {error}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="moldau pipelines",
        description="Run pipelines on Spark.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    run = actions.add_parser("run", help="run a pipeline until SIGTERM or Ctrl-C; it goes on from its checkpoint")
    run.add_argument("name", choices=list(PIPELINES), metavar="NAME", help=" or ".join(PIPELINES))
    run.add_argument("--config", required=True, metavar="FILE", help="its settings, TOML; `moldau pipelines example NAME` prints one")
    run.add_argument("--master", default="local[*]", help="Spark's master, where spark-submit names none (%(default)s)")
    run.set_defaults(action=_run)
    listing = actions.add_parser("list", help="the pipelines there are")
    listing.set_defaults(action=_list, config="")
    shown = actions.add_parser("example", help="print a file of settings with all defaults")
    shown.add_argument("name", choices=list(PIPELINES), metavar="NAME")
    shown.set_defaults(action=_example, config="")
    packed = actions.add_parser("pack", help="pack what workers need beside PySpark, for spark-submit --archives FILE#moldau")
    packed.add_argument("file", nargs="?", default="moldau.tar.gz", metavar="FILE", help="(%(default)s)")
    packed.set_defaults(action=_pack, config="")
    script = actions.add_parser("script", help="print the path that spark-submit takes as its application")
    script.set_defaults(action=_script, config="")
    asked = actions.add_parser("table", help="print a row of a table: of a compacted topic that a pipeline writes")
    add_table(asked)
    return parser


def _list(given: argparse.Namespace) -> int:
    for pipeline in PIPELINES.values():
        print(f"{pipeline.name:<20} {pipeline.about}")
    return 0


def _example(given: argparse.Namespace) -> int:
    pipeline = PIPELINES[given.name]
    print(example(f"moldau pipelines run {pipeline.name}: {pipeline.about}", pipeline.fields), end="")
    return 0


def _pack(given: argparse.Namespace) -> int:
    from moldau.pipelines.running.pack import pack

    packed = pack(Path(given.file))
    print(f"{given.file}: {', '.join(packed)}.  Submit with --archives {given.file}#moldau")
    return 0


def _script(given: argparse.Namespace) -> int:
    print(Path(__file__).with_name("submitted.py"))
    return 0


def _run(given: argparse.Namespace) -> int:
    pipeline = PIPELINES[given.name]
    missing = [name for name in ("pyspark", "pyarrow", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise ValueError(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed: {EXTRA}")
    values = read(Path(given.config).read_text(encoding="utf-8"), pipeline.fields)
    from moldau.pipelines.provision import ProvisionError
    from moldau.pipelines.running.checkpoints import CheckpointRefused

    try:
        return run(pipeline, values, master=given.master)
    except (KafkaError, ProvisionError, CheckpointRefused) as error:
        raise ValueError(str(error)) from error


def say(line: str) -> None:
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}", file=sys.stderr, flush=True)


def run(pipeline: Pipeline, values: dict[str, Any], *, master: str) -> int:
    """Errors: OSError, ValueError, KafkaError, ProvisionError, CheckpointRefused."""
    from moldau.pipelines.ends import Ends
    from moldau.pipelines.running.checkpoints import claim, refuse_former
    from moldau.pipelines.running.keeper import Kept, keep_running
    from moldau.pipelines.running.metrics import Metrics
    from moldau.pipelines.running.missing_topics import make_missing
    from moldau.pipelines.session import noted_interrupts, open_session

    security = {f"kafka.{name}": value for name, value in values["kafka"].items()}
    ends = Ends(values["bootstrap_servers"], values["checkpoint"], values["max_records_per_batch"], security, values["trigger_ms"])
    runnable = pipeline.build(values, ends)
    metrics = Metrics(say)
    if values["metrics_port"]:
        metrics.serve(values["metrics_port"])
    spark = open_session(pipeline.name, master=master, checkpoint=ends.checkpoint, settings=values["spark"])
    stopping = noted_interrupts()
    try:
        for name in runnable.former:
            refuse_former(spark, ends.folder(name))
        for name in runnable.queries:
            claim(spark, ends.folder(name), pipeline.state_versions)
        if values["partitions"]:
            make_missing(ends, runnable.topics, values["partitions"], stopping, say)
        say(f"{pipeline.name}: {', '.join(runnable.queries)} on {spark.sparkContext.master}, Spark {spark.version}, process {os.getpid()}")
        queries = [Kept(name, partial(runnable.start, spark, name)) for name in runnable.queries]
        keep_running(queries, stopping, say, time.monotonic, metrics)
    finally:
        spark.stop()
    say(f"{pipeline.name}: stopped")
    return 0
