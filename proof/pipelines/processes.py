"""● Starts processes of a proof, and ends each with all its descendants."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def started(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
    try:
        yield process
    finally:
        for each in (*below(process.pid), process.pid):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.wait()


def below(pid: int) -> list[int]:
    """The descendants of a process."""
    return [each for child in children_of(pid) for each in (*below(child), child)]


def children_of(pid: int) -> Iterator[int]:
    """The children of a process.  Linux lists them by the thread that started them, and Java starts them in any thread."""
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread may end while it is looked at
            yield from map(int, file.read_text(encoding="ascii").split())
