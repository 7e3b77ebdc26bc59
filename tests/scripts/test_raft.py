"""Dialogues with the consensus machine as text: a command, `----`, what the machine then wants done.

    start id=1 voters=1 [epoch=… end=… kraft=…]     a node in that state
    tick · propose a b c · synced 3 · resign        events
    advance                                         the world has done what `ready` asked for

A trace line says what is ready, and the role.  To see a new trace, write the command with an empty answer and run the test.
"""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.raft.node import LeaderChange, Proposal, RaftNode, Resign, Synced, Tick
from moldau.raft.roles import ElectionState
from moldau.raft.voters import Address, Voter, VoterSet

SCRIPTS = sorted((Path(__file__).parent / "raft").glob("*.txt"))


def dialogues(path: Path) -> Iterator[tuple[str, str]]:
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines:
            command, answer = "\n".join(lines).split("\n----\n") if "----" in block else ("\n".join(lines), "")
            yield command.strip(), answer.strip()


def directory_of(number: int) -> UUID:
    return UUID(int=1000 + number)


def start(words: dict[str, str]) -> RaftNode:
    voters = [Voter(int(one), directory_of(int(one)), (Address("C", "h", 1),)) for one in words["voters"].split(",")]
    number, epoch = int(words["id"]), int(words.get("epoch", 0))
    return RaftNode(
        node_id=number,
        directory_id=directory_of(number),
        voters=VoterSet(voters),
        kraft_version=int(words.get("kraft", 0)),
        election=ElectionState(epoch),
        end_offset=int(words.get("end", 0)),
        has_written_voters=int(words.get("end", 0)) > 0,
        last_epoch=epoch,
    )


def trace(node: RaftNode) -> str:
    ready = node.ready()
    lines = [f"{type(node.role).__name__} epoch={node.epoch} leader={node.leader_id} end={node.end_offset} hw={node.high_watermark}"]
    if ready.election is not None:
        lines.append(f"persist epoch={ready.election.epoch} leader={ready.election.leader_id} vote={ready.election.voted_id}")
    for entry in ready.entries:
        if isinstance(entry.payload, LeaderChange):
            with_voters = "" if entry.payload.kraft_version is None else " and the voters"
            lines.append(f"append {entry.base_offset} epoch={entry.epoch} leader change{with_voters}")
        else:
            lines.append(f"append {entry.base_offset} epoch={entry.epoch} {' '.join(one.decode() for one in entry.payload)}")
    if ready.high_watermark is not None:
        lines.append(f"committed below {ready.high_watermark}")
    return "\n".join(lines)


class Talk:
    """One script's machine."""

    def __init__(self) -> None:
        self.node: RaftNode | None = None

    def say(self, command: str) -> str:
        verb, *words = command.split()
        if verb == "start":
            self.node = start(dict(word.split("=") for word in words))
            return trace(self.node)
        assert self.node is not None, "a script begins with start"
        answer = ""
        match verb:
            case "tick":
                self.node.step(Tick(), 0)
            case "propose":
                end = self.node.step(Proposal(tuple(word.encode() for word in words)), 0)
                answer = f"refused {end.name}\n" if isinstance(end, ErrorCode) else f"ends at {end}\n"
            case "synced":
                self.node.step(Synced(int(words[0])), 0)
            case "resign":
                self.node.step(Resign(), 0)
            case "advance":
                self.node.advance(self.node.ready(), 0)
            case _:
                raise AssertionError(f"no such command: {command}")
        return answer + trace(self.node)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_dialogue(path: Path) -> None:
    talk = Talk()
    for command, expected in dialogues(path):
        assert talk.say(command) == expected, f"{path.name}: {command}"


def test_there_are_dialogues() -> None:
    assert len(SCRIPTS) >= 3
