"""◇ The work of a leader: it appends, answers fetches, counts copies, and watches whether a majority hears it.

Fetches wait (parked) until there is news; they are answered, too, when this replica leads no more.  `reconfiguration.py` changes voters.
Part of `node.py`.
"""

from functools import cached_property
from typing import Final

from moldau.errors import ErrorCode
from moldau.raft.events import MAX_ENTRY_RECORDS, Entry, EntryPayload, LeaderChange, Reply, VotersChange
from moldau.raft.history import FORMATTED
from moldau.raft.machine.reconfiguration import Reconfiguration, rekeyed
from moldau.raft.machine.replica_state import Parked, ReplicaState
from moldau.raft.messages import (
    AddVoter,
    BeginEpoch,
    ChangeAnswer,
    EpochAnswer,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    RemoveVoter,
    UpdateVoter,
)
from moldau.raft.roles import NEVER, Leader, Replica, Resigned, Role
from moldau.raft.voters import KRAFT_VERSIONS, ReplicaKey, Voter

CHECK_QUORUM_FACTOR: Final = 1.5
"""A leader resigns when no majority has fetched for this many fetch time-outs."""
OBSERVER_SESSION_MS: Final = 300_000
"""An observer that has not fetched for this long is forgotten."""
MAX_OBSERVERS: Final = 10_000
MAX_PARKED: Final = 10_000
"""The most fetches that wait for records; one more is answered at once."""


