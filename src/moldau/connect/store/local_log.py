"""● The logs of a worker without a group: configurations and states in memory, offsets in a file of Kafka's own form.

The file is written whole, beside the old one, and takes its place once it is on the disk.  Kafka's worker writes over the old one.

Source: MemoryConfigBackingStore, MemoryStatusBackingStore, FileOffsetBackingStore.
"""

import asyncio
import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from moldau.connect.errors import ConfigError, ConnectError
from moldau.connect.store.configs import KeyValue
from moldau.connect.store.java_map import decode, encode
from moldau.connect.store.log import Replay
from moldau.storage.files import Files, Lock, LockHeld

OPTION: Final = "offset.storage.file.filename"


class MemoryLog:
    """Records are replayed as they are written, and kept nowhere."""

    def __init__(self, replay: Replay) -> None:
        self.topic = ""
        self._replay = replay
        self._end = 0

    async def start(self) -> None:
        return

    async def read_to_end(self) -> None:
        return

    def post(self, record: KeyValue) -> None:
        offset, self._end = self._end, self._end + 1
        self._replay(offset, *record)

    async def write(self, records: Sequence[KeyValue]) -> None:
        for record in records:
            self.post(record)

    async def close(self) -> None:
        return


class OffsetFile(MemoryLog):
    """Offsets are on the disk when `write` returns.  One worker has the file: it holds `PATH.lock`.  `path` is absolute, without links."""

    def __init__(self, files: Files, path: str, replay: Replay) -> None:
        super().__init__(replay)
        self._files = files
        self._path = path
        self._content: dict[Hashable, KeyValue] = {}
        self._turn = asyncio.Lock()
        self._lock: Lock | None = None

    async def start(self) -> None:
        """Errors: ConfigError, ConnectError."""
        try:
            self._lock = self._files.lock(f"{self._path}.lock")
            data = self._files.read(self._path) if self._files.exists(self._path) else b""
        except LockHeld as error:
            raise ConnectError(f"{self._path} is in use: another worker keeps its offsets there") from error
        except OSError as error:
            raise ConfigError.invalid(OPTION, self._path, error.strerror or str(error)) from error
        try:
            pairs = decode(data) if data else []
        except ValueError as error:
            raise ConnectError(f"{self._path} is no file of offsets: {error}") from error
        records = [(key, value) for key, value in pairs if key is not None]
        self._content = _changed({}, records)
        await super().write(records)

    async def write(self, records: Sequence[KeyValue]) -> None:
        """Errors: ConnectError."""
        # A task that is cut off leaves the file to the thread that writes it: the next writer waits for that one.
        await asyncio.shield(asyncio.get_running_loop().create_task(self._save(records), name="offsets"))

    async def _save(self, records: Sequence[KeyValue]) -> None:
        async with self._turn:
            content = _changed(self._content, records)
            try:
                await self._files.run(self._files.write_atomically, self._path, encode(content.values()))
            except OSError as error:
                raise ConnectError(f"{self._path} cannot be written: {error.strerror or error}") from error
            self._content = content
            await super().write(records)

    async def close(self) -> None:
        async with self._turn:
            if self._lock is not None:
                self._lock.release()


def _changed(content: Mapping[Hashable, KeyValue], records: Sequence[KeyValue]) -> dict[Hashable, KeyValue]:
    """A partition keeps the bytes of its first key: a Java worker looks for those that it wrote."""
    changed = dict(content)
    for key, value in records:
        identity = _identity(key)
        if value is None:
            changed.pop(identity, None)
        else:
            changed[identity] = changed.get(identity, (key, value))[0], value
    return changed


def _identity(key: bytes) -> Hashable:
    """The same for all spellings of one connector's partition in JSON."""
    try:
        return json.dumps(json.loads(key), sort_keys=True)
    except ValueError:
        return key
