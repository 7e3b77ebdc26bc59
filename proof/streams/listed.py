"""◇ The one difference from Kafka Streams that random inputs meet, and docs/reference/streams.md lists.

A tombstone with exactly the time of the newest version of a row leaves no trace in Kafka's RocksDBVersionedStore if there was no row before
that version: the row is deleted from the store of newest values, and no segment knows when it ended.  An older record that comes later is
then the newest one.  Here the tombstone is a version.
"""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from moldau.pipelines.streams.records import Dropped, Record
from moldau.pipelines.streams.state import Stores
from moldau.pipelines.streams.versioned import VersionedTableSource
from proof.streams.cases import Case
from proof.streams.comparison import differences

_process = VersionedTableSource.process


def is_listed(case: Case, answer: dict[str, Any]) -> bool:
    """Whether our operators give Kafka's answer as soon as their versioned tables forget such tombstones."""
    if not case.options["operator"].startswith("versioned"):
        return False
    with patch.object(VersionedTableSource, "process", _forgetful):
        return not differences(case, answer)


def _forgetful(self: VersionedTableSource, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
    store = stores.store(self.name)
    known = [] if record.key is None else store.get(record.key, [])
    for out in _process(self, record, port, stores):
        is_at_newest = bool(known) and known[-1][0] == record.timestamp
        if not isinstance(out, Dropped) and record.value is None and is_at_newest and (len(known) == 1 or known[-2][1] is None):
            store.put(record.key, known[:-1] or None)
        yield out
