"""◇ Options of a single group (resource GROUP): their names, their valid values, and the effective ones.

Each is declared with the broker's option behind it, in the room that reads it.  Its limits are options of the broker, too, so an
administrator limits what a group may choose.

Source: GroupConfig.java of 4.3.1; KIP-848, 932, 1071.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from moldau.config import Bound, ConfigError, Configs, Option


class GroupOptions:
    """The options of groups on a broker with these properties."""

    def __init__(self, properties: Mapping[str, str], rooms: Sequence[type[Configs]]) -> None:
        loaded = [room.load(properties) for room in rooms]
        of_broker = [(option, getattr(room, field)) for room in loaded for field, option in room.OPTIONS.items()]
        self.options: Final[Mapping[str, Option]] = {
            option.group: replace(option, check=option.group_check or option.check) for option, _ in of_broker if option.group is not None
        }
        self._of_broker: Final[Mapping[str, Any]] = {option.key: value for option, value in of_broker if option.key}
        self._names: Final[Mapping[str, str]] = {option.key: name for name, option in self.options.items() if option.key}

    def refusal(self, configs: Mapping[str, str]) -> str | None:
        """The reason why a group cannot have these values; None if it can."""
        own: dict[str, Any] = {}
        for name, text in configs.items():
            if name not in self.options:
                return f"Unknown group config name: {name}"
            try:
                own[name] = self.options[name].parse(text, key=name)
            except ConfigError as error:
                return str(error)
        for name, option in self.options.items():
            for bound in option.bounds:
                other = self._names.get(bound.key, bound.key)
                if not bound.holds(own.get(name, self._of_broker[option.key]), own.get(other, self._of_broker[bound.key])):
                    return f"{name} must be {bound.words} {other}"
        return None

    def values(self, configs: Mapping[str, str]) -> dict[str, Any]:
        """The values that were set for a group, by name, within today's limits.

        The limits may have been wider when the values were set.
        """
        values: dict[str, Any] = {}
        for name, text in configs.items():
            option = self.options.get(name)
            if option is None:
                continue
            try:
                value = option.parse(text, key=name)
            except ConfigError:
                continue
            for bound in option.bounds:
                value = self._within(bound, value)
            values[name] = value
        return values

    def _within(self, bound: Bound, value: Any) -> Any:
        if bound.key in self._names or bound.holds(value, self._of_broker[bound.key]):
            return value
        return self._of_broker[bound.key]
