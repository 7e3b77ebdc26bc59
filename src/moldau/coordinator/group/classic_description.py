"""◇ The description of a classic group for DescribeGroups.  Source: ClassicGroup.asDescribedGroup."""

from moldau.coordinator.group.classic_state import ClassicGroupState, GroupState
from moldau.errors import ErrorCode
from moldau.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember


def dead_group(group_id: str, message: str, *, is_error: bool) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE,
        error_message=message if is_error else None,
        group_id=group_id,
        group_state=GroupState.DEAD.value,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def described(group: ClassicGroupState) -> DescribedGroup:
    """The description.  Metadata is shown for a stable group only, assignments as long as members keep them through a rebalance."""
    is_stable = group.state is GroupState.STABLE
    members = [
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.protocols.get(group.protocol_name or "", b"") if is_stable else b"",
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=members,
    )
