"""◇ Uniform: loads differ by one at most where subscriptions allow it, and what a member has it keeps while that is fair.

Three steps: members keep what they own; what is left goes to the least loaded member that wants it, one in the partition's rack first;
last, partitions move from more to less loaded members as long as that evens them out.

Source: UniformAssignor (KIP-848).
"""

from collections.abc import Mapping
from uuid import UUID

from moldau.coordinator.group.assignors.model import Assignment, Subscriber, TopicIdPartition, TopicView


def assign(members: Mapping[str, Subscriber], topics: Mapping[UUID, TopicView]) -> Assignment:
    """Deterministic: the same members and topics give the same assignment."""
    partitions = [partition for _, topic in sorted(topics.items()) for partition in topic.partitions()]
    wanted_by = {topic_id: sorted(each for each in members if topic_id in members[each].topic_ids) for topic_id in topics}
    partitions = [partition for partition in partitions if wanted_by[partition.topic_id]]
    loads: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in sorted(members)}
    owners = {partition: member_id for member_id in reversed(loads) for partition in members[member_id].owned}
    unowned = []
    for partition in partitions:
        owner = owners.get(partition)
        if owner is not None and partition.topic_id in members[owner].topic_ids:
            loads[owner].add(partition)
        else:
            unowned.append(partition)
    for partition in unowned:
        _give(partition, members, wanted_by[partition.topic_id], topics[partition.topic_id], loads)
    _even_out(wanted_by, loads)
    return {member_id: frozenset(load) for member_id, load in loads.items()}


def _give(
    partition: TopicIdPartition,
    members: Mapping[str, Subscriber],
    wanting: list[str],
    topic: TopicView,
    loads: dict[str, set[TopicIdPartition]],
) -> None:
    racks = topic.racks[partition.partition] if partition.partition < len(topic.racks) else frozenset()
    taker = min(wanting, key=lambda each: (len(loads[each]), members[each].rack_id not in racks, each))
    loads[taker].add(partition)


def _even_out(wanted_by: Mapping[UUID, list[str]], loads: dict[str, set[TopicIdPartition]]) -> None:
    """One move at a time from the most loaded member that can give, so that nobody gives more than it must."""
    # Each move makes the sum of squares of the loads smaller, so this ends.
    while True:
        takers = {topic_id: min(wanting, key=lambda each: (len(loads[each]), each)) for topic_id, wanting in wanted_by.items() if wanting}
        for giver in sorted(loads, key=lambda each: (-len(loads[each]), each)):
            movable = [each for each in loads[giver] if len(loads[giver]) - len(loads[takers[each.topic_id]]) > 1]
            if movable:
                partition = min(movable, key=lambda each: (len(loads[takers[each.topic_id]]), each))
                loads[giver].remove(partition)
                loads[takers[partition.topic_id]].add(partition)
                break
        else:
            return
