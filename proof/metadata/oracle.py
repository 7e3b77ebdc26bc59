"""● Asks Kafka 4.3.1's own controller classes for their decisions.

    with Oracle() as oracle:
        answers = oracle.ask(case)

`oracle/Decisions.java` calls the classes in Kafka's jars.  `javac` compiles it once, and it runs as a child process: it reads one case a
line and writes one line of answers.  Records and messages travel as Kafka's own bytes, so that encoding is compared as well.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from proof.kafka.apache import java_command
from proof.kafka.provision import kafka_classpath

SOURCE: Final = Path(__file__).parent / "oracle" / "Decisions.java"
MAIN: Final = "org.apache.kafka.controller.Decisions"
FLAGS: Final = ("-XX:+UseSerialGC", "-Xmx256m")


def javac() -> str | None:
    """The Java compiler, or None if there is only a runtime."""
    return shutil.which("javac")


def compiled(source: Path = SOURCE, classpath: str | None = None) -> Path:
    """The folder of classes, made when the source has changed.  Errors: CalledProcessError, AssertionError without a compiler."""
    compiler = javac()
    assert compiler is not None, "there is no javac: install a JDK"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    made = Path(tempfile.gettempdir()) / f"moldau-oracle-{os.getuid()}-{digest}"
    if not made.exists():
        scratch = Path(tempfile.mkdtemp(dir=made.parent))
        command = [compiler, "-nowarn", "-proc:none", "-cp", classpath or kafka_classpath(), "-d", str(scratch), str(source)]
        subprocess.run(command, check=True, capture_output=True)
        try:
            scratch.rename(made)
        except OSError:  # another process was faster
            shutil.rmtree(scratch)
    return made


def compiled_command(source: Path, main: str, *arguments: str, flags: Sequence[str], jars: Sequence[Path] = ()) -> list[str]:
    """The command line of a program of ours that calls Kafka's classes.  `jars`: what it needs beside Kafka's.  Errors: as `compiled`."""
    command = java_command(main, *arguments, flags=flags)
    position = command.index("-cp") + 1
    classpath = os.pathsep.join([*map(str, jars), command[position]])
    command[position] = os.pathsep.join([str(compiled(source, classpath)), classpath])
    return command


def talking(command: Sequence[str]) -> "subprocess.Popen[str]":
    """A child process that is asked and answers by lines."""
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8")


class Oracle:
    """The child process.  One question at a time."""

    def __init__(self, source: Path = SOURCE, main: str = MAIN, jars: Sequence[Path] = ()) -> None:
        """`jars` are the jars that the program needs beside Kafka's."""
        self._source = source
        self._main = main
        self._jars = jars

    def __enter__(self) -> Self:
        self._process = talking(compiled_command(self._source, self._main, flags=FLAGS, jars=self._jars))
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self._process.communicate(timeout=60)

    def ask(self, case: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The answer to each step: `records` (hex), `response` (hex), or `error`."""
        answers: list[dict[str, Any]] = self.answer(case)["steps"]
        return answers

    def answer(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """Write one line and read one line."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "Kafka's classes gave no answer: run them by hand to see why"
        answer: dict[str, Any] = json.loads(line)
        return answer
