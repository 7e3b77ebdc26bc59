"""◇ Uniform: loads differ by one at most where subscriptions allow it, and a member keeps its partitions while that is fair.

Three steps: members keep their partitions; each remaining partition goes to the least loaded member that wants it, one in the partition's
rack first; last, partitions move from more to less loaded members as long as that evens them out.  A giving member keeps its first
partitions.

A group may have tens of thousands of partitions and thousands of members, and the loop waits: no step looks at all members or all
partitions again for each partition.  Topics that the same members want are one *class*.  Heaps find members; an outdated entry is dropped
when it comes up.

Source: UniformAssignor (KIP-848).
"""

import heapq
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from moldau.coordinator.group.assignors.model import Assignment, Subscriber, TopicIdPartition, TopicView


def assign(members: Mapping[str, Subscriber], topics: Mapping[UUID, TopicView]) -> Assignment:
    """Assign partitions.  The same members and topics give the same assignment."""
    return _Balance(members, topics).assignment()


class _Load:
    """The partitions that one member has so far."""

    __slots__ = ("count", "of_class", "wanted_classes")

    def __init__(self) -> None:
        self.count = 0
        self.of_class: dict[int, list[int]] = {}
        """By class a heap of negated partition numbers: the last partition on top is given away first."""
        self.wanted_classes: list[int] = []

    def add(self, class_number: int, number: int) -> None:
        heapq.heappush(self.of_class.setdefault(class_number, []), -number)
        self.count += 1


