"""● A client's metadata of the topics that it uses.  It is refreshed when a topic is missing, a leader has moved, or the metadata is old.

    topics = Topics(cluster, max_age_ms=300_000, backoff_ms=100, on_change=…)
    topics.use("orders")                # from now on; `on_change` is called after every answer
    topics.refresh_soon()               # something has moved: at most one request is on its way, and they come `backoff_ms` apart

Called by the producer, the consumer and the share consumer.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from moldau.clients.cluster import Cluster, Unreachable
from moldau.errors import KafkaError

LOG: Final = logging.getLogger(__name__)


class Topics:
    """See the module."""

    def __init__(
        self, cluster: Cluster, *, max_age_ms: int, backoff_ms: int, on_change: Callable[[], None], creates_topics: bool = False
    ) -> None:
        self.answer_count = 0
        self.failure: KafkaError | OSError | Unreachable | None = None
        """The error of the last request; None: it had none."""
        self._cluster = cluster
        self._max_age_s = max_age_ms / 1000
        self._backoff_s = backoff_ms / 1000
        self._on_change = on_change
        self._creates_topics = creates_topics
        self._used: dict[str, None] = {}
        self._wants_all = False
        self._is_asked = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def used(self) -> list[str]:
        return list(self._used)

    def use(self, topic: str) -> None:
        """Errors: TypeError, UnicodeError for what cannot be a name; in a request it would hide the other topics, too."""
        if topic not in self._used:
            if not isinstance(topic, str):
                raise TypeError(f"a topic's name cannot be {type(topic).__name__}: give str")
            topic.encode()
            self._used[topic] = None
            self.refresh_soon()

    def use_all(self, is_wanted: bool = True) -> None:
        """Keep the metadata of every topic of the cluster, as a pattern needs it."""
        self._wants_all = is_wanted
        if is_wanted:
            self.refresh_soon()

    def refresh_soon(self) -> None:
        self._is_asked = True
        if self._task is None and not self._is_closed:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="metadata")

    async def _run(self) -> None:
        try:
            while self._is_asked:
                self._is_asked = False
                await self._ask()
                self._on_change()
                await asyncio.sleep(self._backoff_s)
        finally:
            self._task = None
            if self._is_asked:
                self.refresh_soon()

    async def _ask(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        try:
            await self._cluster.refresh(None if self._wants_all else self.used, allow_auto_topic_creation=self._creates_topics)
            if self.failure is not None:
                LOG.info("the cluster answers again")
            self.failure = None
            self.answer_count += 1
        except (OSError, Unreachable) as error:
            # Once for each outage: a program that waits in silence looks as if it hung.
            LOG.log(logging.INFO if self.failure else logging.WARNING, "the cluster cannot be reached, and is tried again: %s", error)
            self.failure = error
        except KafkaError as error:
            LOG.info("the metadata request failed: %s", error)
            self.failure = error
        self._timer = asyncio.get_running_loop().call_later(self._max_age_s, self.refresh_soon)

    def abort(self) -> None:
        """Ask nothing more."""
        self._is_closed = True
        self._is_asked = False
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        task = self._task
        self.abort()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)
