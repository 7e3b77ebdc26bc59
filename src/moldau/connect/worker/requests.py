"""● The requests of the REST API as functions of a worker: they check, and write to the worker's topics.

Any worker can read, the leader makes changes, and a restart is up to the worker that runs the connector or task.  Any other worker raises
`Elsewhere`, and the REST layer passes the request on.

Source: DistributedHerder, AbstractHerder.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moldau.clock import SystemClock
from moldau.connect.connectors.connector import Connector
from moldau.connect.connectors.registry import connector_of
from moldau.connect.declare.definition import Config
from moldau.connect.errors import AlreadyExists, BadRequest, ConnectError, NotFound, Rebalancing
from moldau.connect.store.configs import (
    RestartRequest,
    Target,
    TaskId,
    connector_record,
    deletion,
    logger_record,
    restart_record,
    target_record,
    task_records,
)
from moldau.connect.store.statuses import State, Status
from moldau.connect.worker.herder import Herder
from moldau.connect.worker.loggers import require_level, set_level
from moldau.connect.worker.protocol import CONNECTOR_ITSELF
from moldau.connect.worker.unknown import unknown_options
from moldau.connect.worker.validation import require_valid

LOG: Final = logging.getLogger(__name__)
STARTING: Final = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."


class Elsewhere(ConnectError):
    """Another worker answers this, at `url`."""

    def __init__(self, url: str) -> None:
        super().__init__(f"ask {url}")
        self.url = url


class Requests:
    def __init__(self, herder: Herder) -> None:
        self.herder = herder

    def _require_leader(self) -> None:
        """Errors: Elsewhere, Rebalancing."""
        herder = self.herder
        if herder.assignment is None:
            raise Rebalancing(STARTING)
        if not herder.is_leader:
            raise Elsewhere(herder.assignment.leader_url)

    def _config(self, name: str) -> Config:
        found = self.herder.configs.connectors.get(name)
        if found is None:
            raise NotFound(f"Connector {name} not found")
        return found

    def _require_known(self, name: str) -> None:
        if name not in self.herder.configs.connectors:
            raise NotFound(f"Unknown connector {name}")

    # ------------------------------------------------------------ reading

    def names(self) -> list[str]:
        return sorted(self.herder.configs.connectors)

    def kind(self, config: Config) -> str:
        try:
            return connector_of(self._resolved(config).get("connector.class") or "").kind
        except ConnectError:
            return "unknown"

    def info(self, name: str) -> dict[str, Any]:
        config = self._config(name)
        tasks = [{"connector": task.connector, "task": task.task} for task in self.herder.configs.task_ids(name)]
        return {"name": name, "config": dict(config), "tasks": tasks, "type": self.kind(config)}

    def config(self, name: str) -> dict[str, str | None]:
        return dict(self._config(name))

    def tasks(self, name: str) -> list[dict[str, Any]]:
        self._config(name)
        configs = self.herder.configs.tasks.get(name, [])
        return [{"id": {"connector": name, "task": number}, "config": config} for number, config in enumerate(configs)]

    def status(self, name: str) -> dict[str, Any]:
        found = self.herder.statuses.connectors.get(name)
        if found is None:
            raise NotFound(f"No status found for connector {name}")
        tasks = [{"id": number, **one.described()} for number, one in self.herder.statuses.tasks_of(name).items()]
        kind = self.kind(self.herder.configs.connectors.get(name, {}))
        return {"name": name, "connector": found.described(), "tasks": tasks, "type": kind}

    def task_status(self, task: TaskId) -> dict[str, Any]:
        found = self.herder.statuses.tasks.get(task)
        if found is None:
            raise NotFound(f"No status found for task {task}")
        return {"id": task.task, **found.described()}

    def topics(self, name: str) -> dict[str, Any]:
        return {name: {"topics": list(self.herder.statuses.topics.get(name, {}))}}

    def reset_topics(self, name: str) -> None:
        self.herder.forget_topics(name)

    # ------------------------------------------------------------ changing

    async def create(self, name: str, config: Config, target: Target | None) -> dict[str, Any]:
        self._require_leader()
        require_valid(self._resolved(config), self.herder.options.converters)
        if name in self.herder.configs.connectors:
            raise AlreadyExists(f"Connector {name} already exists")
        records = [connector_record(name, config)]
        if target is not None:
            records.insert(0, target_record(name, target))
        return self._of_new(await self._written(name, config, records))

    async def put_config(self, name: str, config: Config) -> tuple[bool, dict[str, Any]]:
        """Whether the connector is new, and its description as it is now."""
        self._require_leader()
        require_valid(self._resolved(config), self.herder.options.converters)
        is_new = name not in self.herder.configs.connectors
        found = await self._written(name, config, [connector_record(name, config)])
        return is_new, self._of_new(found) if is_new else found

    async def patch_config(self, name: str, patch: Config) -> dict[str, Any]:
        """Change the options of `patch`.  None removes an option."""
        self._require_leader()
        merged = {**self._config(name), **patch}
        config = {key: value for key, value in merged.items() if not (key in patch and value is None)}
        require_valid(self._resolved(config), self.herder.options.converters)
        return await self._written(name, config, [connector_record(name, config)])

    def _of_new(self, found: dict[str, Any]) -> dict[str, Any]:
        """In a group, the tasks of a new connector are not known yet."""
        return found if self.herder.is_alone else {**found, "tasks": []}

    async def _written(self, name: str, config: Config, records: list[tuple[bytes, bytes | None]]) -> dict[str, Any]:
        for sentence in self._unknown_options(config):
            LOG.warning("connector %s: %s", name, sentence)
        await self.herder.config_log.write(records)
        await self.herder.config_log.read_to_end()
        await self.herder.carried_out(name)
        tasks = [{"connector": task.connector, "task": task.task} for task in self.herder.configs.task_ids(name)]
        return {"name": name, "config": dict(config), "tasks": tasks, "type": self.kind(config)}

    def _resolved(self, config: Config) -> Config:
        """Errors: ConfigError."""
        return self.herder.options.providers.resolved(config)

    def _unknown_options(self, config: Config) -> Iterator[str]:
        resolved = self._resolved(config)
        return unknown_options(connector_of(resolved.get("connector.class") or ""), resolved, self.herder.options.converters)

    async def delete(self, name: str) -> None:
        self._require_leader()
        self._config(name)
        await self.herder.config_log.write(deletion(name))
        await self.herder.config_log.read_to_end()
        await self.herder.carried_out(name)

    async def set_target(self, name: str, target: Target) -> None:
        """Pause or resume."""
        self._require_known(name)
        await self.herder.config_log.write([target_record(name, target)])
        await self.herder.carried_out(name)

    async def stop(self, name: str) -> None:
        self._require_leader()
        self._require_known(name)
        await self.herder.config_log.write([target_record(name, Target.STOPPED), *task_records(name, [])])
        await self.herder.config_log.read_to_end()
        await self.herder.carried_out(name)

    async def put_tasks(self, name: str, configs: list[Config]) -> None:
        """Take the task configurations of a connector, computed by another worker."""
        self._require_leader()
        self._config(name)
        await self.herder.config_log.write(task_records(name, configs))
        await self.herder.config_log.read_to_end()

    # ------------------------------------------------------------ restarting

    def _here(self, unit: TaskId) -> None:
        """Errors: Elsewhere, Rebalancing."""
        herder = self.herder
        if herder.owns(unit):
            return
        self._require_leader()
        url = herder.owner_url(unit)
        if url is None or url == herder.options.url:
            raise Rebalancing(STARTING)
        raise Elsewhere(url)

    async def restart_connector(self, name: str) -> None:
        if name not in self.herder.configs.connectors:
            raise NotFound(f"Unknown connector: {name}")
        self._here(TaskId(name, CONNECTOR_ITSELF))
        self.herder.worker.restart_connector(name)
        self.herder.changed()
        await self.herder.carried_out(name)

    async def restart_with(self, request: RestartRequest) -> dict[str, Any]:
        """The states that connector and tasks are about to have."""
        herder = self.herder
        if request.connector not in herder.configs.connectors:
            raise NotFound(f"Unknown connector: {request.connector}")
        self._require_leader()

        def planned(status: Status) -> dict[str, Any]:
            is_meant = not request.only_failed or status.state is State.FAILED
            return (Status(State.RESTARTING, status.worker_id, status.generation, None, status.version) if is_meant else status).described()

        found = self.status(request.connector)
        found["connector"] = planned(herder.statuses.connectors[request.connector])
        if request.includes_tasks:
            found["tasks"] = [{"id": number, **planned(one)} for number, one in herder.statuses.tasks_of(request.connector).items()]
        await herder.config_log.write([restart_record(request)])
        await herder.config_log.read_to_end()
        await herder.settle()
        return found

    async def restart_task(self, task: TaskId) -> None:
        if task.connector not in self.herder.configs.connectors:
            raise NotFound(f"Unknown connector: {task.connector}")
        if task not in self.herder.configs.task_ids(task.connector):
            raise NotFound(f"Unknown task: {task}")
        self._here(task)
        await self.herder.restart_tasks([task])
        await self.herder.settle()

    # ------------------------------------------------------------ loggers

    def set_logger(self, name: str, level: Any) -> list[str]:
        return set_level(name, require_level(level), SystemClock().now_ms())

    async def set_logger_everywhere(self, name: str, level: Any) -> None:
        await self.herder.config_log.write([logger_record(name, require_level(level))])

    def stopped_connector(self, name: str) -> tuple[Connector, Config]:
        """A stopped connector, whose offsets may be changed.  Errors: BadRequest, NotFound, Elsewhere."""
        config = self._resolved(self._config(name))
        self._require_leader()
        if self.herder.configs.target(name) is not Target.STOPPED or self.herder.configs.tasks.get(name):
            raise BadRequest(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified "
                f"connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
            )
        return connector_of(config.get("connector.class") or ""), config


def with_name(name: str, config: Mapping[str, str | None]) -> dict[str, str | None]:
    """Errors: BadRequest."""
    own = config.get("name", name)
    if own != name:
        raise BadRequest(f"Connector name configuration ({own}) doesn't match connector name in the URL ({name})")
    return {**config, "name": name}
