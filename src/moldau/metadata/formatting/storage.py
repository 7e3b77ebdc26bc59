"""◇ `storage format`, `storage info`, `version-mapping`, `feature-dependencies`: their files and their output, as of Kafka's tool.

    each log dir                         meta.properties, bootstrap.checkpoint (the features and credentials with which an empty log begins)
    metadata.log.dir, voters can change  __cluster_metadata-0/00000000000000000000-0000000000.checkpoint (kraft.version, voters)

`meta.properties` is written last and marks the directory as formatted, so an interrupted format can be run again.  Printed lines are
Kafka's, but for SCRAM keys, which are not shown.  Called by `tools/cli` and, for the bootstrap records, by `server/node/node.py`.
Source: Formatter.java, StorageTool.scala of 4.3.1; KIP-631, 853, 900, 1022.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from moldau.metadata.features import (
    FEATURES,
    KRAFT_VERSION,
    LATEST_LEVEL,
    METADATA_VERSION,
    RELEASES,
    default_level,
    level_of_release,
)
from moldau.metadata.formatting.scram import ScramSyntax, parse_scram
from moldau.metadata.image import encode_record
from moldau.metadata.records import METADATA_RECORDS, FeatureLevelRecord, UserScramCredentialRecord
from moldau.protocol.wire import StoredRecord
from moldau.raft.log_bytes import METADATA_PARTITION
from moldau.raft.snapshots import CorruptSnapshot, build_snapshot, read_snapshot, snapshot_name
from moldau.raft.voters import Address, Voter, VoterSet
from moldau.storage.epochs import CorruptCheckpoint
from moldau.storage.files import Files
from moldau.storage.folders.checkpoints import META_PROPERTIES, MetaProperties, read_meta_properties
from moldau.types import OffsetAndEpoch, uuid_from_text, uuid_to_text

BOOTSTRAP: Final = "bootstrap.checkpoint"
SCRAM_LEVEL: Final = 11
FIRST: Final = OffsetAndEpoch(0, 0)


class FormatError(Exception):
    """The reason why nothing was formatted, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRequest:
    """The command line, and the options of server.properties that matter for it."""

    cluster_id: str
    node_id: int
    log_dirs: Sequence[str]
    metadata_log_dir: str
    is_controller: bool
    has_static_voters: bool
    """controller.quorum.voters is set."""
    controller_address: Address | None
    """The address of this controller on the first of controller.listener.names."""
    standalone: bool = False
    initial_controllers: str | None = None
    no_initial_controllers: bool = False
    release_version: str | None = None
    features: Sequence[str] = ()
    """Feature levels as name=level."""
    scram: Sequence[str] = ()
    ignore_formatted: bool = False


@dataclass(slots=True)
class _Plan:
    levels: dict[str, int]
    bootstrap: list[StoredRecord]
    voters: VoterSet | None
    lines: list[str] = field(default_factory=list)

    @property
    def release(self) -> str:
        return RELEASES[self.levels[METADATA_VERSION]]


def format_storage(
    files: Files, request: FormatRequest, *, now_ms: int, new_id: Callable[[], UUID], new_salt: Callable[[], bytes]
) -> list[str]:
    """Format the directories that are not formatted yet.  Returns the lines to print.  Errors: FormatError."""
    _check_flags(request)
    directory_id = new_id()
    plan = _plan(request, directory_id, new_salt)
    found = {path: _meta_of(files, path) for path in dict.fromkeys(request.log_dirs)}
    for path, meta in found.items():
        if meta is not None:
            _check_meta(path, meta, request)
    formatted = [path for path, meta in found.items() if meta is not None]
    if formatted and not request.ignore_formatted:
        raise FormatError(
            f"Log directory {formatted[0]} is already formatted. Use --ignore-formatted to ignore this directory and format the others."
        )
    if len(formatted) == len(found):
        return ["All of the log directories are already formatted."]
    plan.lines.append(f"Bootstrap metadata: {_shown(plan)}")
    for path, meta in found.items():
        if meta is None:
            _format_directory(files, request, plan, path, now_ms=now_ms, fresh_id=directory_id, new_id=new_id)
    return plan.lines


def read_bootstrap(files: Files, directory: str) -> list[StoredRecord]:
    """The records with which an empty metadata log begins; without the file, the levels of this release.  Errors: CorruptSnapshot."""
    path = f"{directory}/{BOOTSTRAP}"
    if not files.exists(path):
        return [*_feature_records(_levels(LATEST_LEVEL, {}))]
    try:
        return [METADATA_RECORDS.decode(record) for record in read_snapshot(files.read(path)).records]
    except CorruptSnapshot as error:
        raise CorruptSnapshot(
            f"{path}: {error}; a node that has started before has what is in there in its metadata log: move the file away; for one that "
            "never has, format the folder anew"
        ) from error


