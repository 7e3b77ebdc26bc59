"""● The voters of the KRaft quorum change: `kafka-metadata-quorum add-controller` and `remove-controller`."""

from pathlib import Path
from typing import Any
from uuid import UUID

from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from moldau.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from moldau.protocol.wire import Request
from moldau.storage.files import SystemFiles
from moldau.storage.folders.checkpoints import read_meta_properties
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.node import load_config
from moldau.types import uuid_from_text, uuid_to_text

TIMEOUT_MS = 60_000
"""The time for asking a new voter which versions it speaks, and for committing the change."""


class NewVoter:
    """The controller that a properties file describes."""

    def __init__(self, path: Path) -> None:
        """Errors: Failure."""
        config = load_config(path)
        if not config.is_controller:
            raise Failure(f"process.roles did not contain 'controller' in configuration file {path}", "Give that of a controller")
        self.id = config.node_id
        meta = read_meta_properties(SystemFiles(), config.metadata_log_dir)
        if meta is None:
            raise Failure(f"Unable to read meta.properties from {config.metadata_log_dir}", "Format it: `moldau storage format --help`")
        if meta.directory_id is None:
            raise Failure(f"No directory id found in {config.metadata_log_dir}")
        self.directory_id = meta.directory_id
        self.listeners = [
            Listener(name=one.name, host=one.host or "localhost", port=one.port) for one in config.advertised_controller_listeners
        ]

    @property
    def endpoints(self) -> str:
        return ", ".join(
            f"{one.name}://{f'[{one.host}]' if ':' in one.host else one.host}:{one.port}"
            for one in sorted(self.listeners, key=lambda one: one.name)
        )


async def add_controller(cluster: Cluster, path: Path, *, dry_run: bool) -> str:
    """The report of what was done, in Kafka's words.  Errors: Failure, KafkaError."""
    voter = NewVoter(path)
    if not dry_run:
        request = AddRaftVoterRequest(
            cluster_id=None, timeout_ms=TIMEOUT_MS, voter_id=voter.id, voter_directory_id=voter.directory_id, listeners=voter.listeners
        )
        await _ask_leader(cluster, request)
    did = "DRY RUN of adding" if dry_run else "Added"
    return f"{did} controller {voter.id} with directory id {uuid_to_text(voter.directory_id)} and endpoints: {voter.endpoints}"


async def remove_controller(cluster: Cluster, voter_id: int, directory: str, *, dry_run: bool) -> str:
    """The report and errors are like those of `add_controller`."""
    if voter_id < 0:
        raise Failure(f"Invalid negative --controller-id: {voter_id}")
    directory_id = _directory_id(directory)
    if not dry_run:
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=voter_id, voter_directory_id=directory_id)
        await _ask_leader(cluster, request)
    did = "DRY RUN of removing" if dry_run else "Removed"
    return f"{did}  KRaft controller {voter_id} with directory id {uuid_to_text(directory_id)}"  # two blanks, as Kafka's tool


def _directory_id(text: str) -> UUID:
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise Failure(
            f"Failed to parse --controller-directory-id: {text}", "`kafka-metadata-quorum describe --replication` shows it"
        ) from error


async def _ask_leader(cluster: Cluster, request: Request[Any]) -> None:
    """Send the request to the leading controller.  A broker passes it on."""
    response = await cluster.send(request, extra_s=TIMEOUT_MS / 1000)
    if response.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode.of(response.error_code), response.error_message)
