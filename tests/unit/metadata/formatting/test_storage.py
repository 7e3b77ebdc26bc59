"""`storage format` and its sisters: files as Kafka 4.3.1 leaves them, lines as it prints them."""

from dataclasses import replace
from uuid import UUID

import pytest

from moldau.metadata.formatting.storage import (
    FormatError,
    FormatRequest,
    feature_dependencies,
    format_storage,
    read_bootstrap,
    storage_info,
    version_mapping,
)
from moldau.metadata.records import FeatureLevelRecord, UserScramCredentialRecord
from moldau.raft.snapshots import read_snapshot
from moldau.raft.voters import Address
from moldau.testing.files import MemoryFiles

REQUEST = FormatRequest(
    cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
    node_id=1,
    log_dirs=["/data"],
    metadata_log_dir="/data",
    is_controller=True,
    has_static_voters=False,
    controller_address=Address("CONTROLLER", "127.0.0.1", 19093),
)
STANDALONE = replace(REQUEST, standalone=True)
BOOTSTRAP = (
    "Bootstrap metadata: BootstrapMetadata(records=[ApiMessageAndVersion(FeatureLevelRecord(name='metadata.version', featureLevel=30) at "
    "version 0), ApiMessageAndVersion(FeatureLevelRecord(name='eligible.leader.replicas.version', featureLevel=1) at version 0), "
    "ApiMessageAndVersion(FeatureLevelRecord(name='group.version', featureLevel=1) at version 0), "
    "ApiMessageAndVersion(FeatureLevelRecord(name='share.version', featureLevel=1) at version 0), "
    "ApiMessageAndVersion(FeatureLevelRecord(name='streams.version', featureLevel=1) at version 0), "
    "ApiMessageAndVersion(FeatureLevelRecord(name='transaction.version', featureLevel=2) at version 0)], metadataVersionLevel=30, "
    "source=format command)"
)


def run(files: MemoryFiles, request: FormatRequest) -> list[str]:
    ids = iter(range(1000, 2000))
    return format_storage(files, request, now_ms=7, new_id=lambda: UUID(int=next(ids)), new_salt=lambda: b"salt")


def test_a_standalone_controller() -> None:
    files = MemoryFiles()
    assert run(files, STANDALONE) == [BOOTSTRAP, "Formatting dynamic metadata voter directory /data with metadata.version 4.3-IV0."]
    assert files.listdir("/data") == ["__cluster_metadata-0", "bootstrap.checkpoint", "meta.properties"]
    snapshot = read_snapshot(files.read("/data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"))
    assert snapshot.kraft_version == 1 and snapshot.voters is not None
    assert snapshot.voters.by_id[1].directory_id == UUID(int=1000)
    assert b"directory.id=AAAAAAAAAAAAAAAAAAAD6A" in files.read("/data/meta.properties")
    assert read_bootstrap(files, "/data")[0] == FeatureLevelRecord(name="metadata.version", feature_level=30)


def test_once_is_enough() -> None:
    files = MemoryFiles()
    run(files, STANDALONE)
    with pytest.raises(FormatError, match=r"^Log directory /data is already formatted\. Use --ignore-formatted"):
        run(files, STANDALONE)
    assert run(files, replace(STANDALONE, ignore_formatted=True)) == ["All of the log directories are already formatted."]
    with pytest.raises(FormatError, match="Expected other, but read MkU3OEVBNTcwNTJENDM2Qg"):
        run(files, replace(STANDALONE, cluster_id="other"))


def test_only_the_metadata_directory_has_voters() -> None:
    files = MemoryFiles()
    lines = run(files, replace(STANDALONE, log_dirs=["/a", "/b"], metadata_log_dir="/b"))
    assert lines[1:] == [
        "Formatting data directory /a with metadata.version 4.3-IV0.",
        "Formatting dynamic metadata voter directory /b with metadata.version 4.3-IV0.",
    ]
    assert files.listdir("/a") == ["bootstrap.checkpoint", "meta.properties"]


def test_a_release_and_levels_of_its_features() -> None:
    files = MemoryFiles()
    lines = run(files, replace(STANDALONE, release_version="3.9"))
    assert lines[1] == "Formatting dynamic metadata voter directory /data with metadata.version 3.9-IV0."
    assert read_bootstrap(files, "/data") == [FeatureLevelRecord(name="metadata.version", feature_level=21)]
    files = MemoryFiles()
    run(files, replace(STANDALONE, features=["transaction.version=1", "group.version=0"]))
    levels = {record.name: record.feature_level for record in read_bootstrap(files, "/data") if isinstance(record, FeatureLevelRecord)}
    assert levels["transaction.version"] == 1 and "group.version" not in levels


