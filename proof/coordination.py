"""◇ A coordinator's machine on a log in memory and a clock of the test's: no sockets, no files, no loop.

desk = Desk(lambda: GroupMachine(environment))
asked = desk.ask(lambda token, now_ms: desk.machine.join(token, request, client, now_ms))
desk.advance(3_000)
asked.answer
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.hard_state import hard_state
from moldau.coordinator.outcome import CoordinatorRecord, Outcome, ProducerIdAndEpoch, Token
from moldau.coordinator.runtime import Machine, Shard, ShardState
from moldau.errors import ErrorCode


class FixedTopics:
    """A `coordinator.group.environment.Topics` with these topics, until others are set."""

    def __init__(self, *topics: TopicView) -> None:
        self.version = 0
        self.set(*topics)

    def set(self, *topics: TopicView) -> None:
        self.version += 1
        self._topics = {topic.name: topic for topic in topics}

    def by_name(self, name: str) -> TopicView | None:
        return self._topics.get(name)

    def by_id(self, topic_id: UUID) -> TopicView | None:
        return next((topic for topic in self._topics.values() if topic.topic_id == topic_id), None)

    def names(self) -> Iterable[str]:
        return self._topics


class Asked:
    """A token that keeps its answer."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def reply(self, message: Any) -> None:
        self.answers.append(message)

    def refuse(self, code: ErrorCode) -> None:
        self.answers.append(code)

    @property
    def is_answered(self) -> bool:
        return bool(self.answers)

    @property
    def answer(self) -> Any:
        assert len(self.answers) == 1, f"a request is answered once, this one {len(self.answers)} times: {self.answers}"
        return self.answers[0]


class MemoryLog:
    """A partition's log as a shard sees it.  With `commits_at_once` an append is committed at once; otherwise `commit` commits it."""

    def __init__(self, *, commits_at_once: bool = True) -> None:
        self.entries: list[tuple[CoordinatorRecord | bool, ProducerIdAndEpoch | None]] = []
        """A record with its transaction, or a transaction's marker: True if the transaction commits."""
        self.commits_at_once = commits_at_once
        self.failure: ErrorCode | None = None
        self._committed_offset = 0

    @property
    def end_offset(self) -> int:
        return len(self.entries)

    @property
    def committed_offset(self) -> int:
        return self.end_offset if self.commits_at_once else self._committed_offset

    def append(
        self, records: list[CoordinatorRecord], producer: ProducerIdAndEpoch | None, guard: object | None, now_ms: int
    ) -> int | ErrorCode:
        if self.failure is not None:
            return self.failure
        self.entries += [(record, producer) for record in records]
        return self.end_offset

    def watch(self, end_offset: int) -> None:
        """Does nothing: `Desk.commit` releases everything anyway."""

    def drop(self) -> None:
        """Does nothing: this log gathers no records before it appends them."""

    def commit(self) -> None:
        self._committed_offset = self.end_offset

    def lose_uncommitted(self) -> None:
        del self.entries[self.committed_offset :]


M = TypeVar("M", bound=Machine)


def _decide_watched(shard: Shard[M], operation: Callable[[int], Outcome], now_ms: int) -> Outcome:
    before = hard_state(shard.machine)
    outcome = operation(now_ms)
    assert hard_state(shard.machine) == before, "hard state changes when records are replayed, and never in a decision"
    return outcome


class WatchedShard(Shard[M]):
    """A shard whose machine may not change its hard state while it decides."""

    decide = _decide_watched


@contextmanager
def watched_decisions() -> Iterator[None]:
    """Watch every shard of this process, the shards of whole brokers too."""
    plain = Shard.decide
    Shard.decide = _decide_watched  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Shard.decide = plain  # type: ignore[method-assign]


class Desk(Generic[M]):
    """One shard, its log and its time."""

    def __init__(self, new_machine: Callable[[], M], log: MemoryLog | None = None, *, now_ms: int = 1_000_000) -> None:
        self._new_machine = new_machine
        self.log: Final = log or MemoryLog()
        self.now_ms = now_ms
        self.sent: list[Any] = []
        self.shard = self._load()

    @property
    def machine(self) -> M:
        return self.shard.machine

    def ask(self, operation: Callable[[Token, int], Outcome]) -> Asked:
        asked = Asked()
        if self.shard.state is ShardState.ACTIVE:
            self.shard.run(lambda now_ms: operation(asked, now_ms), self.now_ms)
        else:
            asked.refuse(self.shard.refusal)
        return asked

    def advance(self, elapsed_ms: int) -> None:
        """Let time pass.  Every timer runs at its own moment."""
        end_ms = self.now_ms + elapsed_ms
        while (due_ms := self.shard.next_due_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.shard.fire(self.now_ms)
        self.now_ms = end_ms

    def end_transaction(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> None:
        """Append a transaction's marker to this partition."""
        self.log.entries.append((is_commit, producer))
        self.shard.end_marker_appended(producer, is_commit=is_commit)
        self.shard.release()

    def commit(self) -> None:
        self.log.commit()
        self.shard.release()

    def fail_over(self) -> None:
        """Let another node take over with the committed records."""
        self.shard.close()
        self.log.lose_uncommitted()
        self.shard = self._load()

    def replayed(self) -> M:
        """A new machine made from the log alone."""
        return self._replay().machine

    def _load(self) -> WatchedShard[M]:
        shard = self._replay()
        shard.activate(self.now_ms)
        return shard

    def _replay(self) -> WatchedShard[M]:
        shard = WatchedShard(self._new_machine(), self.log, self.sent.append)
        for offset, (entry, producer) in enumerate(self.log.entries):
            if isinstance(entry, bool):
                assert producer is not None
                shard.load_end_marker(producer, is_commit=entry)
            else:
                shard.load(offset, entry, producer)
        return shard
