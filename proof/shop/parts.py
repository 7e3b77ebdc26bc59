"""● The shop's parts as processes of their own, and the mail server that gets their mails."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from email.parser import BytesHeaderParser
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Final, Self

from aiosmtpd.controller import Controller

from moldau.pipelines.session import this_tree_first
from moldau.testing.child import HOST, ChildProcess, free_ports

READY: Final = ("The shop is open", "The shop works")


class Part(ChildProcess):
    """A process `moldau shop` with these arguments.  A kill is a SIGKILL."""

    name = "the shop"

    def __init__(self, directory: Path, *arguments: str) -> None:
        super().__init__(directory)
        self.arguments = arguments

    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "moldau.tools.cli.main", "shop", "--dir", str(self.directory), *self.arguments]

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "PYTHONPATH": this_tree_first(), "PYTHONUNBUFFERED": "1"}

    def is_ready(self) -> bool:
        return any(words in self.said for words in READY)


class Web(Part):
    """The part that answers HTTP.  It keeps its port."""

    def __init__(self, directory: Path, bootstrap: str, *arguments: str) -> None:
        self.port = free_ports(1)[0]
        super().__init__(directory, "--only", "web", "--bootstrap-server", bootstrap, "--port", str(self.port), *arguments)

    def wipe(self) -> None:
        """Kill the part, delete its view, and start it again."""
        self.kill()
        for path in self.directory.glob("orders.db*"):
            path.unlink()
        self.start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


class Pipeline(Part):
    """A process `moldau pipelines run order-validation`."""

    name = "the pipeline"
    has_own_session = True

    def __init__(self, directory: Path, bootstrap: str, partitions: int, master: str = "local[2]") -> None:
        super().__init__(directory)
        self._master = master
        self._settings = (
            f'bootstrap_servers = "{bootstrap}"\ncheckpoint = "{directory}/checkpoint"\npartitions = {partitions}\n'
            "[rules]\ndeadline_s = 86400\nstraggler_s = 86400\n[spark]\n"
            '"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"\n'
        )

    def prepare(self) -> None:
        super().prepare()
        (self.directory / "settings.toml").write_text(self._settings, encoding="utf-8")

    def command(self) -> Sequence[str]:
        run = ["pipelines", "run", "order-validation", "--config", str(self.directory / "settings.toml"), "--master", self._master]
        return [sys.executable, "-m", "moldau.tools.cli.main", *run]

    def is_ready(self) -> bool:
        return "order-validation: validation on" in self.said


class MailServer:
    """A mail server that takes every mail and counts Message-IDs.  It calls `before_answer` between taking a mail and the answer."""

    def __init__(self, before_answer: Callable[[str], None] = lambda _: None) -> None:
        self.seen: Counter[str] = Counter()
        self.texts: dict[str, set[bytes]] = {}
        self._before_answer = before_answer
        self._lock = Lock()
        self._controller = Controller(self, hostname=HOST, port=free_ports(1)[0])

    @property
    def address(self) -> str:
        return f"{HOST}:{self._controller.port}"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        message_id = str(BytesHeaderParser().parsebytes(envelope.content)["Message-ID"]).strip("<>")
        with self._lock:
            self.seen[message_id] += 1
            self.texts.setdefault(message_id, set()).add(bytes(envelope.content))
        self._before_answer(message_id)
        return "250 OK"

    @property
    def repeated(self) -> int:
        """The number of mails that came again."""
        return self.seen.total() - len(self.seen)

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._controller.stop()
