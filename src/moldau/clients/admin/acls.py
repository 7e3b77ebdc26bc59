"""● Lists, adds and deletes access control lists.

Source: Admin.describeAcls, createAcls, deleteAcls; KIP-11, 290.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from moldau.clients.admin.answers import error_of, raise_for
from moldau.clients.admin.limited import Limited
from moldau.clients.cluster import Cluster
from moldau.errors import KafkaError
from moldau.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from moldau.protocol.messages.describe_acls import DescribeAclsRequest


class AclResource(IntEnum):
    """The kinds of resource that an ACL guards.  Source: org.apache.kafka.common.resource.ResourceType."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a rule's resource name is matched.  Source: PatternType.java."""

    ANY = 1
    MATCH = 2
    """Every rule that applies to the name: literal, by prefix, by wildcard."""
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """Source: AclOperation.java."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    ANY = 1
    DENY = 2
    ALLOW = 3


NOT_SAID: Final = -(1 << 31)


def operations_of(bits: int) -> frozenset[AclOperation] | None:
    """The operations that the caller may do, from the number in a description's `…_authorized_operations`.  None: it was not asked for."""
    return None if bits == NOT_SAID else frozenset(one for one in AclOperation if bits >> one & 1)


@dataclass(frozen=True, slots=True)
class Acl:
    """One rule.  `principal`: such as `User:alice`.  `host` "*": any address."""

    resource: AclResource
    name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"
    pattern: PatternType = PatternType.LITERAL


@dataclass(frozen=True, slots=True)
class AclFilter:
    """The rules that a request is about.  A field that is None or ANY matches every value."""

    resource: AclResource = AclResource.ANY
    name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern: PatternType = PatternType.ANY


class AclAdmin(Limited):
    """Lists, adds and deletes ACLs.  Errors: KafkaError, SECURITY_DISABLED where no authorizer is configured."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list(self, where: AclFilter = AclFilter()) -> "Sequence[Acl]":
        request = DescribeAclsRequest(
            resource_type_filter=where.resource,
            resource_name_filter=where.name,
            pattern_type_filter=where.pattern,
            principal_filter=where.principal,
            host_filter=where.host,
            operation=where.operation,
            permission_type=where.permission,
        )
        response = await self._cluster.send(request)
        raise_for(response.error_code, response.error_message)
        return [
            _acl(found.resource_type, found.resource_name, found.pattern_type, one.principal, one.host, one.operation, one.permission_type)
            for found in response.resources
            for one in found.acls
        ]

    async def create(self, acls: Sequence[Acl]) -> dict[Acl, KafkaError | None]:
        creations = [
            AclCreation(
                resource_type=one.resource,
                resource_name=one.name,
                resource_pattern_type=one.pattern,
                principal=one.principal,
                host=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            for one in acls
        ]
        response = await self._cluster.send(CreateAclsRequest(creations=creations))
        return {one: error_of(result.error_code, result.error_message) for one, result in zip(acls, response.results, strict=True)}

    async def delete(self, filters: Sequence[AclFilter]) -> "dict[AclFilter, Sequence[Acl] | KafkaError]":
        """Delete the matching rules.  Returns the rules that each filter deleted, or its error."""
        asked = [
            DeleteAclsFilter(
                resource_type_filter=one.resource,
                resource_name_filter=one.name,
                pattern_type_filter=one.pattern,
                principal_filter=one.principal,
                host_filter=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            for one in filters
        ]
        response = await self._cluster.send(DeleteAclsRequest(filters=asked))
        answers: dict[AclFilter, Sequence[Acl] | KafkaError] = {}
        for one, result in zip(filters, response.filter_results, strict=True):
            deleted = [
                _acl(acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type)
                for acl in result.matching_acls
                if not acl.error_code
            ]
            failed = next((error_of(acl.error_code, acl.error_message) for acl in result.matching_acls if acl.error_code), None)
            answers[one] = error_of(result.error_code, result.error_message) or failed or deleted
        return answers


def _acl(resource: int, name: str, pattern: int, principal: str, host: str, operation: int, permission: int) -> Acl:
    return Acl(AclResource(resource), name, principal, AclOperation(operation), AclPermission(permission), host, PatternType(pattern))
