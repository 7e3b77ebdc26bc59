"""● The blocking admin: the rooms and methods of `moldau.Admin`.  Each method returns what the method of `moldau.Admin` is awaited for."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import iscoroutinefunction
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from moldau.clients.admin.admin import Admin as AsyncAdmin
from moldau.sync.portal import PORTAL

if TYPE_CHECKING:
    from moldau.protocol.messages.api_versions import ApiVersionsResponse
    from moldau.protocol.messages.describe_cluster import DescribeClusterResponse


class Room:
    """`admin.topics` and the other rooms: see the class of that name in `moldau.clients.admin`."""

    def __init__(self, room: Any) -> None:
        self._room = room

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._room, name)
        if not iscoroutinefunction(method):
            raise AttributeError(f"{type(self._room).__name__} has no method {name!r}")

        @wraps(method)
        def blocking(*args: Any, **given: Any) -> Any:
            return PORTAL.run(method(*args, **given))

        return blocking

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._room) if name[:1] != "_" and iscoroutinefunction(getattr(self._room, name))]


class Admin:
    """`moldau.Admin`, blocking.  Threads may share it."""

    def __init__(self, servers: str | Sequence[str] | None = None, options: Mapping[str, Any] | None = None, **given: Any) -> None:
        self._admin = AsyncAdmin(servers, options, **given)
        self.topics = Room(self._admin.topics)
        self.configs = Room(self._admin.configs)
        self.partitions = Room(self._admin.partitions)
        self.groups = Room(self._admin.groups)
        self.share_groups = Room(self._admin.share_groups)
        self.streams_groups = Room(self._admin.streams_groups)
        self.transactions = Room(self._admin.transactions)
        self.quorum = Room(self._admin.quorum)
        self.features = Room(self._admin.features)
        self.acls = Room(self._admin.acls)
        self.quotas = Room(self._admin.quotas)
        self.users = Room(self._admin.users)

    def describe_cluster(self, **given: Any) -> "DescribeClusterResponse":
        return PORTAL.run(self._admin.describe_cluster(**given))

    def api_versions(self, node_id: int | None = None) -> "ApiVersionsResponse":
        return PORTAL.run(self._admin.api_versions(node_id))

    def unregister_broker(self, broker_id: int) -> None:
        PORTAL.run(self._admin.unregister_broker(broker_id))

    def close(self) -> None:
        PORTAL.run(self._admin.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
