"""● A real OpenSearch 2.19.1 beside us: one node as a process, without security, on a folder that outlives a kill.

with OpenSearch() as search:
    httpx.get(search.url + "/index/_doc/1")
"""

import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from moldau.pipelines.provision import java_home
from moldau.testing.child import HOST, ChildProcess, free_ports
from proof.kafka.jars import jar_set
from proof.metadata.oracle import compiled

SOURCE: Final = Path(__file__).parent / "oracle" / "OpenSearch.java"
FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms256m", "-Xmx512m")


class OpenSearch(ChildProcess):
    """See the module.  The process is killed at the end, as in between."""

    name = "OpenSearch"

    def __init__(self) -> None:
        super().__init__()
        (self.port,) = free_ports(1)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def command(self) -> Sequence[str]:
        jars = os.pathsep.join(map(str, jar_set("opensearch-2.19.1")))
        path = os.pathsep.join([str(compiled(SOURCE, jars)), jars])
        return [str(java_home() / "bin" / "java"), *FLAGS, "-cp", path, "OpenSearch", str(self.directory / "node"), str(self.port)]

    def is_ready(self) -> bool:
        if "OpenSearch started" not in self.said:
            return False
        try:
            with urllib.request.urlopen(self.url, timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False
