"""◇ Ranges: each topic's partitions in order, cut into one piece a member, so that equal keys of several topics meet in one member.

Source: RangeAssignor (KIP-848).
"""

from collections.abc import Mapping
from uuid import UUID

from moldau.coordinator.group.assignors.model import Assignment, Subscriber, TopicIdPartition, TopicView


def assign(members: Mapping[str, Subscriber], topics: Mapping[UUID, TopicView]) -> Assignment:
    """Assign ranges.  The first `partition_count % member_count` members of a topic get one partition more."""
    assigned: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in members}
    # Static members come first, by instance id, so that a restart under a new member id changes nothing.
    in_order = sorted(members, key=lambda each: (members[each].instance_id is None, members[each].instance_id or each))
    # Most members subscribe alike: work is done once for each subscription, not for each member.
    subscriptions: dict[frozenset[UUID], int] = {}
    numbers = {member_id: subscriptions.setdefault(members[member_id].topic_ids, len(subscriptions)) for member_id in in_order}
    subscribed_by: dict[frozenset[int], list[str]] = {}
    for topic_id, topic in topics.items():
        those = frozenset(number for topic_ids, number in subscriptions.items() if topic_id in topic_ids)
        if not those:
            continue
        if those not in subscribed_by:
            subscribed_by[those] = [member_id for member_id in in_order if numbers[member_id] in those]
        subscribed = subscribed_by[those]
        share, longer = divmod(topic.partition_count, len(subscribed))
        start = 0
        for index, member_id in enumerate(subscribed[: topic.partition_count]):  # the others get no partition
            end = start + share + (1 if index < longer else 0)
            assigned[member_id].update(TopicIdPartition(topic_id, partition) for partition in range(start, end))
            start = end
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}
