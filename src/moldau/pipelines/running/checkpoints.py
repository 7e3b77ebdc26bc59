"""● The version of state in a checkpoint: the query goes on from an older version, or is refused with the way out.

The version stands in a file of its own in the query's checkpoint folder, written before the query starts for the first time.  A folder that
has micro-batches and no such file was written by a release from before there was such a file: its version is 1.
"""

from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

FILE: Final = "moldau-state-version"
FIRST: Final = 1


class CheckpointRefused(Exception):
    """The state is not of a version that this release reads."""


def claim(spark: SparkSession, folder: str, readable: range) -> None:
    """A new folder gets the newest version.  Errors: CheckpointRefused."""
    jvm: Any = spark._jvm
    file = jvm.org.apache.hadoop.fs.Path(folder, FILE)
    system = file.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if system.exists(file):
        version = _number(jvm, system.open(file), folder)
    elif system.exists(jvm.org.apache.hadoop.fs.Path(folder, "offsets")):
        version = FIRST
    else:
        version = readable[-1]
    if version not in readable:
        age = "newer" if version > readable[-1] else "older"
        raise CheckpointRefused(
            f"checkpoint {folder} holds state of version {version}, {age} than this release reads ({_said(readable)}): go on with the "
            "release that wrote it, or name another folder as `checkpoint`, which judges all records of the topics again"
        )
    out = system.create(file, True)
    try:
        out.write(f"{readable[-1]}\n".encode("ascii"))
    finally:
        out.close()


def refuse_former(spark: SparkSession, folder: str) -> None:
    """`folder`: the checkpoint of a query that earlier releases had and this one has not.  Errors: CheckpointRefused."""
    jvm: Any = spark._jvm
    offsets = jvm.org.apache.hadoop.fs.Path(folder, "offsets")
    if offsets.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).exists(offsets):
        raise CheckpointRefused(
            f"checkpoint {folder} is of a query that this release does not have any more: go on with the release that wrote it, or name "
            "another folder as `checkpoint`, which judges all records of the topics again"
        )


def _number(jvm: Any, stream: Any, folder: str) -> int:
    try:
        text = str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    except Py4JJavaError as error:  # such as a checksum beside the file that is another file's
        reason = str(error.java_exception).splitlines()[0]
        raise CheckpointRefused(
            f"{folder}/{FILE} cannot be read: {reason}.  Put it back as it was, or name another `checkpoint`"
        ) from error
    finally:
        stream.close()
    if not text.strip().isdigit():
        raise CheckpointRefused(f"{folder}/{FILE} holds {text[:40]!r} and no version: put it back as it was, or name another `checkpoint`")
    return int(text)


def _said(readable: range) -> str:
    return str(readable[0]) if len(readable) == 1 else f"{readable[0]} to {readable[-1]}"
