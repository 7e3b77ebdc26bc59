"""● A home of Spark without the archive of PySpark, so that Python workers on this machine start in less than half the time.

Spark lets its Python workers import PySpark from `python/lib/pyspark.zip` in its home.  Python keeps no compiled modules of an archive, so
each of the seven kinds of workers of a query compiles PySpark anew: 0.7 s of a processor each.  Without the archive they import the PySpark
that is installed, which is compiled.
"""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import pyspark

from moldau.pipelines.provision.cache import cache_dir

LINKED: Final = ("bin", "conf", "jars")


def home_without_archive() -> Path | None:
    """A folder of links to the installed PySpark; None where PySpark is no whole Spark, or the folder cannot be made."""
    installed = Path(pyspark.__file__).resolve().parent
    if not (installed / "bin" / "spark-submit").is_file() or not (installed / "jars").is_dir():
        return None
    try:
        home = cache_dir() / f"spark-home-{pyspark.__version__}-{sha256(str(installed).encode()).hexdigest()[:12]}"
        home.mkdir(exist_ok=True)
        for name in LINKED:
            if (installed / name).exists():
                with suppress(FileExistsError):
                    (home / name).symlink_to(installed / name)
    except OSError:
        return None
    return home
