"""Workers get our packages and what these import, without PySpark."""

import sys
import tarfile
from pathlib import Path

from moldau.pipelines.running import pack as packing


def test_the_archive_is_importable_alone(tmp_path: Path, monkeypatch: object) -> None:
    monkeypatch.setattr(packing, "ROOTS", ("crc32c", "scramp"))  # type: ignore[attr-defined]
    packed = packing.pack(tmp_path / "m.tar.gz")
    assert {one.split()[0] for one in packed} >= {"moldau", "crc32c", "scramp"}
    with tarfile.open(tmp_path / "m.tar.gz") as archive:
        names = archive.getnames()
        told = archive.extractfile("PYTHON")
        assert told is not None
        assert sys.implementation.cache_tag in told.read().decode()
    assert {"moldau/__init__.py", "pyspark_moldau/__init__.py", "crc32c/__init__.py"} <= set(names)
    assert not [name for name in names if name.startswith(("pyspark/", "/", "..")) or "__pycache__" in name]
    assert not (tmp_path / "m.tar.gz.part").exists()
