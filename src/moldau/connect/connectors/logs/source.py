"""● Lines of files that patterns name, wherever rotation moves the files.

A file is known by its folder, its inode and its first bytes.  So a renamed file is read to its end, and a truncated or replaced file is
read from its beginning.  Its offset is the byte behind the last event.
Promise: at least once; with exactly.once.source.support=enabled in the worker, once.  Lines deleted before they were read are lost.
"""

import asyncio
import glob
import hashlib
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from moldau.connect import data
from moldau.connect.connectors.connector import Connector, OffsetReader, SourceTask
from moldau.connect.connectors.logs.events import events
from moldau.connect.data import Record
from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Config, Definition, Key, Kind
from moldau.connect.errors import ConfigError, ConnectError

HEAD_BYTES: Final = 256
COMPRESSED: Final = (".gz", ".bz2", ".xz", ".zst", ".zip", ".lz4")
OPTIONS: Final = Definition(
    Key("paths", Kind.LIST, REQUIRED, "HIGH", "Patterns of files, as /var/log/app/*.log; ** stands for any folders.", check.valid_list),
    Key("topic", Kind.STRING, REQUIRED, "HIGH", "The topic that events go to.", check.non_empty),
    Key("multiline.start", Kind.STRING, None, "MEDIUM", "A regular expression of first lines; other lines belong to the one before them."),
    Key("multiline.timeout.ms", Kind.INT, 1000, "LOW", "How long a file is quiet when its last event is taken to be whole.",
        check.at_least(0)),
    Key("max.event.bytes", Kind.INT, 1 << 20, "LOW", "How many bytes an event may have.", check.at_least(1)),
    Key("batch.size", Kind.INT, 2000, "LOW", "How many events one poll takes at most.", check.at_least(1)),
    Key("poll.interval.ms", Kind.INT, 500, "LOW", "How long to wait when there was nothing.", check.at_least(1)),
)  # fmt: skip


@dataclass(slots=True)
class _Followed:
    folder: str
    inode: int
    position: int = 0
    head: str = ""
    """A hash of the first bytes, of those up to `position`."""
    size: int = -1
    quiet_since: float = 0.0

    @property
    def partition(self) -> dict[str, Any]:
        return {"folder": self.folder, "inode": self.inode}

    @property
    def offset(self) -> dict[str, Any]:
        return {"position": self.position, "head": self.head}


class LogFilesTask(SourceTask):
    async def start(self, config: Config, offsets: OffsetReader) -> None:
        self._options = OPTIONS.parse(config)
        start = self._options["multiline.start"]
        try:
            self._start = re.compile(start) if start else None
        except re.error as error:
            raise ConfigError.invalid("multiline.start", start, str(error)) from error
        for pattern in self._options["paths"]:
            if not os.path.isabs(pattern):
                raise ConfigError.invalid("paths", pattern, "a path from the root on is expected")
        self._offsets = offsets
        self._followed: dict[tuple[str, int], _Followed] = {}

    async def poll(self) -> Sequence[Record]:
        found = await asyncio.to_thread(self._read, asyncio.get_running_loop().time())
        if not found:
            await asyncio.sleep(min(1.0, self._options["poll.interval.ms"] / 1000))
        return found

    def _read(self, now_s: float) -> list[Record]:
        found: list[Record] = []
        there = self._files()
        self._followed = {key: one for key, one in self._followed.items() if key in there}
        for (folder, inode), (path, is_named) in there.items():
            followed = self._followed.get((folder, inode)) or self._known(folder, inode, is_named=is_named)
            if followed is None:
                continue
            self._followed[folder, inode] = followed
            found += self._events(path, followed, now_s, self._options["batch.size"] - len(found), is_named=is_named)
            if len(found) >= self._options["batch.size"]:
                break
        return found

    def _files(self) -> dict[tuple[str, int], tuple[str, bool]]:
        """The paths of all files in the folders of the named ones, and whether a pattern names each now.  The oldest come first."""
        named = {
            path for pattern in self._options["paths"] for path in glob.iglob(pattern, recursive=True) if not path.endswith(COMPRESSED)
        }
        folders = {os.path.dirname(path) for path in named} | {os.path.dirname(one) for one in self._options["paths"]}
        found: list[tuple[int, str, tuple[str, int]]] = []
        for folder in folders:
            if not os.path.isdir(folder):
                continue
            for entry in os.scandir(folder):
                try:
                    about = entry.stat()
                except FileNotFoundError:
                    continue
                if stat.S_ISREG(about.st_mode):
                    found.append((about.st_mtime_ns, entry.path, (folder, about.st_ino)))
        return {key: (path, path in named) for _, path, key in sorted(found)}

    def _known(self, folder: str, inode: int, *, is_named: bool) -> _Followed | None:
        """A file that no pattern names is ours when it was read before: rotation has moved it."""
        followed = _Followed(folder, inode)
        offset = self._offsets.offset(followed.partition)
        if offset is None:
            return followed if is_named else None
        followed.position, followed.head = int(offset.get("position") or 0), str(offset.get("head") or "")
        return followed

    def _events(self, path: str, followed: _Followed, now_s: float, limit: int, *, is_named: bool) -> list[Record]:
        """Errors: ConnectError."""
        most = self._options["max.event.bytes"]
        try:
            with Path(path).open("rb") as file:
                about = os.fstat(file.fileno())
                if about.st_ino != followed.inode:
                    return []  # it was moved just now: the next look finds it
                if about.st_size < followed.position or _head(file.read(HEAD_BYTES), followed.position) != followed.head:
                    if not is_named:
                        return []  # another file that got the inode of a file of ours
                    followed.position, followed.head = 0, ""
                if about.st_size != followed.size:
                    followed.size, followed.quiet_since = about.st_size, now_s
                file.seek(0)
                head = file.read(HEAD_BYTES)
                file.seek(followed.position)
                content = file.read(most + 1)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConnectError(f"file {path} cannot be read: {error.strerror}") from error
        is_over = not is_named or now_s - followed.quiet_since >= self._options["multiline.timeout.ms"] / 1000
        reaches_end = followed.position + len(content) >= about.st_size
        begin, found = followed.position, []
        for event in events(content, self._start, is_over=is_over and reaches_end):
            followed.position = begin + event.end
            followed.head = _head(head, followed.position)
            found.append(
                Record(
                    self._options["topic"], None, data.STRING, path, data.STRING, event.text,
                    source_partition=followed.partition, source_offset=followed.offset,
                )
            )  # fmt: skip
            if len(found) >= limit:
                break
        if not found and len(content) > most:
            raise ConnectError(
                f"file {path}: the event at byte {begin} has more than {most} bytes: max.event.bytes sets how many it may have"
            )
        return found


def _head(first: bytes, position: int) -> str:
    """A hash of the first bytes that were read: it tells a file from another one that got its inode."""
    known = first[: min(HEAD_BYTES, position)]
    return hashlib.sha256(known).hexdigest()[:16] if known else ""


class LogFiles(Connector):
    names = ("moldau.connect.LogFilesSourceConnector",)
    kind = "source"
    definition = OPTIONS
    task = LogFilesTask
    task_class = "moldau.connect.LogFilesSourceTask"
