"""● The signals that stop a program of ours cleanly: SIGTERM, Ctrl-C, and the end of its terminal, as a Java machine does.

Called by `process.py` and by `moldau up --brokers`.
"""

import asyncio
import signal
from collections.abc import Callable
from typing import Final

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def on_stop_signals(stop: Callable[[], object]) -> None:
    """Call `stop` in the running loop at each of the signals.  A hang-up that was ignored stays so: nohup(1) started the program."""
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop)
