"""◇ The fields of a JSON body, each read once; every mistake is kept with its pointer, and all are told together."""

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from moldau.shop.web.problems import Problem, Wrong

INT64_MOST: Final = 2**63 - 1
MOST_ERRORS: Final = 20


def json_object(body: bytes) -> dict[str, Any]:
    """Errors: Problem 400."""
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Problem(400, f"The body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Problem(400, "The body has to be a JSON object.")
    return found


class Fields:
    """One object of the body; `of` begins with the whole body."""

    def __init__(self, found: dict[str, Any], pointer: str = "#", wrong: list[Wrong] | None = None) -> None:
        self.found = found
        self.pointer = pointer
        self.wrong: list[Wrong] = [] if wrong is None else wrong

    def text(self, name: str, *, most: int = 200, default: str | None = None) -> str:
        value = self._given(name, default)
        if value is None:
            return ""
        if not isinstance(value, str) or not value.strip():
            self.say(name, f"a text is expected, not {_short(value)}")
            return ""
        if len(value) > most:
            self.say(name, f"at most {most} characters are expected, not {len(value)}")
            return ""
        try:
            value.encode()
        except UnicodeEncodeError:
            self.say(name, "it holds half of a surrogate pair, which is no character")
            return ""
        return value

    def integer(self, name: str, *, least: int = -INT64_MOST, most: int = INT64_MOST, default: int | None = None) -> int:
        value = self._given(name, default)
        if value is None:
            return 0
        if type(value) is not int:
            self.say(name, f"a whole number is expected, not {_short(value)}")
            return 0
        if not least <= value <= most:
            self.say(name, f"a whole number from {least} to {most} is expected, not {_short(value)}")
            return 0
        return value

    def objects(self, name: str, *, most: int) -> list["Fields"]:
        value = self._given(name, None)
        if value is None:
            return []
        if not isinstance(value, list):
            self.say(name, f"a list is expected, not {_short(value)}")
            return []
        if len(value) > most:
            self.say(name, f"at most {most} elements are expected, not {len(value)}")
            return []
        parts = []
        for position, part in enumerate(value):
            pointer = f"{self.pointer}/{name}/{position}"
            if isinstance(part, dict):
                parts.append(Fields(part, pointer, self.wrong))
            else:
                self.wrong.append(Wrong(pointer, f"an object is expected, not {_short(part)}"))
        return parts

    def only(self, known: Iterable[str]) -> None:
        names = list(known)
        for name in self.found.keys() - set(names):
            near = get_close_matches(name, names, n=1)
            meant = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
            self.wrong.append(Wrong(f"{self.pointer}/{_short_name(name)}", f"there is no such field; {meant}"))

    def say(self, name: str, detail: str) -> None:
        self.wrong.append(Wrong(f"{self.pointer}/{name}", detail))

    def done(self) -> None:
        """Errors: Problem 400, with everything that was wrong."""
        if self.wrong:
            first = self.wrong[0]
            raise Problem(400, f"{first.pointer}: {first.detail}", self.wrong[:MOST_ERRORS])

    def _given(self, name: str, default: Any) -> Any:
        value = self.found.get(name)
        if value is None:
            if default is None:
                self.say(name, "it is missing")
            return default
        return value


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _short_name(name: str) -> str:
    return ascii(name)[1:-1][:60]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
