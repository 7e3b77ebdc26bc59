"""◇ How a command says that it cannot: what is wrong, and the way out."""


class Failure(Exception):
    """Ends a command with one clear line on stderr and an exit code."""

    def __init__(self, what: str, way_out: str = "", *, exit_code: int = 1) -> None:
        super().__init__(what)
        self.what = what
        self.way_out = way_out
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.what.rstrip('.')}. {self.way_out}".rstrip() if self.way_out else self.what
