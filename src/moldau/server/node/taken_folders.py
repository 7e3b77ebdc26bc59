"""● The folders of a node, locked for this process: checked, locked and identified at the start, released at the end.

Source: KafkaRaftServer.initializeLogDirs, MetaPropertiesEnsemble.  Called by `node.py`.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from moldau.server.node.config import NodeConfig
from moldau.server.node.folders import StartRefused, check_folders
from moldau.server.node.outside import Outside
from moldau.storage.files import Files, LockHeld
from moldau.storage.folders.checkpoints import MetaProperties, read_meta_properties
from moldau.storage.manager import LogManager

LOG: Final = logging.getLogger(__name__)


class TakenFolders:
    """See the module.  Made by `take`."""

    def __init__(
        self, outside: Outside, logs: LogManager, of_metadata: LogManager | None, cluster_id: str, ids: Mapping[str, UUID]
    ) -> None:
        self.logs: Final = logs
        self.cluster_id: Final = cluster_id
        self.ids: Final = ids
        """The directory id of every readable folder, by path."""
        self.served_epoch: int | None = None
        """The broker epoch to note at a clean stop; None while this process has not served as a broker."""
        self._outside: Final = outside
        self._of_metadata: Final = of_metadata

    @classmethod
    def take(cls, config: NodeConfig, outside: Outside) -> "TakenFolders":
        """Take the folders.  A folder of another node stays as it was.  Errors: StartRefused, OSError, CorruptCheckpoint."""
        files = outside.files
        logs = LogManager(files, config.log_dirs, config.log, unique=outside.new_uuid)
        own_folder = [config.metadata_log_dir] if config.metadata_log_dir not in config.log_dirs else []
        of_metadata = LogManager(files, own_folder, config.log, unique=outside.new_uuid) if own_folder else None
        managers = [logs, *([of_metadata] if of_metadata is not None else ())]
        cluster_id = check_folders(_metas(files, [each.path for manager in managers for each in manager.directories]), config.node_id)
        try:
            for manager in managers:
                manager.open(outside.clock.now_ms())
            ids = {path: number for manager in managers for path, number in manager.name_directories(outside.new_uuid).items()}
        except BaseException as error:
            for manager in managers:
                manager.release()
            if isinstance(error, LockHeld):
                folder = str(error.filename or "").rpartition("/")[0]
                text = f"{folder} is in use by another process: stop that one, or give this node folders of its own"
                raise StartRefused(text) from error
            raise
        for directory in logs.directories:
            if directory.failure is not None:
                LOG.error("%s is offline: %s", directory.path, directory.failure)
        return cls(outside, logs, of_metadata, cluster_id, ids)

    def online_ids(self) -> list[UUID]:
        return [self.ids[directory.path] for directory in self.logs.directories if directory.is_online]

    def offline_ids(self) -> list[UUID]:
        return [self.ids[directory.path] for directory in self.logs.directories if not directory.is_online and directory.path in self.ids]

    def previous_epoch(self) -> int:
        """The broker epoch of the last clean stop; -1 tells the controller that records may be lost."""
        epochs = {directory.broker_epoch for directory in self.logs.directories if directory.is_online}
        epoch = epochs.pop() if len(epochs) == 1 else None
        return -1 if epoch is None else epoch

    async def give_back(self) -> None:
        """Save and sync the logs, note the clean stop, release the locks.  The node has failed if a folder did not take that."""
        files, working = self._outside.files, [directory for directory in self.logs.directories if directory.is_online]
        # Several logs close at a time: most of the work is waiting for the disk.  The folder knows which logs failed.
        await asyncio.gather(*(files.run(log.close) for log in self.logs.working_logs()), return_exceptions=True)
        errors = await files.run(self.logs.close, self.served_epoch)
        if self._of_metadata is not None:
            self._of_metadata.release()
        for directory in working:
            error = errors.get(directory.path) or directory.failure
            if error is not None:
                LOG.error("%s was not closed whole, and its next start recovers its logs: %s", directory.path, error)
                self._outside.fail(error)


def _metas(files: Files, paths: Sequence[str]) -> dict[str, MetaProperties | None]:
    """The meta.properties of the readable folders."""
    metas = {}
    for path in paths:
        try:
            metas[path] = read_meta_properties(files, path)
        except OSError as error:
            LOG.error("%s cannot be read: %s", path, error)
    return metas
