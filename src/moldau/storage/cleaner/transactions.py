"""◇ The open transactions while a log is read, and how each ended.  A compaction reads twice: for its map and for its copy."""

from moldau.protocol.records.batch import BatchHeader
from moldau.storage.index import AbortedTransaction
from moldau.storage.producers.replay import read_marker


class Transactions:
    """The transactions of one reading: those that are open, and the outcome of each."""

    def __init__(self, aborted: tuple[AbortedTransaction, ...]) -> None:
        self._coming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_records: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        if not header.is_transactional:
            return False
        self._advance(header.last_offset)
        self._with_records.add(header.producer_id)
        return header.producer_id in self._aborted

    def marker(self, header: BatchHeader, batch: memoryview) -> tuple[bool, AbortedTransaction | None]:
        """Whether no record of the marker's transaction was seen, and the transaction if it was an aborted one."""
        self._advance(header.last_offset)
        marker = read_marker(batch)
        if marker is None:
            return header.producer_id >= 0, None
        had_records = header.producer_id in self._with_records
        self._with_records.discard(header.producer_id)
        transaction = self._aborted.pop(header.producer_id, None) if marker.is_abort else None
        return not had_records, transaction

    def _advance(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            transaction = self._coming.pop()
            self._aborted.setdefault(transaction.producer_id, transaction)
