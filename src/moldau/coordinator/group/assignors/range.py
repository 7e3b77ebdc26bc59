"""◇ Ranges: each topic's partitions in order, cut into one piece a member, so that equal keys of several topics meet in one member.

Source: RangeAssignor (KIP-848).
"""

from collections.abc import Mapping
from uuid import UUID

from moldau.coordinator.group.assignors.model import Assignment, Subscriber, TopicIdPartition, TopicView


def assign(members: Mapping[str, Subscriber], topics: Mapping[UUID, TopicView]) -> Assignment:
    """The first `partition_count % member_count` members of a topic get one partition more."""
    assigned: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in members}
    # Static members first and by instance, so that a restart under a new member id changes nothing.
    in_order = sorted(members, key=lambda each: (members[each].instance_id is None, members[each].instance_id or each))
    for topic_id, topic in topics.items():
        subscribed = [member_id for member_id in in_order if topic_id in members[member_id].topic_ids]
        if not subscribed:
            continue
        share, longer = divmod(topic.partition_count, len(subscribed))
        start = 0
        for index, member_id in enumerate(subscribed):
            end = start + share + (1 if index < longer else 0)
            assigned[member_id].update(TopicIdPartition(topic_id, partition) for partition in range(start, end))
            start = end
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}
