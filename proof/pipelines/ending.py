"""● Lets SIGTERM end a proof in order, so that its brokers and drivers end with it."""

import signal
import sys


def end_on_sigterm() -> None:
    """From now on SIGTERM raises SystemExit in the main thread."""
    signal.signal(signal.SIGTERM, _end)


def _end(*_: object) -> None:
    # `timeout` sends its signal twice, and the second one would interrupt the cleaning up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit("ended by SIGTERM")
