"""The checkpoints that a release goes on from: those of its own version, of older versions that it reads, and no others."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from moldau.pipelines.running.checkpoints import FILE, CheckpointRefused, claim, refuse_former

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_a_new_one_and_an_older_one_get_the_newest_version(spark: SparkSession, tmp_path: Path) -> None:
    claim(spark, f"{tmp_path}/new", range(1, 3))
    (tmp_path / "old" / "offsets").mkdir(parents=True)
    claim(spark, f"{tmp_path}/old", range(1, 3))
    assert [(tmp_path / name / FILE).read_text(encoding="ascii") for name in ("new", "old")] == ["2\n", "2\n"]
    claim(spark, f"{tmp_path}/new", range(2, 4))


def test_what_cannot_be_read_is_refused_with_the_way_out(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "old" / "offsets").mkdir(parents=True)
    with pytest.raises(CheckpointRefused, match=r"version 1, older than this release reads \(2\): go on with the release that wrote it"):
        claim(spark, f"{tmp_path}/old", range(2, 3))
    claim(spark, f"{tmp_path}/new", range(1, 3))
    (tmp_path / "new" / FILE).write_text("3\n", encoding="ascii")
    with pytest.raises(CheckpointRefused, match=r"cannot be read: .*Checksum"):
        claim(spark, f"{tmp_path}/new", range(1, 3))
    (tmp_path / "new" / f".{FILE}.crc").unlink()
    with pytest.raises(CheckpointRefused, match=r"version 3, newer than this release reads \(1 to 2\)"):
        claim(spark, f"{tmp_path}/new", range(1, 3))
    (tmp_path / "new" / FILE).write_text("two", encoding="ascii")
    with pytest.raises(CheckpointRefused, match="holds 'two' and no version"):
        claim(spark, f"{tmp_path}/new", range(1, 3))


def test_a_query_that_is_no_more_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    refuse_former(spark, f"{tmp_path}/checks")
    (tmp_path / "checks" / "offsets").mkdir(parents=True)
    with pytest.raises(CheckpointRefused, match="is of a query that this release does not have any more: go on with the release"):
        refuse_former(spark, f"{tmp_path}/checks")
