"""● CPU time and memory of a process and its children, from /proc."""

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def family(pid: int) -> list[int]:
    """The process and its running descendants."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*"):
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of the family, with the children that have ended."""
    total = 0
    for member in family(pid):
        fields = Path(f"/proc/{member}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def resident_mb(pid: int) -> float:
    """Resident memory of the family."""
    pages = sum(int(Path(f"/proc/{member}/statm").read_text(encoding="ascii").split()[1]) for member in family(pid))
    return pages * PAGE / 1e6
