"""● Lines of a file to a topic, and a topic's values to lines of a file.  Source: connect-file's FileStreamSource, FileStreamSink.

The source follows a file as it grows, and waits for a file that is not there.  Its offset is the byte behind the last line given out.
Promise: at least once; with exactly.once.source.support=enabled in the worker, once.  The sink appends; records come again after a crash.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from moldau.connect import data
from moldau.connect.connectors.connector import Connector, Offset, OffsetReader, OffsetsRefused, Partition, SinkTask, SourceTask
from moldau.connect.converters.simple import java_text
from moldau.connect.data import Record
from moldau.connect.declare.definition import REQUIRED, Config, Definition, Key, Kind
from moldau.connect.declare.validators import non_empty
from moldau.connect.errors import ConnectError

FILE_KEY, POSITION_KEY = "filename", "position"
WAIT_S = 0.5
MAX_LINE_BYTES = 64 << 20

SOURCE = Definition(
    Key("file", Kind.STRING, None, "HIGH", "The file to read; standard input without it."),
    Key("topic", Kind.STRING, REQUIRED, "HIGH", "The topic that the lines go to.", non_empty),
    Key("batch.size", Kind.INT, 2000, "LOW", "How many lines one poll takes at most."),
)
SINK = Definition(Key("file", Kind.STRING, None, "HIGH", "The file to append to; standard output without it."))


class FileStreamSourceTask(SourceTask):
    async def start(self, config: Config, offsets: OffsetReader) -> None:
        options = SOURCE.parse(config)
        self._path, self._topic, self._batch = options["file"], options["topic"], options["batch.size"]
        self._partition = {FILE_KEY: self._path}
        self._file: BinaryIO | None = None if self._path else sys.stdin.buffer
        self._rest = b""
        found = offsets.offset(self._partition) if self._path else None
        self._position = int(found[POSITION_KEY]) if found is not None and isinstance(found.get(POSITION_KEY), int) else 0

    async def poll(self) -> Sequence[Record]:
        lines = await asyncio.to_thread(self._read)
        if not lines:
            await asyncio.sleep(WAIT_S)
            return []
        partition = self._partition if self._path else None
        return [
            Record(
                self._topic,
                value_schema=data.STRING,
                value=line.decode("utf-8", "replace"),
                source_partition=partition,
                source_offset=None if partition is None else {POSITION_KEY: position},
            )
            for line, position in lines
        ]

    def _read(self) -> list[tuple[bytes, int]]:
        """Whole lines, and the position behind each."""
        if self._file is None:
            try:
                self._file = Path(self._path).open("rb")  # noqa: SIM115 - it stays open between polls
            except FileNotFoundError:
                return []
            except OSError as error:
                raise ConnectError(f"file {self._path} cannot be read: {error.strerror}") from error
            self._file.seek(self._position)
        lines: list[tuple[bytes, int]] = []
        while len(lines) < self._batch:
            piece = self._file.readline()
            if not piece.endswith(b"\n"):
                if piece and len(self._rest) + len(piece) > MAX_LINE_BYTES:
                    raise ConnectError(f"file {self._path}: the line at byte {self._position} has more than {MAX_LINE_BYTES} bytes")
                self._rest += piece
                break
            whole, self._rest = self._rest + piece, b""
            self._position += len(whole)
            lines.append((whole.rstrip(b"\n").removesuffix(b"\r"), self._position))
        return lines

    async def stop(self) -> None:
        if getattr(self, "_file", None) is not None and self._path:
            assert self._file is not None
            self._file.close()


class FileStreamSinkTask(SinkTask):
    async def start(self, config: Config) -> None:
        path = SINK.parse(config)["file"]
        self._file: BinaryIO | None = None
        try:
            self._file = await asyncio.to_thread(Path(path).open, "ab") if path else sys.stdout.buffer
        except OSError as error:
            raise ConnectError(f"file {path} cannot be written: {error.strerror}") from error
        self._path = path

    async def put(self, records: Sequence[Record]) -> None:
        assert self._file is not None
        self._file.write(b"".join(java_text(record.value).encode() + b"\n" for record in records))

    async def flush(self) -> None:
        assert self._file is not None
        self._file.flush()
        if self._path:
            await asyncio.to_thread(os.fsync, self._file.fileno())

    async def stop(self) -> None:
        if getattr(self, "_file", None) is not None and self._path:
            assert self._file is not None
            self._file.close()


def check_position(partition: Partition, offset: Offset | None, *, key: str, position: str) -> None:
    """Errors: OffsetsRefused."""
    if key not in partition:
        raise OffsetsRefused(f"Partition objects should contain the key '{key}'")
    if offset is None:
        return
    if position not in offset:
        raise OffsetsRefused(f"Offset objects should either be null or contain the key '{position}'")
    value: Any = offset[position]
    if not isinstance(value, int) or isinstance(value, bool):
        raise OffsetsRefused(f"The value for the '{position}' key in the offset is expected to be a Long value")
    if value < 0:
        raise OffsetsRefused(f"The value for the '{position}' key in the offset should be a non-negative value")


class FileStreamSource(Connector):
    names = ("org.apache.kafka.connect.file.FileStreamSourceConnector",)
    kind = "source"
    definition = SOURCE
    task = FileStreamSourceTask
    task_class = "org.apache.kafka.connect.file.FileStreamSourceTask"

    def check_offsets(self, config: Config, offsets: Sequence[tuple[Partition, Offset | None]]) -> None:
        if not config.get("file"):
            raise OffsetsRefused(
                "Offsets cannot be modified if the 'file' configuration is unspecified. This is because stdin is used for input"
            )
        for partition, offset in offsets:
            check_position(partition, offset, key=FILE_KEY, position=POSITION_KEY)


class FileStreamSink(Connector):
    names = ("org.apache.kafka.connect.file.FileStreamSinkConnector",)
    kind = "sink"
    definition = SINK
    task = FileStreamSinkTask
    task_class = "org.apache.kafka.connect.file.FileStreamSinkTask"
