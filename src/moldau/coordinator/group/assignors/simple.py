"""◇ The simple assignor of share groups: every partition to as many members as it takes to occupy all of them (KIP-932).

With more members than partitions several share one; with fewer, each has several.  A member keeps its partitions as far as that stays even.
All members subscribed alike are balanced over all partitions together, otherwise each topic is balanced by itself.

Source: SimpleAssignor, SimpleHomogeneousAssignmentBuilder, SimpleHeterogeneousAssignmentBuilder.  Called by `share`.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from uuid import UUID

from moldau.coordinator.group.assignors.model import Assignment, Subscriber, TopicIdPartition

Partitions = Sequence[TopicIdPartition]


def assign(members: Mapping[str, Subscriber], assignable: Mapping[UUID, Partitions]) -> Assignment:
    """Assign partitions.  `assignable`: the partitions that may be assigned, by topic."""
    subscriptions = {member.topic_ids for member in members.values()}
    assignment: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in members}
    if len(subscriptions) == 1:
        wanted = [partition for topic_id in sorted(subscriptions.pop()) for partition in assignable.get(topic_id, ())]
        _balance(list(members), wanted, members, assignment)
    else:
        for topic_id in sorted(set[UUID]().union(*subscriptions)):
            subscribed = [member_id for member_id, member in members.items() if topic_id in member.topic_ids]
            _balance(subscribed, assignable.get(topic_id, ()), members, assignment)
    return {member_id: frozenset(partitions) for member_id, partitions in assignment.items()}


def _balance(
    member_ids: Sequence[str], partitions: Partitions, members: Mapping[str, Subscriber], assignment: dict[str, set[TopicIdPartition]]
) -> None:
    """Add the readers of `partitions` to `assignment`: `sharing` members for each, all members equally many but for one."""
    if not partitions:
        return
    sharing = -(-len(member_ids) // len(partitions))
    quotas = _quotas(member_ids, sharing * len(partitions))
    readers: dict[TopicIdPartition, set[str]] = {partition: set() for partition in partitions}
    kept: dict[str, set[TopicIdPartition]] = {}
    places = {partition: place for place, partition in enumerate(partitions)}
    for member_id in member_ids:
        of_these = sorted((partition for partition in members[member_id].owned if partition in places), key=places.__getitem__)
        kept[member_id] = set()
        for partition in of_these[: quotas[member_id]]:
            if len(readers[partition]) < sharing:
                readers[partition].add(member_id)
                kept[member_id].add(partition)
    hungry = deque(member_id for member_id in member_ids if len(kept[member_id]) < quotas[member_id])
    for partition in partitions:
        for _ in range(len(hungry)):
            if len(readers[partition]) == sharing:
                break
            member_id = hungry.popleft()
            if member_id not in readers[partition]:
                readers[partition].add(member_id)
                kept[member_id].add(partition)
            if len(kept[member_id]) < quotas[member_id]:
                hungry.append(member_id)
    for member_id, taken in kept.items():
        assignment[member_id] |= taken


def _quotas(member_ids: Sequence[str], total: int) -> dict[str, int]:
    """`total` in parts as even as whole numbers can be; the larger parts lie apart from each other."""
    count = len(member_ids)
    bounds = [-(-total * index // count) for index in range(count + 1)]
    return {member_id: bounds[index + 1] - bounds[index] for index, member_id in enumerate(member_ids)}
