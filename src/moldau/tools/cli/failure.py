"""◇ The failure of a command: what is wrong, and the way out."""

import re
from typing import Final

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def one_line(text: str) -> str:
    """The text with those characters escaped that would end the line or move a terminal's cursor.

    Names and values in it may come from other people.
    """
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


class Failure(Exception):
    """Ends a command with one clear line on stderr and an exit code; `more` is printed below it as it is."""

    def __init__(self, what: str, way_out: str = "", *, more: str = "", exit_code: int = 1) -> None:
        super().__init__(what)
        self.what = one_line(what)
        self.way_out = one_line(way_out)
        self.more = more
        self.exit_code = exit_code

    def __str__(self) -> str:
        end = "" if not self.way_out else f" {self.way_out}" if self.what.endswith((".", "?", "!")) else f". {self.way_out}"
        return f"{self.what}{end}" + (f"\n{self.more}" if self.more else "")
