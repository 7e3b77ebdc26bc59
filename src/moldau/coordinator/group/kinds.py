"""◇ The kinds of groups, and the records of each.

Source: GroupCoordinatorShard.replay.  Used by `machine` and `offset_requests`.
"""

from collections.abc import Mapping
from typing import Final, get_args

from moldau.coordinator.group import records as stored
from moldau.coordinator.group.classic import ClassicGroup
from moldau.coordinator.group.consumer import ConsumerGroup
from moldau.coordinator.group.share import ShareGroup
from moldau.coordinator.group.streams import records as streams
from moldau.coordinator.group.streams.group import StreamsGroup

HeartbeatGroup = ConsumerGroup | ShareGroup | StreamsGroup
Group = ClassicGroup | HeartbeatGroup

ConsumerKey = (
    stored.ConsumerGroupMetadataKey
    | stored.ConsumerGroupMemberMetadataKey
    | stored.ConsumerGroupTargetAssignmentMetadataKey
    | stored.ConsumerGroupTargetAssignmentMemberKey
    | stored.ConsumerGroupCurrentMemberAssignmentKey
    | stored.ConsumerGroupRegularExpressionKey
)
ShareKey = (
    stored.ShareGroupMetadataKey
    | stored.ShareGroupMemberMetadataKey
    | stored.ShareGroupTargetAssignmentMetadataKey
    | stored.ShareGroupTargetAssignmentMemberKey
    | stored.ShareGroupCurrentMemberAssignmentKey
    | stored.ShareGroupStatePartitionMetadataKey
)
StreamsKey = (
    streams.StreamsGroupMetadataKey
    | streams.StreamsGroupMemberMetadataKey
    | streams.StreamsGroupTargetAssignmentMetadataKey
    | streams.StreamsGroupTargetAssignmentMemberKey
    | streams.StreamsGroupCurrentMemberAssignmentKey
    | streams.StreamsGroupTopologyKey
)

KIND_OF: Final[Mapping[type, type[HeartbeatGroup]]] = {
    key: kind for keys, kind in ((ConsumerKey, ConsumerGroup), (ShareKey, ShareGroup), (StreamsKey, StreamsGroup)) for key in get_args(keys)
}
"""The kind of group by the type of a record's key.  A classic group has one record, and knows it itself."""
GROUP_KEYS: Final = (stored.ConsumerGroupMetadataKey, stored.ShareGroupMetadataKey, streams.StreamsGroupMetadataKey)
"""The record by which a group exists: the last one to be deleted."""
