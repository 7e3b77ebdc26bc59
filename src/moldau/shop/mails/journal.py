"""● The letters that the mail server has taken, in a SQLite file: written right after its answer, in the thread that heard it.

The topic of mails says the same, a transaction later.  The file closes the time between the two against a kill of the process; when it is
lost, the topic builds it anew.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Final

SCHEMA: Final = """
create table if not exists letters (message_id text primary key, outcome text not null) without rowid;
create table if not exists positions (partition integer primary key, "offset" integer not null);
"""


class Journal:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.execute("pragma journal_mode = wal")
        # Written rows outlive the process; after a power cut the topic has all but the last transaction.
        self._database.execute("pragma synchronous = off")
        self._database.executescript(SCHEMA)
        self._lock = Lock()

    def outcome(self, message_id: str) -> str | None:
        with self._lock:
            found = self._database.execute("select outcome from letters where message_id = ?", (message_id,)).fetchone()
        return None if found is None else str(found[0])

    def note(self, message_id: str, outcome: str) -> None:
        with self._lock:
            self._database.execute("insert or replace into letters values (?, ?)", (message_id, outcome))

    def positions(self) -> dict[int, int]:
        """The positions in the topic of mails, up to which it was taken over."""
        with self._lock:
            return dict(self._database.execute('select partition, "offset" from positions'))

    def take_over(self, letters: Iterable[tuple[str, str]], positions: Mapping[int, int]) -> None:
        with self._lock:
            self._database.execute("begin")
            self._database.executemany("insert or ignore into letters values (?, ?)", letters)
            self._database.executemany("insert or replace into positions values (?, ?)", positions.items())
            self._database.execute("commit")

    def clear(self) -> None:
        with self._lock:
            self._database.executescript("delete from letters; delete from positions;")

    def close(self) -> None:
        with self._lock:
            self._database.close()
