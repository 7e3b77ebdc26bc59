"""◇ The group and the member that offsets are committed for: a consumer gives it to a transactional producer."""

from typing import NamedTuple


class GroupMetadata(NamedTuple):
    """The group and the member that offsets are committed for.

    Without a member the coordinator does not check whether the group has moved on.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
