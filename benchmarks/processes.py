"""● CPU time and memory of a process and its children, from /proc."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from proof.pipelines.processes import children_of

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
NUMBERS = re.compile(r"[0-9]+")


def family(pid: int) -> list[int]:
    """The process and its running descendants."""
    found = [pid]
    for parent in found:
        found += children_of(parent)
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of the family, with the children that have ended."""
    total = 0
    for member in family(pid):
        fields = Path(f"/proc/{member}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def cpu_by_kind(broker: int) -> dict[str, float]:
    """User and system time of this process and its descendants, by the kind of process.  `broker`: its process id."""
    found: defaultdict[str, float] = defaultdict(float)
    for pid, kind in _kinds(os.getpid(), "sending and reading", broker):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        found[kind] += sum(map(int, fields[11:15])) / TICKS
    return found


def _kinds(pid: int, kind: str, broker: int) -> Iterator[tuple[int, str]]:
    yield pid, kind
    for child in children_of(pid):
        try:
            name = Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip()
        except OSError:  # it has just ended
            continue
        below = "the broker" if child == broker or kind == "the broker" else "Spark's JVM" if name == "java" else "Spark's Python"
        yield from _kinds(child, below, broker)


def cpu_by_thread(pid: int) -> dict[str, float]:
    """User and system time of the living threads of one process, by their names without numbers: 15 characters at most."""
    found: defaultdict[str, float] = defaultdict(float)
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name, _, rest = (task / "stat").read_text(encoding="utf-8").partition("(")[2].rpartition(")")
        except OSError:  # it has just ended
            continue
        found[NUMBERS.sub("", name).strip(" -#")] += sum(map(int, rest.split()[11:13])) / TICKS
    return found


def jvm_below(pid: int) -> int:
    """The first Java process below a process.  Errors: AssertionError if there is none."""
    found = next((one for one in family(pid) if Path(f"/proc/{one}/comm").read_text(encoding="utf-8").strip() == "java"), None)
    assert found is not None, f"no Java process runs below {pid}"
    return found


def resident_mb(pid: int) -> float:
    """Resident memory of the family."""
    pages = sum(int(Path(f"/proc/{member}/statm").read_text(encoding="ascii").split()[1]) for member in family(pid))
    return pages * PAGE / 1e6
