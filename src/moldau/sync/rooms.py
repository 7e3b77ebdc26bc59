"""◇ The rooms of the blocking admin, typed: each method has the signature of the method that it runs, and returns what that one is awaited
for.

A line here is all that a method needs: editors and type checkers read the signature off the method of `moldau.clients.admin`.  A test
compares the names.  Loaded with the first room that is used.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from moldau.clients.admin.acls import AclAdmin
from moldau.clients.admin.configs import ConfigAdmin
from moldau.clients.admin.features import FeatureAdmin
from moldau.clients.admin.groups import GroupAdmin
from moldau.clients.admin.partitions import PartitionAdmin
from moldau.clients.admin.quorum import QuorumAdmin
from moldau.clients.admin.quotas import QuotaAdmin
from moldau.clients.admin.share_groups import ShareGroupAdmin
from moldau.clients.admin.streams_groups import StreamsGroupAdmin
from moldau.clients.admin.tokens import TokenAdmin
from moldau.clients.admin.topics import TopicAdmin
from moldau.clients.admin.transactions import TransactionAdmin
from moldau.clients.admin.users import UserAdmin
from moldau.sync.portal import Portal

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")


class Room(Generic[A]):
    """A room of the blocking admin.  `room`: the room of `moldau.Admin` that does the work, on the loop of `portal`."""

    def __init__(self, room: A, portal: Portal) -> None:
        self.room = room
        self.portal = portal


class Blocking(Generic[A, P, R]):
    """A method of a room, which blocks until the method of the room behind it has ended."""

    def __init__(self, method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, room: None, kind: type) -> Self: ...

    @overload
    def __get__(self, room: Room[A], kind: type) -> Callable[P, R]: ...

    def __get__(self, room: Room[A] | None, kind: type) -> Self | Callable[P, R]:
        if room is None:
            return self
        bound: Callable[P, Coroutine[Any, Any, R]] = self.method.__get__(room.room)

        @wraps(bound)
        def blocking(*args: P.args, **given: P.kwargs) -> R:
            return room.portal.run(bound(*args, **given))

        return blocking


class Topics(Room[TopicAdmin]):
    list = Blocking(TopicAdmin.list)
    describe = Blocking(TopicAdmin.describe)
    describe_by_id = Blocking(TopicAdmin.describe_by_id)
    create = Blocking(TopicAdmin.create)
    delete = Blocking(TopicAdmin.delete)
    create_partitions = Blocking(TopicAdmin.create_partitions)


class Configs(Room[ConfigAdmin]):
    describe = Blocking(ConfigAdmin.describe)
    alter = Blocking(ConfigAdmin.alter)
    list_resources = Blocking(ConfigAdmin.list_resources)


class Partitions(Room[PartitionAdmin]):
    list_offsets = Blocking(PartitionAdmin.list_offsets)
    delete_records = Blocking(PartitionAdmin.delete_records)
    describe_producers = Blocking(PartitionAdmin.describe_producers)
    describe_log_dirs = Blocking(PartitionAdmin.describe_log_dirs)
    list_reassignments = Blocking(PartitionAdmin.list_reassignments)
    elect_leaders = Blocking(PartitionAdmin.elect_leaders)
    reassign = Blocking(PartitionAdmin.reassign)
    move_replicas = Blocking(PartitionAdmin.move_replicas)
    folders_of = Blocking(PartitionAdmin.folders_of)


class Groups(Room[GroupAdmin]):
    list_groups = Blocking(GroupAdmin.list_groups)
    describe = Blocking(GroupAdmin.describe)
    describe_each = Blocking(GroupAdmin.describe_each)
    offsets = Blocking(GroupAdmin.offsets)
    offsets_of_each = Blocking(GroupAdmin.offsets_of_each)
    alter_offsets = Blocking(GroupAdmin.alter_offsets)
    delete_offsets = Blocking(GroupAdmin.delete_offsets)
    delete = Blocking(GroupAdmin.delete)
    delete_each = Blocking(GroupAdmin.delete_each)
    remove_members = Blocking(GroupAdmin.remove_members)


class ShareGroups(Room[ShareGroupAdmin]):
    list_groups = Blocking(ShareGroupAdmin.list_groups)
    describe = Blocking(ShareGroupAdmin.describe)
    describe_each = Blocking(ShareGroupAdmin.describe_each)
    offsets = Blocking(ShareGroupAdmin.offsets)
    offsets_of_each = Blocking(ShareGroupAdmin.offsets_of_each)
    alter_offsets = Blocking(ShareGroupAdmin.alter_offsets)
    delete_offsets = Blocking(ShareGroupAdmin.delete_offsets)
    delete = Blocking(ShareGroupAdmin.delete)
    delete_each = Blocking(ShareGroupAdmin.delete_each)


class StreamsGroups(Room[StreamsGroupAdmin]):
    list_groups = Blocking(StreamsGroupAdmin.list_groups)
    describe = Blocking(StreamsGroupAdmin.describe)
    describe_each = Blocking(StreamsGroupAdmin.describe_each)
    describe_as_readers = Blocking(StreamsGroupAdmin.describe_as_readers)


class Transactions(Room[TransactionAdmin]):
    list_transactions = Blocking(TransactionAdmin.list_transactions)
    describe = Blocking(TransactionAdmin.describe)
    describe_each = Blocking(TransactionAdmin.describe_each)
    producers_of = Blocking(TransactionAdmin.producers_of)
    find_hanging = Blocking(TransactionAdmin.find_hanging)
    abort = Blocking(TransactionAdmin.abort)
    fence = Blocking(TransactionAdmin.fence)
    force_terminate = Blocking(TransactionAdmin.force_terminate)


class Quorum(Room[QuorumAdmin]):
    describe = Blocking(QuorumAdmin.describe)
    add_voter = Blocking(QuorumAdmin.add_voter)
    remove_voter = Blocking(QuorumAdmin.remove_voter)


class Features(Room[FeatureAdmin]):
    describe = Blocking(FeatureAdmin.describe)
    update = Blocking(FeatureAdmin.update)


class Acls(Room[AclAdmin]):
    list = Blocking(AclAdmin.list)
    create = Blocking(AclAdmin.create)
    delete = Blocking(AclAdmin.delete)


class Quotas(Room[QuotaAdmin]):
    describe = Blocking(QuotaAdmin.describe)
    alter = Blocking(QuotaAdmin.alter)


class Users(Room[UserAdmin]):
    describe = Blocking(UserAdmin.describe)
    alter = Blocking(UserAdmin.alter)


class Tokens(Room[TokenAdmin]):
    create = Blocking(TokenAdmin.create)
    renew = Blocking(TokenAdmin.renew)
    expire = Blocking(TokenAdmin.expire)
    describe = Blocking(TokenAdmin.describe)
