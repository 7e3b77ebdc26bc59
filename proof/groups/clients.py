"""● Members of groups among the clients of a simulated cluster: `proof.groups.member` over channels, and the checks once all is calm.

Three groups: one of the classic protocol, one of KIP-848, one in which members change from one to the other.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Final

from moldau.errors import ErrorCode, KafkaError
from moldau.net.channel import Channel
from moldau.net.framing import ReceiveBuffers
from moldau.net.transport import Network
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.testing.checker import Outcome
from proof.cluster.workload import Notes
from proof.groups.history import Fetched, GroupHistory, check_groups
from proof.groups.member import EXPECTED, SESSION_MS, Member, Protocol, Stage

GROUPS: Final[Mapping[str, tuple[Protocol, ...]]] = {
    "classic": (Protocol.CLASSIC,),
    "consumer": (Protocol.CONSUMER,),
    "mixed": (Protocol.CLASSIC, Protocol.CONSUMER),
}
MEMBERS_A_GROUP: Final = 2
TIMEOUT_S: Final = 10.0
PAUSE_S: Final = 0.2
PACE_MS: Final = 1_500
GROUP_PROPERTIES: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "3",
    "group.min.session.timeout.ms": str(SESSION_MS),
    "group.initial.rebalance.delay.ms": "500",
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}
"""Broker properties with sessions as short as the members think they are."""


class GroupClient:
    """One machine that runs one member after the other."""

    def __init__(
        self, name: str, group: str, network: Network, address: tuple[str, int], notes: Notes, history: GroupHistory, choice: random.Random
    ) -> None:
        self._name = name
        self._network = network
        self._address = address
        self._notes = notes
        self._buffers = ReceiveBuffers()
        self._channel: Channel | None = None
        self._loop = asyncio.get_running_loop()
        self._has_coordinator = False
        self._is_dying = False
        self.slowest_answer_s = 0.0
        """The slowest answer to a heartbeat or report, which never waits for other members."""
        self.member = Member(
            name=name,
            group=group,
            choice=choice,
            history=history,
            topics=lambda: notes.topics.ids,
            partitions=notes.topics.partitions,
            note=self._note,
            protocols=GROUPS[group],
            pace_ms=PACE_MS,
        )

    def _note(self, kind: str, code: ErrorCode) -> None:
        self._notes.done[f"group {kind}: {code.name}" if code else f"group {kind}"] += 1
        if code not in EXPECTED | {ErrorCode.NONE}:
            self._notes.violations.append(f"{kind} of {self._name} was answered with {code.name}")
        if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self._has_coordinator = False

    async def run(self) -> None:
        """Run until the member is told to leave and has left."""
        while not self.member.is_done:
            if self._is_dying:
                self._is_dying = False
                self.member.die(self._now_ms())
            if not self._has_coordinator:
                await self._find_coordinator()
            ask = self.member.next(self._now_ms())
            if ask is None or not self._has_coordinator:
                await asyncio.sleep(PAUSE_S)
                if ask is None:
                    continue
            sent_ms = self._now_ms()
            try:
                # A member that joins or syncs waits for the others.
                patience_s = TIMEOUT_S + self.member.rebalance_ms / 1000 if self.member.stage in (Stage.JOIN, Stage.SYNC) else TIMEOUT_S
                response = await (await self._open()).send(ask.request, timeout_s=patience_s)
            except (OSError, KafkaError):
                response = None
            now_ms = self._now_ms()
            if ask.kind in ("heartbeat", "report"):
                self.slowest_answer_s = max(self.slowest_answer_s, (now_ms - sent_ms) / 1000)
            self.member.answered(ask, response, sent_ms, now_ms)

    def die(self) -> None:
        """End the process and its connection, even while it waits for the others of its group to join."""
        self._is_dying = True
        if self._channel is not None:
            self._channel.abort()

    async def _find_coordinator(self) -> None:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.member.group])
        try:
            response = await (await self._open()).send(request)
        except (OSError, KafkaError):
            await asyncio.sleep(PAUSE_S)
            return
        self._has_coordinator = not response.coordinators[0].error_code
        if not self._has_coordinator:
            await asyncio.sleep(PAUSE_S)

    async def fetch_all(self, group: str) -> bool:
        """Note every offset of the group.  Returns whether there was an answer."""
        start_ms = self._now_ms()
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        try:
            (answered,) = (await (await self._open()).send(request)).groups
        except (OSError, KafkaError):
            return False
        if answered.error_code:
            return False
        names = {topic_id: name for name, topic_id in self._notes.topics.ids.items()}
        for topic in answered.topics:
            name = topic.name or names[topic.topic_id]
            for one in topic.partitions:
                key = f"{name}-{one.partition_index}"
                self.member.history.fetches.append(Fetched(group, key, one.committed_offset, start_ms, self._now_ms()))
        return True

    async def _open(self) -> Channel:
        """Errors: OSError, KafkaError."""
        if self._channel is None or self._channel.is_closed:
            host, port = self._address
            self._channel = await Channel.connect(
                self._network, host, port, client_id=self._name, timeout_s=TIMEOUT_S, buffers=self._buffers
            )
        return self._channel

    def _now_ms(self) -> float:
        return self._loop.time() * 1000


class Groups:
    """All of a simulation's group clients, round by round."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self.history = GroupHistory(restarting={"mixed"})
        self.clients: list[GroupClient] = []

    def add(self, number: int, network: Network, address: tuple[str, int], choice: random.Random, group: str | None = None) -> GroupClient:
        group = group or sorted(GROUPS)[number % len(GROUPS)]
        client = GroupClient(f"member-{number}", group, network, address, self._notes, self.history, choice)
        self.clients.append(client)
        return client

    def begin(self) -> None:
        for client in self.clients:
            client.member.is_leaving, client.member.may_die = False, True

    def calm_down(self) -> None:
        for client in self.clients:
            client.member.may_die = False

    def leave(self) -> None:
        for client in self.clients:
            client.member.is_leaving = True

    def unsettled(self, now_ms: float) -> dict[str, list[str]]:
        """Partitions with no owner or several, among the topics to which members of a group subscribe."""
        wrong: dict[str, list[str]] = {}
        for group in GROUPS:
            members = [client.member for client in self.clients if client.member.group == group]
            topics = sorted({topic for member in members for topic in member.subscribed})
            owners: dict[str, list[str]] = {f"{topic}-{index}": [] for topic in topics for index in range(self._notes.topics.partitions)}
            for member in members:
                for hold in member.held.values():
                    if hold.key in owners and now_ms < hold.until_ms:
                        owners[hold.key].append(hold.owner)
            wrong.update({f"{key} of {group}": those for key, those in owners.items() if len(those) != 1})
            if any(member.stage not in (Stage.MEMBER, Stage.FETCH) for member in members):
                wrong[group] = [f"{member.name} is at {member.stage.value}" for member in members]
        return wrong

    def take_violations(self) -> list[str]:
        """The violations of this round; the next round begins without any."""
        found = check_groups(self.history)
        self._notes.done["group commits acknowledged"] += sum(commit.outcome is Outcome.OK for commit in self.history.commits)
        self._notes.done["group holds"] += len(self.history.holds)
        self.history.holds.clear()
        self.history.commits.clear()
        self.history.resets.clear()
        self.history.fetches.clear()
        self.history.gone.clear()
        return found
