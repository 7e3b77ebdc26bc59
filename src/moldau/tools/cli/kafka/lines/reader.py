"""◇ Lines of text into records, as kafka-console-producer reads them.

    headers ⇥ key ⇥ value        with parse.headers and parse.key; the separators are properties

Source: LineMessageReader.java.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from moldau.tools.cli.failure import Failure

DEFAULTS: Final = {
    "parse.key": "false",
    "parse.headers": "false",
    "ignore.error": "false",
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
}


class Line(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class LineReader:
    """Errors, here and in `read`: Failure in Kafka's words."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        known = {**DEFAULTS, **{key.strip(): value for key, value in properties.items()}}
        self._parse_key = known["parse.key"].strip().lower() == "true"
        self._parse_headers = known["parse.headers"].strip().lower() == "true"
        self._ignore_error = known["ignore.error"].strip().lower() == "true"
        self._key_separator = known["key.separator"].encode()
        self._headers_delimiter = known["headers.delimiter"].encode()
        self._headers_separator = known["headers.separator"].encode()
        self._headers_key_separator = known["headers.key.separator"].encode()
        marker = known.get("null.marker")
        self._null_marker = None if marker is None else marker.encode()
        self._check_separators()

    def _check_separators(self) -> None:
        if not all((self._key_separator, self._headers_delimiter, self._headers_separator, self._headers_key_separator)):
            raise Failure("a separator cannot be empty")
        if self._headers_delimiter == self._headers_separator:
            raise Failure("headers.delimiter and headers.separator may not be equal")
        if self._headers_delimiter == self._headers_key_separator:
            raise Failure("headers.delimiter and headers.key.separator may not be equal")
        if self._headers_separator == self._headers_key_separator:
            raise Failure("headers.separator and headers.key.separator may not be equal")

    def read(self, line: bytes, number: int) -> Line:
        """`line` without its end; `number` counts from 1."""
        headers, rest = self._cut(self._parse_headers, line, self._headers_delimiter, "headers delimiter", line, number)
        key, value = self._cut(self._parse_key, rest, self._key_separator, "key separator", line, number)
        pairs = () if headers is None or headers == self._null_marker else self._headers(headers, number)
        return Line(self._or_null(key), self._or_null(value), pairs)

    def _cut(self, wanted: bool, rest: bytes, separator: bytes, name: str, line: bytes, number: int) -> tuple[bytes | None, bytes]:
        if not wanted:
            return None, rest
        part, found, after = rest.partition(separator)
        if found:
            return part, after
        if self._ignore_error:
            return None, rest
        raise Failure(f"No {name} found on line number {number}: '{line.decode(errors='replace')}'")

    def _headers(self, text: bytes, number: int) -> tuple[tuple[str, bytes | None], ...]:
        return tuple(self._header(pair, number) for pair in text.split(self._headers_separator))

    def _header(self, pair: bytes, number: int) -> tuple[str, bytes | None]:
        key, found, value = pair.partition(self._headers_key_separator)
        if not found:
            if self._ignore_error:
                return pair.decode(errors="replace"), None
            raise Failure(f"No header key separator found in pair '{pair.decode(errors='replace')}' on line number {number}")
        if key == self._null_marker:
            raise Failure(f"Header keys should not be equal to the null marker '{key.decode(errors='replace')}' as they can't be null")
        return key.decode(errors="replace"), self._or_null(value)

    def _or_null(self, part: bytes | None) -> bytes | None:
        return None if part == self._null_marker else part
