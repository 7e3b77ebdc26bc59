"""● What a consumer and its place in a group say to each other, whichever protocol they speak.

A `Member` talks with the coordinator in the background.  What changes who may read what happens in `step`, which every poll calls: there
the consumer gives partitions up, its listener may await whatever it needs, and only then the group is told.
"""

from collections.abc import Awaitable, Iterable, Sequence
from enum import Enum
from typing import Protocol

from moldau.clients.consumer.offsets import Identity
from moldau.types import TopicPartition


class RebalanceListener:
    """Subclass it and override what you need; methods may be plain or `async`.  What they raise comes out of `poll`."""

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These are new; their positions are known."""

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These go to others once this returns: commit what was done."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These are others' already; nothing can be committed for them.  Unless overridden: as `on_revoked`."""
        return self.on_revoked(partitions)


class MemberState(Enum):
    OUTSIDE = "outside"
    JOINING = "joining"
    STABLE = "stable"
    REBALANCING = "rebalancing"
    LOST = "lost"
    """The group went on without us: nothing may be committed any more."""


class Owner(Protocol):
    """The consumer, to its member."""

    @property
    def owned(self) -> frozenset[TopicPartition]: ...

    async def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Give these up, after committing what is to be."""
        ...

    async def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """They are gone already."""
        ...

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """These come on top of what is owned."""
        ...

    def subscribed(self) -> list[str]:
        """The topics to read, of those that are known to be there; by list all of it."""
        ...

    def news(self) -> None:
        """`step` has something to do."""
        ...


class Member(Protocol):
    """A place in a group."""

    state: MemberState

    def identity(self) -> Identity: ...

    async def step(self) -> None:
        """Whatever has to be done now with the user's knowledge.  Returns soon, but for the user's listener.  Errors: ClientError."""
        ...

    def polled(self) -> None:
        """Its user is alive."""
        ...

    def subscription_changed(self) -> None: ...

    async def leave(self) -> None:
        """At the end; what was owned has been given up."""
        ...
