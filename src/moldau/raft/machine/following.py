"""◇ The work of a follower: it fetches its leader's records, finds where the logs part, and looks for a lost leader.

A fetch reports only records that are on this replica's disk.  Part of `node.py`.
"""

from typing import Final

from moldau.errors import ErrorCode
from moldau.raft.events import Fetched, SnapshotChunk, SnapshotInstalled
from moldau.raft.machine.leading import Leading
from moldau.raft.machine.replica_state import Line
from moldau.raft.messages import AddVoter, Fetch, FetchAnswer, FetchSnapshot, FetchSnapshotAnswer, RemoveVoter, UpdateVoter
from moldau.raft.roles import NEVER, Follower
from moldau.raft.voters import Voter
from moldau.types import OffsetAndEpoch

FIRST_BOOTSTRAP: Final = -2
"""The "id" of the first bootstrap server; the next is one less."""
STAGGER_MS: Final = 50
"""The pause between followers that find that their leader's address no longer listens."""


class Following(Leading):
    """See the module."""

    def _fetch(self, role: Follower, now_ms: int) -> None:
        if role.snapshot is not None:
            if self._installing is None:
                wanted, position = role.snapshot
                self._send(role.election.leader_id, FetchSnapshot(self.epoch, self.me, wanted, position), now_ms, role.leader_at)
            return
        if role.deadline_ms == NEVER:  # an observer whose leader is silent
            self._look_for_leader(now_ms)
            return
        if self._may_fetch(now_ms) and self._may_ask(role.election.leader_id, Fetch, now_ms):
            self._send(role.election.leader_id, self._next_fetch(), now_ms, role.leader_at)
        request = self._what_to_tell_leader() if role.has_fetched else None
        if request is not None:
            self._send(role.election.leader_id, request, now_ms, role.leader_at)

    def _what_to_tell_leader(self) -> UpdateVoter | AddVoter | RemoveVoter | None:
        """The request that tells the leader of a change of this voter, or that this replica wants to vote; None if there is none."""
        known = self.voters.by_id.get(self.me.id)
        if not self.addresses:
            return None
        if known is not None and self.is_voter:
            mine = self._as_voter(known)
            is_untold = mine != known if self.kraft_version > 0 else not self._has_told_leader
            return UpdateVoter(self.epoch, mine) if is_untold else None
        if not self._may_join or self.kraft_version < 1 or self.is_stopping:
            return None
        if known is not None:  # its directory was replaced
            return RemoveVoter(known.key)
        return AddVoter(Voter(self.me.id, self.me.directory_id, self.addresses), self.timeouts.request_ms, waits_for_commit=False)

    def _may_fetch(self, now_ms: int) -> bool:
        """Whether a fetch may leave: it reports only records that are on the disk."""
        if now_ms >= self._paused_until_ms:
            self._paused_until_ms = 0
        return (
            self._paused_until_ms == 0
            and self._installing is None
            and self.synced_offset == self.end_offset
            and not self._truncation_is_unsynced
        )

    def _next_fetch(self) -> Fetch:
        high_watermark = -1 if self.high_watermark is None else self.high_watermark
        return Fetch(self.epoch, self.me, self.end_offset, self.history.last_epoch, high_watermark, self.timeouts.fetch_max_wait_ms)

    def _look_for_leader(self, now_ms: int) -> None:
        """Ask the servers of the options, then the voters in the log, one after the other."""
        if not self._may_fetch(now_ms) or self._is_asking(now_ms):
            return
        voting = (voter.listens_at(self.listener_name) for voter in self.voters.by_id.values() if voter.id != self.me.id)
        mine = self._my_address
        places = [at for at in dict.fromkeys((*self._bootstrap, *voting)) if at is not None and at != mine]
        if not places:
            return
        number = self._next_bootstrap % len(places)
        if self._send(FIRST_BOOTSTRAP - number, self._next_fetch(), now_ms, places[number]):
            self._next_bootstrap = number + 1

    def _is_asking(self, now_ms: int) -> bool:
        return any(to <= FIRST_BOOTSTRAP and (line.sent_ms >= 0 or line.retry_ms > now_ms) for (to, _), line in self._lines.items())

    def _leader_is_gone(self, role: Follower, now_ms: int) -> None:
        """The leader's address no longer listens: this follower does not wait for its silence, once, and asks the others whether they
        agree.

        Every follower learns it in the same moment, so each waits for those before it in the set of voters.  A leader that is there after
        all is known to be as soon as it answers a fetch.
        """
        if role.is_over or role.is_gone or role.deadline_ms == NEVER:
            return
        role.is_gone = True
        if self._can_stand:
            others = sorted({*self.voters.by_id, self.me.id} - {role.election.leader_id})
            role.deadline_ms = min(role.deadline_ms, now_ms + STAGGER_MS * (1 + others.index(self.me.id)))
        else:
            role.deadline_ms = now_ms  # an observer asks the voters who leads

    def _fetch_answered(self, answer: FetchAnswer, line: Line, now_ms: int) -> None:
        role = self.role
        if not isinstance(role, Follower) or answer.leader_id != role.election.leader_id or self.synced_offset < self.end_offset:
            return
        if answer.diverging is not None:
            self._truncate(answer.diverging)
        elif answer.snapshot_id is not None:
            if answer.snapshot_id.offset > (self.high_watermark or 0):
                role.snapshot = answer.snapshot_id, 0
        else:
            if answer.batches and not self._append_fetched(answer):
                line.retry_ms = now_ms + self.timeouts.retry_backoff_ms
                return
            if answer.high_watermark >= 0:
                if self.catch_up_offset is None:
                    self.catch_up_offset = answer.high_watermark
                offset = min(answer.high_watermark, self.end_offset)
                if self.high_watermark is None or offset > self.high_watermark:
                    self._move_high_watermark(offset)
        role.has_fetched, role.is_gone = True, False
        self._elections_lost = 0
        role.deadline_ms = now_ms + self.timeouts.fetch_ms

    def _append_fetched(self, answer: FetchAnswer) -> bool:
        """Append fetched batches.  Returns whether they follow the records that are here."""
        base_offset = self.end_offset
        expected, last_epoch = base_offset, self.history.last_epoch
        for batch in answer.batches:
            if batch.base_offset != expected or not last_epoch <= batch.epoch <= self.epoch or batch.next_offset <= expected:
                return False
            expected, last_epoch = batch.next_offset, batch.epoch
        for batch in answer.batches:
            self.history.append(batch.epoch, batch.base_offset, batch.next_offset)
            if batch.voters is not None or batch.kraft_version is not None:
                self.history.change_voters(batch.base_offset, batch.voters, batch.kraft_version)
        self._ready.entries.append(Fetched(base_offset, self.end_offset, self.epoch, answer.records))
        return True

    def _truncate(self, leaders: OffsetAndEpoch) -> None:
        """Truncate to where the logs are the same.

        Errors: AssertionError below the high watermark or the newest snapshot, which a correct leader never asks for.
        """
        mine = self.history.end_of_epoch(leaders.epoch)
        offset = min(mine.offset, leaders.offset) if mine.epoch == leaders.epoch else mine.offset
        committed = max(self.high_watermark or 0, self.history.newest_snapshot.offset)
        assert offset >= committed, f"the leader asks to truncate to {offset}, but everything below {committed} is committed"
        self.history.truncate(offset)
        self.synced_offset = min(self.synced_offset, offset)
        self._ready.truncate_to = offset
        self._truncation_is_unsynced = True

    def _snapshot_answered(self, answer: FetchSnapshotAnswer, line: Line, now_ms: int) -> None:
        role = self.role
        if not isinstance(role, Follower) or role.snapshot is None:
            return
        wanted, position = role.snapshot
        size = 0 if answer.data is None else len(answer.data)
        is_usable = answer.snapshot_id == wanted and answer.position == position and 0 < size <= answer.size - position
        if answer.error is not ErrorCode.NONE or not is_usable:
            role.snapshot = None  # the next fetch tells which there is now
            line.retry_ms = now_ms + self.timeouts.retry_backoff_ms
            return
        assert answer.data is not None
        is_last = position + size == answer.size
        self._ready.snapshot_chunks.append(SnapshotChunk(wanted, position, answer.data, is_last))
        role.snapshot = wanted, position + size
        role.deadline_ms = now_ms + self.timeouts.fetch_ms
        if is_last:
            self._installing = wanted

    def _snapshot_installed(self, event: SnapshotInstalled) -> None:
        role = self.role
        assert self._installing == event.snapshot_id, f"{event.snapshot_id} was not fetched"
        self.history.replace(event.snapshot_id, event.voters, event.kraft_version)
        self.synced_offset = self.end_offset
        if self.high_watermark is None or event.snapshot_id.offset > self.high_watermark:
            self._move_high_watermark(event.snapshot_id.offset)
        self._installing = None
        if isinstance(role, Follower):
            role.snapshot = None

    def _snapshot_refused(self, now_ms: int) -> None:
        self._installing = None
        self._paused_until_ms = now_ms + self.timeouts.election_ms
        if isinstance(self.role, Follower):
            self.role.snapshot = None
