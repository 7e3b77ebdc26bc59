"""◇ The counts of a running load, and the lines that Kafka's performance tools print of them.

Latencies are whole milliseconds from handing a record over to its acknowledgement.

Source: ProducerPerformance.java, ConsumerPerformance.java, ShareConsumerPerformance.java of Kafka 4.3.
"""

from array import array
from collections.abc import Sequence
from datetime import datetime
from typing import Final

MIB: Final = 1024 * 1024
PERCENTILES: Final = (0.5, 0.95, 0.99, 0.999)
MAX_SAMPLES: Final = 500_000

DATE_LETTERS: Final = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
"""The letters of Java's SimpleDateFormat; Python has no letters for SSS, milliseconds."""


class SendFigures:
    """The figures of acknowledged records, since the start and since the last line.  Times are milliseconds of one clock."""

    def __init__(self, record_count: int, start_ms: float) -> None:
        self.count = 0
        self.bytes = 0
        self._start_ms = self._window_start_ms = start_ms
        self._sampling = max(1, record_count // min(max(record_count, 1), MAX_SAMPLES))
        self._samples = array("l")
        self._total_ms = 0
        self._max_ms = 0
        self._window_count = self._window_bytes = self._window_total_ms = self._window_max_ms = 0

    @property
    def samples(self) -> Sequence[int]:
        return self._samples

    def acknowledged(self, records: int, size: int, latency_ms: int) -> None:
        """Count `records` of one age; `size`: their bytes."""
        behind = -self.count % self._sampling
        self._samples.extend([latency_ms] * len(range(behind, records, self._sampling)))
        self.count += records
        self.bytes += size
        self._total_ms += latency_ms * records
        self._max_ms = max(self._max_ms, latency_ms)
        self._window_count += records
        self._window_bytes += size
        self._window_total_ms += latency_ms * records
        self._window_max_ms = max(self._window_max_ms, latency_ms)

    def window(self, now_ms: float) -> str:
        """Kafka's line about the records since its last line."""
        elapsed_ms = max(now_ms - self._window_start_ms, 1)
        count = self._window_count
        line = (
            f"{count} records sent, {1000.0 * count / elapsed_ms:.1f} records/sec "
            f"({1000.0 * self._window_bytes / elapsed_ms / MIB:.2f} MB/sec), "
            f"{self._window_total_ms / max(count, 1):.1f} ms avg latency, {self._window_max_ms:.1f} ms max latency."
        )
        self._window_start_ms = now_ms
        self._window_count = self._window_bytes = self._window_total_ms = self._window_max_ms = 0
        return line

    def total(self, now_ms: float, *, is_steady: bool = False) -> str:
        """Kafka's last line."""
        elapsed_ms = max(now_ms - self._start_ms, 1)
        p50, p95, p99, p999 = percentiles(self._samples)
        return (
            f"{self.count}{' steady state' if is_steady else ''} records sent, {1000.0 * self.count / elapsed_ms:f} records/sec "
            f"({1000.0 * self.bytes / elapsed_ms / MIB:.2f} MB/sec), {self._total_ms / max(self.count, 1):.2f} ms avg latency, "
            f"{self._max_ms:.2f} ms max latency, {p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th."
        )


def percentiles(samples: Sequence[int], wanted: Sequence[float] = PERCENTILES) -> list[int]:
    """Percentiles as Kafka takes them: the sample at that place, without interpolation; 0 without samples."""
    ordered = sorted(samples)
    return [ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0 for share in wanted]


CONSUMER_HEADER: Final = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
CONSUMER_DETAILS_HEADER: Final = (
    "time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
SHARE_HEADER: Final = "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"


class ReceiveFigures:
    """The figures of read records."""

    def __init__(self, start_ms: float) -> None:
        self.count = 0
        self.bytes = 0
        self.rebalance_ms = 0.0
        self.start_ms = start_ms
        self._reported = (start_ms, 0, 0)
        self._rebalance_reported_ms = 0.0

    def is_due(self, now_ms: float, interval_ms: int) -> bool:
        return now_ms - self._reported[0] >= interval_ms

    def details(self, now_ms: float, time: str) -> str:
        """Kafka's line of --show-detailed-stats."""
        since_ms, bytes_before, count_before = self._reported
        elapsed_ms = max(now_ms - since_ms, 1)
        size, count = self.bytes - bytes_before, self.count - count_before
        rebalance_ms = self.rebalance_ms - self._rebalance_reported_ms
        fetch_ms = elapsed_ms - rebalance_ms
        self._reported, self._rebalance_reported_ms = (now_ms, self.bytes, self.count), self.rebalance_ms
        return (
            f"{time}, 0, {self.bytes / MIB:.4f}, {1000 * size / MIB / elapsed_ms:.4f}, {self.count}, {1000 * count / elapsed_ms:.4f}, "
            f"{rebalance_ms:.0f}, {fetch_ms:.0f}, {_per_s(size / MIB, fetch_ms):.4f}, {_per_s(count, fetch_ms):.4f}"
        )

    def total(self, now_ms: float, begun: str, ended: str) -> str:
        elapsed_ms = max(now_ms - self.start_ms, 1)
        fetch_ms = elapsed_ms - self.rebalance_ms
        size = self.bytes / MIB
        return (
            f"{begun}, {ended}, {size:.4f}, {1000 * size / elapsed_ms:.4f}, {self.count}, {1000 * self.count / elapsed_ms:.4f}, "
            f"{self.rebalance_ms:.0f}, {fetch_ms:.0f}, {_per_s(size, fetch_ms):.4f}, {_per_s(self.count, fetch_ms):.4f}"
        )

    def share_total(self, now_ms: float, begun: str, ended: str) -> str:
        elapsed_ms = max(now_ms - self.start_ms, 1)
        size = self.bytes / MIB
        return (
            f"{begun}, {ended}, {size:.4f}, {1000 * size / elapsed_ms:.4f}, {1000 * self.count / elapsed_ms:.4f}, {self.count}, "
            f"{elapsed_ms:.0f}"
        )


def _per_s(amount: float, elapsed_ms: float) -> float:
    return 1000 * amount / elapsed_ms if elapsed_ms > 0 else 0.0


def shown_date(moment: datetime, pattern: str) -> str:
    """The date by a pattern of Java's SimpleDateFormat, as far as its letters for years to milliseconds go.  Errors: ValueError."""
    text, at = "", 0
    while at < len(pattern):
        letter = pattern[at]
        end = at
        while end < len(pattern) and pattern[end] == letter:
            end += 1
        run = pattern[at:end]
        if letter == "S":
            text += f"{moment.microsecond // 1000:0{len(run)}d}"
        elif run in DATE_LETTERS:
            text += moment.strftime(DATE_LETTERS[run])
        elif letter.isalpha():
            raise ValueError(f"{run!r} in a date format is not known here: {', '.join(DATE_LETTERS)} and SSS are")
        else:
            text += run
        at = end
    return text


BARS: Final = " ▁▂▃▄▅▆▇█"


def plot(samples: Sequence[float], *, width: int = 60) -> str:
    """A distribution as one line of bars, from the least to the greatest; a bar's height is the root of its share, so that tails show."""
    if not samples:
        return ""
    low, high = min(samples), max(samples)
    span = (high - low) or 1
    counts = [0] * width
    for sample in samples:
        counts[min(int((sample - low) / span * width), width - 1)] += 1
    most = max(counts)
    bars = "".join(BARS[0 if not count else max(1, round((count / most) ** 0.5 * (len(BARS) - 1)))] for count in counts)
    return f"{low:g} ms {bars} {high:g} ms"
