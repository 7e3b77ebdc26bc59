"""● A broker's life in its cluster: it registers, sends a heartbeat every two seconds, and hands over before it stops.

    STARTING ─register▶ RECOVERY ─caught up, unfenced▶ RUNNING ─stop▶ PENDING_CONTROLLED_SHUTDOWN ─leads nothing▶ SHUTTING_DOWN

Source: BrokerLifecycleManager, BrokerState; KIP-631, 841, 966.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final
from uuid import UUID

from moldau.background import in_background
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest
from moldau.server.peers.controller import ControllerCalls

LOG: Final = logging.getLogger(__name__)

RETRY_MS: Final = 100
"""The pause before a registration or a first heartbeat is tried again."""


class BrokerState(IntEnum):
    """The states of a broker, by Kafka's numbers."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class RegistrationFailed(Exception):
    """The controller refuses this broker.  The text has the reason and the way out in one line."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Time limits in milliseconds."""

    heartbeat_ms: int
    registration_ms: int
    shutdown_ms: int
    """The limit of a controlled shutdown while a controller answers."""
    silence_ms: int
    """The limit of a controlled shutdown while no controller answers: as long as an election takes."""


class BrokerLifecycle:
    """See the module."""

    def __init__(
        self,
        *,
        node_id: int,
        controller: ControllerCalls,
        metadata_offset: Callable[[], int],
        offline_dirs: Callable[[], Sequence[UUID]],
        patience: Patience,
    ) -> None:
        """`metadata_offset` returns the offset of the last record applied here, inclusive."""
        self.state = BrokerState.NOT_RUNNING
        self.epoch = -1
        self._node_id: Final = node_id
        self._controller: Final = controller
        self._metadata_offset: Final = metadata_offset
        self._offline_dirs: Final = offline_dirs
        self._patience: Final = patience
        self._wants_shut_down = False
        self._unfenced = asyncio.Event()
        self._may_shut_down = asyncio.Event()
        self._hurry = asyncio.Event()
        self._was_answered = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._refusal: int = ErrorCode.NONE

    async def register(self, request: BrokerRegistrationRequest) -> int:
        """Register.  Returns the broker epoch.  Errors: RegistrationFailed."""
        self.state = BrokerState.STARTING
        waited_ms = 0
        while True:
            try:
                response = await self._controller.ask(request)
                code, self.epoch = response.error_code, response.broker_epoch
            except KafkaError as error:
                code = error.code
            if code == ErrorCode.NONE:
                self.state = BrokerState.RECOVERY
                return self.epoch
            if code in _FINAL_REFUSALS or waited_ms >= self._patience.registration_ms:
                raise RegistrationFailed(_REFUSALS.get(code, f"the controller refuses this broker with error {code}"))
            await asyncio.sleep(RETRY_MS / 1000)
            waited_ms += RETRY_MS

    async def unfence(self) -> None:
        """Begin the heartbeats; returns once the controller lets this broker lead and serve."""
        self._task = in_background(self._beat(), name="heartbeats")
        await self._unfenced.wait()
        self.state = BrokerState.RUNNING

    async def hand_over(self) -> None:
        """Do a controlled shutdown: leaderships move to other brokers, if there are any.

        If all nodes stop at once, the last ones have no quorum any more that could let them go.
        """
        if self.state is not BrokerState.RUNNING:
            return
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        self._wants_shut_down = True
        self._hurry.set()
        try:
            async with asyncio.timeout(self._patience.shutdown_ms / 1000):
                await self._may_go()
        except TimeoutError:
            LOG.warning(
                "the controller did not confirm the shutdown within %d ms: the broker stops all the same", self._patience.shutdown_ms
            )

    async def _may_go(self) -> None:
        while not self._may_shut_down.is_set():
            self._was_answered.clear()
            try:
                async with asyncio.timeout(self._patience.silence_ms / 1000):
                    await self._was_answered.wait()
            except TimeoutError:
                LOG.warning("no controller has answered for %d ms: this broker stops without handing over", self._patience.silence_ms)
                return

    async def stop(self) -> None:
        self.state = BrokerState.SHUTTING_DOWN
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.state = BrokerState.NOT_RUNNING

    async def _beat(self) -> None:
        while True:
            try:
                self._take(await self._controller.ask(self._heartbeat()))
            except KafkaError as error:
                self._note_refusal(error.code, str(error))
            except Exception:  # without heartbeats the cluster would take this broker for dead, and it could not stop cleanly
                LOG.exception("a mistake of ours, while the controller is told that this broker lives")
            is_in_haste = not self._unfenced.is_set() or self._wants_shut_down
            await self._pause(min(RETRY_MS, self._patience.heartbeat_ms) if is_in_haste else self._patience.heartbeat_ms)

    def _take(self, response: BrokerHeartbeatResponse) -> None:
        self._note_refusal(response.error_code, f"error {response.error_code}")
        if response.error_code != ErrorCode.NONE:
            return
        if not response.is_fenced:
            self._unfenced.set()
        if response.should_shut_down:
            self._may_shut_down.set()
        self._was_answered.set()

    def _note_refusal(self, code: int, text: str) -> None:
        """Log a refusal once: its cause stays as it is."""
        if code not in (self._refusal, ErrorCode.NONE):
            LOG.warning("the controller refuses this broker: %s", text)
        self._refusal = code

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self._node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=False,
            want_shut_down=self._wants_shut_down,
            offline_log_dirs=list(self._offline_dirs()),
        )

    async def _pause(self, pause_ms: int) -> None:
        """Wait until the next turn.  A broker that wants to stop does not wait."""
        self._hurry.clear()
        try:
            async with asyncio.timeout(pause_ms / 1000):
                await self._hurry.wait()
        except TimeoutError:
            pass


_REFUSALS: Final[Mapping[int, str]] = {
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "another broker with this node.id is alive: give each a number of its own",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the controller belongs to another cluster: compare cluster.id in meta.properties of both",
    ErrorCode.UNSUPPORTED_VERSION: "this broker does not know the features that the cluster has finalized: it is too old for it",
    ErrorCode.INVALID_REGISTRATION: "the controller finds the registration invalid: see its log",
}
_FINAL_REFUSALS: Final = _REFUSALS.keys() - {ErrorCode.DUPLICATE_BROKER_REGISTRATION}
"""Refusals that a repetition does not change; a broker of that number may turn out to be dead, though."""
