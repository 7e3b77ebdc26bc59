"""The home of Spark whose workers import the installed PySpark."""

from pathlib import Path

import pyspark
import pytest

from moldau.pipelines.spark_home import home_without_archive


def test_it_has_the_jars_and_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = home_without_archive()
    assert home is not None and home.is_relative_to(tmp_path)
    assert (home / "bin" / "spark-submit").is_file()
    assert (home / "jars").resolve() == Path(pyspark.__file__).resolve().parent / "jars"
    assert not (home / "python").exists()
    assert home_without_archive() == home, "it is made once"


def test_without_a_place_for_it_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert home_without_archive() is None
