"""● The brokers that clients are told of: those that are not fenced, and for a while those whose process has just died.

    fenced after a clean stop               listed no more, as in Kafka
    fenced, and its port refuses            its process died: listed on until Kafka would have noticed, one session later
    fenced, and its port does anything else it is silent, as a paused process or an unplugged machine: listed no more
    registered anew                         its process was started again: listed on while it starts

Here a dead broker is fenced within milliseconds, in Kafka after its session.  librdkafka (2.10 to 2.16) takes a broker that is missing in
the metadata for gone for good: partitions that it has just moved to their new leader lose this leader again and wait for another second,
and calls to a coordinator may wait for minutes (its issue 5511).  A broker that is silent must go: only then librdkafka gives up the
requests that it waits for.

Called by `handlers/metadata.py`; made by `node/broker_server.py`.
"""

import asyncio
from typing import Final

from moldau.background import in_background
from moldau.clock import Clock
from moldau.metadata.image import BrokerRegistration, MetadataImage
from moldau.net.transport import Network
from moldau.server.peers.port import Answer, knock


class ListedBrokers:
    """See the module.  `close` at the end."""

    def __init__(self, *, local_id: int, network: Network, clock: Clock, listener_name: str, linger_ms: int) -> None:
        """`listener_name`: the listener between brokers; `linger_ms`: how long a dead broker is listed."""
        self._local_id: Final = local_id
        self._network: Final = network
        self._clock: Final = clock
        self._listener_name: Final = listener_name
        self._linger_ms: Final = linger_ms
        self._before: dict[int, BrokerRegistration] = {}
        self._until_ms: Final[dict[int, int]] = {}
        self._probes: Final[dict[asyncio.Task[None], None]] = {}

    def of(self, image: MetadataImage) -> list[BrokerRegistration]:
        now_ms = self._clock.monotonic_ms()
        return [one for one in image.brokers.values() if not one.fenced or self._until_ms.get(one.id, now_ms) > now_ms]

    def brokers_changed(self, image: MetadataImage) -> None:
        """Take the brokers of an image.  Of the first image nobody lingers: nobody knows since when its brokers are fenced."""
        for one in image.brokers.values():
            before = self._before.get(one.id)
            if not one.fenced:
                self._until_ms.pop(one.id, None)
            elif before is not None and before.is_active and one.id != self._local_id:
                self._until_ms[one.id] = self._clock.monotonic_ms() + self._linger_ms
                if one.epoch == before.epoch:
                    task = in_background(self._probe(one), name=f"is broker {one.id} dead or silent")
                    self._probes[task] = None
                    task.add_done_callback(self._probes.pop)
        self._before = dict(image.brokers)

    async def _probe(self, broker: BrokerRegistration) -> None:
        endpoint = broker.endpoint(self._listener_name)
        if endpoint is None or await knock(self._network, endpoint.host, endpoint.port) is not Answer.REFUSED:
            now = self._before.get(broker.id)
            if now is not None and now.epoch == broker.epoch:
                self._until_ms.pop(broker.id, None)

    def close(self) -> None:
        for task in self._probes:
            task.cancel()
