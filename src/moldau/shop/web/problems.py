"""◇ The error of a request, as application/problem+json: the field by its JSON pointer, and the way out.  Source: RFC 9457."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple

MEDIA_TYPE: Final = "application/problem+json"


class Wrong(NamedTuple):
    """`pointer`: the pointer to a field of the body, such as `#/lines/0/quantity`, or the name of a header or parameter."""

    pointer: str
    detail: str


class Problem(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, detail: str, errors: Sequence[Wrong] = (), *, retry_after_s: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors
        self.retry_after_s = retry_after_s

    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = {"title": HTTPStatus(self.status).phrase, "status": self.status, "detail": self.detail}
        if self.errors:
            found["errors"] = [one._asdict() for one in self.errors]
        return found
