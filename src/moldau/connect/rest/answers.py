"""● The answers of the REST API: one method for each row of `routes.ROUTES`."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from moldau.connect.connectors.registry import connector_of, known, load
from moldau.connect.converters.catalogue import CONVERTERS, HEADER_CONVERTERS
from moldau.connect.declare.definition import Definition
from moldau.connect.errors import BadRequest, ConfigError, ConnectError, NotFound
from moldau.connect.rest import bodies
from moldau.connect.store.configs import RestartRequest, Target, TaskId
from moldau.connect.transforms.catalogue import PREDICATE_PLUGINS, TRANSFORM_PLUGINS
from moldau.connect.worker.loggers import all_levels, level_of
from moldau.connect.worker.offset_requests import OffsetRequests
from moldau.connect.worker.requests import Requests, with_name
from moldau.connect.worker.signature import require_signature
from moldau.connect.worker.validation import VERSION, base, validated_infos
from moldau.version import __version__


class Asked(NamedTuple):
    """One parsed request."""

    path: Mapping[str, str]
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    raw_body: bytes
    body: Any

    @property
    def connector(self) -> str:
        return self.path["connector"]

    @property
    def task(self) -> TaskId:
        return TaskId(self.connector, int(self.path["task"]))

    def flag(self, name: str) -> bool:
        return (self.query.get(name) or [""])[0].lower() == "true"


class Answer(NamedTuple):
    """`body` None: the answer has no body."""

    status: int = 200
    body: Any = None
    location: str | None = None


NOTHING: Final = Answer(204)
ACCEPTED: Final = Answer(202)


class Answers:
    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._offsets = OffsetRequests(requests)
        self._herder = requests.herder

    async def root(self, asked: Asked) -> Answer:
        return Answer(200, {"version": VERSION, "commit": f"moldau-{__version__}", "kafka_cluster_id": self._herder.cluster_id})

    async def health(self, asked: Asked) -> Answer:
        if not self._herder.is_ready:
            return Answer(503, {"status": "starting", "message": "Worker is still starting up."})
        return Answer(200, {"status": "healthy", "message": "Worker has completed startup and is ready to handle requests."})

    # ------------------------------------------------------------ connectors

    async def list_connectors(self, asked: Asked) -> Answer:
        names = self._requests.names()
        if "expand" not in asked.query:
            return Answer(200, names)
        wanted = asked.query["expand"]
        found: dict[str, Any] = {}
        for name in names:
            expanded: dict[str, Any] = {}
            try:
                if "info" in wanted:
                    expanded["info"] = self._requests.info(name)
                if "status" in wanted:
                    expanded["status"] = self._requests.status(name)
            except NotFound:
                continue  # the connector is being made, or deleted
            found[name] = expanded
        return Answer(200, found)

    async def create(self, asked: Asked) -> Answer:
        name, config, target = bodies.creation(asked.body)
        made = await self._requests.create(name, with_name(name, config), target)
        return Answer(201, made, f"{self._herder.options.url}connectors/{quote(name)}")

    async def info(self, asked: Asked) -> Answer:
        return Answer(200, self._requests.info(asked.connector))

    async def delete(self, asked: Asked) -> Answer:
        await self._requests.delete(asked.connector)
        return NOTHING

    async def config(self, asked: Asked) -> Answer:
        return Answer(200, self._requests.config(asked.connector))

    async def put_config(self, asked: Asked) -> Answer:
        name = asked.connector
        is_new, found = await self._requests.put_config(name, with_name(name, bodies.config_of(asked.body)))
        return Answer(201, found, f"{self._herder.options.url}connectors/{quote(name)}") if is_new else Answer(200, found)

    async def patch_config(self, asked: Asked) -> Answer:
        return Answer(200, await self._requests.patch_config(asked.connector, bodies.config_of(asked.body)))

    async def status(self, asked: Asked) -> Answer:
        return Answer(200, self._requests.status(asked.connector))

    async def topics(self, asked: Asked) -> Answer:
        return Answer(200, self._requests.topics(asked.connector))

    async def reset_topics(self, asked: Asked) -> Answer:
        self._requests.reset_topics(asked.connector)
        return ACCEPTED

    async def restart(self, asked: Asked) -> Answer:
        includes_tasks, only_failed = asked.flag("includeTasks"), asked.flag("onlyFailed")
        if not includes_tasks and not only_failed:
            await self._requests.restart_connector(asked.connector)
            return NOTHING
        return Answer(202, await self._requests.restart_with(RestartRequest(asked.connector, includes_tasks, only_failed)))

    async def pause(self, asked: Asked) -> Answer:
        await self._requests.set_target(asked.connector, Target.PAUSED)
        return ACCEPTED

    async def resume(self, asked: Asked) -> Answer:
        await self._requests.set_target(asked.connector, Target.STARTED)
        return ACCEPTED

    async def stop(self, asked: Asked) -> Answer:
        await self._requests.stop(asked.connector)
        return NOTHING

    # ------------------------------------------------------------ tasks

    async def tasks(self, asked: Asked) -> Answer:
        return Answer(200, self._requests.tasks(asked.connector))

    async def put_tasks(self, asked: Asked) -> Answer:
        if self._herder.is_alone:
            raise ConnectError("Kafka Connect in standalone mode does not support externally setting task configurations.")
        require_signature(self._herder.configs.session_key, asked.headers, asked.raw_body)
        if not isinstance(asked.body, list):
            raise BadRequest("a list of configurations is expected")
        await self._requests.put_tasks(asked.connector, [bodies.config_of(one) for one in asked.body])
        return NOTHING

    async def fence(self, asked: Asked) -> Answer:
        """Nothing is left to do: a task's transactional id fences earlier runs of the task."""
        if self._herder.is_alone:
            raise ConnectError("Kafka Connect in standalone mode does not support exactly-once source connectors.")
        require_signature(self._herder.configs.session_key, asked.headers, asked.raw_body)
        return NOTHING

    async def task_status(self, asked: Asked) -> Answer:
        return Answer(200, self._requests.task_status(asked.task))

    async def restart_task(self, asked: Asked) -> Answer:
        await self._requests.restart_task(asked.task)
        return NOTHING

    # ------------------------------------------------------------ offsets

    async def offsets(self, asked: Asked) -> Answer:
        return Answer(200, await self._offsets.read(asked.connector))

    async def alter_offsets(self, asked: Asked) -> Answer:
        return Answer(200, {"message": await self._offsets.alter(asked.connector, bodies.offset_changes(asked.body))})

    async def reset_offsets(self, asked: Asked) -> Answer:
        return Answer(200, {"message": await self._offsets.reset(asked.connector)})

    # ------------------------------------------------------------ plug-ins

    async def plugins(self, asked: Asked) -> Answer:
        found: list[tuple[str, str]] = [(name, load(name).kind) for name in known()]
        found.sort(key=lambda one: one[1])
        if (asked.query.get("connectorsOnly") or ["true"])[0].lower() == "false":
            found += [(name, "transformation") for name in sorted(TRANSFORM_PLUGINS)]
            found += [(name, "predicate") for name in sorted(PREDICATE_PLUGINS)]
            found += [(name, "converter") for name in sorted(CONVERTERS)]
            found += [(name, "header_converter") for name in sorted(HEADER_CONVERTERS)]
        return Answer(200, [{"class": name, "type": kind, "version": VERSION} for name, kind in found])

    async def plugin_config(self, asked: Asked) -> Answer:
        return Answer(200, [key.described() for key in _definition(asked.path["plugin"]).keys.values()])

    async def validate(self, asked: Asked) -> Answer:
        config = bodies.config_of(asked.body)
        plugin, named = asked.path["plugin"], config.get("connector.class")
        if named and not _same(named, plugin):
            raise BadRequest(f"Included connector type {named} does not match request type {plugin}")
        try:
            resolved = self._herder.options.providers.resolved(config)
            return Answer(200, validated_infos(resolved, self._herder.options.converters))
        except ConfigError as error:
            raise ConnectError(f"{error.java_class}: {error}") from error
        except BadRequest as error:
            raise ConnectError(str(error)) from error

    # ------------------------------------------------------------ loggers

    async def loggers(self, asked: Asked) -> Answer:
        return Answer(200, all_levels())

    async def logger(self, asked: Asked) -> Answer:
        return Answer(200, level_of(asked.path["logger"]))

    async def set_logger(self, asked: Asked) -> Answer:
        level = bodies.an_object(asked.body, "a level").get("level")
        if (asked.query.get("scope") or [""])[0].lower() == "cluster":
            await self._requests.set_logger_everywhere(asked.path["logger"], level)
            return NOTHING
        return Answer(200, self._requests.set_logger(asked.path["logger"], level))


def _same(named: str, plugin: str) -> bool:
    def last(name: str) -> str:
        return name.rpartition(".")[2].removesuffix("Connector")

    return last(named) == last(plugin)


def _definition(plugin: str) -> Definition:
    """The definition by whole name, or by the name's last part if that has no `$`.  Errors: NotFound."""
    try:
        connector = connector_of(plugin)
        return connector.definition + base(connector, None)
    except BadRequest:
        pass
    described: dict[str, Definition] = {
        **{name: one.definition for name, one in TRANSFORM_PLUGINS.items()},
        **{name: one.definition for name, one in PREDICATE_PLUGINS.items()},
        **{name: one.definition for name, one in HEADER_CONVERTERS.items()},
    }
    for name, definition in described.items():
        short = name.rpartition(".")[2]
        if plugin == name or ("$" not in short and plugin in (short, short.removesuffix("Converter"))):
            return definition
    raise NotFound(f"Unknown plugin {plugin}.")
