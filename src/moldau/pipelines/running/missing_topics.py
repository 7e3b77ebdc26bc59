"""● Makes a pipeline's topics before its queries start, and waits for a broker that is away."""

from collections.abc import Callable, Mapping
from threading import Event
from typing import Final

from moldau.pipelines.ends import Ends
from moldau.pipelines.running.keeper import pause_s
from moldau.pipelines.topics import create_topics

ASKED_FOR_S: Final = 10.0


def make_missing(ends: Ends, topics: Mapping[str, Mapping[str, str]], partitions: int, stopping: Event, say: Callable[[str], None]) -> None:
    """Errors: KafkaError, such as one of authorization; OptionError."""
    failures = 0
    while not stopping.is_set():
        try:
            create_topics(ends.bootstrap_servers, topics, partitions=partitions, security=ends.security, within_s=ASKED_FOR_S)
            return
        except OSError as error:
            failures += 1
            say(f"no broker answers at {ends.bootstrap_servers} ({error}); asking again in {pause_s(failures):.0f} s")
            stopping.wait(pause_s(failures))
