"""◇ Finds the batches of a fetch that belong to aborted transactions: a consumer with read_committed passes over them.

Source: CompletedFetch.consumeAbortedTransactionsUpTo, KIP-98.  Called by `records` and `fetched`.
"""

from collections.abc import Sequence

from moldau.protocol.messages.fetch import AbortedTransaction
from moldau.protocol.records.batch import BatchHeader, records_of
from moldau.protocol.records.control import ControlType, parse_control_key


class Aborted:
    """The producers whose transaction is open at the batch being read and will turn out aborted."""

    def __init__(self, transactions: Sequence[AbortedTransaction]) -> None:
        self._coming = sorted(transactions, key=lambda one: one.first_offset, reverse=True)
        self._producers: set[int] = set()

    def covers(self, header: BatchHeader, batch: memoryview) -> bool:
        if not header.is_transactional:
            return False
        while self._coming and self._coming[-1].first_offset <= header.last_offset:
            self._producers.add(self._coming.pop().producer_id)
        if header.is_control:
            first = next(records_of(batch), None)
            if first is not None and parse_control_key(first.key).type is ControlType.ABORT:
                self._producers.discard(header.producer_id)
            return True
        return header.producer_id in self._producers
