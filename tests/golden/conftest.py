"""`--rewrite-golden`: write the golden files anew from real Kafka before they are compared; review the diff."""

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write the golden files anew from real Kafka")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Runs the `main` of every generator that lies here."""
    if not session.config.getoption("--rewrite-golden", default=False):
        return
    for path in sorted(HERE.glob("generate_*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        generator = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(generator)
        generator.main()
