"""● The four jars of Spark's stock Kafka connector: fetched once, checked, kept in the user's cache folder.

Nothing on PyPI ships the connector.  PySpark does carry Apache Ivy, and Ivy knows Maven Central, so pip and Java are
enough on a bare machine.  Each jar is asked for alone (no transitive resolution): PySpark has everything else already,
and a half-filled Maven folder in the user's home cannot make the resolution fail.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FETCH_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Jar:
    organisation: str
    module: str
    revision: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.module}-{self.revision}.jar"


# The token provider is one minor version behind on purpose: it holds the delegation-token classes only, they are
# binary compatible, and this is the newest revision that every mirror carries.
CONNECTOR_JARS = (
    Jar(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.2.0",
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    Jar("org.apache.kafka", "kafka-clients", "3.9.2", "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8"),
    Jar("org.apache.commons", "commons-pool2", "2.13.1", "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f"),
)


class ConnectorError(RuntimeError):
    """A jar could not be brought or is not the one it should be; the message says which and what to do."""


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "moldau" / "jars"


def connector_jars(folder: Path | None = None, announce: Callable[[str], None] = lambda _: None) -> list[Path]:
    """The paths of the four jars, fetched where missing.  `announce` is told about each step that takes seconds."""
    folder = folder or cache_folder()
    return [_kept(jar, folder, announce) for jar in CONNECTOR_JARS]


def _kept(jar: Jar, folder: Path, announce: Callable[[str], None]) -> Path:
    path = folder / jar.file_name
    if path.exists() and _sha256(path) == jar.sha256:
        return path
    announce(f"fetching {jar.file_name} from Maven Central")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        fetched = _fetch(jar, Path(scratch))
        found = _sha256(fetched)
        if found != jar.sha256:
            raise ConnectorError(f"{jar.file_name}: SHA-256 is {found}, expected {jar.sha256}; nothing was kept")
        fetched.replace(path)
    return path


def _fetch(jar: Jar, scratch: Path) -> Path:
    command = [
        _java(),
        f"-Divy.default.ivy.user.dir={scratch / 'ivy'}",
        *("-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *("-dependency", jar.organisation, jar.module, jar.revision, "-notransitive", "-confs", "default"),
        *("-retrieve", f"{scratch}/[artifact]-[revision](-[classifier]).[ext]", "-warn"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    path = scratch / jar.file_name
    if done.returncode != 0 or not path.exists():
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise ConnectorError(f"{jar.file_name} could not be fetched; is Maven Central reachable?\n{tail}")
    return path


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise ConnectorError("no Java found: install a JDK 17 or newer, or set JAVA_HOME")
    return java


def _ivy_jar() -> Path:
    import pyspark

    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        raise ConnectorError("this PySpark carries no Ivy jar; install it from PyPI: pip install 'moldau[pipelines]'")
    return jars[-1]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
