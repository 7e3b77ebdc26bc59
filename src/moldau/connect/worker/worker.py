"""● Runs one worker's connectors and tasks, and keeps them in the state that the config topic demands.

`reconcile` compares what runs with what should run, and mends the difference.  The herder calls it after every change, so no change is
lost, in whatever order things happen.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from moldau.connect.connectors.connector import Connector, SinkTask
from moldau.connect.connectors.registry import connector_of
from moldau.connect.declare.definition import Config
from moldau.connect.errors import ConnectError
from moldau.connect.providers import with_variables
from moldau.connect.store.configs import ConfigState, Target, TaskId
from moldau.connect.store.statuses import State
from moldau.connect.worker.failures import trace_of
from moldau.connect.worker.sink_task import SinkRun
from moldau.connect.worker.source_task import SourceRun
from moldau.connect.worker.task import Surroundings, TaskRun

LOG: Final = logging.getLogger(__name__)

TellConnector = Callable[[str, State, str | None], None]
Publish = Callable[[str, Sequence[Config]], None]
"""Called with the configurations that a connector's tasks are to have."""


class RunningConnector(NamedTuple):
    config: Config
    target: Target
    tasks: list[Config] | None
    """The configurations that the connector wants for its tasks; None: the connector is paused, or failed."""


class Worker:
    def __init__(self, configs: ConfigState, around: Surroundings, tell: TellConnector, publish: Publish) -> None:
        self.connectors: dict[str, RunningConnector] = {}
        self.tasks: dict[TaskId, TaskRun] = {}
        self._configs = configs
        self._around = around
        self._tell = tell
        self._publish = publish

    async def reconcile(self, connectors: Collection[str], tasks: Collection[TaskId]) -> None:
        """`connectors`, `tasks`: the units that this worker was given."""
        known = {name for name in connectors if name in self._configs.connectors}
        for name in [name for name in self.connectors if name not in known]:
            self.stop_connector(name, is_deleted=name not in self._configs.connectors)
        wanted = {
            task for task in tasks if self._config_of(task) is not None and self._configs.target(task.connector) is not Target.STOPPED
        }
        await asyncio.gather(*(self._stop(task) for task, run in self.tasks.items() if task not in wanted or self._is_outdated(run)))
        for name in sorted(known):
            self._follow_connector(name)
        for task in sorted(wanted):
            if task in self.tasks:
                self.tasks[task].follow(self._configs.target(task.connector))
            else:
                self._start(task)

    def _config_of(self, task: TaskId) -> Config | None:
        listed = self._configs.tasks.get(task.connector, [])
        return listed[task.task] if 0 <= task.task < len(listed) else None

    def _is_outdated(self, run: TaskRun) -> bool:
        return run.given != (self._configs.applied.get(run.task.connector), self._config_of(run.task))

    # ------------------------------------------------------------ connectors

    def stop_connector(self, name: str, *, is_deleted: bool = False) -> None:
        self.connectors.pop(name, None)
        if not is_deleted:
            self._tell(name, State.UNASSIGNED, None)

    def _follow_connector(self, name: str) -> None:
        config, target = self._configs.connectors[name], self._configs.target(name)
        running = self.connectors.get(name)
        if running is None or running.config != config or running.target is not target:
            self._start_connector(name, config, target)
        running = self.connectors[name]
        if running.tasks is not None and self.differs(name, running.tasks):
            self._publish(name, running.tasks)

    def differs(self, name: str, tasks: list[Config]) -> bool:
        """Whether the tasks have yet to be published."""
        applied = self._configs.applied.get(name)
        return self._configs.tasks.get(name, []) != tasks or (applied != self._configs.connectors[name] and bool(tasks))

    def _start_connector(self, name: str, config: Config, target: Target) -> None:
        tasks: list[Config] | None = None
        try:
            resolved = self._around.options.providers.resolved(config)
            connector = connector_of(resolved.get("connector.class") or "")
            if target is Target.STARTED:
                tasks = [with_variables(one, config) for one in self._task_configs(connector, resolved)]
            elif target is Target.STOPPED:
                tasks = []
            states = {Target.STARTED: State.RUNNING, Target.PAUSED: State.PAUSED, Target.STOPPED: State.STOPPED}
            self._tell(name, states[target], None)
        except Exception as error:
            LOG.warning("connector %s failed", name, exc_info=error)
            self._tell(name, State.FAILED, trace_of(error))
        self.connectors[name] = RunningConnector(config, target, tasks)

    def _task_configs(self, connector: Connector, config: Config) -> list[dict[str, str | None]]:
        most = int(config.get("tasks.max") or 1)
        made = connector.task_configs(config, most)
        if len(made) > most and (config.get("tasks.max.enforce") or "true").lower() == "true":
            raise ConnectError(f"The connector made {len(made)} tasks, and tasks.max is {most}")
        return [{**one, "task.class": connector.task_class} for one in made]

    def restart_connector(self, name: str) -> None:
        """The next `reconcile` starts the connector again."""
        self.connectors.pop(name, None)

    # ------------------------------------------------------------ tasks

    def _start(self, task: TaskId) -> None:
        config = self._config_of(task)
        assert config is not None
        applied = self._configs.applied[task.connector]
        try:
            connector = connector_of(self._around.options.providers.resolved(applied).get("connector.class") or "")
        except ConnectError as error:
            self._around.tell(task, State.FAILED, trace_of(error))
            return
        kind = SinkRun if issubclass(connector.task, SinkTask) else SourceRun
        run: SinkRun | SourceRun = kind(task, applied, config, self._around)
        run.kind = connector
        self.tasks[task] = run
        run.start(self._configs.target(task.connector))

    async def _stop(self, task: TaskId, *, is_told: bool = True) -> None:
        run = self.tasks[task]
        await run.stop(is_told=is_told)
        if self.tasks.get(task) is run:
            del self.tasks[task]

    async def restart_task(self, task: TaskId) -> None:
        """Stops the task; the next `reconcile` starts it again."""
        if task in self.tasks:
            self._around.tell(task, State.RESTARTING, None)
            await self._stop(task, is_told=False)

    async def stop_all(self) -> None:
        for name in list(self.connectors):
            self.stop_connector(name)
        await asyncio.gather(*(self._stop(task) for task in list(self.tasks)))
