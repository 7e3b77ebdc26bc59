"""● Named sets of jars, fetched by the Ivy that PySpark carries, each jar checked against a committed SHA-256.

A set is a text file of `jar_sets/`: `sha256 organisation:name:version` a line, complete, so nothing is resolved at
run time and every machine gets the same bytes.  Ivy runs a few times side by side, for its time goes into waiting.
Jars that have come are kept: a second try fetches the rest.  An organisation with a mirror of its own names an Ivy settings
file in `MOLDAU_IVY_SETTINGS`.
"""

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from moldau.pipelines.provision.cache import ProvisionError, cache_dir, only_one
from moldau.pipelines.provision.java import java_home
from proof.kafka.step import Step

SETS = Path(__file__).parent / "jar_sets"
SIDE_BY_SIDE = 4
ROUNDS = 3
"""One file in hundreds may fail to come; it comes when it is asked for again."""
POLL_S = 0.25
RETRIEVED_AS = "[artifact]-[revision].[ext]"


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of a set."""

    organisation: str
    name: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.jar"

    @classmethod
    def parse(cls, line: str) -> "Jar":
        sha256, _, coordinates = line.partition("  ")
        organisation, name, version = coordinates.strip().split(":")
        return cls(organisation, name, version, sha256)


def spark_connector_jars() -> list[Path]:
    """The jars to name in `spark.jars` so that Spark speaks Kafka.  Raises ProvisionError."""
    return jar_set("spark-connector-4.2.0")


def jar_set(name: str) -> list[Path]:
    """Every jar of a set, fetched if need be, in the set's order.  Raises ProvisionError."""
    jars = read_set(name)
    folder = cache_dir() / name
    paths = [folder / jar.file_name for jar in jars]
    if not is_ready(folder, jars):
        with only_one(name):
            if not is_ready(folder, jars):
                fetch(name, jars, folder)
    return paths


def read_set(name: str) -> list[Jar]:
    text = (SETS / f"{name}.jars").read_text(encoding="utf-8")
    return [Jar.parse(line) for line in text.splitlines() if line and not line.startswith("#")]


def is_ready(folder: Path, jars: Sequence[Jar]) -> bool:
    """Jars enter the folder checked and whole, so their presence is enough; `missing` looks closer."""
    return all((folder / jar.file_name).exists() for jar in jars)


def missing(folder: Path, jars: Sequence[Jar]) -> list[Jar]:
    """Jars that are absent or differ from what the set says."""
    return [jar for jar in jars if not matches(folder / jar.file_name, jar)]


def matches(path: Path, jar: Jar) -> bool:
    if not path.exists():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256


def fetch(name: str, jars: Sequence[Jar], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ivy_dir = cache_dir() / "ivy" / name
    with Step(f"Descriptions and jars of {name}", total=2 * len(jars)) as step:
        for _ in range(ROUNDS):
            if wanted := missing(folder, jars):
                fetch_once(wanted, ivy_dir, folder, step)
    if lost := missing(folder, jars):
        raise ProvisionError(
            f"{len(lost)} of {len(jars)} jars of {name} did not come, first {lost[0].file_name}; Ivy's words are in {ivy_dir}/*/log.  "
            "Way out: run this again (what came is kept); behind a mirror, name an Ivy settings file in MOLDAU_IVY_SETTINGS."
        )
    shutil.rmtree(ivy_dir, ignore_errors=True)


def fetch_once(wanted: Sequence[Jar], ivy_dir: Path, folder: Path, step: Step) -> None:
    """Fetch once, and put the jars that have come into the folder."""
    done = step.total - 2 * len(wanted)
    shares = [share for share in (wanted[start::SIDE_BY_SIDE] for start in range(SIDE_BY_SIDE)) if share]
    runs = [start_ivy(share, ivy_dir / str(index)) for index, share in enumerate(shares)]
    try:
        while any(run.poll() is None for run in runs):
            step.reached(min(step.total, done + arrived(ivy_dir)))
            time.sleep(POLL_S)
    finally:
        for run in runs:
            run.kill()
            run.wait()
    for index, share in enumerate(shares):
        adopt(share, ivy_dir / str(index), folder)
    step.reached(step.total - 2 * len(missing(folder, wanted)))


def arrived(ivy_dir: Path) -> int:
    """The number of files that the running Ivys hold by now: for each jar a description, then the jar."""
    return sum(1 for pattern in ("*/cache/*/*/ivy-*.xml", "*/cache/*/*/*/*.jar") for _ in ivy_dir.glob(pattern))


def start_ivy(jars: Sequence[Jar], folder: Path) -> subprocess.Popen[bytes]:
    """One Ivy in its own cache; it writes the jars to `folder/out`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ivy.xml").write_text(ivy_file(jars), encoding="utf-8")
    own_settings = os.environ.get("MOLDAU_IVY_SETTINGS")
    command = [str(java_home() / "bin" / "java"), "-XX:TieredStopAtLevel=1", "-Xmx256m", f"-Divy.default.ivy.user.dir={folder}"]
    command += ["-cp", str(ivy_jar()), "org.apache.ivy.Main", "-ivy", str(folder / "ivy.xml"), "-confs", "default"]
    command += ["-settings", own_settings] if own_settings else []
    command += ["-retrieve", f"{folder}/out/{RETRIEVED_AS}"]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def ivy_file(jars: Sequence[Jar]) -> str:
    """An Ivy module that depends on exactly these jars and on nothing that they depend on."""
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} rev={quoteattr(jar.version)} "
        'conf="default->master(*)" transitive="false"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="moldau" module="jars"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def ivy_jar() -> Path:
    spec = find_spec("pyspark")
    found = sorted(Path(spec.submodule_search_locations[0]).glob("jars/ivy-*.jar")) if spec and spec.submodule_search_locations else []
    if not found:
        raise ProvisionError(
            "Jars are fetched with the Ivy inside PySpark, which is not installed.  Way out: pip install '.[pipelines]' in Moldau's sources"
        )
    return found[-1]


def adopt(jars: Sequence[Jar], ivy_dir: Path, folder: Path) -> None:
    """Move each jar that Ivy brought to its place if it is what the set says; otherwise forget it, so that the next try asks again."""
    for jar in jars:
        brought = ivy_dir / "out" / jar.file_name
        if matches(brought, jar):
            brought.replace(folder / jar.file_name)
        elif brought.exists():
            brought.unlink()
            shutil.rmtree(ivy_dir / "cache" / jar.organisation / jar.name, ignore_errors=True)
