"""● The broker's faults under a schedule: it breaks connections before or after a request took effect, or answers late."""

import random
from typing import Final

from proof.clients.model import Verdict

DELAYS_S: Final = (0.1, 1.0, 3.0)


class Cruelty:
    """A `Rule` that strikes some requests of a schedule.  Every request has the same chance."""

    def __init__(self, choice: random.Random) -> None:
        self.is_on = True
        self._choice: Final = choice
        self._chance: Final = choice.choice((0.0, 0.02, 0.05, 0.2))

    def rule(self, api_key: int) -> Verdict | None:
        choice = self._choice
        if not self.is_on or choice.random() >= self._chance:
            return None
        kind = choice.randrange(3)
        if kind == 0:
            return Verdict(drop_before=True)
        if kind == 1:
            return Verdict(drop_after=True)
        return Verdict(delay_s=choice.choice(DELAYS_S))
