"""● Java's console producer, fed as far as the run has come: its default partitioner places the records by their keys."""

import asyncio
import os
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from typing import Final

from proof.kafka.apache import TOOL_FLAGS, Tool, java_command

# The console producer gives a record up after three tries within 1.5 seconds each; an application's producer does not.
PATIENT: Final = ("--request-timeout-ms", "30000", "--message-send-max-retries", "2147483647", "--max-block-ms", "180000")
KEYED: Final = ("--property", "parse.key=true")


class JavaProducer:
    """Sends lines of a key, a tab and a value."""

    def __init__(self, bootstrap: str, topic: str, lines: Sequence[str]) -> None:
        self._arguments = ("--bootstrap-server", bootstrap, "--topic", topic, *PATIENT, *KEYED)
        self._lines = lines
        self._share = 0.0
        self._told = asyncio.Event()

    def reached(self, share: float) -> None:
        """The run has come so far: as large a part of the lines is sent."""
        self._share = share
        self._told.set()

    async def run(self) -> None:
        """Send all lines.  Errors: AssertionError with Java's words."""
        command = java_command(Tool.CONSOLE_PRODUCER, *self._arguments, flags=TOOL_FLAGS)
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=os.environ)
        reading = asyncio.gather(*(stream.read() for stream in (process.stdout, process.stderr) if stream))
        assert process.stdin is not None
        try:
            sent = 0
            while sent < len(self._lines):
                upto = min(len(self._lines), int(self._share * len(self._lines)) + 1)
                if upto <= sent:
                    self._told.clear()
                    await self._told.wait()
                    continue
                process.stdin.write("".join(f"{line}\n" for line in self._lines[sent:upto]).encode())
                await process.stdin.drain()
                sent = upto
            process.stdin.close()
            said = b"\n".join(await reading).decode(errors="replace")
            assert await process.wait() == 0 and "ERROR" not in said, said
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
