"""● Debezium's own task in a Java process: `oracle/Debezium.java` reads one story at a time and writes its records."""

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from proof.connect.debezium.records import Records
from proof.kafka.jars import jar_set
from proof.metadata.oracle import compiled_command, talking

SOURCE: Final = Path(__file__).parent.parent / "oracle" / "Debezium.java"
FLAGS: Final = ("-XX:+UseSerialGC", "-Xmx512m", "-XX:TieredStopAtLevel=1")
STILL_S: Final = 300.0
"""How long Debezium may tell nothing before it is taken to hang."""


class Debezium:
    """The child process.  It reads one story at a time."""

    def __enter__(self) -> Self:
        self._process = talking(compiled_command(SOURCE, "Debezium", flags=FLAGS, jars=jar_set("debezium-3.3.2")))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def begin(self, config: Mapping[str, str], until: str) -> "Reading":
        """Read from now on, up to the first record of the topic `until`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        own = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "task.id": "0", "name": "story"}
        self._process.stdin.write(json.dumps({"config": {**own, "database.password": "", **config}, "until": until}) + "\n")
        self._process.stdin.flush()
        return Reading(self._process.stdout)


class Reading:
    """The records of one story, collected in a thread."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._found = Records()
        self._error: Any = None
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def _collect(self) -> None:
        for line in self._lines:
            if not line.strip():
                return
            one = json.loads(line)
            if "is" in one:
                self._found.schemas[one["schema"]] = one["is"]
            elif "error" in one:
                self._error = one["error"]
            else:
                self._found.add(one["topic"], line)

    def records(self) -> Records:
        """Errors: AssertionError."""
        known = -1
        while self._thread.is_alive():
            assert len(self._found) > known, f"Debezium has not come to the end: {known} records"
            known = len(self._found)
            self._thread.join(STILL_S)
        assert self._error is None, self._error
        return self._found
