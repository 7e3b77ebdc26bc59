"""● `moldau kafka-server-stop`: stop the nodes that run on this machine, all or some, as kafka-server-stop.sh does.

It finds the nodes of `moldau kafka-server-start` and `moldau serve` by their command lines, and reads their roles and ids in their files.
Unlike the script, it finds a file whose path is relative to another folder, and says so when no node is the one that was meant.

Source: kafka-server-stop.sh; KIP-979.
"""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from moldau.server.node.properties import PropertiesError, parse_properties
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.options import KafkaParser

PROCESSES: Final = Path("/proc")
_COMMANDS: Final = ("serve", "kafka-server-start", "kafka-server-start.sh")
_MODULE: Final = ["-m", "moldau.tools.cli.main"]


class Server(NamedTuple):
    process_id: int
    properties: Mapping[str, str]


def main(arguments: list[str]) -> int:
    parser = KafkaParser(
        "kafka-server-stop",
        "Stop the nodes that `moldau kafka-server-start` or `moldau serve` run on this machine, as kafka-server-stop.sh does.  They get "
        "SIGTERM, or the signal that the variable SIGNAL names, and stop by themselves; the command does not wait for that.",
        examples=["--node-id=1", "--process-role=broker"],
    )
    parser.add_argument("--process-role", metavar="ROLES", help="only nodes whose process.roles are these")
    parser.add_argument("--node-id", metavar="N", help="only the node with this node.id; counts more than --process-role")
    options = parser.parse_args(arguments)
    if options.node_id is not None and options.process_role is not None:
        print("When both node-id and process-role are provided, the value for node-id will take precedence")
    number = _signal_of(os.environ.get("SIGNAL") or "TERM")
    meant = [one for one in servers() if _is_meant(one, options.node_id, options.process_role)]
    if not meant:
        print("No kafka server to stop")
        return 1
    of_others = [str(server.process_id) for server in meant if not _may_send(server, number)]
    if of_others:
        raise Failure(f"not stopped, since they belong to another user: process {', '.join(of_others)}", "Stop them as that user")
    return 0


def servers(processes: Path = PROCESSES) -> Iterator[Server]:
    """The nodes that run on this machine, of which this user may know the command line."""
    for folder in processes.glob("[0-9]*"):
        try:
            words = folder.joinpath("cmdline").read_bytes().decode(errors="surrogateescape").rstrip("\0").split("\0")
            rest = arguments_of(words)
            if rest is not None:
                yield Server(int(folder.name), properties_of(rest, folder / "cwd"))
        except OSError:  # it has ended meanwhile, or belongs to somebody else
            continue


def arguments_of(words: Sequence[str]) -> list[str] | None:
    """The arguments of a process that runs a node; None: it does not."""
    for at, word in enumerate(words):
        is_ours = Path(word).name == "moldau" or list(words[at - 1 : at + 1]) == _MODULE
        if is_ours and words[at + 1 : at + 2] and words[at + 1] in _COMMANDS:
            return list(words[at + 2 :])
    return None


def properties_of(arguments: Sequence[str], folder: Path) -> dict[str, str]:
    """The properties of a node that was started with these arguments in this folder; of a file that cannot be read, only the overrides."""
    overrides, files, rest = {}, [], iter(arguments)
    for word in rest:
        name, is_joined, value = word.partition("=")
        if name == "--override":
            key, _, overridden = (value if is_joined else next(rest, "")).partition("=")
            overrides[key] = overridden
        elif not word.startswith("-"):
            files.append(folder / word)
    try:
        found = {key: one.value for file in files[:1] for key, one in parse_properties(file.read_bytes()).items()}
    except (OSError, PropertiesError):
        found = {}
    return found | overrides


def _is_meant(server: Server, node_id: str | None, roles: str | None) -> bool:
    if node_id is not None:
        return server.properties.get("node.id") == node_id
    return roles is None or server.properties.get("process.roles") == roles


def _signal_of(name: str) -> signal.Signals:
    try:
        return signal.Signals(int(name)) if name.isdigit() else signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except (KeyError, ValueError) as error:
        raise Failure(f"SIGNAL={name} is no signal", "Leave it out, or name one such as TERM") from error


def _may_send(server: Server, number: signal.Signals) -> bool:
    """Send the signal, unless the process has ended.  Returns whether this user may."""
    try:
        os.kill(server.process_id, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True
