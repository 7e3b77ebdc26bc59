"""◇ Changes of voters: one at a time, in force as soon as they are in the log, answered once they are committed.

    AddRaftVoter ─▶ are its versions right? ─▶ has it caught up? ─▶ Voters record ─▶ committed by a majority of the new set ─▶ answer
    RemoveRaftVoter ─▶ Voters record ─▶ committed ─▶ answer; a leader that is out resigns
    UpdateRaftVoter ─▶ Voters record, where a voter listens elsewhere or speaks another kraft.version

A leader changes voters only when an entry of its own epoch and every earlier change are committed: otherwise two majorities might not
overlap.  In kraft.version 0 the voters come from the options.  It can become 1 once all voters have told their ids and addresses.
Source: AddVoterHandler, RemoveVoterHandler, UpdateVoterHandler, KafkaRaftClient.upgradeKRaftVersion; KIP-853.  Part of `leading.py`.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from moldau.errors import ErrorCode
from moldau.raft.events import Reply, VotersChange
from moldau.raft.machine.replica_state import ReplicaState
from moldau.raft.messages import AddVoter, ChangeAnswer, RemoveVoter, UpdateVoter, VersionsAnswer
from moldau.raft.roles import NEVER, Leader, Replica
from moldau.raft.voters import ReplicaKey, Voter, VoterSet
from moldau.types import ZERO_UUID

CAUGHT_UP_WITHIN_MS: Final = 3_600_000
"""A replica that has caught up within this time may vote."""
COMMIT_WITHIN_MS: Final = 30_000
"""How long the sender of RemoveRaftVoter waits; the change goes on."""
NEW_VOTER: Final = 1 << 31
"""A number beyond any voter's id: the line on which a new voter is asked for its versions."""


class Change(NamedTuple):
    """A change under way.  `offset` is set once it is in the log; `token` is None once it is answered."""

    token: int | None
    voter: Voter
    deadline_ms: int
    offset: int | None = None
    is_answered_at_once: bool = False