class Leading(ReplicaState):
    """See the module."""

    @cached_property
    def changes(self) -> Reconfiguration:
        """The changes of voters."""
        return Reconfiguration(self, self._append_voters)

    def _become(self, role: Role, now_ms: int) -> None:
        if isinstance(self.role, Leader):
            self.changes.forget()
        super()._become(role, now_ms)

    def _open_epoch(self, now_ms: int) -> None:
        """Append the first entry of the epoch: the election is on the disk."""
        role = self.role
        if not self.is_leader or not isinstance(role, Leader) or self.end_offset > role.epoch_start_offset:
            return
        written = None
        if self.kraft_version > 0:
            voters = self.voters
            if self.addresses and self.is_voter:
                voters = voters.with_voter(voters.by_id[self.me.id]._replace(addresses=self.addresses))
            if voters != self.voters or self.history.voters_offset == FORMATTED:
                written = voters
        self._append(LeaderChange(self.me.id, tuple(self.voters.by_id), role.granting_voters, written, self.kraft_version))
        role.replicas[self._my_key] = Replica(self.me.directory_id, self.synced_offset)

    def _resign(self, now_ms: int) -> None:
        role = self.role
        assert isinstance(role, Leader)
        followers = [key for key in self.voters.keys.values() if key.id != self.me.id]
        best_first = sorted(followers, key=lambda key: -role.replicas[key].end_offset if key in role.replicas else 1)
        self._become(Resigned(role.election, now_ms + self._election_timeout(), tuple(best_first)), now_ms)

    def _quorum_deadline(self, now_ms: int) -> int:
        return NEVER if len(self.voters) == 1 and self.is_voter else now_ms + int(self.timeouts.fetch_ms * CHECK_QUORUM_FACTOR)

    def _begin_times(self, role: Leader) -> list[int]:
        """Set when each voter is told of the epoch, unless it fetches before."""
        interval_ms = self.timeouts.fetch_ms // 2
        times = []
        for voter_id, key in self.voters.keys.items():
            line = self._lines.get((voter_id, BeginEpoch))
            if voter_id == self.me.id or (line is not None and line.sent_ms >= 0):
                continue
            known = role.replicas.get(key)
            heard_ms = known.last_fetch_ms + interval_ms if known is not None and known.last_fetch_ms >= 0 else role.began_ms
            times.append(heard_ms if line is None else max(heard_ms, line.retry_ms))
        return times

    def _tell_of_epoch(self, role: Leader, now_ms: int) -> None:
        interval_ms = self.timeouts.fetch_ms // 2
        for voter_id, key in self.voters.keys.items():
            if voter_id == self.me.id or not self._may_ask(voter_id, BeginEpoch, now_ms):
                continue
            known = role.replicas.get(key)
            if known is None or known.last_fetch_ms < 0 or now_ms - known.last_fetch_ms >= interval_ms:
                self._send(voter_id, BeginEpoch(self.epoch, self.me.id, self._my_address, key), now_ms)

    def _fetched(self, token: int, fetch: Fetch, now_ms: int) -> FetchAnswer | None:
        """The answer to a fetch.  None: it is parked until there is news."""
        if fetch.max_wait_ms < 0 or fetch.offset < 0 or fetch.last_epoch < 0 or fetch.last_epoch > fetch.epoch:
            return FetchAnswer(ErrorCode.INVALID_REQUEST, *self._known)
        refusal = self._refusal_unless_leader(fetch.epoch)
        if refusal is not None:
            return FetchAnswer(refusal, *self._known)
        role = self.role
        assert isinstance(role, Leader)
        place = self._where_logs_part(fetch)
        if place is not None:
            return place
        self._heard_from(role, fetch.replica, fetch.offset, now_ms)
        if self._has_news_for(fetch) or fetch.max_wait_ms == 0 or len(self._parked) >= MAX_PARKED:
            return self._records_for(fetch)
        self._parked.append(Parked(token, fetch, now_ms + fetch.max_wait_ms))
        return None

    def _where_logs_part(self, fetch: Fetch) -> FetchAnswer | None:
        """The point where the replica's log leaves this one; None if it is a beginning of this one.

        Source: RaftLog.validateOffsetAndEpoch.
        """
        start, newest = self.history.start, self.history.newest_snapshot
        is_before = fetch.offset < start.offset or fetch.last_epoch < start.epoch
        is_other_start = fetch.offset == start.offset > 0 and fetch.last_epoch != start.epoch
        if is_before or is_other_start or (fetch.offset == 0 < newest.offset):
            return self._positioned(FetchAnswer(ErrorCode.NONE, *self._known, snapshot_id=newest))
        if fetch.offset == 0:
            return None
        end = self.history.end_of_epoch(fetch.last_epoch)
        if end.epoch != fetch.last_epoch or end.offset < fetch.offset:
            return self._positioned(FetchAnswer(ErrorCode.NONE, *self._known, diverging=end))
        return None

    def _positioned(self, answer: FetchAnswer) -> FetchAnswer:
        high_watermark = -1 if self.high_watermark is None else self.high_watermark
        return answer._replace(high_watermark=high_watermark, log_start_offset=self.history.start.offset)

    def _has_news_for(self, fetch: Fetch) -> bool:
        return fetch.offset < self.end_offset or (self.high_watermark is not None and fetch.high_watermark < self.high_watermark)

    def _records_for(self, fetch: Fetch) -> FetchAnswer:
        read_from = fetch.offset if fetch.offset < self.end_offset else -1
        return self._positioned(FetchAnswer(ErrorCode.NONE, *self._known, read_from=read_from))

    def _answer_parked(self, now_ms: int) -> None:
        if not self._parked:
            return
        waiting = []
        for parked in self._parked:
            refusal = self._refusal_unless_leader(parked.fetch.epoch)
            if refusal is not None:
                self._ready.replies.append(Reply(parked.token, FetchAnswer(refusal, *self._known)))
            elif self._has_news_for(parked.fetch) or now_ms >= parked.deadline_ms:
                self._ready.replies.append(Reply(parked.token, self._records_for(parked.fetch)))
            else:
                waiting.append(parked)
        self._parked = waiting

    def _fetched_snapshot(self, request: FetchSnapshot, now_ms: int) -> FetchSnapshotAnswer:
        """The answer to FetchSnapshot.  The driver adds the bytes, or SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE."""
        refusal = self._refusal_unless_leader(request.epoch)
        role = self.role
        if refusal is None and isinstance(role, Leader):
            key = self.voters.key_of(request.replica)
            if key is not None:
                self._heard_of_voter(role, key, now_ms)
        code = ErrorCode.NONE if refusal is None else refusal
        return FetchSnapshotAnswer(code, *self._known, snapshot_id=request.snapshot_id, position=request.position)

    def _heard_from(self, role: Leader, replica: ReplicaKey, offset: int, now_ms: int) -> None:
        if replica.id < 0 or replica.id == self.me.id:
            return
        key = self.voters.key_of(replica)
        if key is None:
            self._forget_observers(role, now_ms)
            if replica not in role.replicas and len(role.replicas) >= MAX_OBSERVERS:
                return
        known = role.replicas.setdefault(key or replica, Replica())
        if offset >= self.end_offset:
            known.last_caught_up_ms = now_ms
        elif offset >= known.fetched_up_to >= 0:
            known.last_caught_up_ms = known.last_fetch_ms
        known.directory_id, known.last_fetch_ms, known.fetched_up_to = replica.directory_id, now_ms, self.end_offset
        known.end_offset = offset
        if key is not None:
            self._heard_of_voter(role, key, now_ms)
            self._commit(role)

    def _heard_of_voter(self, role: Leader, key: ReplicaKey, now_ms: int) -> None:
        role.replicas.setdefault(key, Replica()).last_fetch_ms = now_ms
        role.heard.add(key)
        heard = sum(one in role.heard for one in self.voters.keys.values() if one.id != self.me.id)
        if heard + self.is_voter >= self.voters.majority:
            role.heard.clear()
            role.quorum_deadline_ms = self._quorum_deadline(now_ms)

    def _forget_observers(self, role: Leader, now_ms: int) -> None:
        if len(role.replicas) > len(self.voters):
            voting = set(self.voters.keys.values())
            role.replicas = {
                key: one for key, one in role.replicas.items() if key in voting or now_ms - one.last_fetch_ms < OBSERVER_SESSION_MS
            }

    def _commit(self, role: Leader) -> None:
        ends = {key: one.end_offset for key, one in role.replicas.items()}
        replicated = self.voters.replicated_offset(ends)
        if replicated > role.epoch_start_offset and (self.high_watermark is None or replicated > self.high_watermark):
            self._move_high_watermark(replicated)

    def _move_high_watermark(self, offset: int) -> None:
        assert self.high_watermark is None or offset > self.high_watermark
        self.high_watermark = self._ready.high_watermark = offset
        if isinstance(self.role, Leader):
            self.changes.committed(offset)
            if not self.is_voter and offset > self.history.voters_offset:
                self._resign(self._now_ms)  # removed by itself, or by the leader before it
        if self.catch_up_offset is None and isinstance(self.role, Leader):
            self.catch_up_offset = offset

    def _propose(self, records: tuple[bytes, ...], now_ms: int) -> int | ErrorCode:
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not 0 < len(records) <= MAX_ENTRY_RECORDS:
            return ErrorCode.INVALID_REQUEST
        self._append(records)
        return self.end_offset

    def _append(self, payload: EntryPayload) -> None:
        entry = Entry(self.end_offset, self.epoch, payload)
        self._ready.entries.append(entry)
        self.history.append(self.epoch, entry.base_offset, entry.next_offset)
        if isinstance(payload, LeaderChange):
            if payload.written is not None:
                self.history.change_voters(entry.base_offset, payload.written, payload.kraft_version)
        elif isinstance(payload, VotersChange):
            self.history.change_voters(entry.base_offset, payload.voters, payload.kraft_version)

    def _synced(self, end_offset: int, now_ms: int) -> None:
        assert end_offset <= self.end_offset, f"{end_offset} is beyond the log's end {self.end_offset}"
        self._truncation_is_unsynced = False
        self.synced_offset = max(self.synced_offset, end_offset)
        role = self.role
        if isinstance(role, Leader) and self._my_key in role.replicas:
            role.replicas[self._my_key].end_offset = self.synced_offset
            self._commit(role)

    def _lost(self, end_offset: int, now_ms: int) -> None:
        self.history.truncate(end_offset)
        self.synced_offset = min(self.synced_offset, end_offset)
        for ready in (self._ready, self._in_hand):
            if ready is not None:
                ready.entries.clear()
                if ready.high_watermark is not None:
                    ready.high_watermark = min(ready.high_watermark, end_offset)
        if self.high_watermark is not None:  # what came with the entries told that they are committed, too
            self.high_watermark = min(self.high_watermark, end_offset)
        if isinstance(self.role, Leader):
            self._resign(now_ms)
        self._paused_until_ms = now_ms + self.timeouts.election_ms

    def _asked_to_update(self, request: UpdateVoter, now_ms: int) -> EpochAnswer:
        code = self._refusal_unless_leader(request.epoch)
        if code is None and isinstance(self.role, Leader):
            code = self.changes.update(request, self.role, now_ms)
        return EpochAnswer(code or ErrorCode.NONE, *self._known)

    def _asked_to_change(self, token: int, request: AddVoter | RemoveVoter, now_ms: int) -> ChangeAnswer | None:
        role = self.role
        if not self.is_leader or not isinstance(role, Leader):
            return ChangeAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if isinstance(request, AddVoter):
            return self.changes.add(token, request, role, now_ms)
        return self.changes.remove(token, request, role, now_ms)

    def _upgrade(self, now_ms: int) -> int | ErrorCode:
        role = self.role
        if not self.is_leader or not isinstance(role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        mine = self.voters.by_id.get(self.me.id)
        if mine is None:
            return ErrorCode.INVALID_UPDATE_VERSION
        return self.changes.upgrade(role, now_ms, me=self._as_voter(mine))

    @property
    def upgrade_refusal(self) -> ErrorCode | None:
        """The reason why kraft.version cannot become 1 now; NONE if it can."""
        role, mine = self.role, self.voters.by_id.get(self.me.id)
        if not self.is_leader or not isinstance(role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.INVALID_UPDATE_VERSION if mine is None else self.changes.upgrade_refusal(role, self._as_voter(mine))

    def _as_voter(self, voter: Voter) -> Voter:
        """A voter's entry for this replica as it is now."""
        return Voter(self.me.id, self.me.directory_id, self.addresses or voter.addresses, *KRAFT_VERSIONS)

    def _append_voters(self, change: VotersChange, now_ms: int) -> None:
        role = self.role
        assert isinstance(role, Leader)
        self._append(change)
        role.replicas = rekeyed(role.replicas, self.voters)
        role.heard.clear()
        role.quorum_deadline_ms = self._quorum_deadline(now_ms)
