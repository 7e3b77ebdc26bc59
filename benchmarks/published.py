"""● The results that docs/reference/performance.md is made of: JSON in `benchmarks/published`, with the machine that they come from."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

PUBLISHED: Final = Path(__file__).parent / "published"
QUIET: Final = 1.0
"""The load average of a machine with nothing else to do is below this."""
BUSY: Final = "  **Other work ran beside it: only processor time can be compared.**"
PEERS: Final = ("confluent-kafka", "aiokafka", "kafka-python", "pyspark")


def box() -> dict[str, object]:
    """The machine, its load before the first measurement, and the versions of what is measured."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processor": _line("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load_before": round(os.getloadavg()[0], 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "commit": _commit(),
        "packages": {name: found for name in PEERS if (found := _version(name))},
    }


def publish(path: Path, results: Mapping[str, Any]) -> None:
    """Store results whole: a run that is killed leaves the file of the round before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".new")
    scratch.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    scratch.replace(path)


def read(name: str, folder: Path = PUBLISHED) -> dict[str, Any] | None:
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def series(results: Mapping[str, Any], case: str, client: str, metric: str) -> list[float]:
    """A client's figure of each round that has one."""
    return [numbers[metric] for numbers in results[case].get(client, ()) if metric in numbers]


def told(found: Mapping[str, Any]) -> str:
    """One sentence about a machine."""
    packages = ", ".join(f"{name} {number}" for name, number in found["packages"].items())
    return (
        f"Measured on {found['date']} with {found['cores']} processors ({found['processor']}), {found['memory_gb']:g} GB of memory, "
        f"{found['kernel']}, Python {found['python']}{', ' + packages if packages else ''}, at commit {found['commit']}.  "
        f"The load average before was {found['load_before']:g}.{BUSY if found['load_before'] > QUIET else ''}"
    )


def _line(path: str, key: str) -> str:
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return "unknown processor"


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=PUBLISHED.parent)
    return done.stdout.strip()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
