"""● The interface between a consumer and its place in a group, for both protocols.

A `Member` talks with the coordinator in the background.  Every poll calls `step`, and only `step` changes what may be read: there the
consumer gives partitions up, its listener may await, and only then the group is told.
"""

from collections.abc import Awaitable, Iterable, Sequence
from enum import Enum
from typing import Protocol

from moldau.clients.consumer.offsets import Identity
from moldau.types import TopicPartition


class RebalanceListener:
    """Learns of rebalances.  Subclass it and override the methods that you need, plain or `async`.  `poll` raises what they raise."""

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These partitions are new; their positions are known."""

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These partitions go to other members once this returns: commit finished work here."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These partitions already belong to other members; no offset of theirs can be committed.  By default this calls `on_revoked`."""
        return self.on_revoked(partitions)


class MemberState(Enum):
    OUTSIDE = "outside"
    JOINING = "joining"
    STABLE = "stable"
    REBALANCING = "rebalancing"
    LOST = "lost"
    """Errors that mean that the group went on without this member: no offset may be committed any more."""


class Owner(Protocol):
    """The consumer, as its member sees it."""

    @property
    def owned(self) -> frozenset[TopicPartition]: ...

    async def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Give these partitions up, after committing."""
        ...

    async def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop these partitions: they already belong to others."""
        ...

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Add these partitions to those that the consumer reads."""
        ...

    def subscribed(self) -> list[str]:
        """The topics to read that are known to exist; for a subscription by list, all of the list."""
        ...

    def news(self) -> None:
        """Tell the consumer that `step` has something to do."""
        ...


class Member(Protocol):
    """A place in a group."""

    state: MemberState

    def identity(self) -> Identity: ...

    async def step(self) -> None:
        """Do what has to be done with the user's knowledge.  Returns soon, unless the user's listener takes long.  Errors: ClientError."""
        ...

    def polled(self) -> None:
        """Note that the application has polled: it is alive."""
        ...

    def subscription_changed(self) -> None: ...

    async def leave(self) -> None:
        """Leave the group at the end.  The partitions have been given up before."""
        ...

    def stop(self) -> None:
        """End at once, without a word to the coordinator, if `leave` has not done it."""
        ...
