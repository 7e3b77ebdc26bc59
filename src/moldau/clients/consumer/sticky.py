"""◇ The sticky assignors: as balanced as subscriptions allow; a member keeps its partitions where that costs no balance.

`sticky` assigns everything at once, because members of an eager group have given everything up.  `cooperative-sticky` does not assign a
partition that another member still holds: that member gives it up first, and the next rebalance assigns it (KIP-429).

A member's former partitions stand in its subscription: owned_partitions and a generation, or user_data in Java's layouts:

    sticky               topics:array(topic:string partitions:array(int32)) generation:int32
    cooperative-sticky   generation:int32

Balance and stickiness are Java's promises, the choice among equals is our own.

Source: AbstractStickyAssignor.java; KIP-54, 341, 792.
"""

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct, error
from typing import Final

from moldau.clients.consumer.assignors import Assignment, Subscriber
from moldau.types import TopicPartition

_INT32: Final = Struct(">i")
_INT16: Final = Struct(">h")
NO_GENERATION: Final = -1


def assign_sticky(subscribers: Sequence[Subscriber], partitions: Mapping[str, Sequence[int]]) -> Assignment:
    return _balanced(subscribers, partitions)


def assign_cooperative_sticky(subscribers: Sequence[Subscriber], partitions: Mapping[str, Sequence[int]]) -> Assignment:
    """Assign partitions, except those that another member has to give up first."""
    assignment = _balanced(subscribers, partitions)
    holders = _owners(subscribers, partitions)
    return {member: [one for one in assigned if holders.get(one, member) == member] for member, assigned in assignment.items()}


def _owners(subscribers: Sequence[Subscriber], partitions: Mapping[str, Sequence[int]]) -> dict[TopicPartition, str]:
    """The owner of each partition.  Of two claims the one of the newer generation holds; of two equal ones neither does."""
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for one in sorted(subscribers, key=lambda each: each.rank):
        for owned in one.owned:
            if owned.topic not in one.topics or owned.partition not in partitions.get(owned.topic, ()):
                continue
            generation, holder = claims.get(owned, (NO_GENERATION - 1, None))
            if one.generation > generation:
                claims[owned] = (one.generation, one.member_id)
            elif one.generation == generation and holder != one.member_id:
                claims[owned] = (generation, None)
    return {owned: holder for owned, (_, holder) in claims.items() if holder is not None}


def _balanced(subscribers: Sequence[Subscriber], partitions: Mapping[str, Sequence[int]]) -> Assignment:
    ranked = sorted(subscribers, key=lambda each: each.rank)
    readers = {topic: [each.member_id for each in ranked if topic in each.topics] for topic in partitions}
    everything = [TopicPartition(topic, index) for topic in sorted(partitions) for index in sorted(partitions[topic]) if readers[topic]]
    had = _owners(subscribers, partitions)
    assignment: dict[str, list[TopicPartition]] = {each.member_id: [] for each in ranked}
    for one in everything:
        if one in had:
            assignment[had[one]].append(one)
    # Partitions with the fewest readers come first: their readers have the least choice.
    for one in sorted((one for one in everything if one not in had), key=lambda each: len(readers[each.topic])):
        least = min(readers[one.topic], key=lambda member: len(assignment[member]))
        assignment[least].append(one)
    _even_out(assignment, readers)
    return {member: sorted(assigned) for member, assigned in assignment.items()}


def _even_out(assignment: dict[str, list[TopicPartition]], readers: Mapping[str, Sequence[str]]) -> None:
    """Move partitions as long as a move makes two members more equal.  Each move lowers the sum of squares, so this ends."""
    while True:
        for member in sorted(assignment, key=lambda each: -len(assignment[each])):
            moves = _way_from(member, assignment, readers)
            if moves:
                for giver, taker, partition in moves:
                    assignment[giver].remove(partition)
                    assignment[taker].append(partition)
                break
        else:
            return


def _way_from(
    member: str, assignment: Mapping[str, list[TopicPartition]], readers: Mapping[str, Sequence[str]]
) -> list[tuple[str, str, TopicPartition]]:
    """The shortest chain of moves that takes one partition from `member` to a member with at least two less.

    A member in between passes on one of its own partitions.
    """
    came: dict[str, tuple[str, TopicPartition]] = {}
    todo = [member]
    for giver in todo:
        last_of = {one.topic: one for one in sorted(assignment[giver])}
        for topic, partition in last_of.items():
            for taker in readers[topic]:
                if taker == member or taker in came:
                    continue
                came[taker] = (giver, partition)
                if len(assignment[member]) - len(assignment[taker]) >= 2:
                    return _moves(member, taker, came)
                todo.append(taker)
    return []


def _moves(member: str, end: str, came: Mapping[str, tuple[str, TopicPartition]]) -> list[tuple[str, str, TopicPartition]]:
    moves = []
    while end != member:
        giver, partition = came[end]
        moves.append((giver, end, partition))
        end = giver
    return moves


# ---------------------------------------------------------------- user data


def sticky_user_data(owned: Iterable[TopicPartition], generation: int) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(owned):
        topics.setdefault(topic, []).append(index)
    parts = [_INT32.pack(len(topics))]
    for topic, indexes in topics.items():
        name = topic.encode()
        parts += [_INT16.pack(len(name)), name, _INT32.pack(len(indexes)), *(_INT32.pack(index) for index in indexes)]
    return b"".join([*parts, _INT32.pack(generation)])


def read_sticky_user_data(data: bytes | None) -> tuple[list[TopicPartition], int]:
    """A member's former partitions; none if `data` cannot be read: another member's bytes decide about stickiness only."""
    owned: list[TopicPartition] = []
    if data is None:
        return owned, NO_GENERATION
    try:
        position, topic_count = 4, _INT32.unpack_from(data)[0]
        for _ in range(min(max(topic_count, 0), len(data))):
            size = _INT16.unpack_from(data, position)[0]
            topic = data[position + 2 : position + 2 + size].decode()
            position += 2 + max(size, 0)
            count = _INT32.unpack_from(data, position)[0]
            position += 4
            if not 0 <= count <= (len(data) - position) // 4:
                return [], NO_GENERATION
            owned += [TopicPartition(topic, _INT32.unpack_from(data, position + 4 * index)[0]) for index in range(count)]
            position += 4 * count
        generation = _INT32.unpack_from(data, position)[0] if position + 4 <= len(data) else NO_GENERATION
    except (error, UnicodeDecodeError):
        return [], NO_GENERATION
    return owned, generation


def cooperative_user_data(generation: int) -> bytes:
    return _INT32.pack(generation)


def read_cooperative_user_data(data: bytes | None) -> int:
    return NO_GENERATION if data is None or len(data) < 4 else int(_INT32.unpack_from(data)[0])
