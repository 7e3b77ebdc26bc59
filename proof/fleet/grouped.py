"""● Lives whose users are the members of one group.  Members die, and more members come; all of them end when their work is done."""

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from moldau.clients.cluster import Unreachable
from moldau.errors import KafkaError
from moldau.testing.loop import Machine
from proof.fleet.clients import RETRY_AFTER_S, Apart
from proof.fleet.fleet import COMPACTING
from proof.fleet.life import ALIVE_WITHIN_S, FAULTS, Fault, Life, User

FIRST_MEMBERS: Final = 2
MOST_MEMBERS: Final = 3


class Group:
    """What is known of a group: a `User`."""

    kind: str

    def __init__(self) -> None:
        self.is_to_end = False
        """Whether the producers end.  The members end later, when nothing is left to do: see `is_over`."""
        self.is_over = False

    @property
    @abstractmethod
    def acknowledged(self) -> Sequence[object]: ...


class Member(Apart):
    """One machine of a group."""

    group: Group

    async def run(self) -> None:
        while not self.group.is_over:
            with suppress(KafkaError, OSError, Unreachable):
                await self._live()
            await asyncio.sleep(RETRY_AFTER_S)

    @abstractmethod
    async def _live(self) -> None:
        """Be a member until the group is over.  Errors: KafkaError, OSError, Unreachable."""


class Grouped(Life):
    """See the module."""

    properties = COMPACTING
    group: Group

    def __init__(self, seed: int, **more: Any) -> None:
        super().__init__(seed, **more)
        self.members: Final[dict[Member, asyncio.Task[None]]] = {}
        """Every member that ever was, and its work."""

    @abstractmethod
    def _member(self, number: int) -> Member:
        """A new member; `number` counts from 1."""

    def _faults(self) -> Sequence[Fault]:
        return (*FAULTS, Grouped._member_dies, Grouped._member_comes)

    def _begin_more_work(self) -> None:
        for _ in range(FIRST_MEMBERS):
            self._new_member()

    def _new_member(self) -> None:
        member = self._member(len(self.members) + 1)
        self.members[member] = self.loop.start(member.machine, member.run())

    def _living(self) -> list[Member]:
        return [member for member in self.members if member.machine.is_alive]

    async def _member_dies(self) -> None:
        if living := self._living():
            member = self.chance.choice(living)
            self.loop.kill(member.machine)
            self.fleet.network.crash(member.machine, silently=self.chance.random() < 0.5)
            self.loop.call_later(self._a_while(), self._new_member)

    async def _member_comes(self) -> None:
        if len(self._living()) < MOST_MEMBERS:
            self._new_member()

    def _users(self) -> Sequence[User]:
        return [*self.producers, self.group]

    def _machines(self) -> list[Machine]:
        return [*super()._machines(), *(member.machine for member in self.members)]

    async def _end_members(self) -> None:
        self.group.is_over = True
        await self._within(ALIVE_WITHIN_S, self.loop.create_task(self._all_members()), "the members could not end")

    async def _all_members(self) -> None:
        await asyncio.gather(*(self.members[member] for member in self._living()))
