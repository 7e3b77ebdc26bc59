"""● A worker's place in the group of workers: it joins, syncs, stays in by heartbeats, and leaves.

It is the group protocol of Kafka Connect (`connect`, `sessioned`): the broker finds dead workers, one worker leads, and each join carries
what its worker has.  A lock of our own would need the same heartbeats and timeouts a second time, and would keep Java's workers out.

Source: WorkerCoordinator, WorkerGroupMember.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Protocol

from moldau.clients.cluster import Cluster, Unreachable
from moldau.clients.coordinators import MOVED, Coordinators
from moldau.connect.worker.options import WorkerOptions
from moldau.connect.worker.protocol import (
    PROTOCOL,
    PROTOCOL_TYPE,
    Assignment,
    Metadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

LOG: Final = logging.getLogger(__name__)
BACKOFF_S: Final = 0.25
LASTING_BACKOFF_S: Final = 5.0
"""The pause after an error that lasts until an option is changed."""


class Owner(Protocol):
    """The worker, as its membership sees it."""

    def metadata(self) -> Metadata: ...

    async def assign(self, leader: str, members: Mapping[str, Metadata]) -> dict[str, Assignment]:
        """On the leader: the assignment of each member."""

    async def assigned(self, member_id: str, generation: int, assignment: Assignment) -> bool:
        """Stop what was revoked.  Returns whether to join again, so that others get the revoked units."""

    async def lost(self) -> None:
        """The worker is no longer a member.  Stop everything, because others may run it."""


class Membership:
    def __init__(self, cluster: Cluster, options: WorkerOptions, owner: Owner) -> None:
        self.generation = -1
        self._cluster = cluster.sibling()
        self._coordinators = Coordinators(self._cluster)
        self._group: Final[str] = options["group.id"]
        self._session_ms: Final[int] = options["session.timeout.ms"]
        self._heartbeat_s: Final[float] = options["heartbeat.interval.ms"] / 1000
        self._rebalance_ms: Final[int] = options["rebalance.timeout.ms"]
        self._owner = owner
        self._member_id = ""
        self._wants_rejoin = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="membership")

    def rejoin(self) -> None:
        """Join again soon: the units to run have changed, or this worker gave some up."""
        self._wants_rejoin.set()

    async def _run(self) -> None:
        while True:
            try:
                await self._once()
            except (OSError, Unreachable, KafkaError) as error:
                LOG.warning("group %s: %s", self._group, error)
                is_lasting = isinstance(error, KafkaError) and not error.code.retriable
                await asyncio.sleep(LASTING_BACKOFF_S if is_lasting else BACKOFF_S)
            except asyncio.CancelledError:
                raise
            except Exception:
                LOG.exception("group %s", self._group)
                await asyncio.sleep(BACKOFF_S)

    async def _once(self) -> None:
        """Run from one join to the next.  Heartbeats go on while revoked units are stopped."""
        self._wants_rejoin.clear()
        within_s = (self._session_ms + self._rebalance_ms) / 1000
        try:
            async with asyncio.timeout(within_s if self.generation >= 0 else None):
                assignment = await self._join()
        except TimeoutError:
            await self._fall_out("no assignment came in time")
            return
        if assignment is None:
            return
        member_id, generation = self._member_id, self.generation
        working = asyncio.get_running_loop().create_task(self._owner.assigned(member_id, generation, assignment), name="take assignment")
        try:
            await self._beat(working)
        finally:
            if not working.done():
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)

    async def _join(self) -> Assignment | None:
        """None: join again.  Errors: KafkaError, OSError, Unreachable."""
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=self._rebalance_ms,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=encode_metadata(self._owner.metadata()))],
        )
        joined = await self._coordinators.ask(self._group, request, lambda one: one.error_code, extra_s=self._rebalance_ms / 1000)
        code = ErrorCode.of(joined.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            return None
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            await self._fall_out("the group does not know this worker")
            return None
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"the worker cannot join: {code.text}")
        self._member_id, self.generation = joined.member_id, joined.generation_id
        return await self._sync(joined)

    async def _sync(self, joined: JoinGroupResponse) -> Assignment | None:
        assignments = []
        if joined.leader == self._member_id:
            members = {one.member_id: decode_metadata(one.metadata) for one in joined.members}
            decided = await self._owner.assign(self._member_id, members)
            assignments = [SyncGroupRequestAssignment(member_id=key, assignment=encode_assignment(one)) for key, one in decided.items()]
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        synced = await self._coordinators.ask(self._group, request, lambda one: one.error_code, extra_s=self._rebalance_ms / 1000)
        code = ErrorCode.of(synced.error_code)
        if code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            return None
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            await self._fall_out("the group does not know this worker")
            return None
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"the worker cannot join: {code.text}")
        return decode_assignment(synced.assignment)

    async def _beat(self, working: "asyncio.Task[bool]") -> None:
        """Send heartbeats until it is time to join again."""
        loop = asyncio.get_running_loop()
        answered_at = loop.time()
        working.add_done_callback(lambda done: self.rejoin() if not done.cancelled() and (done.exception() or done.result()) else None)
        must_join = False
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat_s):
                    await self._wants_rejoin.wait()
            if (self._wants_rejoin.is_set() or must_join) and working.done():
                if working.exception() is not None:
                    LOG.error("group %s: the assignment could not be taken", self._group, exc_info=working.exception())
                    await asyncio.sleep(BACKOFF_S)
                return
            if self._wants_rejoin.is_set():
                self._wants_rejoin.clear()
                must_join = True
            try:
                code = await self._heartbeat()
                answered_at = loop.time()
            except (OSError, Unreachable, KafkaError) as error:
                LOG.info("group %s: no heartbeat: %s", self._group, error)
                code = ErrorCode.NONE
            if code is ErrorCode.REBALANCE_IN_PROGRESS:
                must_join = True
                if working.done():
                    return
            elif code is not ErrorCode.NONE and code not in MOVED:
                await self._fall_out(code.text)
                return
            if loop.time() - answered_at > self._session_ms / 1000:
                await self._fall_out("no heartbeat was answered within session.timeout.ms")
                return

    async def _heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(group_id=self._group, generation_id=self.generation, member_id=self._member_id)
        within_s = self._session_ms / 1000
        async with asyncio.timeout(within_s):
            response = await self._coordinators.ask(self._group, request, lambda one: one.error_code, within_s=within_s)
        return ErrorCode.of(response.error_code)

    async def _fall_out(self, why: str) -> None:
        LOG.warning("group %s: this worker is out: %s", self._group, why)
        self._member_id, self.generation = "", -1
        await self._owner.lost()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._member_id:
            request = LeaveGroupRequest(group_id=self._group, members=[MemberIdentity(member_id=self._member_id, reason="the worker ends")])
            with suppress(OSError, Unreachable, KafkaError, TimeoutError):
                async with asyncio.timeout(self._heartbeat_s):
                    await self._coordinators.ask(self._group, request, lambda one: one.error_code)
        self._cluster.close()
