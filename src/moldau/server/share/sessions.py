"""◇ Share sessions: the partitions that a member of a share group fetches from this broker; later requests carry only changes.

    epoch 0       a session begins, and replaces an older one of that member
    epoch 1, 2 …  partitions added and forgotten; the answer leaves out those without records or errors
    epoch -1      the last request: acknowledgements are taken, then the member's records are released

Guarantees: an epoch is served once; a session belongs to one connection and ends with it, so that its member's records are free at once.
Source: org.apache.kafka.server.share.session, context; KIP-932.  Called by `handlers/share_fetch.py` and `handlers/share_acknowledge.py`.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from moldau.errors import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = (1 << 31) - 1


class SharedKey(NamedTuple):
    topic_id: UUID
    partition: int


class MemberKey(NamedTuple):
    group_id: str
    member_id: str


class Owner(Protocol):
    """The connection that a session ends with."""

    on_closed: dict[Hashable, Callable[[], None]]


class ShareSession:
    """The partitions that one member fetches, and for each whether the next answer must carry it in any case."""

    __slots__ = ("epoch", "key", "owner", "partitions")

    def __init__(self, key: MemberKey, wanted: Iterable[SharedKey], owner: Owner) -> None:
        self.key: Final = key
        self.owner: Final = owner
        self.epoch = INITIAL_EPOCH + 1
        self.partitions: dict[SharedKey, bool] = dict.fromkeys(wanted, False)

    def next_epoch(self) -> None:
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def must_tell(self, key: SharedKey, *, has_records: bool, has_error: bool) -> bool:
        """Whether the answer carries the partition.  Notes that it is told."""
        is_due = self.partitions.get(key, False)
        if key in self.partitions:
            self.partitions[key] = has_error
        return has_records or is_due or has_error


class ShareSessions:
    """The sessions of one broker, at most `max_sessions`."""

    def __init__(self, max_sessions: int, on_group_gone: Callable[[str], None]) -> None:
        """`on_group_gone` is called when a group has lost its last session."""
        self._max_sessions: Final = max_sessions
        self._on_group_gone: Final = on_group_gone
        self._sessions: dict[MemberKey, ShareSession] = {}
        self._members: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: MemberKey) -> ShareSession | None:
        return self._sessions.get(key)

    def begin(self, key: MemberKey, wanted: Iterable[SharedKey], owner: Owner) -> ShareSession | ErrorCode:
        """Begin a session.  Errors: SHARE_SESSION_LIMIT_REACHED."""
        self._drop(key)
        if len(self._sessions) >= self._max_sessions:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = self._sessions[key] = ShareSession(key, wanted, owner)
        self._members[key.group_id] = self._members.get(key.group_id, 0) + 1
        return session

    def at_epoch(self, key: MemberKey, epoch: int) -> ShareSession | ErrorCode:
        """The session that a later request belongs to; its epoch is served now.

        Errors: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get(key)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == FINAL_EPOCH:
            return session
        if session.epoch != epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.next_epoch()
        return session

    def change(self, session: ShareSession, wanted: Iterable[SharedKey], forgotten: Iterable[SharedKey]) -> None:
        for key in wanted:
            session.partitions.setdefault(key, True)
        for key in forgotten:
            session.partitions.pop(key, None)

    def end(self, session: ShareSession) -> bool:
        """End a session.  False when the member has another session by now, or none."""
        if self._sessions.get(session.key) is not session:
            return False
        self._drop(session.key)
        if session.key.group_id not in self._members:
            self._on_group_gone(session.key.group_id)
        return True

    def _drop(self, key: MemberKey) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            session.owner.on_closed.pop(key, None)
            self._members[key.group_id] -= 1
            if not self._members[key.group_id]:
                del self._members[key.group_id]
