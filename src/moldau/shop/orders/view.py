"""● The state of each order, in a SQLite file that follows the topic of orders.  Deleting the file builds it anew.

Rows and the offsets that they come from are written in one transaction.  The record with the highest offset counts: all
records of an order are in one partition.  A tombstone deletes the row and its words in the search.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from moldau.shop.orders.rows import Change, Row, row_of
from moldau.shop.writer import Unavailable

SCHEMA: Final = """
create table if not exists orders (
    order_id text primary key, state text not null, customer_id text not null, store_id text not null, total_cents integer not null,
    reasons text not null, digest text not null, created_ms integer not null, changed_ms integer not null, body text not null,
    partition integer not null, "offset" integer not null) without rowid;
create table if not exists positions (partition integer primary key, "offset" integer not null);
create virtual table if not exists search using fts5 (order_id unindexed, words, tokenize = "unicode61 tokenchars '-_:'");
"""
MOST_FOUND: Final = 100


class Found(NamedTuple):
    state: str
    digest: str
    body: str


class View:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("pragma journal_mode = wal")
        # The view can be built anew from the topic, so power may fail.
        self._database.execute("pragma synchronous = off")
        self._database.executescript(SCHEMA)
        self._is_open = True

    @property
    def _opened(self) -> sqlite3.Connection:
        """Errors: Unavailable.  A request that began before the shop lost the brokers may look here after that."""
        if not self._is_open:
            raise Unavailable("the shop lost its connection to the brokers")
        return self._database

    def get(self, order_id: str) -> Found | None:
        found = self._opened.execute("select state, digest, body from orders where order_id = ?", (order_id,)).fetchone()
        return None if found is None else Found(*found)

    def search(self, query: str, most: int = MOST_FOUND) -> list[str]:
        """Bodies of orders that hold all these words, the newest first."""
        wanted = " ".join('"' + word.replace('"', '""') + '"' for word in query.split())
        if not wanted:
            return []
        rows = self._opened.execute(
            "select body from search join orders using (order_id) where search match ? order by created_ms desc limit ?", (wanted, most)
        )
        return [body for (body,) in rows]

    def newest(self, most: int) -> list[Change]:
        """The newest changes, in the order of time."""
        query = "select body, changed_ms, created_ms from orders order by changed_ms desc limit ?"
        rows = self._opened.execute(query, (most,)).fetchall()
        found = [(row_of(body.encode(), changed_ms), created_ms) for body, changed_ms, created_ms in reversed(rows)]
        return [Change(row.order_id, None, row, created_ms) for row, created_ms in found if row is not None]

    def counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Orders by state, and failed ones by each of their reasons."""
        states = dict(self._opened.execute("select state, count(*) from orders group by state"))
        reasons: dict[str, int] = {}
        for found, count in self._opened.execute("select reasons, count(*) from orders where reasons != '' group by reasons"):
            for reason in found.split(" "):
                reasons[reason] = reasons.get(reason, 0) + count
        return states, reasons

    def positions(self) -> dict[int, int]:
        return dict(self._opened.execute('select partition, "offset" from positions'))

    def clear(self) -> None:
        """Delete everything, because the topic was made anew."""
        self._opened.executescript("delete from orders; delete from search; delete from positions;")

    def apply(self, rows: Iterable[tuple[str, Row | None, int, int]], positions: Mapping[int, int]) -> list[Change]:
        """`rows`: order id, the row or None for a tombstone, partition and offset; `positions`: the next offset of each partition."""
        changes = []
        self._opened.execute("begin")
        try:
            for order_id, row, partition, offset in rows:
                change = self._one(order_id, row, partition, offset)
                if change is not None:
                    changes.append(change)
            for partition, offset in positions.items():
                self._opened.execute("insert or replace into positions values (?, ?)", (partition, offset))
            self._opened.execute("commit")
        except BaseException:
            self._opened.execute("rollback")
            raise
        return changes

    def _one(self, order_id: str, row: Row | None, partition: int, offset: int) -> Change | None:
        found: Sequence[int | str] | None = self._opened.execute(
            'select state, created_ms, partition, "offset", reasons from orders where order_id = ?', (order_id,)
        ).fetchone()
        if found is not None and found[2] == partition and int(found[3]) >= offset:
            return None
        before, created_ms = (None, None) if found is None else (str(found[0]), int(found[1]))
        reasons_before = () if found is None else tuple(str(found[4]).split())
        if before is not None and row is not None and not row.is_final:
            return None  # the first of several orders with one id counts: the checks dead-letter the others
        self._opened.execute("delete from search where rowid = ?", (_number(order_id),))
        if row is None:
            self._opened.execute("delete from orders where order_id = ?", (order_id,))
            return None if found is None else Change(order_id, before, None, created_ms or 0, reasons_before)
        created_ms = row.changed_ms if created_ms is None else created_ms
        self._opened.execute(
            "insert or replace into orders values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(order_id, row.state, row.customer_id, row.store_id, row.total_cents, " ".join(row.reasons), row.digest),
                *(created_ms, row.changed_ms, row.body, partition, offset),
            ),
        )
        self._opened.execute("insert into search (rowid, order_id, words) values (?, ?, ?)", (_number(order_id), order_id, row.words))
        return Change(order_id, before, row, created_ms, reasons_before)

    def close(self) -> None:
        self._database.close()
        self._is_open = False


def _number(order_id: str) -> int:
    """The row of the search table that belongs to an order."""
    return int.from_bytes(hashlib.blake2b(order_id.encode(), digest_size=8).digest(), "big", signed=True)
