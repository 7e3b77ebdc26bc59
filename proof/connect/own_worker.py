"""● A worker of ours as a process, started as a user starts it: `moldau connect worker.properties`."""

import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from moldau.testing.child import HOST, ChildProcess, free_ports
from moldau.testing.process import BrokerProcess, moldau_command
from proof.connect.java_worker import worker_properties


class WorkerProcess(ChildProcess):
    name = "the worker"

    def __init__(self, bootstrap: str, *, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="moldau-connect-")))
        (self.port,) = free_ports(1)
        self.properties = worker_properties(bootstrap, self.port, properties or {})

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def environment(self) -> Mapping[str, str]:
        return BrokerProcess.environment(self)  # type: ignore[arg-type]

    def prepare(self) -> None:
        super().prepare()
        lines = "".join(f"{key}={value}\n" for key, value in self.properties.items())
        (self.directory / "worker.properties").write_text(lines, encoding="utf-8")

    def command(self) -> Sequence[str]:
        return moldau_command("connect", str(self.directory / "worker.properties"))

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
