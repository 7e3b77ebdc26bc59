"""● Tells what a client of librdkafka waited for, from its own debug log.

For a transactional producer (`debug=eos,protocol,broker`) there is a command:

    python -m proof.cluster.processes --copier-debug eos,protocol,broker … 2> producers.log
    python -m proof.cluster.librdkafka_log producers.log

For every call that took long: its end, the requests that were sent meanwhile, those without an answer, and the commonest other lines.

`Waits` is the `logger` handler of a client that must say why it hangs (`debug=cgrp,protocol,broker`).
"""

import argparse
import logging
import re
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

LONG_S: Final = 10.0
COMMONEST: Final = 2
LAST_LINES: Final = 60
LINE: Final = re.compile(r"%\d\|(?P<at>[\d.]+)\|(?P<kind>\w+)\|(?P<client>\S+)\| (?P<text>.*)")
CALLED: Final = re.compile(r"Transactional API called: (\w+)")
RETURNED: Final = re.compile(r"Transactional API (\w+) return[^:]*:\d+: (.*)")
SENT: Final = re.compile(r": (\S+): Sent (\w+)Request .*CorrId (\d+)")
RECEIVED: Final = re.compile(r": (\S+): Received (\w+)Response .*CorrId (\d+)")
BROKEN: Final = re.compile(r"\bFAIL\b.*?\]: (\S+): ")


@dataclass
class Call:
    """One call of a producer."""

    client: str
    name: str
    began_s: float
    took_s: float = 0.0
    end: str = "it never returned"
    answered: Counter[str] = field(default_factory=Counter)
    unanswered: dict[tuple[str, str], str] = field(default_factory=dict)
    """(connection, correlation id) → request"""
    others: Counter[str] = field(default_factory=Counter)
    """The first words of the other lines."""

    def take(self, kind: str, text: str) -> None:
        if sent := SENT.search(text):
            self.unanswered[sent[1], sent[3]] = sent[2]
        elif received := RECEIVED.search(text):
            self.unanswered.pop((received[1], received[3]), None)
            self.answered[received[2]] += 1
        else:
            self.others[f"{kind} {text.partition(': ')[2].partition(':')[0]}"] += 1

    def __str__(self) -> str:
        others = ", ".join(f"{count} × {text}" for text, count in self.others.most_common(COMMONEST))
        unanswered = ", ".join(self.unanswered.values()) or "none"
        return (
            f"{self.client} {self.name}: {self.took_s:.1f} s, {self.end}; "
            f"{sum(self.answered.values())} requests answered, without an answer: {unanswered}; {others}"
        )


class Waits(logging.Handler):
    """Keeps the requests of a client that have no answer, and the last lines of its log."""

    def __init__(self) -> None:
        super().__init__()
        self.unanswered: Final[dict[tuple[str, str], str]] = {}
        """(connection, correlation id) → request.  A broken connection takes its requests along."""
        self._last: Final[deque[str]] = deque(maxlen=LAST_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self._last.append(f"{record.created:.3f} {text}")
        if sent := SENT.search(text):
            self.unanswered[sent[1], sent[3]] = sent[2]
        elif received := RECEIVED.search(text):
            self.unanswered.pop((received[1], received[3]), None)
        elif broken := BROKEN.search(text):
            for key in [key for key in self.unanswered if key[0] == broken[1]]:
                del self.unanswered[key]

    def __str__(self) -> str:
        unanswered = ", ".join(f"{request} of {connection}" for (connection, _), request in self.unanswered.items()) or "none"
        return f"without an answer: {unanswered}; the last lines of librdkafka's log:\n" + "\n".join(self._last)


def calls(lines: Iterable[str]) -> Iterator[Call]:
    """The calls of all producers in a log, in the order of their ends, and then those without an end."""
    open_calls: dict[str, Call] = {}
    for line in lines:
        if (found := LINE.match(line)) is None:
            continue
        client, text, at_s = found["client"], found["text"], float(found["at"])
        if called := CALLED.search(text):
            open_calls[client] = Call(client, called[1], at_s)
        elif client in open_calls:
            call = open_calls[client]
            call.took_s = at_s - call.began_s
            if returned := RETURNED.search(text):
                call.end = returned[2]
                yield open_calls.pop(client)
            else:
                call.take(found["kind"], text)
    yield from open_calls.values()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("--seconds", type=float, default=LONG_S, help="what counts as long")
    options = parser.parse_args(arguments)
    with options.log.open(encoding="utf-8", errors="replace") as lines:
        for call in calls(lines):
            if call.took_s >= options.seconds:
                sys.stdout.write(f"{call}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
