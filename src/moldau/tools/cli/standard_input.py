"""● Lines of standard input without blocking the loop: a thread reads, a queue with a limit hands over."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from typing import Final

AHEAD: Final = 64
CHUNK_BYTES: Final = 256 * 1024


async def lines_of_standard_input(prompt: str = "") -> AsyncIterator[bytes]:
    """Each line of standard input without its end.  `prompt`: shown on stderr before each line, for somebody who types."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[list[bytes] | None] = asyncio.Queue()
    room = threading.Semaphore(AHEAD)

    def read() -> None:
        source = sys.stdin.buffer
        try:
            while True:
                if prompt:
                    print(prompt, end="", flush=True, file=sys.stderr)
                lines = [source.readline()] if prompt else source.readlines(CHUNK_BYTES)
                if not lines or not lines[0]:
                    break
                room.acquire()
                loop.call_soon_threadsafe(chunks.put_nowait, lines)
        finally:
            loop.call_soon_threadsafe(chunks.put_nowait, None)

    # A daemon, because the thread may wait for a terminal for ever, and that must not keep the process alive.
    threading.Thread(target=read, name="standard input", daemon=True).start()
    while (lines := await chunks.get()) is not None:
        room.release()
        for line in lines:
            yield line.rstrip(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line
