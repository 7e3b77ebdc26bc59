"""◇ How a command says that it cannot: what is wrong, and the way out."""


class Failure(Exception):
    """Ends a command with one clear line on stderr and an exit code."""

    def __init__(self, what: str, way_out: str = "", *, exit_code: int = 1) -> None:
        super().__init__(what)
        self.what = what
        self.way_out = way_out
        self.exit_code = exit_code

    def __str__(self) -> str:
        if not self.way_out:
            return self.what
        return f"{self.what} {self.way_out}" if self.what.endswith((".", "?", "!")) else f"{self.what}. {self.way_out}"