class _Balance:
    def __init__(self, members: Mapping[str, Subscriber], topics: Mapping[UUID, TopicView]) -> None:
        self._members: Final = members
        self._topics: Final = topics
        self._loads: Final = {member_id: _Load() for member_id in sorted(members)}
        self._class_of: Final[dict[UUID, int]] = {}
        """The class of each topic that a member wants."""
        self._partitions: Final[list[TopicIdPartition]] = []
        """The partitions in order, each known by its number here: comparing and looking up topic ids costs many times as much."""
        self._wanting: Final[list[list[str]]] = []
        self._takers: Final[list[list[tuple[int, str]]]] = []
        """For each class the members that want it, in a heap by load."""
        self._takers_in_rack: Final[list[dict[str, list[tuple[int, str]]]]] = []
        self._classify()

    def assignment(self) -> Assignment:
        unowned = self._keep()
        self._make_heaps()
        for class_number, number in unowned:
            self._give(class_number, number)
        self._even_out()
        return {
            member_id: frozenset(self._partitions[-number] for numbers in load.of_class.values() for number in numbers)
            for member_id, load in self._loads.items()
        }

    def _classify(self) -> None:
        """Sort topics into classes.  Most members subscribe alike: work is done once for each subscription, not for each member."""
        subscribed: dict[frozenset[UUID], list[str]] = {}
        for member_id in self._loads:
            subscribed.setdefault(self._members[member_id].topic_ids, []).append(member_id)
        subscriptions_of: dict[UUID, list[int]] = {}
        for number, topic_ids in enumerate(subscribed):
            for topic_id in topic_ids:
                subscriptions_of.setdefault(topic_id, []).append(number)
        members_of = list(subscribed.values())
        classes: dict[tuple[int, ...], int] = {}
        for topic_id in self._topics:
            numbers = tuple(subscriptions_of.get(topic_id, ()))
            if not numbers:
                continue
            if numbers not in classes:
                classes[numbers] = len(classes)
                self._wanting.append(sorted(member_id for number in numbers for member_id in members_of[number]))
            self._class_of[topic_id] = classes[numbers]
        for class_number, wanting in enumerate(self._wanting):
            for member_id in wanting:
                self._loads[member_id].wanted_classes.append(class_number)

    def _keep(self) -> list[tuple[int, int]]:
        """Let members keep their partitions.  Returns the others, in order, each with its class.

        Of several owners of a partition the first keeps it.
        """
        owners: dict[TopicIdPartition, str] = {}
        for member_id in reversed(self._loads):
            owners.update(dict.fromkeys(self._members[member_id].owned, member_id))
        unowned = []
        for topic_id in sorted(self._class_of):
            class_number = self._class_of[topic_id]
            first = len(self._partitions)
            self._partitions.extend(self._topics[topic_id].partitions())
            for number in range(first, len(self._partitions)):
                owner = owners.get(self._partitions[number])
                if owner is not None and topic_id in self._members[owner].topic_ids:
                    load = self._loads[owner]
                    load.of_class.setdefault(class_number, []).append(-number)
                    load.count += 1
                else:
                    unowned.append((class_number, number))
        for load in self._loads.values():
            for numbers in load.of_class.values():
                numbers.reverse()  # the list is in ascending order, so it is a heap
        return unowned

    def _make_heaps(self) -> None:
        has_racks = any(topic.racks for topic in self._topics.values())
        for wanting in self._wanting:
            in_rack: dict[str, list[tuple[int, str]]] = {}
            for member_id in wanting if has_racks else ():
                rack = self._members[member_id].rack_id
                if rack is not None:
                    in_rack.setdefault(rack, []).append((self._loads[member_id].count, member_id))
            for heap in in_rack.values():
                heapq.heapify(heap)
            self._takers_in_rack.append(in_rack)
            takers = [(self._loads[member_id].count, member_id) for member_id in wanting]
            heapq.heapify(takers)
            self._takers.append(takers)

    def _give(self, class_number: int, number: int) -> None:
        count, taker = self._least(self._takers[class_number])
        in_rack = self._takers_in_rack[class_number]
        if in_rack:
            partition = self._partitions[number]
            racks = self._topics[partition.topic_id].racks
            if partition.partition < len(racks):
                near = [self._least(in_rack[rack]) for rack in racks[partition.partition] if rack in in_rack]
                taker = min((each for load, each in near if load == count), default=taker)
        self._loads[taker].add(class_number, number)
        self._count_changed(taker)

    def _least(self, heap: list[tuple[int, str]]) -> tuple[int, str]:
        while heap[0][0] != self._loads[heap[0][1]].count:
            heapq.heappop(heap)
        return heap[0]

    def _count_changed(self, member_id: str) -> None:
        load, rack = self._loads[member_id], self._members[member_id].rack_id
        for class_number in load.wanted_classes:
            heapq.heappush(self._takers[class_number], (load.count, member_id))
            in_rack = self._takers_in_rack[class_number].get(rack) if rack is not None else None
            if in_rack is not None:
                heapq.heappush(in_rack, (load.count, member_id))

    def _even_out(self) -> None:
        """Move one partition at a time from the most loaded member that can give, so that no member gives more than it must."""
        givers = [(-load.count, member_id) for member_id, load in self._loads.items()]
        heapq.heapify(givers)
        passed: list[str] = []
        # Each move makes the sum of squares of the loads smaller, so this ends.
        while givers:
            count, giver = heapq.heappop(givers)
            load = self._loads[giver]
            if -count != load.count:
                continue
            class_number = self._best_to_give(load)
            if class_number is None:
                passed.append(giver)
                continue
            taker = self._least(self._takers[class_number])[1]
            self._loads[taker].add(class_number, -heapq.heappop(load.of_class[class_number]))
            load.count -= 1
            changed = [giver, taker]
            for each in changed:
                self._count_changed(each)
            if passed and any(self._least(self._takers[each])[1] == giver for each in load.wanted_classes):
                # No member has less than the giver now: a member that found no taker before may find it.
                changed += passed
                passed.clear()
            for each in changed:
                heapq.heappush(givers, (-self._loads[each].count, each))

    def _best_to_give(self, load: _Load) -> int | None:
        """The class whose least loaded member would still have less than this one; None if there is none."""
        able: Iterable[tuple[int, int, int]] = (
            (count, numbers[0], class_number)
            for class_number, numbers in load.of_class.items()
            if numbers and load.count - (count := self._least(self._takers[class_number])[0]) > 1
        )
        best = min(able, default=None)
        return best[2] if best is not None else None
