"""◇ A table joined with another one by a key that its rows name (KIP-213).

    left row changes ──► Subscribe ──(by foreign key)──► Subscriptions ◄── right row changes
                              │                               │
                              └──(by own key)──► Answers ◄────┘ (by left key)

Records change their partition twice, so this is three stages.  An answer carries the left row as it was when the row asked: if the row
has changed since, the answer is dropped, and another one follows.  The last stage keeps a copy of the left table, since in Spark no later
stage can look into an earlier one's state.

Source: SubscriptionSendProcessorSupplier, SubscriptionReceiveProcessorSupplier, SubscriptionJoinProcessorSupplier,
ForeignTableJoinProcessorSupplier, ResponseJoinProcessorSupplier in 4.3.1.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from moldau.pipelines.streams.records import NULL_KEY, OUT_OF_ORDER, STALE_RESPONSE, Change, Dropped, Joiner, Record
from moldau.pipelines.streams.state import Stores, pack
from moldau.pipelines.streams.topology import Node

# Kafka's instructions: they tell the right side what to do with a subscription.
DELETE_KEY_NO_PROPAGATE: Final = 0
DELETE_KEY_AND_PROPAGATE: Final = 1
PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE: Final = 2
PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE: Final = 3


class Subscribe(Node):
    """Tells a change of a left row to the partitions of its foreign keys: `[left key, instruction, the row packed]`."""

    is_stateful = False

    def __init__(self, name: str, extractor: Callable[[Any, Any], Any], *, is_left: bool) -> None:
        super().__init__(name)
        self.extractor = extractor
        self.is_left = is_left

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        change: Change = record.value
        if not change.is_latest:
            yield Dropped(record._replace(value=change.new), OUT_OF_ORDER)
            return
        old, new = (None if value is None else self.extractor(record.key, value) for value in (change.old, change.new))
        row = None if change.new is None else pack(change.new)
        if self.is_left:
            if change.new is None and change.old is None:
                return
            if old is not None and pack(old) != pack(new):
                yield self._to(record, old, DELETE_KEY_NO_PROPAGATE, row)
            yield self._to(record, new, PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE, row)
        elif new is None:
            if change.new is not None:
                yield Dropped(record._replace(value=change.new), NULL_KEY)
            if old is not None:
                yield self._to(record, old, DELETE_KEY_AND_PROPAGATE, row)
        elif old is not None and pack(old) != pack(new):
            yield self._to(record, old, DELETE_KEY_NO_PROPAGATE, row)
            yield self._to(record, new, PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE, row)
        else:
            yield self._to(record, new, PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE, row)

    @staticmethod
    def _to(record: Record, foreign_key: Any, instruction: int, row: str | None) -> Record:
        return record._replace(key=foreign_key, value=[record.key, instruction, row])


class Subscriptions(Node):
    """Ports: 0 subscriptions, 1 changes of the right table.  Out: answers `[the left row packed, the right row]` by left key.

    The store: `[left key, the left row packed]` of all left rows that subscribe to a foreign key, in the order of their packed keys.
    """

    def __init__(self, name: str, right: Node) -> None:
        super().__init__(name)
        self.tables = (right,)

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        store = stores.store(self.name)
        if port == 1:
            if not record.value.is_latest:
                yield Dropped(record._replace(value=record.value.new), OUT_OF_ORDER)
                return
            for left_key, row in store.get(record.key, []):
                yield record._replace(key=left_key, value=[row, record.value.new])
            return
        left_key, instruction, row = record.value
        right = None
        if record.key is not None:
            subscribed = [one for one in store.get(record.key, []) if pack(one[0]) != pack(left_key)]
            if instruction in {PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE, PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE}:
                subscribed = sorted([*subscribed, [left_key, row]], key=lambda one: pack(one[0]))
            store.put(record.key, subscribed or None)
            right = self.tables[0].lookup(record.key, stores)
        if instruction == DELETE_KEY_NO_PROPAGATE or (instruction == PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE and right is None):
            return
        timestamp = record.timestamp if right is None else max(record.timestamp, right[1])
        value = None if right is None or instruction == DELETE_KEY_AND_PROPAGATE else right[0]
        yield record._replace(key=left_key, value=[row, value], timestamp=timestamp)


class Answers(Node):
    """Ports: 0 changes of the left table, which are only kept, 1 answers.  Out: rows of the result, None where there is none."""

    def __init__(self, name: str, joiner: Joiner, *, is_left: bool) -> None:
        super().__init__(name)
        self.joiner = joiner
        self.is_left = is_left

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        store = stores.store(self.name)
        if port == 0:
            if not record.value.is_latest:
                return
            store.put(record.key, record.value.new)
            return
        row, right = record.value
        left = store.get(record.key)
        if row != (None if left is None else pack(left)):
            yield Dropped(record._replace(value=right), STALE_RESPONSE)
            return
        has_row = left is not None and (right is not None or self.is_left)
        yield record._replace(value=self.joiner(left, right) if has_row else None)
