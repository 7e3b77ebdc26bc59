"""● Groups under fire without a node: the machine of one coordinator at its desk, members around it, messages that are late or lost.

    result = GroupSimulation(seed=7).run()
    result.violations          in words; empty when nothing went wrong

The faults: answers that never come, requests that come after their sender has given up, a log that is committed late, fail-over that loses
uncommitted records, members that die.  In the end all is calm and every group has to settle.  A seed costs milliseconds: this simulation
runs thousands of seeds in the time in which that of the whole node (`proof.cluster.simulation`) runs dozens.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.group.environment import Client, Environment
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.streams.group import HeartbeatResult
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode
from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from moldau.server.requests.connection_order import ConnectionOrder
from proof.coordination import Asked, Desk, FixedTopics, MemoryLog
from proof.groups.history import GroupHistory, check_groups, holders
from proof.groups.member import EXPECTED, SESSION_MS, Ask, Member, Protocol

PARTITIONS: Final = 3
TOPICS: Final = (TopicView(UUID(int=101), "orders", PARTITIONS), TopicView(UUID(int=102), "payments", PARTITIONS))
GROUPS: Final = {
    "classic": (Protocol.CLASSIC,),
    "consumer": (Protocol.CONSUMER,),
    "mixed": (Protocol.CLASSIC, Protocol.CONSUMER),
    "streams": (Protocol.STREAMS,),
}
MEMBERS: Final = 3
WILD_MS: Final = 60_000
CALM_MS: Final = 40_000
DEAF_EVERY_MS: Final = 2_000
GIVE_UP_MS: Final = 2_000
TURN_MS: Final = 100
ASKED_OF: Final = {
    "join": "join",
    "sync": "sync",
    "heartbeat": "heartbeat",
    "report": "consumer_heartbeat",
    "commit": "commit_offsets",
    "reset": "commit_offsets",
}


@dataclass(slots=True)
class Result:
    seed: int
    violations: list[str] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)
    """The number of answers by kind of request and code."""


@dataclass(slots=True)
class _Exchange:
    """A request on its way, and its answer."""

    member: Member
    ask: Ask
    sent_ms: float
    connection: int
    asked: Asked | None = None
    is_over: bool = False


class GroupSimulation:
    """See the module.  `group_id` names one of GROUPS; without it the seed chooses."""

    def __init__(
        self, seed: int, *, group_id: str | None = None, new_machine: Callable[[Environment], GroupMachine] = GroupMachine
    ) -> None:
        self.choice = random.Random(seed)
        by_seed = self.choice.choice(sorted(GROUPS))
        self.group_id = group_id or by_seed
        numbers = iter(range(1, 1_000_000))
        config = GroupCoordinatorConfig.load(
            {
                "group.initial.rebalance.delay.ms": self.choice.choice(("0", "500")),
                "group.consumer.assignment.interval.ms": self.choice.choice(("0", "1000")),
                "group.consumer.session.timeout.ms": str(SESSION_MS),
                "group.streams.initial.rebalance.delay.ms": self.choice.choice(("0", "500")),
                "group.streams.assignment.interval.ms": self.choice.choice(("0", "1000")),
                "group.streams.session.timeout.ms": str(SESSION_MS),
            }
        )
        environment = Environment(config, FixedTopics(*TOPICS), lambda: UUID(int=next(numbers)))
        self.desk = Desk(lambda: new_machine(environment), MemoryLog(commits_at_once=False))
        self.history = GroupHistory(restarting={"mixed"})
        self.result = Result(seed)
        ids = {topic.name: topic.topic_id for topic in TOPICS}
        self.members = [
            Member(
                name=f"m{number}",
                group=self.group_id,
                choice=random.Random(self.choice.getrandbits(64)),
                history=self.history,
                topics=lambda: ids,
                partitions=PARTITIONS,
                note=self._note,
                protocols=GROUPS[self.group_id],
            )
            for number in range(MEMBERS)
        ]
        self._late_ms = self.choice.choice((5, 50, 400))
        self._lossy = self.choice.choice((0.0, 0.0, 0.02, 0.1))
        self._deaf_until_ms: dict[str, int] = {}
        """Member → the time until which its requests arrive but their answers do not."""
        self._connections: dict[str, int] = {}
        """Member → the number of its present connection.  A member takes a new connection when it has waited in vain."""
        self._order = ConnectionOrder()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._busy: dict[str, _Exchange] = {}
        self._waiting: list[_Exchange] = []
        self._is_wild = True

    @property
    def now_ms(self) -> int:
        return self.desk.now_ms

    def run(self) -> Result:
        start_ms = self.now_ms
        for member in self.members:
            self._at(self.choice.randrange(1_000), lambda member=member: self._turn(member))  # type: ignore[misc]
        self._at(0, self._commit_log)
        self._at(int(self.choice.expovariate(1 / 8_000)), self._fail_over)
        self._at(int(self.choice.expovariate(1 / DEAF_EVERY_MS)), self._deafen)
        self._until(start_ms + WILD_MS)
        self._is_wild = False
        for member in self.members:
            member.may_die = False
        self._until(start_ms + WILD_MS + CALM_MS)
        self._check_settled()
        for member in self.members:
            member.is_leaving = True
        self._until(self.now_ms + CALM_MS)
        self.result.violations += [f"{member.name} could not leave: {member.stage}" for member in self.members if not member.is_done]
        self.result.violations += check_groups(self.history)
        return self.result

    def _check_settled(self) -> None:
        keys = [f"{topic.name}-{partition}" for topic in TOPICS for partition in range(PARTITIONS)]
        found = holders(self.history, self.group_id, keys, self.now_ms)
        wrong = {key: owners for key, owners in found.items() if len(owners) != 1}
        if wrong:
            stages = {member.name: (member.stage.value, member.protocol.value, member.epoch) for member in self.members}
            self.result.violations.append(f"not settled after {CALM_MS} ms of calm: {wrong}, {stages}")

    # -- events ---------------------------------------------------------------------------------------------------------------

    def _at(self, delay_ms: int, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._count, what))

    def _until(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            due_ms, _, what = heapq.heappop(self._events)
            self.desk.advance(max(due_ms - self.now_ms, 0))
            what()
            self._carry_answers()
        self.desk.advance(max(end_ms - self.now_ms, 0))

    def _turn(self, member: Member) -> None:
        """Let the member send its next request, if the one before is over."""
        self._at(TURN_MS, lambda: self._turn(member))
        if member.name in self._busy:
            return
        ask = member.next(self.now_ms)
        if ask is None:
            return
        exchange = self._busy[member.name] = _Exchange(member, ask, self.now_ms, self._connections.get(member.name, 0))
        patience_ms = GIVE_UP_MS if ask.kind not in ("join", "sync") else 2 * SESSION_MS
        self._at(patience_ms, lambda: self._give_up(exchange))
        if not self._is_lost():
            self._at(self._delay_ms(), lambda: self._arrive(exchange))

    def _arrive(self, exchange: _Exchange) -> None:
        if exchange.is_over and self.choice.random() < 0.5:
            return  # the connection is closed by now, and most of the time the broker has seen that
        if exchange.ask.kind == "report" and self._order.is_overtaken("report", exchange.member.name, (0, 0), exchange.connection):
            return
        exchange.asked = self.desk.ask(lambda token, now_ms: self._decide(exchange.ask, token, now_ms))
        self._waiting.append(exchange)

    def _decide(self, ask: Ask, token: Token, now_ms: int) -> Outcome:
        machine, request = self.desk.machine, ask.request
        client = Client("simulated", "/10.0.0.1", type(request).VERSIONS[-1])
        if ask.kind == "fetch offsets":
            return machine.fetch_offsets(token, request.groups[0], is_stable_required=False)
        if isinstance(request, StreamsGroupHeartbeatRequest):
            return machine.streams_heartbeat(token, request, client, now_ms)
        if ask.kind == "leave":
            is_classic = ask.member_id != getattr(request, "member_id", None) or not hasattr(request, "member_epoch")
            return machine.leave(token, request, now_ms) if is_classic else machine.consumer_heartbeat(token, request, client, now_ms)
        decide = getattr(machine, ASKED_OF[ask.kind])
        if ask.kind in ("sync", "heartbeat"):
            return decide(token, request, now_ms)  # type: ignore[no-any-return]
        return decide(token, request, client, now_ms)  # type: ignore[no-any-return]

    def _carry_answers(self) -> None:
        still = []
        for exchange in self._waiting:
            assert exchange.asked is not None
            if not exchange.asked.is_answered:
                still.append(exchange)
            elif not self._is_lost() and self._deaf_until_ms.get(exchange.member.name, 0) <= self.now_ms:
                self._at(self._delay_ms(), lambda exchange=exchange: self._hear(exchange))  # type: ignore[misc]
        self._waiting = still

    def _hear(self, exchange: _Exchange) -> None:
        if exchange.is_over:
            return
        assert exchange.asked is not None
        answer = exchange.asked.answer
        self._finish(exchange, _in_its_own_form(exchange.ask, answer) if isinstance(answer, ErrorCode) else _whole(exchange.ask, answer))

    def _give_up(self, exchange: _Exchange) -> None:
        if not exchange.is_over:
            self._connections[exchange.member.name] = exchange.connection + 1
            self._finish(exchange, None)

    def _finish(self, exchange: _Exchange, response: Any) -> None:
        exchange.is_over = True
        del self._busy[exchange.member.name]
        exchange.member.answered(exchange.ask, response, exchange.sent_ms, self.now_ms)

    def _commit_log(self) -> None:
        self.desk.commit()
        self._at(self.choice.choice((1, 5, 50, 300)), self._commit_log)

    def _fail_over(self) -> None:
        if self._is_wild:
            self.desk.fail_over()
            self.result.done["fail-over"] = self.result.done.get("fail-over", 0) + 1
            self._at(int(self.choice.expovariate(1 / 8_000)), self._fail_over)

    def _deafen(self) -> None:
        if self._is_wild:
            self._deaf_until_ms[self.choice.choice(self.members).name] = self.now_ms + self.choice.choice((300, 1_000, 3_000))
            self._at(int(self.choice.expovariate(1 / DEAF_EVERY_MS)), self._deafen)

    def _is_lost(self) -> bool:
        return self._is_wild and self.choice.random() < self._lossy

    def _delay_ms(self) -> int:
        return 1 + self.choice.randrange(self._late_ms * (10 if self._is_wild and self.choice.random() < 0.1 else 1))

    def _note(self, kind: str, code: ErrorCode) -> None:
        what = f"{kind}: {code.name}"
        self.result.done[what] = self.result.done.get(what, 0) + 1
        if code is not ErrorCode.NONE and code not in EXPECTED:
            self.result.violations.append(f"{kind} was answered with {code.name}")


def _in_its_own_form(ask: Ask, code: ErrorCode) -> Any:
    return ask.request.refused(code)


def _whole(ask: Ask, answer: Any) -> Any:
    """The whole response.  The machine answers an OffsetFetch group by group, and wraps a streams group's heartbeat for the shell."""
    if ask.kind == "fetch offsets":
        return type(ask.request.refused(ErrorCode.NONE))(groups=[answer])
    return answer.response if isinstance(answer, HeartbeatResult) else answer