# ---------------------------------------------------------------------- the request


def _check_flags(request: FormatRequest) -> None:
    if request.has_static_voters and (request.standalone or request.initial_controllers is not None):
        raise FormatError(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. If you want to "
            "use dynamic quorum, please remove controller.quorum.voters and specify controller.quorum.bootstrap.servers instead."
        )
    if request.standalone and not request.is_controller:
        raise FormatError("You can only use --standalone on a controller.")
    has_choice = request.standalone or request.initial_controllers is not None or request.no_initial_controllers
    if request.is_controller and not request.has_static_voters and not has_choice:
        raise FormatError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: --standalone, "
            "--initial-controllers, or --no-initial-controllers."
        )
    if request.metadata_log_dir not in request.log_dirs:
        raise FormatError(
            f"The specified metadata log directory, {request.metadata_log_dir} was not one of the given directories: "
            f"[{', '.join(request.log_dirs)}]"
        )


def _plan(request: FormatRequest, directory_id: UUID, new_salt: Callable[[], bytes]) -> _Plan:
    asked = _asked_levels(request.features)
    level = _metadata_level(request.release_version, asked)
    for name in asked:
        if name != METADATA_VERSION and name not in FEATURES:
            raise FormatError(f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(FEATURES))}")
    levels = _levels(level, asked)
    levels[KRAFT_VERSION] = _kraft_version(request, asked)
    for name, feature_level in levels.items():
        _check_level(name, feature_level, level)
    bootstrap: list[StoredRecord] = [*_feature_records(levels)]
    if request.scram and level < SCRAM_LEVEL:
        raise FormatError(f"SCRAM is only supported in {METADATA_VERSION} {RELEASES[SCRAM_LEVEL]} or later.")
    try:
        bootstrap += [parse_scram(argument, new_salt) for argument in request.scram]
    except ScramSyntax as error:
        raise FormatError(str(error)) from None
    return _Plan(levels, bootstrap, _voters(request, directory_id))


def _asked_levels(features: Sequence[str]) -> dict[str, int]:
    asked: dict[str, int] = {}
    for text in features:
        name, equals, level = text.strip().partition("=")
        if not equals or not name or not level.isascii() or not level.isdigit():
            raise FormatError(f"Invalid feature format: {text}. Expected format: 'feature=version' (e.g. 'group.version=1')")
        if name in asked:
            raise FormatError(f"Feature {name} was specified more than once.")
        asked[name] = int(level)
    return asked


def _metadata_level(release: str | None, asked: Mapping[str, int]) -> int:
    if METADATA_VERSION in asked:
        if release is not None:
            raise FormatError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
        level = asked[METADATA_VERSION]
        if level not in RELEASES:
            valid = f"{min(RELEASES)} to {max(RELEASES)}"
            raise FormatError(f"No MetadataVersion with feature level {level}. Valid feature levels are from {valid}.")
        if level > LATEST_LEVEL:
            raise FormatError(f"{METADATA_VERSION} {RELEASES[level]} is not yet stable.")
        return level
    if release is None:
        return LATEST_LEVEL
    found = level_of_release(release)
    if found is None:
        raise FormatError(_unknown_release(release, LATEST_LEVEL))
    return found


def _unknown_release(release: str, newest: int) -> str:
    known = ", ".join(name for level, name in RELEASES.items() if level <= newest)
    return f"Unknown metadata.version '{release}'. Supported metadata.version are: {known}"


def _levels(metadata_level: int, asked: Mapping[str, int]) -> dict[str, int]:
    levels = {name: asked.get(name, default_level(name, metadata_level)) for name in FEATURES if name != KRAFT_VERSION}
    return {METADATA_VERSION: metadata_level, **dict(sorted(levels.items()))}


