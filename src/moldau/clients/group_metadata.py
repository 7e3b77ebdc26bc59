"""◇ Who commits offsets for a group: what a consumer tells a transactional producer."""

from typing import NamedTuple


class GroupMetadata(NamedTuple):
    """On whose behalf offsets are committed.  Without a member: nobody checks that the group has not moved on."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
