"""● A worker of a cluster of workers: its knowledge, its units, and its decisions as the leader.

Every change goes through the config topic: the leader writes a record, every worker reads it, and `Worker.reconcile` carries it out.  The
leader decides which worker runs what (`assignment`) in the group's own protocol (`membership`).  REST answers are in `requests.py`.

A worker alone (`alone`) is the same with another `Storage`: its records are replayed at once, and it is its own leader.

Source: DistributedHerder, StandaloneHerder.
"""

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import quote

import httpx

from moldau.clients.admin import Admin
from moldau.clients.cluster import Cluster, Unreachable
from moldau.clock import Clock, SystemClock
from moldau.connect.declare.definition import Config
from moldau.connect.errors import ConnectError
from moldau.connect.store import configs as config_records
from moldau.connect.store.configs import ConfigState, LoggerLevel, RestartRequest, Target, TaskId, session_key_record, task_records
from moldau.connect.store.log import Log
from moldau.connect.store.offsets import OffsetState
from moldau.connect.store.statuses import State, Status, StatusState, connector_status, task_status, topic_status
from moldau.connect.worker.assignment import assign
from moldau.connect.worker.loggers import set_level
from moldau.connect.worker.options import WorkerOptions
from moldau.connect.worker.protocol import CONFIG_MISMATCH, CONNECTOR_ITSELF, Assignment, Metadata, connectors_of, tasks_of
from moldau.connect.worker.signature import signed_headers
from moldau.connect.worker.storage import Storage
from moldau.connect.worker.task import Surroundings
from moldau.connect.worker.validation import VERSION
from moldau.connect.worker.worker import Worker
from moldau.errors import KafkaError

LOG: Final = logging.getLogger(__name__)
CATCH_UP_S: Final = 5.0
PUBLISH_AGAIN_S: Final = 0.5
INTERNAL_WITHIN_S: Final = 30.0