def _kraft_version(request: FormatRequest, asked: Mapping[str, int]) -> int:
    flags = "one of the flags --standalone, --initial-controllers, or --no-initial-controllers is used"
    is_dynamic = not request.has_static_voters
    level = asked.get(KRAFT_VERSION, int(is_dynamic))
    if level == 0 and is_dynamic and KRAFT_VERSION in asked:
        raise FormatError(
            f"Cannot set kraft.version to 0 if controller.quorum.voters is empty and {flags}. For dynamic controllers support, try "
            "removing the --feature flag for kraft.version."
        )
    if level > 0 and not is_dynamic:
        raise FormatError(
            f"Cannot set kraft.version to {level} unless controller.quorum.voters is empty and {flags}. For dynamic controllers support, "
            "try using one of --standalone, --initial-controllers, or --no-initial-controllers and removing controller.quorum.voters."
        )
    return level


def _check_level(name: str, level: int, metadata_level: int) -> None:
    if name == METADATA_VERSION:
        return
    if not 0 <= level <= FEATURES[name].highest:
        raise FormatError(f"No feature:{name} with feature level {level}")
    needed = FEATURES[name].needs.get(level, 0)
    if metadata_level < needed:
        raise FormatError(f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {needed}")


def _voters(request: FormatRequest, directory_id: UUID) -> VoterSet | None:
    if request.standalone:
        assert request.controller_address is not None, "a controller has an address"
        return VoterSet([Voter(request.node_id, directory_id, (request.controller_address,))])
    if request.initial_controllers is None:
        return None
    listener = request.controller_address.name if request.controller_address is not None else "CONTROLLER"
    voters = [_parse_voter(text, listener) for text in request.initial_controllers.split(",") if text.strip()]
    if not voters:
        raise FormatError("No voters given.")
    if len({voter.id for voter in voters}) < len(voters):
        raise FormatError("Node id was specified more than once.")
    return VoterSet(voters)


def _parse_voter(text: str, listener: str) -> Voter:
    """A voter from `id@host:port:directory-id`."""
    number, at, rest = text.strip().partition("@")
    if not at:
        raise FormatError("No @ found in dynamic voter string.")
    if not number:
        raise FormatError("Invalid @ at beginning of dynamic voter string.")
    if not number.isascii() or not number.isdigit():
        raise FormatError("Failed to parse node id in dynamic voter string.")
    address, colon, directory = rest.rpartition(":")
    host, _, port = address.rpartition(":")
    if not colon or not host:
        raise FormatError("No colon following port could be found.")
    if not port.isascii() or not port.isdigit():
        raise FormatError("Failed to parse port in dynamic voter string.")
    if int(port) > 65535:
        raise FormatError(f"Invalid port {port} in dynamic voter string.")
    try:
        return Voter(int(number), uuid_from_text(directory), (Address(listener, host.strip("[]"), int(port)),))
    except ValueError:
        raise FormatError("Failed to parse directory ID in dynamic voter string.") from None


def _feature_records(levels: Mapping[str, int]) -> list[FeatureLevelRecord]:
    finalized = {name: level for name, level in levels.items() if level > 0 and name != KRAFT_VERSION}
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in finalized.items()]


# ---------------------------------------------------------------------- files


def _meta_of(files: Files, path: str) -> MetaProperties | None:
    try:
        return read_meta_properties(files, path)
    except CorruptCheckpoint as error:
        raise FormatError(str(error)) from None


def _check_meta(path: str, meta: MetaProperties, request: FormatRequest) -> None:
    where = f"{path}/{META_PROPERTIES}"
    if meta.cluster_id != request.cluster_id:
        raise FormatError(f"Invalid cluster.id in: {where}. Expected {request.cluster_id}, but read {meta.cluster_id}")
    if meta.node_id != request.node_id:
        raise FormatError(f"Stored node id {meta.node_id} doesn't match previous node id {request.node_id} in {where}")


def _format_directory(
    files: Files, request: FormatRequest, plan: _Plan, path: str, *, now_ms: int, fresh_id: UUID, new_id: Callable[[], UUID]
) -> None:
    directory_id = fresh_id
    if path != request.metadata_log_dir:
        kind, directory_id = "data directory", new_id()
    elif plan.voters is None:
        kind = "metadata directory"
    elif request.node_id in plan.voters.by_id:
        kind, directory_id = "dynamic metadata voter directory", plan.voters.by_id[request.node_id].directory_id
    else:
        kind = "dynamic metadata directory"
    plan.lines.append(f"Formatting {kind} {path} with {METADATA_VERSION} {plan.release}.")
    files.mkdir(path)
    files.sync_dir(path.rpartition("/")[0] or "/")
    encoded = [encode_record(record, plan.levels[METADATA_VERSION]) for record in plan.bootstrap]
    parts = build_snapshot(encoded, epoch=0, now_ms=now_ms, last_contained_log_timestamp=0)
    files.write_atomically(f"{path}/{BOOTSTRAP}", b"".join(parts))
    if path == request.metadata_log_dir and plan.voters is not None:
        parts = build_snapshot(
            [], epoch=0, now_ms=now_ms, last_contained_log_timestamp=now_ms, kraft_version=plan.levels[KRAFT_VERSION], voters=plan.voters
        )
        files.mkdir(f"{path}/{METADATA_PARTITION}")
        files.write_atomically(f"{path}/{METADATA_PARTITION}/{snapshot_name(FIRST)}", b"".join(parts))
    meta = MetaProperties(request.cluster_id, request.node_id, directory_id)
    files.write_atomically(f"{path}/{META_PROPERTIES}", meta.text())


