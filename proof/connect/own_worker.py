"""● A worker of ours as a process, started as a user starts it: `moldau connect worker.properties`, `moldau connect-standalone`."""

from collections.abc import Mapping, Sequence

from moldau.testing.process import BrokerProcess, tied_command
from proof.connect.worker import Worker


class WorkerProcess(Worker):
    name = "the worker"
    health = "/health"

    def environment(self) -> Mapping[str, str]:
        return BrokerProcess.environment(self)  # type: ignore[arg-type]

    def prepare(self) -> None:
        super().prepare()
        lines = "".join(f"{key}={value}\n" for key, value in self.properties.items())
        (self.directory / "worker.properties").write_text(lines, encoding="utf-8")

    def command(self) -> Sequence[str]:
        return tied_command("connect-standalone" if self.is_alone else "connect", *self.files())
