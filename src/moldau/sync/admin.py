"""● The blocking admin: the rooms and methods of `moldau.Admin`.  Each method returns what the method of `moldau.Admin` is awaited for."""

from collections.abc import Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from moldau.clients.admin.admin import Admin as AsyncAdmin
from moldau.clients.unpicklable import Unpicklable
from moldau.sync.portal import the_portal

if TYPE_CHECKING:
    from moldau.clients.connecting import Given
    from moldau.protocol.messages.api_versions import ApiVersionsResponse
    from moldau.protocol.messages.describe_cluster import DescribeClusterResponse
    from moldau.sync import rooms


class Admin(Unpicklable):
    """`moldau.Admin`, blocking.  Threads may share it."""

    def __init__(self, servers: str | Sequence[str] | None = None, options: "Given | None" = None, **given: Any) -> None:
        self._portal = the_portal()
        self._admin = AsyncAdmin(servers, options, **given)

    def with_timeout(self, timeout_ms: int) -> "Admin":
        """This client with another limit for each call, in milliseconds.  It has the same connections, and leaves them open."""
        other = object.__new__(Admin)
        other._portal, other._admin = self._portal, self._admin.with_timeout(timeout_ms)
        return other

    @cached_property
    def topics(self) -> "rooms.Topics":
        from moldau.sync.rooms import Topics

        return Topics(self._admin.topics, self._portal)

    @cached_property
    def configs(self) -> "rooms.Configs":
        from moldau.sync.rooms import Configs

        return Configs(self._admin.configs, self._portal)

    @cached_property
    def partitions(self) -> "rooms.Partitions":
        from moldau.sync.rooms import Partitions

        return Partitions(self._admin.partitions, self._portal)

    @cached_property
    def groups(self) -> "rooms.Groups":
        from moldau.sync.rooms import Groups

        return Groups(self._admin.groups, self._portal)

    @cached_property
    def share_groups(self) -> "rooms.ShareGroups":
        from moldau.sync.rooms import ShareGroups

        return ShareGroups(self._admin.share_groups, self._portal)

    @cached_property
    def streams_groups(self) -> "rooms.StreamsGroups":
        from moldau.sync.rooms import StreamsGroups

        return StreamsGroups(self._admin.streams_groups, self._portal)

    @cached_property
    def transactions(self) -> "rooms.Transactions":
        from moldau.sync.rooms import Transactions

        return Transactions(self._admin.transactions, self._portal)

    @cached_property
    def quorum(self) -> "rooms.Quorum":
        from moldau.sync.rooms import Quorum

        return Quorum(self._admin.quorum, self._portal)

    @cached_property
    def features(self) -> "rooms.Features":
        from moldau.sync.rooms import Features

        return Features(self._admin.features, self._portal)

    @cached_property
    def acls(self) -> "rooms.Acls":
        from moldau.sync.rooms import Acls

        return Acls(self._admin.acls, self._portal)

    @cached_property
    def quotas(self) -> "rooms.Quotas":
        from moldau.sync.rooms import Quotas

        return Quotas(self._admin.quotas, self._portal)

    @cached_property
    def users(self) -> "rooms.Users":
        from moldau.sync.rooms import Users

        return Users(self._admin.users, self._portal)

    @cached_property
    def tokens(self) -> "rooms.Tokens":
        from moldau.sync.rooms import Tokens

        return Tokens(self._admin.tokens, self._portal)

    def describe_cluster(self, **given: Any) -> "DescribeClusterResponse":
        return self._portal.run(self._admin.describe_cluster(**given))

    def api_versions(self, node_id: int | None = None) -> "ApiVersionsResponse":
        return self._portal.run(self._admin.api_versions(node_id))

    def unregister_broker(self, broker_id: int) -> None:
        self._portal.run(self._admin.unregister_broker(broker_id))

    def metrics(self) -> dict[str, float]:
        return self._portal.call(self._admin.metrics)

    def close(self) -> None:
        self._portal.run(self._admin.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