class Reconfiguration:
    """A leader's changes of its voters.  They are forgotten when it leads no more."""

    def __init__(self, node: ReplicaState, append_voters: Callable[[VotersChange, int], None]) -> None:
        """`append_voters` appends other voters, which are in force at once; its second argument is the present time in ms."""
        self.change: Change | None = None
        self.told: dict[int, Voter] = {}
        """The voters that have told their id and address, in kraft.version 0."""
        self._node: Final = node
        self._append_voters: Final = append_voters

    @property
    def due_ms(self) -> int:
        return NEVER if self.change is None or self.change.token is None else self.change.deadline_ms

    # ------------------------------------------------------------ requests

    def _obstacle(self, role: Leader) -> ChangeAnswer | None:
        """The reason why no change is possible now; None if there is none."""
        node = self._node
        committed = node.high_watermark or 0
        if self.change is not None:
            return ChangeAnswer(
                ErrorCode.REQUEST_TIMED_OUT, "Request timed out waiting for leader to handle previous voter change request."
            )
        if committed <= role.epoch_start_offset:
            return ChangeAnswer(
                ErrorCode.REQUEST_TIMED_OUT,
                "Request timed out waiting for leader to establish HWM and fence previous voter changes.",
            )
        if node.history.voters_offset >= committed:
            return ChangeAnswer(ErrorCode.REQUEST_TIMED_OUT, "Request timed out waiting for voters to commit the latest voter change.")
        return None

    def add(self, token: int, request: AddVoter, role: Leader, now_ms: int) -> ChangeAnswer | None:
        """Begin to add a voter.  None: it is answered later.

        Errors: INVALID_REQUEST, REQUEST_TIMED_OUT, UNSUPPORTED_VERSION, DUPLICATE_VOTER.
        """
        node, voter = self._node, request.voter
        at = voter.listens_at(node.listener_name)
        if voter.id < 0 or voter.directory_id == ZERO_UUID:
            return ChangeAnswer(ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter.")
        if at is None:
            return ChangeAnswer(
                ErrorCode.INVALID_REQUEST, f"Add voter request didn't include the endpoint for the default listener {node.listener_name}."
            )
        obstacle = self._obstacle(role)
        if obstacle is not None:
            return obstacle
        if node.kraft_version < 1:
            return ChangeAnswer(
                ErrorCode.UNSUPPORTED_VERSION, "Cluster doesn't support adding voter because the kraft.version feature is 0."
            )
        if voter.id in node.voters.by_id:
            return ChangeAnswer(
                ErrorCode.DUPLICATE_VOTER, f"The voter id for {voter.key} is already part of the set of voters {node.voters!r}."
            )
        self.change = Change(token, voter, now_ms + max(request.timeout_ms, 0), is_answered_at_once=not request.waits_for_commit)
        node.ask_versions(NEW_VOTER, at, now_ms)
        return None

    def versions_told(self, answer: VersionsAnswer | None, role: Leader, now_ms: int) -> None:
        change = self.change
        if change is None or change.offset is not None:
            return
        voter, node = change.voter, self._node
        if answer is None or answer.error is not ErrorCode.NONE:
            self._give_up(ErrorCode.REQUEST_TIMED_OUT, f"Aborted add voter operation for {voter.key}: it cannot be asked.")
            return
        if not answer.min_kraft_version <= node.kraft_version <= answer.max_kraft_version:
            self._give_up(
                ErrorCode.INVALID_REQUEST,
                f"Aborted add voter operation for {voter.key} since it doesn't support kraft.version 1.",
            )
            return
        known = role.replicas.get(voter.key)
        if known is None or known.last_caught_up_ms < 0 or now_ms - known.last_fetch_ms > CAUGHT_UP_WITHIN_MS:
            self._give_up(ErrorCode.REQUEST_TIMED_OUT, f"Aborted add voter operation for {voter.key} since it is lagging behind.")
            return
        able = voter._replace(min_kraft_version=answer.min_kraft_version, max_kraft_version=answer.max_kraft_version)
        self._append(change, node.voters.with_voter(able), role, now_ms)

    def remove(self, token: int, request: RemoveVoter, role: Leader, now_ms: int) -> ChangeAnswer | None:
        """Begin to remove a voter.  None: it is answered later.

        Errors: INVALID_REQUEST, REQUEST_TIMED_OUT, UNSUPPORTED_VERSION, VOTER_NOT_FOUND.
        """
        node, key = self._node, request.voter
        if key.id < 0 or key.directory_id == ZERO_UUID:
            return ChangeAnswer(ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter.")
        obstacle = self._obstacle(role)
        if obstacle is not None:
            return obstacle
        if node.kraft_version < 1:
            return ChangeAnswer(
                ErrorCode.UNSUPPORTED_VERSION, "Cluster doesn't support removing voter because the kraft.version feature is 0."
            )
        if node.voters.key_of(key) is None:
            return ChangeAnswer(ErrorCode.VOTER_NOT_FOUND, f"Cannot remove voter {key} from the set of voters {node.voters!r}.")
        if len(node.voters) == 1:
            return ChangeAnswer(ErrorCode.INVALID_REQUEST, f"Cannot remove voter {key}: it is the only one.")
        change = Change(token, node.voters.by_id[key.id], now_ms + COMMIT_WITHIN_MS)
        self._append(change, node.voters.without(key.id), role, now_ms)
        return None

    def update(self, request: UpdateVoter, role: Leader, now_ms: int) -> ErrorCode:
        """Update a voter's address and versions.  Errors: INVALID_REQUEST, REQUEST_TIMED_OUT, VOTER_NOT_FOUND."""
        node, voter = self._node, request.voter
        is_range = 0 <= voter.min_kraft_version <= node.kraft_version <= voter.max_kraft_version
        if voter.directory_id == ZERO_UUID or voter.listens_at(node.listener_name) is None or not is_range:
            return ErrorCode.INVALID_REQUEST
        key = node.voters.key_of(voter.key)
        if key is None:
            return ErrorCode.VOTER_NOT_FOUND
        if node.kraft_version < 1:
            self.told[voter.id] = voter
            return ErrorCode.NONE
        obstacle = self._obstacle(role)
        if obstacle is not None:
            return obstacle.error
        if node.voters.by_id[voter.id] != voter:
            self._append(Change(None, voter, NEVER), node.voters.with_voter(voter), role, now_ms)
        return ErrorCode.NONE

    def upgrade(self, role: Leader, now_ms: int, *, me: Voter) -> int | ErrorCode:
        """Change to kraft.version 1.  Returns the offset after its records.  Errors: INVALID_UPDATE_VERSION, REQUEST_TIMED_OUT."""
        node = self._node
        if node.kraft_version > 0:
            return node.end_offset
        refusal = self.upgrade_refusal(role, me)
        if refusal is not None:
            return refusal
        told = {**self.told, me.id: me}
        voters = VoterSet(told[number] for number in node.voters.by_id)
        self._append(Change(None, me, NEVER), voters, role, now_ms, kraft_version=1)
        return node.end_offset

    def upgrade_refusal(self, role: Leader, me: Voter) -> ErrorCode | None:
        """The refusal that `upgrade` would give, without changing anything."""
        node = self._node
        if (node.high_watermark or 0) <= role.epoch_start_offset:
            return ErrorCode.REQUEST_TIMED_OUT
        told = {**self.told, me.id: me}
        is_silent = any(number not in told or told[number].max_kraft_version < 1 for number in node.voters.by_id)
        return ErrorCode.INVALID_UPDATE_VERSION if is_silent else None

    # ------------------------------------------------------------ progress

    def _append(self, change: Change, voters: VoterSet, role: Leader, now_ms: int, *, kraft_version: int | None = None) -> None:
        node = self._node
        token = change.token
        offset = node.end_offset
        self._append_voters(VotersChange(voters, kraft_version), now_ms)
        if change.is_answered_at_once and token is not None:
            node.reply(Reply(token, ChangeAnswer(ErrorCode.NONE)))
            token = None
        self.change = change._replace(token=token, offset=offset)

    def committed(self, high_watermark: int) -> None:
        """Complete a change that the new high watermark covers."""
        change = self.change
        if change is None or change.offset is None or high_watermark <= change.offset:
            return
        self._answer(ChangeAnswer(ErrorCode.NONE))
        self.change = None

    def look_at_the_clock(self, now_ms: int) -> None:
        """Answer callers whose time is over; a change in the log goes on."""
        change = self.change
        if change is not None and now_ms >= change.deadline_ms:
            self._answer(ChangeAnswer(ErrorCode.REQUEST_TIMED_OUT, "Request timed out waiting for voters to commit the change."))
            self.change = None if change.offset is None else change._replace(token=None, deadline_ms=NEVER)

    def forget(self) -> None:
        """Forget the changes, because this node leads no more: the next leader decides whether a change stands."""
        self._answer(ChangeAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Leadership was lost while the change was under way."))
        self.change = None
        self.told = {}

    def _give_up(self, code: ErrorCode, detail: str) -> None:
        self._answer(ChangeAnswer(code, detail))
        self.change = None

    def _answer(self, answer: ChangeAnswer) -> None:
        if self.change is not None and self.change.token is not None:
            self._node.reply(Reply(self.change.token, answer))


def rekeyed(replicas: dict[ReplicaKey, Replica], voters: VoterSet) -> dict[ReplicaKey, Replica]:
    """The replicas by the key that each has among these voters."""
    found: dict[ReplicaKey, Replica] = {}
    for key, known in replicas.items():
        full = key if key.directory_id != ZERO_UUID else ReplicaKey(key.id, known.directory_id)
        found[voters.key_of(full) or full] = known
    return found
