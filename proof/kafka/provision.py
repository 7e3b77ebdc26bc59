"""● Provides everything that tests and benchmarks need beside pip's packages.

Java, Apache Kafka 4.3.1 and 2.1.0, Kafka Streams, Spark's connector, OpenSearch, Debezium, kcat.

`python -m proof.kafka.provision` brings everything, with progress.  Each function brings its part if that is missing, so
a single test run alone works too.  Jars and Java stay in the user's cache (`moldau.pipelines.provision`), which every
checkout shares.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from moldau.pipelines.provision import ProvisionError, java_environment, java_home
from moldau.pipelines.provision.cache import only_one
from proof.kafka.jars import jar_set, spark_connector_jars

__all__ = ["java_environment", "java_home", "kafka_classpath", "kcat", "spark_connector_jars", "streams_jars"]

KAFKA_VERSION = "4.3.1"
OLDEST = "2.1.0"
"""The oldest release that our clients serve."""


def kafka_classpath() -> str:
    """The Java class path of Apache Kafka's broker and tools.  Raises ProvisionError."""
    return os.pathsep.join(map(str, jar_set(f"kafka-{KAFKA_VERSION}")))


def streams_jars() -> list[Path]:
    """The jars of Kafka Streams and its test driver.  They need the broker's jars beside them.  Raises ProvisionError."""
    return jar_set(f"kafka-streams-{KAFKA_VERSION}")


def kcat(*, install: bool = False) -> Path | None:
    """The kcat program, or None.  With `install` Debian's package is brought if that needs no password."""
    found = shutil.which("kcat") or shutil.which("kafkacat")
    if found is None and install and os.geteuid() == 0 and shutil.which("apt-get"):
        with only_one("kcat"):
            print("Bringing Debian's package kcat", file=sys.stderr, flush=True)
            for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-q", "-y", "--no-install-recommends", "kcat"]):
                subprocess.run(command, stdout=sys.stderr, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, check=False)
        found = shutil.which("kcat")
    return Path(found) if found else None


def main() -> int:
    """Bring everything.  Returns the exit code."""
    try:
        print(f"Java: {java_home()}", flush=True)
        print(f"Apache Kafka {KAFKA_VERSION}: {len(kafka_classpath().split(os.pathsep))} jars", flush=True)
        print(f"Apache Kafka {OLDEST}: {len(jar_set(f'kafka-{OLDEST}'))} jars", flush=True)
        print(f"Kafka Streams {KAFKA_VERSION}: {len(streams_jars())} jars", flush=True)
        print(f"Spark's Kafka connector: {len(spark_connector_jars())} jars", flush=True)
        print(f"OpenSearch 2.19.1: {len(jar_set('opensearch-2.19.1'))} jars", flush=True)
        print(f"Debezium 3.3.2: {len(jar_set('debezium-3.3.2'))} jars", flush=True)
    except ProvisionError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"kcat: {kcat(install=True) or 'missing, and only root can install it; its tests will be skipped'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
