"""● A Moldau broker as a process of its own: started as a user starts it, killed like a machine, restarted on the files that are left.

    with BrokerProcess(properties={"num.partitions": "3"}) as broker:
        client = Producer({"bootstrap.servers": broker.bootstrap})
        broker.kill()                     # SIGKILL
        broker.start()                    # the same folder, the same ports

Waiting ends with the broker's own answer, never with a fixed time.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import moldau
from moldau.net.correlation import Correlation
from moldau.net.framing import Framing, ReceiveBuffers
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.protocol.wire import AnyResponse, Request
from moldau.testing.calls import Calls
from moldau.testing.child import CLUSTER_ID, BrokerFailed, NodeProcess

FORMAT_WITHIN_S: Final = 120.0
ANSWER_WITHIN_S: Final = 60.0


class BrokerProcess(NodeProcess, Calls):
    """One combined broker and controller, `moldau serve`."""

    name = "the broker"

    @property
    def bootstrap_servers(self) -> str:
        """The same as `bootstrap`."""
        return self.bootstrap

    def environment(self) -> Mapping[str, str]:
        """The environment in which the process runs the code of this very tree."""
        source = str(Path(moldau.__file__).parents[1])
        inherited = os.environ.get("PYTHONPATH")
        return {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{inherited}" if inherited else source, "PYTHONUNBUFFERED": "1"}

    def format_folder(self) -> None:
        """Format the folder.  Errors: BrokerFailed."""
        command = moldau_command("storage", "format", "-t", CLUSTER_ID, "-c", str(self.properties_file), "--standalone")
        done = subprocess.run(command, env=self.environment(), capture_output=True, timeout=FORMAT_WITHIN_S, check=False)
        if done.returncode != 0:
            raise BrokerFailed(f"formatting ended with {done.returncode}\n{(done.stdout + done.stderr).decode(errors='replace')}")

    def command(self) -> Sequence[str]:
        return tied_command("serve", str(self.properties_file))

    def is_ready(self) -> bool:
        """Whether the broker lists itself to clients."""
        try:
            brokers = self.ask(MetadataRequest(topics=[]), version=1).brokers
        except OSError:
            return False
        return any(broker.port == self.port for broker in brokers)

    def ask(self, request: Request[AnyResponse], *, version: int) -> AnyResponse:
        """Send one request on a connection of its own, blocking.  Errors: OSError."""
        correlation = Correlation("moldau-testing")
        framing = Framing(1 << 30, ReceiveBuffers())
        _, parts = correlation.request(request, version)
        with socket.create_connection((self.host, self.port), timeout=ANSWER_WITHIN_S) as connection:
            connection.sendall(b"".join(cast(list[bytes], parts)))
            while True:
                count = connection.recv_into(framing.get_buffer())
                if not count:
                    raise ConnectionError("the broker closed the connection")
                for frame in framing.received(count):
                    return cast(AnyResponse, correlation.response(frame)[1])

    def metadata(self, *topics: str) -> MetadataResponse:
        """The broker's metadata of these topics; of all topics without names."""
        return self.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics] or None), version=1)


def moldau_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "moldau.tools.cli.main", *arguments]


def tied_command(*arguments: str) -> list[str]:
    """The same for a `ChildProcess`, which shall not outlive the test."""
    return [sys.executable, "-m", "moldau.tools.cli.tied", *arguments]