# ---------------------------------------------------------------------- output


def _shown(plan: _Plan) -> str:
    records = ", ".join(f"ApiMessageAndVersion({_record_text(record)} at version 0)" for record in plan.bootstrap)
    return f"BootstrapMetadata(records=[{records}], metadataVersionLevel={plan.levels[METADATA_VERSION]}, source=format command)"


def _record_text(record: StoredRecord) -> str:
    if isinstance(record, FeatureLevelRecord):
        return f"FeatureLevelRecord(name='{record.name}', featureLevel={record.feature_level})"
    assert isinstance(record, UserScramCredentialRecord)
    return (
        f"UserScramCredentialRecord(name='{record.name}', mechanism={record.mechanism}, salt=[hidden], storedKey=[hidden], "
        f"serverKey=[hidden], iterations={record.iterations})"
    )


def storage_info(files: Files, log_dirs: Sequence[str]) -> tuple[list[str], int]:
    """The lines of `storage info`, and the exit status."""
    problems: list[str] = []
    found: list[str] = []
    first: MetaProperties | None = None
    for path in sorted(log_dirs):
        if not files.exists(path):
            problems.append(f"{path} does not exist")
            continue
        if not files.is_dir(path):
            problems.append(f"{path} is not a directory")
            continue
        found.append(path)
        try:
            meta = read_meta_properties(files, path)
        except CorruptCheckpoint as error:
            problems.append(f"Error loading {path}/{META_PROPERTIES}: {error}")
            continue
        if meta is None:
            problems.append(f"{path} is not formatted.")
        elif first is None:
            first = meta
        elif first.cluster_id != meta.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif first.node_id != meta.node_id:
            problems.append("Mismatched node IDs between storage directories.")
    lines: list[str] = []
    if found:
        lines += ["Found log directory:" if len(found) == 1 else "Found log directories:", *(f"  {path}" for path in found), ""]
    if first is not None:
        directory_id = "" if first.directory_id is None else f"directory.id={uuid_to_text(first.directory_id)}, "
        lines += [
            f"Found metadata: {{cluster.id={first.cluster_id}, {directory_id}node.id={first.node_id}, version=1}}",
            "",
        ]
    if problems:
        lines += ["Found problem:" if len(problems) == 1 else "Found problems:", *(f"  {one}" for one in problems), ""]
    return lines, 1 if problems else 0


def version_mapping(release: str | None) -> list[str]:
    """The feature levels of a release.  Errors: FormatError."""
    level = LATEST_LEVEL if release is None else level_of_release(release, with_unstable=True)
    if level is None:
        raise FormatError(_unknown_release(release or "", max(RELEASES)))
    lines = [f"{METADATA_VERSION}={level} ({release or RELEASES[level]})"]
    return lines + [f"{name}={default_level(name, level)}" for name in FEATURES]


def feature_dependencies(features: Sequence[str]) -> list[str]:
    """The requirements of each feature=level.  Errors: FormatError."""
    lines: list[str] = []
    for text in features:
        for name, level in _asked_levels([text]).items():
            if name == METADATA_VERSION:
                if level not in RELEASES:
                    raise FormatError(f"Unknown metadata.version {level}")
                lines.append(f"{name}={level} ({RELEASES[level]}) has no dependencies.")
            elif name not in FEATURES:
                raise FormatError(f"Unknown feature: {name}")
            elif not 0 <= level <= FEATURES[name].highest:
                raise FormatError(f"Feature level {level} is not supported for feature {name}")
            elif level in FEATURES[name].needs:
                needed = FEATURES[name].needs[level]
                lines += [f"{name}={level} requires:", f"    {METADATA_VERSION}={needed} ({RELEASES[needed]})"]
            else:
                lines.append(f"{name}={level} has no dependencies.")
    return lines
