"""● The object store: a folder, or anything that speaks S3, through the `obstore` library (the extra `tiered`).

All calls block: whoever calls runs them elsewhere.  What `put` has stored survives a power failure: S3 promises it, and a folder is synced
here, since the library leaves that to the operating system.  Objects are never changed, only made and deleted.
Called by `copier` and `reader`; `proof.tiering.object_store` has one in memory that fails on demand.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from moldau.config import ConfigError
from moldau.storage.tiered.config import STORAGE_URL, StoreConfig

if TYPE_CHECKING:
    from obstore.store import LocalStore, S3Store

PART_SIZE: Final = 8 << 20
"""Bytes of one part of an upload."""
PARTS_AT_ONCE: Final = 2
MISSING: Final = "the package obstore is not installed: pip install obstore"


class StoredObject(NamedTuple):
    name: str
    size: int
    modified_ms: int


class ObjectStore(Protocol):
    """Errors of each: OSError; FileNotFoundError when there is no such object."""

    def put(self, name: str, content: Iterable[bytes]) -> None:
        """Store all of it or nothing; durable when this returns."""
        ...

    def get(self, name: str, start: int = 0, size: int | None = None) -> memoryview:
        """The bytes from `start`, `size` of them or as many as there are; to the end without a size."""
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects; missing ones are ignored."""
        ...

    def list(self, folder: str) -> Iterator[StoredObject]: ...


class Obstore:
    """See the module."""

    def __init__(self, store: "LocalStore | S3Store", folder: Path | None) -> None:
        """`folder` is where a local store keeps its objects."""
        self._store: Final = store
        self._folder: Final = folder

    @classmethod
    def open(cls, config: StoreConfig, prefix: str) -> "Obstore":
        """Errors: ConfigError, naming the key behind `prefix`."""
        assert config.url is not None, "checked when the options were read"
        try:
            from obstore.exceptions import BaseError
            from obstore.store import LocalStore, S3Store
        except ImportError:
            raise ConfigError(prefix + STORAGE_URL, config.url, MISSING) from None
        url = urlsplit(config.url)
        try:
            if url.scheme == "file":
                folder = Path(unquote(url.path))
                folder.mkdir(parents=True, exist_ok=True)
                return cls(LocalStore(folder, automatic_cleanup=True), folder)
            return cls(S3Store(url.netloc, prefix=url.path.strip("/") or None, **_s3_options(config)), None)
        except (BaseError, OSError, ValueError) as error:
            raise ConfigError(prefix + STORAGE_URL, config.url, str(error).partition("\n")[0]) from None

    def put(self, name: str, content: Iterable[bytes]) -> None:
        import obstore

        with _errors_of(name):
            obstore.put(self._store, name, iter(content), chunk_size=PART_SIZE, max_concurrency=PARTS_AT_ONCE)
            if self._folder is not None:
                _sync(self._folder / name, self._folder)

    def get(self, name: str, start: int = 0, size: int | None = None) -> memoryview:
        import obstore

        with _errors_of(name):
            if size is None:
                return memoryview(obstore.get(self._store, name).bytes())[start:]
            return memoryview(obstore.get_range(self._store, name, start=start, length=size))

    def delete(self, names: Sequence[str]) -> None:
        import obstore

        for name in names:  # one by one: a bulk request stops at the first that a folder does not have
            if self._folder is not None:
                _delete_unfinished(self._folder / name)
            try:
                with _errors_of(name):
                    obstore.delete(self._store, name)
            except FileNotFoundError:
                continue

    def list(self, folder: str) -> Iterator[StoredObject]:
        import obstore

        with _errors_of(folder):
            for page in obstore.list(self._store, prefix=folder):
                for found in page:
                    yield StoredObject(found["path"], found["size"], int(found["last_modified"].timestamp() * 1000))


class _errors_of:
    """The library's errors as OSErrors with the object's name and their first line."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        from obstore.exceptions import BaseError

        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(f"the object store has no {self._name}") from None
        if isinstance(error, BaseError):
            raise OSError(f"the object store failed at {self._name}: {str(error).partition(chr(10))[0]}") from error


def _s3_options(config: StoreConfig) -> dict[str, Any]:
    options: dict[str, Any] = {"virtual_hosted_style_request": not config.s3_path_style}
    for key, value in (
        ("endpoint", config.s3_endpoint_url),
        ("region", config.s3_region),
        ("access_key_id", config.access_key_id),
        ("secret_access_key", config.secret_access_key),
        ("session_token", config.session_token),
    ):
        if value is not None:
            options[key] = value
    if config.s3_endpoint_url is not None and config.s3_endpoint_url.startswith("http://"):
        options["client_options"] = {"allow_http": True}
    return options


def _delete_unfinished(path: Path) -> None:
    """In a folder an object grows under its name with `#` and a number behind it; a process that was killed leaves that behind."""
    for each in path.parent.glob(f"{path.name}#*"):
        each.unlink(missing_ok=True)


def _sync(path: Path, top: Path) -> None:
    """The file, and the names of all folders down to it."""
    for each in (path, *(parent for parent in path.parents if parent == top or top in parent.parents)):
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
