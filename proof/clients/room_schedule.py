"""● One seed's clients around a broker in memory, and the faults that strike them: the shape that the schedules share."""

import asyncio
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from moldau.testing.loop import Machine, Stuck
from proof.clients.broker_room import HOST, RoomWorld
from proof.clients.cruelty import Cruelty


class Client(Protocol):
    @property
    def machine(self) -> Machine: ...


C = TypeVar("C", bound=Client)
Running = tuple[Client, asyncio.Task[None]]


class RoomSchedule(ABC):
    """One seed.  `run` returns the violations."""

    def __init__(self, choice: random.Random, world: RoomWorld) -> None:
        self.choice = choice
        self.world = world
        self.violations: list[str] = []
        self.done: Counter[str] = Counter()
        self.is_wild = True
        self._cruelty = Cruelty(choice)
        world.rules.append(self._cruelty.rule)

    def say(self, violation: str) -> None:
        self.violations.append(violation)

    def run(self) -> list[str]:
        try:
            self.world.run(self._work())
        except Stuck as error:
            self.say(f"stuck: {error}")
        except TimeoutError:
            self.say("the clients do not end")
        except Exception as error:
            self.say(f"{type(error).__name__}: {error}")
        return self.violations

    @abstractmethod
    async def _work(self) -> None: ...

    def _calm_down(self) -> None:
        """From now on nothing fails."""
        self.is_wild = self._cruelty.is_on = False
        self.world.network.heal()

    def _kill_one(self, living: Sequence[tuple[C, asyncio.Task[None]]]) -> tuple[C, asyncio.Task[None]]:
        each = self.choice.choice(living)
        self.world.kill(each[0].machine, silently=self.choice.random() < 0.5)
        return each

    async def _strike(
        self, kind: str, living: Sequence[Running], *, cuts_s: Sequence[float], absences_s: Sequence[float] = (0.0, 0.5, 3.0)
    ) -> None:
        """Do a fault of the network or the broker: `reset`, `cut` for one of `cuts_s`, `broker` for one of `absences_s`; no other kind."""
        choice, world = self.choice, self.world
        if kind == "reset":
            world.network.reset(HOST, chance=choice.random())
        elif kind == "cut" and living:
            host = choice.choice(living)[0].machine.host
            world.network.cut(HOST, host, both_ways=choice.random() < 0.5)
            await asyncio.sleep(choice.choice(cuts_s))
            world.network.heal()
        elif kind == "broker":
            await world.broker_dies(choice.choice(absences_s))

    def _say_which_do_not_end(self, clients: Iterable[Running]) -> None:
        for client, task in clients:
            if not task.done():
                self.say(f"{client.machine.host} does not end")
            elif task.exception() is not None:
                self.say(f"{client.machine.host} ended with {task.exception()!r}")