class Herder:
    """`start` returns when the worker knows what its topics say and has asked to join its group."""

    def __init__(self, options: WorkerOptions, cluster: Cluster, storage: Storage, clock: Clock | None = None) -> None:
        self.options: Final = options
        self.cluster: Final = cluster
        self.is_alone: Final = storage.is_alone
        self._storage = storage
        self._logs: Sequence[Log] = ()
        self.cluster_id = ""
        self.configs: Final = ConfigState()
        self.statuses: Final = StatusState()
        self.offsets: Final = OffsetState()
        self.member_id = ""
        self.assignment: Assignment | None = None
        self._are_connectors_created = not storage.is_alone
        self.urls: Mapping[str, str] = {}
        """On the leader: the members' URLs."""
        self.owners: Mapping[TaskId, str] = {}
        """On the leader: the member that has each unit."""
        self.http: Final = httpx.AsyncClient(timeout=INTERNAL_WITHIN_S, verify=True if options.tls is None else options.tls.client())
        self._clock = clock or SystemClock()
        self._changed = asyncio.Event()
        self._reconciled = asyncio.Event()
        self._assigned_units: frozenset[TaskId] | None = None
        self._reconciling: asyncio.Task[None] | None = None
        self._publishing: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        self._used_topics: set[tuple[str, str]] = set()

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        async with Admin(self.cluster) as admin:
            self.cluster_id = (await admin.describe_cluster()).cluster_id
        self.config_log, self.status_log, self.offset_log = self._logs = await self._storage.open(
            {
                "config": self._replay_config,
                "status": lambda _, key, value: self.statuses.replay(key, value),
                "offset": lambda _, key, value: self.offsets.replay(key, value),
            }
        )
        around = Surroundings(self.cluster, self.options, self.offsets, self.offset_log, self.tell_task, self.uses_topic)
        self.worker = Worker(self.configs, around, self.tell_connector, self._publish)
        for log in self._logs:
            await log.start()
        # The offsets may end in a transaction of a task that was killed.  The task fences it, so the offsets are awaited only there.
        await self.config_log.read_to_end()
        await self.status_log.read_to_end()
        self._reconciling = asyncio.get_running_loop().create_task(self._reconcile_on(), name="reconcile")
        self.membership = self._storage.member(self)
        await self.membership.start()

    @property
    def is_ready(self) -> bool:
        return self._are_connectors_created and self.assignment is not None

    def connectors_created(self) -> None:
        """Tell that the connectors exist that a worker alone begins with."""
        self._are_connectors_created = True

    async def close(self) -> None:
        """Tasks end with their work committed, then the worker leaves its group, so that others go on at once."""
        async with self._turn:
            if self._reconciling is not None:
                self._reconciling.cancel()
                await asyncio.gather(self._reconciling, *self._publishing.values(), return_exceptions=True)
            if hasattr(self, "worker"):
                await self.worker.stop_all()
        if hasattr(self, "membership"):
            await self.membership.close()
        for log in self._logs:
            await log.close()
        with suppress(KafkaError):
            await self._storage.close()
        await self.http.aclose()

    # ------------------------------------------------------------ what the topics say

    def _replay_config(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        event = self.configs.replay(offset, key, value)
        if isinstance(event, RestartRequest) and self._reconciling is not None:
            self._restart(event)
        elif isinstance(event, LoggerLevel) and self._reconciling is not None:
            set_level(event.name, event.level, self._clock.now_ms())
        self._changed.set()

    def units(self) -> frozenset[TaskId]:
        """All units that there are to run."""
        connectors = {TaskId(name, CONNECTOR_ITSELF) for name in self.configs.connectors}
        return frozenset(connectors | {task for name in self.configs.tasks for task in self.configs.task_ids(name)})

    async def _reconcile_on(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self.is_leader and self._assigned_units != self.units():
                self.membership.rejoin()
            try:
                await self._reconcile()
            except Exception:
                LOG.exception("the running connectors and tasks could not be brought in line with the configuration")

    async def _reconcile(self) -> None:
        async with self._turn:
            given = self.assignment.given if self.assignment is not None else ()
            await self.worker.reconcile(connectors_of(given), tasks_of(given))
        self._reconciled.set()

    async def carried_out(self, name: str) -> None:
        """Alone: wait until a connector is as its configuration says.  Errors: ConnectError, when it cannot start.

        A worker in a group does not wait: others may run the connector.
        """
        while self.is_alone and not self._is_carried_out(name):
            self._reconciled.clear()
            await self._reconciled.wait()
        running = self.worker.connectors.get(name) if self.is_alone else None
        if running is not None and running.tasks is None and running.target is Target.STARTED:
            raise ConnectError(f"Failed to start connector: {name}")

    def _is_carried_out(self, name: str) -> bool:
        config, running = self.configs.connectors.get(name), self.worker.connectors.get(name)
        if config is None or running is None:
            return config is None and running is None
        if running.config != config or running.target is not self.configs.target(name):
            return False
        return running.tasks is None or not self.worker.differs(name, running.tasks)

    def changed(self) -> None:
        self._changed.set()

    # ------------------------------------------------------------ membership

    @property
    def is_leader(self) -> bool:
        return self.assignment is not None and self.assignment.leader == self.member_id

    def metadata(self) -> Metadata:
        owned = () if self.assignment is None else self.assignment.given
        return Metadata(self.options.url, self.configs.offset, owned)

    async def assign(self, leader: str, members: Mapping[str, Metadata]) -> dict[str, Assignment]:
        newest = max((one.config_offset for one in members.values()), default=0)
        with suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_S):
                await self.config_log.read_to_end()
        if self.configs.session_key is None:
            await self.config_log.write([session_key_record(secrets.token_bytes(32), self._clock.now_ms())])
            await self.config_log.read_to_end()
        url, offset = members[leader].url, self.configs.offset
        if offset < newest:
            LOG.warning("the leader knows the config topic up to %d, a worker up to %d", offset, newest)
            return {member: Assignment(leader, url, newest, one.owned, (), CONFIG_MISMATCH) for member, one in members.items()}
        self._assigned_units = self.units()
        shares = assign(self._assigned_units, {member: one.owned for member, one in members.items()})
        self.urls = {member: one.url for member, one in members.items()}
        self.owners = {unit: member for member, share in shares.items() for unit in share.given}
        return {member: Assignment(leader, url, offset, tuple(share.given), tuple(share.revoked)) for member, share in shares.items()}

    async def assigned(self, member_id: str, generation: int, assignment: Assignment) -> bool:
        if assignment.error:
            await self.config_log.read_to_end()
            return True
        if self.configs.offset < assignment.config_offset:
            await self.config_log.read_to_end()
        self.member_id, self.assignment = member_id, assignment
        LOG.info(
            "generation %d: %d units, %d revoked, the leader is %s",
            generation,
            len(assignment.given),
            len(assignment.revoked),
            assignment.leader_url,
        )
        await self._reconcile()
        self._changed.set()
        if self.is_leader:
            self._forget_the_gone()
        return bool(assignment.revoked)

    async def lost(self) -> None:
        self.assignment = None
        async with self._turn:
            await self.worker.stop_all()

    def owner_url(self, unit: TaskId) -> str | None:
        """On the leader: the URL of the worker that runs the unit."""
        return self.urls.get(self.owners.get(unit, ""))

    def owns(self, unit: TaskId) -> bool:
        return self.assignment is not None and unit in self.assignment.given

    # ------------------------------------------------------------ states

    def _status(self, state: State, trace: str | None) -> Status:
        version = None if state is State.UNASSIGNED else VERSION
        return Status(state, self.options.worker_id, self.membership.generation, trace, version)

    def tell_connector(self, name: str, state: State, trace: str | None) -> None:
        status = self._status(state, trace) if name in self.configs.connectors else None
        self.status_log.post(connector_status(name, status))

    def tell_task(self, task: TaskId, state: State, trace: str | None) -> None:
        status = self._status(state, trace) if task in self.configs.task_ids(task.connector) else None
        self.status_log.post(task_status(task, status))

    async def settle(self) -> None:
        """Wait until the states that were written by now can be read."""
        await self._storage.flush()
        await self.status_log.read_to_end()

    def uses_topic(self, task: TaskId, topic: str) -> None:
        if (task.connector, topic) not in self._used_topics or topic not in self.statuses.topics.get(task.connector, {}):
            self._used_topics.add((task.connector, topic))
            self.status_log.post(topic_status(task.connector, topic, task.task, self._clock.now_ms()))

    def _forget_the_gone(self) -> None:
        """Delete the states of connectors and tasks that are no longer configured: the workers that ran them may be gone."""
        for name in [one for one in self.statuses.connectors if one not in self.configs.connectors]:
            self.status_log.post(connector_status(name, None))
        for task in [one for one in self.statuses.tasks if one not in self.configs.task_ids(one.connector)]:
            self.status_log.post(task_status(task, None))
        for name in [one for one in self.statuses.topics if one not in self.configs.connectors]:
            self.forget_topics(name)

    def forget_topics(self, connector: str) -> None:
        for topic, task in list(self.statuses.topics.get(connector, {}).items()):  # a worker alone replays what it posts at once
            self._used_topics.discard((connector, topic))
            self.status_log.post(topic_status(connector, topic, task, None))

    # ------------------------------------------------------------ restarts, and tasks of connectors

    def _restart(self, request: RestartRequest) -> None:
        def is_meant(status: Status | None) -> bool:
            return not request.only_failed or (status is not None and status.state is State.FAILED)

        if request.connector in self.worker.connectors and is_meant(self.statuses.connectors.get(request.connector)):
            self.worker.restart_connector(request.connector)
        tasks = [task for task in self.worker.tasks if task.connector == request.connector] if request.includes_tasks else []
        meant = [
            task
            for task in tasks
            if is_meant(self.statuses.tasks.get(task)) or (request.only_failed and self.worker.tasks[task].has_failed)
        ]
        for task in meant:
            self.tell_task(task, State.RESTARTING, None)
        if meant:
            restarting = asyncio.get_running_loop().create_task(self.restart_tasks(meant), name=f"restart {request.connector}")
            self._publishing[f"restart {request.connector}"] = restarting

    async def restart_tasks(self, tasks: Sequence[TaskId]) -> None:
        async with self._turn:
            for task in tasks:
                await self.worker.restart_task(task)
        self._changed.set()

    def _publish(self, name: str, tasks: Sequence[Config]) -> None:
        running = self._publishing.get(name)
        if running is None or running.done():
            self._publishing[name] = asyncio.get_running_loop().create_task(self._publish_tasks(name, tasks), name=f"tasks of {name}")

    async def _publish_tasks(self, name: str, tasks: Sequence[Config]) -> None:
        """The leader writes the tasks; other workers ask the leader.  A failed try is repeated as long as the tasks are still wanted."""
        try:
            if self.is_leader:
                await self.config_log.write(task_records(name, tasks))
            elif self.assignment is not None:
                body = config_records.dumped([dict(task) for task in tasks])
                headers = signed_headers(self.configs.session_key or b"", body)
                answer = await self.http.post(
                    f"{self.assignment.leader_url}connectors/{quote(name, safe='')}/tasks?forward=false", content=body, headers=headers
                )
                answer.raise_for_status()
            await self.config_log.read_to_end()
        except (KafkaError, OSError, Unreachable, httpx.HTTPError) as error:
            LOG.warning("the tasks of %s could not be written: %s", name, error)
            await asyncio.sleep(PUBLISH_AGAIN_S)
        finally:
            self._changed.set()
