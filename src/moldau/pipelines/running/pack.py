"""● An archive of this installation for Spark's workers, which then need Python and PySpark only.

    spark-submit --archives moldau.tar.gz#moldau …      each worker unpacks it as `moldau/`, and Python finds it by PYTHONPATH=./moldau

It holds the installed distributions that tasks import, with libraries for this kind of machine and this version of Python: workers must
have the same.  PySpark stays out, since workers have it already.
"""

import io
import platform
import re
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import moldau

SELF: Final = "moldau"
ROOTS: Final = ("crc32c", "cramjam", "google-re2", "scramp", "numpy", "pandas", "pyarrow", "protobuf")
"""The modules that tasks import, beside our own packages and what these need."""
LEFT_OUT: Final = frozenset({"pyspark", "py4j"})
OUR_PACKAGES: Final = ("moldau", "pyspark_moldau")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class PackError(Exception):
    """The pack could not be made; no file was written."""


def pack(file: Path) -> list[str]:
    """The distributions that went in, by name and version.  Errors: PackError, OSError."""
    names = list(_closure(ROOTS))
    part = file.with_name(file.name + ".part")
    with tarfile.open(part, "w:gz", compresslevel=4) as archive:
        for folder in OUR_PACKAGES:
            _add_folder(archive, Path(moldau.__file__).parents[1] / folder, folder)
        for one in names:
            _add_distribution(archive, distribution(one))
        _add_text(archive, "PYTHON", f"{sys.implementation.cache_tag} {platform.system()} {platform.machine()}\n")
    part.replace(file)
    return [SELF, *(f"{one} {distribution(one).version}" for one in names)]


def _closure(roots: tuple[str, ...]) -> Iterator[str]:
    """Errors: PackError."""
    seen: set[str] = set(LEFT_OUT)
    open_names = list(roots)
    while open_names:
        name = open_names.pop(0)
        if name in seen:
            continue
        seen.add(name)
        try:
            needed = distribution(name).requires or []
        except PackageNotFoundError:
            raise PackError(f'{name} is not installed, and workers need it: pip install "moldau[spark]"') from None
        yield name
        plain = [_NAME.match(line) for line in needed if "extra ==" not in line]
        open_names += [found[0].lower() for found in plain if found is not None and _is_installed(found[0])]


def _is_installed(name: str) -> bool:
    """Whether a library is installed.  A library that a marker leaves out here, such as another system's, is not."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _add_distribution(archive: tarfile.TarFile, one: Distribution) -> None:
    for file in one.files or []:
        path = Path(str(one.locate_file(file)))
        inside = str(file)
        if inside.startswith("..") or "__pycache__" in inside or "/tests/" in inside or not path.is_file():
            continue
        archive.add(path, inside)


def _add_folder(archive: tarfile.TarFile, folder: Path, name: str) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            archive.add(path, f"{name}/{path.relative_to(folder)}")


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(text.encode())
    archive.addfile(entry, io.BytesIO(text.encode()))
