"""◇ A table joined with another one by a key that its rows name (KIP-213).

    left row changes ──► Subscribe ──(by foreign key)──► Subscriptions ◄── right row changes
                              │                               │
                              └──(by own key)──► Answers ◄────┘ (by left key)

Records change their partition twice, so this is three stages.  An answer carries the left row as it was when the row asked: if the row
has changed since, the answer is dropped, and another one follows.  The last stage keeps a copy of the left table, since in Spark no later
stage can look into an earlier one's state.

A micro-batch brings all its left rows before the first answer, so most answers to a row that changes twice are dropped.  Kafka's inner
join tells nothing of a row that finds no other row: where the dropped answer would have taken the result away, the old result would stay.
So such rows are answered here, too, quietly: `Answers` takes the result away if it has dropped an answer before, or drops one later.

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


QUIETLY: Final = "quietly"
OWED: Final = "owed"
"""An answer to an earlier row was dropped, and the result may be that row's predecessor's."""
NOTHING: Final = "nothing"
"""The row finds no other row, and the result was not taken away for it."""


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
    """Ports: 0 subscriptions, 1 changes of the right table.  Out: answers `[left row packed, right row]` by left key, with `QUIETLY`
    behind where Kafka gives none.

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
        if instruction == DELETE_KEY_NO_PROPAGATE:
            return
        if instruction == PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE and right is None:
            yield record._replace(key=left_key, value=[row, None, QUIETLY])
            return
        timestamp = record.timestamp if right is None else max(record.timestamp, right[1])
        value = None if right is None or instruction == DELETE_KEY_AND_PROPAGATE else right[0]
        yield record._replace(key=left_key, value=[row, value], timestamp=timestamp)


class Answers(Node):
    """Ports: 0 changes of the left table, which are only kept, 1 answers.  Out: rows of the result, None where there is none.

    The stores: the left rows, and `OWED` or `NOTHING` by left key.
    """

    def __init__(self, name: str, extractor: Callable[[Any, Any], Any], joiner: Joiner, *, is_left: bool) -> None:
        super().__init__(name)
        self.extractor = extractor
        self.joiner = joiner
        self.is_left = is_left

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        rows, marks = stores.store(self.name), stores.store(f"{self.name}-marks")
        if port == 0:
            change: Change = record.value
            if change.is_latest:
                rows.put(record.key, change.new)
                if self._names_a_row(record.key, change.new):
                    if marks.get(record.key) == NOTHING:
                        marks.put(record.key, None)
                elif self._names_a_row(record.key, change.old):  # its answer is on the way, and takes the mark away
                    marks.put(record.key, NOTHING)
            return
        row, right, *quietly = record.value
        left, mark = rows.get(record.key), marks.get(record.key)
        is_stale = row != (None if left is None else pack(left))
        if is_stale and mark != NOTHING:
            if self._names_a_row(record.key, left):  # of any other row the result is away, or about to go
                marks.put(record.key, OWED)
            yield Dropped(record._replace(value=right), STALE_RESPONSE)
            return
        if quietly and not is_stale and mark != OWED:
            marks.put(record.key, NOTHING)
            return
        marks.put(record.key, None)
        has_row = not is_stale and left is not None and (right is not None or self.is_left)
        yield record._replace(value=self.joiner(left, right) if has_row else None)

    def _names_a_row(self, key: Any, left: Any) -> bool:
        """Whether a left row is answered."""
        return self.is_left or (left is not None and self.extractor(key, left) is not None)
