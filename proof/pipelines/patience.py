"""● The pauses of a driver after failures: those of `moldau pipelines run`, in a tenth of the time.

Two drivers without a pause fence each other for ever: each begins anew, and takes the other's epoch, before the other has committed.
"""

import time

from moldau.pipelines.running.keeper import pause_s


class Patience:
    """Pauses after failures in a row."""

    def __init__(self) -> None:
        self.failures = 0

    def worked(self) -> None:
        self.failures = 0

    def wait(self) -> None:
        self.failures += 1
        time.sleep(pause_s(self.failures) / 10)
