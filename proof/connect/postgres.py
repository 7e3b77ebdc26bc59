"""● PostgreSQL 15 beside us: one server on a folder of its own, killed and started again on the files that are left.

    with Postgres() as server, server.connect() as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY)")
        server.kill()

It listens on a port of the loopback address and on a socket in `directory`; the user is `postgres`, without a password.
"""

import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psycopg

from moldau.testing.child import HOST, ChildProcess, free_ports

BIN: Final = Path("/usr/lib/postgresql/15/bin")
USER: Final = "postgres"
IS_INSTALLED: Final = BIN.exists()
MISSING: Final = "PostgreSQL 15 is not installed: Debian's package is postgresql-15"


class Postgres(ChildProcess):
    """See the module.  `fsync`: whether commits wait for the disk; a killed process loses nothing either way."""

    name = "PostgreSQL"

    def __init__(self, *, fsync: bool = False) -> None:
        super().__init__()
        (self.port,) = free_ports(1)
        self._fsync = "on" if fsync else "off"

    def prepare(self) -> None:
        """Make the database on first use."""
        super().prepare()
        if not (self.directory / "data").exists():
            shutil.chown(self.directory, USER)
            self.directory.chmod(0o755)
            command = [*self._as_user(), str(BIN / "initdb"), "-D", str(self.directory / "data"), "-A", "trust", "-E", "UTF8"]
            subprocess.run(command, check=True, capture_output=True, cwd=self.directory)

    def _as_user(self) -> list[str]:
        return ["setpriv", f"--reuid={USER}", f"--regid={pwd.getpwnam(USER).pw_gid}", "--clear-groups", "--"]

    def command(self) -> Sequence[str]:
        options = {
            "listen_addresses": HOST, "port": self.port, "unix_socket_directories": self.directory, "wal_level": "logical",
            "fsync": self._fsync, "max_replication_slots": 50, "max_wal_senders": 20, "restart_after_crash": "off",
        }  # fmt: skip
        listed = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        return [*self._as_user(), str(BIN / "postgres"), "-D", str(self.directory / "data"), *listed]

    def is_ready(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def connect(self, database: str = USER) -> "psycopg.Connection[Any]":
        """A connection that commits each statement."""
        return psycopg.connect(host=HOST, port=self.port, user=USER, dbname=database, autocommit=True)

    @property
    def options(self) -> dict[str, str]:
        """The options by which a connector reaches the server."""
        return {"database.hostname": HOST, "database.port": str(self.port), "database.user": USER, "database.dbname": USER}

    def kill(self) -> None:
        """SIGQUIT, PostgreSQL's own word for an immediate end: no checkpoint is written, and its processes end with it."""
        self._end(signal.SIGQUIT)
