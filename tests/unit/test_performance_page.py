"""The page of performance says what the stored results say, and is whole where results are missing."""

import json
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")

from benchmarks.page import PAGE, page
from benchmarks.pictures import draw
from benchmarks.published import PUBLISHED


def test_nobody_wrote_a_figure_by_hand() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "make it anew: python -m benchmarks.page"


def test_each_part_says_how_to_measure_it(tmp_path: Path) -> None:
    assert page(tmp_path).count("Not measured for this page yet") == 4
    assert draw(tmp_path, tmp_path) == []


def test_a_client_that_failed_in_a_round_leaves_a_gap(tmp_path: Path) -> None:
    found = json.loads((PUBLISHED / "clients.json").read_text(encoding="utf-8"))
    for results in found["brokers"].values():
        results["latency, 100 B"]["aiokafka"] = [{} for _ in range(found["rounds"])]
    (tmp_path / "clients.json").write_text(json.dumps(found), encoding="utf-8")
    assert "| – |" in page(tmp_path)
    first, second = tmp_path / "first", tmp_path / "second"
    (once,), (again,) = draw(tmp_path, first), draw(tmp_path, second)
    assert once.read_bytes() == again.read_bytes()
