"""◇ A fetch session: the broker remembers a consumer's partitions, so each fetch names only the changes.

Source: KIP-227, FetchSessionHandler.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.types import TopicPartition

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
MAX_EPOCH: Final = (1 << 31) - 1
ENDED: Final = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR}
)


class Wanted(NamedTuple):
    topic_id: UUID
    offset: int
    leader_epoch: int
    max_bytes: int


class Ask(NamedTuple):
    """The session's part of a Fetch request."""

    session_id: int
    epoch: int
    partitions: dict[TopicPartition, Wanted]
    forgotten: dict[TopicPartition, UUID]


class FetchSession:
    """The fetch session with one broker."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known: dict[TopicPartition, Wanted] = {}

    def ask(self, wanted: Mapping[TopicPartition, Wanted]) -> Ask:
        """The next request.  Report its answer to `answered`, or call `begin_anew`."""
        epoch = self._epoch
        if epoch == FIRST_EPOCH:
            changed, forgotten = dict(wanted), {}
        else:
            changed = {one: asked for one, asked in wanted.items() if self._known.get(one) != asked}
            forgotten = {
                one: known.topic_id for one, known in self._known.items() if one not in wanted or wanted[one].topic_id != known.topic_id
            }
        self._known = dict(wanted)
        return Ask(self.session_id, epoch, changed, forgotten)

    def answered(self, session_id: int) -> None:
        """Note the answer's session.  `session_id` 0: the broker keeps no session."""
        if session_id == NO_SESSION:
            self.begin_anew()
            return
        self.session_id = session_id
        self._epoch = 1 if self._epoch >= MAX_EPOCH else self._epoch + 1

    def begin_anew(self) -> None:
        """Let the next request name every partition."""
        self.session_id, self._epoch, self._known = NO_SESSION, FIRST_EPOCH, {}
