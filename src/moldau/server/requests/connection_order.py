"""◇ Recognises requests on a connection that the sender gave up long ago.

A client without an answer opens a new connection and asks again; requests on the old one can arrive at any time after.  From
transaction.version 2 on every transaction has an epoch of its own, by which such a ghost is refused.  Version 1 keeps its epoch: there an
EndTxn of the last transaction would end the next one half-way (KAFKA-17754), and offsets of an earlier TxnOffsetCommit would take the place
of later ones in either version.  The heartbeats of a group member tell its partitions, and an old one tells its former partitions: taken
for news it would give partitions away that the member got meanwhile.  But a sender uses one connection for one purpose, and ghosts come on
older ones:

    a request of the same producer and epoch, for the same purpose, on an older connection than the newest one seen   → overtaken

Such a request is not answered, and its connection is closed, because its client no longer reads it.  A client that does use two connections
at once connects again and repeats its request, now on the newest.

Transactions know more (`TransactionOrder`), since a producer's parts may run in several processes, each with a connection of its own.  A
ghost that could touch a transaction was sent in an earlier one of the same epoch.  So there is none in an epoch's first transaction, none
on a connection that was accepted after the last one's end, and none on a connection that has brought a request of the present transaction
already: its sender had one request under way at a time, and that was not the last.

Connections are numbered in the order in which they were accepted.  After a restart none of them is known, and none of them is open.
Called by the handlers of transactions and of groups' heartbeats.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

MAX_SENDERS: Final = 50_000
"""The most senders that are remembered; the one silent longest is forgotten first."""
MAX_PARTICIPANTS: Final = 64
"""The most older connections of one transaction that are remembered; others have to connect again."""
NEVER: Final = -1


class ConnectionOrder:
    """See the module."""

    def __init__(self, *, is_enabled: bool = True) -> None:
        self._is_enabled: Final = is_enabled
        # Senders are kept by hash: members and transactional ids choose their names, which can be long.
        self._newest: dict[int, tuple[int, int, int]] = {}

    def is_overtaken(
        self, purpose: str, sender: Hashable, producer: tuple[int, int], connection: int, *, tells_zombies: bool = True
    ) -> bool:
        """Whether a later connection has taken over.

        `producer`: id and epoch.  A request of an older epoch is let in, if `tells_zombies`, to be refused by that epoch where it is known.
        """
        if not self._is_enabled:
            return False
        key = hash((purpose, sender))
        producer_id, epoch = producer
        known = self._newest.pop(key, None)
        if known is not None and known[0] == producer_id:
            is_older = connection < known[2]
            if epoch < known[1]:
                self._newest[key] = known
                return is_older and not tells_zombies
            if epoch == known[1] and is_older:
                self._newest[key] = known
                return True
        self._newest[key] = (producer_id, epoch, connection)
        if len(self._newest) > MAX_SENDERS:
            del self._newest[next(iter(self._newest))]
        return False


@dataclass(slots=True)
class _Sender:
    producer: tuple[int, int]
    newest: int
    newest_at_end: int = NEVER
    """The newest connection when the last transaction of this epoch ended; NEVER: none has."""
    participants: set[int] = field(default_factory=set)
    """Connections that have brought a request of the present transaction."""


class TransactionOrder:
    """See the module."""

    def __init__(self, *, is_enabled: bool = True) -> None:
        self._is_enabled: Final = is_enabled
        self._senders: dict[int, _Sender] = {}

    def is_overtaken(self, transactional_id: str, producer: tuple[int, int], connection: int, *, ends: bool = False) -> bool:
        """Whether this may be a request of an earlier transaction.

        `producer`: id and epoch; a request of an older epoch is let in, to be refused by that epoch where it is known.  `ends`: it is the
        end of the present transaction.
        """
        if not self._is_enabled:
            return False
        key = hash(transactional_id)
        known = self._senders.pop(key, None)
        if known is None or known.producer[0] != producer[0] or known.producer[1] < producer[1]:
            known = _Sender(producer, connection)
        self._senders[key] = known
        if len(self._senders) > MAX_SENDERS:
            del self._senders[next(iter(self._senders))]
        if known.producer != producer:
            return False
        if connection < known.newest and connection <= known.newest_at_end and connection not in known.participants:
            return True
        known.newest = max(known.newest, connection)
        if ends:
            known.newest_at_end = known.newest
            known.participants.clear()
        elif len(known.participants) < MAX_PARTICIPANTS:
            known.participants.add(connection)
        return False
