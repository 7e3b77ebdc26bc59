"""● Tells the active controller of brokers that are certainly dead, before their sessions end.

    the connection of a broker's heartbeats breaks, or another controller becomes active ─▶ connect to the broker's port
        refused       no process listens there: its session ends now, and its partitions get other leaders
        taken         it may live; or its process is ending, and its connections went before its port: asked again, until it is heard of
        anything else its machine may be gone: the session decides, as in Kafka

Kafka waits for the session in every case, nine seconds by default.  A broker that is fenced by mistake (something between the two
machines refuses connections) is unfenced by its next heartbeat.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from moldau.background import in_background
from moldau.metadata.image import MetadataImage
from moldau.net.transport import Network
from moldau.server.peers.port import Answer, knock
from moldau.server.requests.dispatch import Client

LOG: Final = logging.getLogger(__name__)

PAUSES_S: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""The pauses before a port that took a connection is tried again."""


class BrokerWatch:
    """See the module.  `close` at the end."""

    def __init__(
        self,
        *,
        local_id: int,
        network: Network,
        image: Callable[[], MetadataImage],
        listener_name: str,
        is_active: Callable[[], bool],
        on_dead: Callable[[int], None],
    ) -> None:
        """`listener_name`: the listener between brokers; `on_dead` is called with the id of a broker."""
        self._local_id: Final = local_id
        self._network: Final = network
        self._image: Final = image
        self._listener_name: Final = listener_name
        self._is_active: Final = is_active
        self._on_dead: Final = on_dead
        self._probes: Final[dict[int, asyncio.Task[None]]] = {}
        self._heard: Final[dict[int, int]] = {}
        """The number of heartbeats of each broker."""

    def heard(self, broker_id: int, client: Client) -> None:
        """Note a heartbeat on this connection."""
        self._heard[broker_id] = self._heard.get(broker_id, 0) + 1
        client.on_closed["heartbeats", broker_id] = partial(self.probe, broker_id)

    def probe_all(self) -> None:
        """Probe all brokers: this controller has just become active, and a broker that died with its predecessor is not waited for."""
        for broker in self._image().alive_brokers():
            self.probe(broker.id)

    def probe(self, broker_id: int) -> None:
        if self._is_active() and broker_id != self._local_id and broker_id not in self._probes:
            task = in_background(self._probe(broker_id), name=f"is broker {broker_id} alive")
            self._probes[broker_id] = task
            task.add_done_callback(lambda _: self._probes.pop(broker_id, None))

    def close(self) -> None:
        for task in self._probes.values():
            task.cancel()

    async def _probe(self, broker_id: int) -> None:
        heard = self._heard.get(broker_id, 0)
        for pause_s in (*PAUSES_S, 0):
            if not await self._takes_connections(broker_id):
                return
            await asyncio.sleep(pause_s)
            if self._heard.get(broker_id, 0) != heard:
                return

    async def _takes_connections(self, broker_id: int) -> bool:
        """Whether the broker's port takes connections; if it refuses, `on_dead` is called."""
        broker = self._image().brokers.get(broker_id)
        endpoint = None if broker is None or broker.fenced else broker.endpoint(self._listener_name)
        if broker is None or endpoint is None:
            return False
        answer = await knock(self._network, endpoint.host, endpoint.port)
        if answer is Answer.REFUSED:
            now = self._image().brokers.get(broker_id)
            if now is not None and now.epoch == broker.epoch and self._is_active():
                LOG.info("broker %d is gone: %s:%d refuses connections", broker_id, endpoint.host, endpoint.port)
                self._on_dead(broker_id)
        return answer is Answer.TAKEN
