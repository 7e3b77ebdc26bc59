"""Remote log metadata against a model: a list of what was copied and not deleted, searched from end to end."""

from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from moldau.storage.epochs import EpochEntry
from moldau.storage.tiered.remote_log import RemoteLog
from moldau.storage.tiered.segments import ALLOWED, RemoteSegment, SegmentState, TopicIdPartition

WHERE = TopicIdPartition(UUID(int=7), "t", 0)
END = 60


class RemoteLogMachine(RuleBasedStateMachine):
    """Leaders come and go; each copies what it likes of its own history, in any order, and records arrive in any state."""

    def __init__(self) -> None:
        super().__init__()
        self.log = RemoteLog(WHERE)
        self.lineage = [EpochEntry(0, 0)]
        self.segments: dict[UUID, RemoteSegment] = {}
        self.states: dict[UUID, SegmentState] = {}

    @rule(at=st.integers(0, END))
    def elect(self, at: int) -> None:
        """Elects a leader whose log ends at `at`: later offsets of older epochs are no part of history any more."""
        kept = [entry for entry in self.lineage if entry.start_offset < at]
        self.lineage = [*kept, EpochEntry(self.lineage[-1].epoch + 1, at)]

    @rule(start=st.integers(0, END), size=st.integers(1, 20))
    def start_copy(self, start: int, size: int) -> None:
        end = start + size - 1
        covering = [entry for entry in self.lineage if entry.start_offset <= start][-1:]
        inside = [entry for entry in self.lineage if start < entry.start_offset <= end]
        epochs = tuple(EpochEntry(entry.epoch, max(start, entry.start_offset)) for entry in (*covering, *inside))
        if not epochs or epochs[0].start_offset != start:
            return
        segment = RemoteSegment(
            where=WHERE,
            id=UUID(int=len(self.states) + 1),
            start_offset=start,
            end_offset=end,
            leader_epochs=epochs,
            max_timestamp_ms=0,
            size=1,
            broker_id=1,
            event_timestamp_ms=0,
        )
        assert self.log.replay(segment.record())
        self.segments[segment.id], self.states[segment.id] = segment, SegmentState.COPY_STARTED

    @precondition(lambda self: self.states)
    @rule(choice=st.data(), state=st.sampled_from(SegmentState))
    def update(self, choice: st.DataObject, state: SegmentState) -> None:
        segment_id = choice.draw(st.sampled_from(sorted(self.states, key=int_of)))
        before = self.states[segment_id]
        is_allowed = state in ALLOWED[before] and before is not SegmentState.DELETE_FINISHED
        assert self.log.replay(self.segments[segment_id].update(state, broker_id=2, now_ms=5)) is is_allowed
        if is_allowed:
            self.states[segment_id] = state

    def holders(self, epoch: int, offset: int) -> set[UUID]:
        """Readable segments whose part of `epoch` has `offset`."""
        return {
            segment.id
            for segment in self.segments.values()
            if self.states[segment.id] is SegmentState.COPY_FINISHED
            and any(
                entry.epoch == epoch and entry.start_offset <= offset <= segment.end_offset_of(epoch) for entry in segment.leader_epochs
            )
        }

    @invariant()
    def what_can_be_read_is_found(self) -> None:
        ever_deleted = any(state in (SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED) for state in self.states.values())
        for offset in range(0, END + 20, 3):
            entry = [each for each in self.lineage if each.start_offset <= offset][-1:]
            found = self.log.find_in(self.lineage, offset)
            holders = self.holders(entry[0].epoch, offset) if entry else set()
            if found is not None:
                assert found.id in holders
            elif not ever_deleted:
                # When segments are deleted out of order, a segment that only they covered may stay unread: that loses space, not records.
                assert not holders, f"offset {offset} is in {holders}"

    @invariant()
    def coverage_goes_as_far_as_the_offsets_do(self) -> None:
        offset = 0
        while self.log.find_in(self.lineage, offset) is not None:
            offset += 1
        assert self.log.covered_from(self.lineage, 0) == offset


def int_of(segment_id: UUID) -> int:
    return segment_id.int


TestRemoteLog = RemoteLogMachine.TestCase
TestRemoteLog.settings = settings(stateful_step_count=30)