def test_scram_credentials_are_kafkas() -> None:
    files = MemoryFiles()
    salt = "MTJvc" + "nhtc2RjZ3d4NDRkdmxuNzczMWtxeXB6"
    argument = f"SCRAM-SHA-256=[name=alice,salt={salt},password=alice-secret]"
    lines = run(files, replace(STANDALONE, scram=[argument]))
    record = read_bootstrap(files, "/data")[-1]
    assert isinstance(record, UserScramCredentialRecord)
    assert (record.name, record.mechanism, record.iterations) == ("alice", 1, 4096)
    assert len(record.stored_key) == len(record.server_key) == 32
    assert "alice" in lines[0] and record.stored_key.hex() not in lines[0] and "secret" not in lines[0]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "Because controller.quorum.voters is not set on this controller, you must specify one of the following"),
        ({"has_static_voters": True, "standalone": True}, "You cannot specify controller.quorum.voters and format the node with"),
        ({"standalone": True, "features": ["nosuch=3"]}, "Unsupported feature: nosuch. Supported features are: eligible.leader"),
        ({"standalone": True, "features": ["metadata.version=99"]}, "No MetadataVersion with feature level 99. Valid feature levels"),
        ({"standalone": True, "features": ["metadata.version=31"]}, "metadata.version 4.4-IV0 is not yet stable."),
        ({"standalone": True, "features": ["transaction.version=7"]}, "No feature:transaction.version with feature level 7"),
        ({"standalone": True, "features": ["kraft.version=0"]}, "Cannot set kraft.version to 0 if controller.quorum.voters is empty"),
        ({"standalone": True, "release_version": "3.2"}, "Unknown metadata.version '3.2'. Supported metadata.version are: 3.3-IV3, 3.4"),
        ({"standalone": True, "release_version": "3.9", "features": ["metadata.version=30"]}, "Use --release-version instead of"),
        ({"initial_controllers": "1:localhost"}, "No @ found in dynamic voter string."),
        ({"initial_controllers": "1@localhost:9093:xyz"}, "Failed to parse directory ID in dynamic voter string."),
        ({"standalone": True, "scram": ["SCRAM-SHA-1=[name=a,password=b]"]}, "The add-scram mechanism SCRAM-SHA-1 is not supported."),
        ({"standalone": True, "scram": ["SCRAM-SHA-256=[password=b]"]}, "You must supply 'name' to add-scram"),
    ],
)
def test_what_cannot_be_is_said_and_writes_nothing(changes: dict[str, object], text: str) -> None:
    files = MemoryFiles()
    with pytest.raises(FormatError) as error:
        run(files, replace(REQUEST, **changes))  # type: ignore[arg-type]
    assert text in str(error.value)
    assert not files.exists("/data/meta.properties")


def test_info() -> None:
    files = MemoryFiles()
    assert storage_info(files, ["/data"]) == (["Found problem:", "  /data does not exist", ""], 1)
    run(files, STANDALONE)
    metadata = "Found metadata: {cluster.id=MkU3OEVBNTcwNTJENDM2Qg, directory.id=AAAAAAAAAAAAAAAAAAAD6A, node.id=1, version=1}"
    assert storage_info(files, ["/data"]) == (["Found log directory:", "  /data", "", metadata, ""], 0)


def test_mapping_and_dependencies() -> None:
    assert version_mapping("3.9") == [
        "metadata.version=21 (3.9)",
        "kraft.version=1",
        "transaction.version=0",
        "group.version=0",
        "eligible.leader.replicas.version=0",
        "share.version=0",
        "streams.version=0",
    ]
    assert version_mapping(None)[0] == "metadata.version=30 (4.3-IV0)"
    assert feature_dependencies(["eligible.leader.replicas.version=1", "group.version=1"]) == [
        "eligible.leader.replicas.version=1 requires:",
        "    metadata.version=23 (4.0-IV1)",
        "group.version=1 has no dependencies.",
    ]
    with pytest.raises(FormatError, match="Invalid feature format: bad"):
        feature_dependencies(["bad"])
