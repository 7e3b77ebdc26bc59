"""Dialogues with the consensus machine as text: a command, `----`, what the machine then wants done.

    start id=1 voters=1,2,3 [epoch=… end=… kraft=… voted=… leader=… lost-votes]     a node in that state
          [before=1,2,3,4]                                        its last record has changed the voters; these were the voters before
    tick [ms]                                                     so much time passes
    propose a b c · synced 3 · lost 2 · resign                    events
    vote from=2 epoch=3 log=10/2 [pre]                            requests; log: end offset and epoch of the last record
    begin from=2 epoch=3 · end from=2 epoch=3 then=3,1
    fetch from=2 epoch=3 log=10/2 [hw=9] [wait=500]
    granted from=2 · rejected from=2 · refused from=2 epoch=4 leader=3        answers to what was sent
    batches from=2 hw=9 10..12/2 12..13/3 · diverges from=2 8/1 · snapshot from=2 100/4
    fails from=2                                                  no answer came
    advance                                                       the election that was asked for is on the disk

Actions that need no disk are done at once.  Chance always says 0, and directories are 1000 + id.  A trace line says what is ready, and
the role.  To see a new trace, write the command with an empty answer and run the test with MOLDAU_SCRIPTS=rewrite.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.raft.events import (
    Answered,
    Event,
    Fetched,
    LeaderChange,
    Lost,
    Proposal,
    Ready,
    Received,
    Resign,
    Send,
    Synced,
    Tick,
    VotersChange,
)
from moldau.raft.history import FORMATTED, LogHistory, VoterChange
from moldau.raft.machine.node import RaftNode
from moldau.raft.messages import (
    Batch,
    BeginEpoch,
    ChangeAnswer,
    EndEpoch,
    EpochAnswer,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    RaftAnswer,
    RaftRequest,
    UpdateVoter,
    Vote,
    VoteAnswer,
)
from moldau.raft.roles import ElectionState
from moldau.raft.voters import Address, HostPort, ReplicaKey, Voter, VoterSet
from moldau.types import OffsetAndEpoch

SCRIPTS = sorted((Path(__file__).parent / "raft").glob("*.txt"))
REWRITE = os.environ.get("MOLDAU_SCRIPTS") == "rewrite"


def dialogues(path: Path) -> Iterator[tuple[str, str, str]]:
    """The comment, the command and the answer of each block."""
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        lines = block.splitlines()
        comment = "".join(f"{line}\n" for line in lines if line.startswith("#"))
        rest = "\n".join(line for line in lines if not line.startswith("#"))
        command, _, answer = rest.partition("\n----")
        yield comment, command.strip(), answer.strip()


def directory_of(number: int) -> UUID:
    return UUID(int=1000 + number)


def key_of(number: str | int) -> ReplicaKey:
    return ReplicaKey(int(number), directory_of(int(number)))


def place(text: str) -> OffsetAndEpoch:
    offset, _, epoch = text.partition("/")
    return OffsetAndEpoch(int(offset), int(epoch))


def voter(number: int) -> Voter:
    return Voter(number, directory_of(number), (Address("CONTROLLER", f"h{number}", 9093),))


class Zero:
    def randrange(self, stop: int, /) -> int:
        return 0


def voter_set(numbers: str) -> VoterSet:
    return VoterSet(voter(int(one)) for one in numbers.split(","))


def start(words: dict[str, str]) -> RaftNode:
    voters = voter_set(words["voters"])
    number, epoch, end = int(words["id"]), int(words.get("epoch", 0)), int(words.get("end", 0))
    last_epoch = int(words.get("last", epoch))
    voted = int(words.get("voted", -1))
    kraft_version = int(words.get("kraft", 0))
    changes = [VoterChange(0 if end else FORMATTED, voters, kraft_version)]
    if "before" in words:
        changes = [VoterChange(0, voter_set(words["before"]), kraft_version), VoterChange(end - 1, voters, kraft_version)]
    history = LogHistory(end_offset=end, epochs=[(last_epoch, 0)] if end else [], changes=changes)
    election = ElectionState(epoch, int(words.get("leader", -1)), voted, directory_of(voted) if voted >= 0 else UUID(int=0))
    return RaftNode(
        key_of(number),
        history,
        election=election,
        chance=Zero(),
        now_ms=0,
        may_vote="lost-votes" not in words,
        addresses=(Address("CONTROLLER", f"h{number}", 9093),),
    )


def traced_request(send: Send) -> str:
    request, to = send.request, f"to {send.to}" if send.to >= 0 else f"to {send.at.host}"
    match request:
        case Vote():
            kind = "pre-vote" if request.is_pre_vote else "vote"
            return f"{to}: {kind}? epoch={request.epoch} log={request.end_offset}/{request.last_epoch}"
        case BeginEpoch():
            return f"{to}: begin epoch={request.epoch}"
        case EndEpoch():
            return f"{to}: end epoch={request.epoch} then={','.join(str(key.id) for key in request.preferred)}"
        case Fetch():
            return f"{to}: fetch epoch={request.epoch} log={request.offset}/{request.last_epoch} hw={request.high_watermark}"
        case FetchSnapshot():
            return f"{to}: fetch snapshot {request.snapshot_id.offset}/{request.snapshot_id.epoch} from {request.position}"
        case UpdateVoter():
            return f"{to}: update voter {request.voter.id} epoch={request.epoch}"
        case _:
            return f"{to}: {request}"


def traced_answer(answer: RaftAnswer) -> str:
    if isinstance(answer, ChangeAnswer):
        return f"reply {answer.error.name}"
    text = f"reply {answer.error.name} epoch={answer.epoch} leader={answer.leader_id}"
    match answer:
        case VoteAnswer():
            return f"{text} {'granted' if answer.is_granted else 'rejected'}"
        case FetchAnswer() if answer.error is ErrorCode.NONE:
            said = [f"hw={answer.high_watermark}"]
            if answer.read_from >= 0:
                said.append(f"records from {answer.read_from}")
            if answer.diverging is not None:
                said.append(f"diverging {answer.diverging.offset}/{answer.diverging.epoch}")
            if answer.snapshot_id is not None:
                said.append(f"snapshot {answer.snapshot_id.offset}/{answer.snapshot_id.epoch}")
            return f"{text} {' '.join(said)}"
        case FetchSnapshotAnswer():
            return f"{text} position={answer.position}"
    return text


def trace(node: RaftNode, ready: Ready) -> str:
    lines = [f"{type(node.role).__name__} epoch={node.epoch} leader={node.leader_id} end={node.end_offset} hw={node.high_watermark}"]
    if ready.election is not None:
        lines.append(f"persist epoch={ready.election.epoch} leader={ready.election.leader_id} vote={ready.election.voted_id}")
    if ready.truncate_to is not None:
        lines.append(f"truncate to {ready.truncate_to}")
    for entry in ready.entries:
        if isinstance(entry, Fetched):
            lines.append(f"append {entry.base_offset}..{entry.next_offset} as fetched")
        elif isinstance(entry.payload, LeaderChange):
            written = entry.payload.written
            with_voters = "" if written is None else f" and the voters {','.join(map(str, written.by_id))}"
            lines.append(f"append {entry.base_offset} epoch={entry.epoch} leader change{with_voters}")
        elif isinstance(entry.payload, VotersChange):
            lines.append(f"append {entry.base_offset} epoch={entry.epoch} voters {','.join(map(str, entry.payload.voters.by_id))}")
        else:
            lines.append(f"append {entry.base_offset} epoch={entry.epoch} {' '.join(one.decode() for one in entry.payload)}")
    if ready.high_watermark is not None:
        lines.append(f"committed below {ready.high_watermark}")
    lines += [traced_request(send) for send in ready.sends]
    lines += [traced_answer(reply.answer) for reply in ready.replies]
    return "\n".join(lines)


class Talk:
    """One script's machine."""

    def __init__(self) -> None:
        self.node: RaftNode | None = None
        self.now_ms = 0
        self.sent: dict[int, Send] = {}

    def say(self, command: str) -> str:
        verb, *rest = command.split()
        words = dict(word.partition("=")[::2] for word in rest if "=" in word or word in ("pre", "lost-votes"))
        plain = [word for word in rest if "=" not in word and word != "pre"]
        if verb == "start":
            self.node, self.now_ms, self.sent = start(words), 0, {}
            return self._traced(self.node)
        node = self.node
        assert node is not None, "a script begins with start"
        if verb == "advance" or node.ready().election is None:
            node.advance(node.ready(), self.now_ms)
        if verb == "advance":
            return self._traced(node)
        if verb == "tick":
            self.now_ms += int(plain[0]) if plain else 0
        answer = node.step(self._event(verb, words, plain), self.now_ms)
        said = ""
        if verb == "propose":
            said = f"refused {answer.name}\n" if isinstance(answer, ErrorCode) else f"ends at {answer}\n"
        return said + self._traced(node)

    def _traced(self, node: RaftNode) -> str:
        ready = node.ready()
        self.sent.update({send.to: send for send in ready.sends})
        return trace(node, ready)

    def _event(self, verb: str, words: dict[str, str], plain: list[str]) -> Event:
        match verb:
            case "tick":
                return Tick()
            case "propose":
                return Proposal(tuple(word.encode() for word in plain))
            case "synced":
                return Synced(int(plain[0]))
            case "lost":
                return Lost(int(plain[0]))
            case "resign":
                return Resign()
            case "vote" | "begin" | "end" | "fetch":
                return Received(1, self._request(verb, words))
            case _:
                return self._answer(verb, words, plain)

    def _request(self, verb: str, words: dict[str, str]) -> RaftRequest:
        sender, epoch = int(words["from"]), int(words["epoch"])
        at = HostPort(f"h{sender}", 9093)
        assert self.node is not None
        match verb:
            case "vote":
                log = place(words["log"])
                return Vote(epoch, key_of(sender), self.node.me, log.epoch, log.offset, "pre" in words)
            case "begin":
                return BeginEpoch(epoch, sender, at, self.node.me)
            case "end":
                return EndEpoch(epoch, sender, at, tuple(key_of(one) for one in words["then"].split(",")))
            case _:
                log = place(words["log"])
                return Fetch(epoch, key_of(sender), log.offset, log.epoch, int(words.get("hw", 1 << 62)), int(words.get("wait", 500)))

    def _answer(self, verb: str, words: dict[str, str], plain: list[str]) -> Event:
        assert self.node is not None
        sender = int(words["from"])
        send = self.sent[sender]
        epoch, leader = int(words.get("epoch", self.node.epoch)), int(words.get("leader", -1))
        at = HostPort(f"h{leader}", 9093) if leader >= 0 else None
        fetched = FetchAnswer(ErrorCode.NONE, epoch, sender, HostPort(f"h{sender}", 9093), int(words.get("hw", -1)))
        answer: RaftAnswer | None
        match verb:
            case "granted" | "rejected":
                answer = VoteAnswer(ErrorCode.NONE, epoch, leader, at, is_granted=verb == "granted")
            case "accepted":
                answer = EpochAnswer(ErrorCode.NONE, epoch, leader, at)
            case "refused":
                kind = {Vote: VoteAnswer, Fetch: FetchAnswer}.get(type(send.request), EpochAnswer)
                answer = kind(ErrorCode.FENCED_LEADER_EPOCH, epoch, leader, at)
            case "batches":
                found = [(part.partition("..")[0], part.partition("..")[2].split("/")) for part in plain]
                answer = fetched._replace(batches=tuple(Batch(int(base), int(end), int(of)) for base, (end, of) in found), records=b"x")
            case "diverges":
                answer = fetched._replace(diverging=place(plain[0]))
            case "snapshot":
                answer = fetched._replace(snapshot_id=place(plain[0]))
            case "fails":
                answer = None
            case _:
                raise AssertionError(f"no such command: {verb}")
        return Answered(sender, send.number, answer)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_dialogue(path: Path) -> None:
    talk = Talk()
    written = []
    for comment, command, expected in dialogues(path):
        if not command:
            written.append(comment)
            continue
        said = talk.say(command)
        written.append(f"{comment}{command}\n----\n{said}\n")
        assert REWRITE or said == expected, f"{path.name}: {command}"
    if REWRITE:
        path.write_text("\n".join(written), encoding="utf-8")


def test_there_are_dialogues() -> None:
    assert len(SCRIPTS) >= 3
