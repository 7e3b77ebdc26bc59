"""● The controller of a process: it decides while it leads the metadata log, and tells the active controller its addresses.

Source: ControllerServer.  Put together by `node.py`.
"""

import asyncio
from functools import partial
from typing import Final

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.controller import Controller, ControllerConfig, idle_interval_ms
from moldau.metadata.features import supported_ranges
from moldau.metadata.formatting.storage import read_bootstrap
from moldau.metadata.topics import TopicRules
from moldau.raft.config import QuorumConfig
from moldau.server.handlers import MODULES
from moldau.server.node.config import NodeConfig
from moldau.server.node.outside import Outside
from moldau.server.node.registrations import register_controller
from moldau.server.node.shared_server import SharedServer
from moldau.server.peers.broker_watch import BrokerWatch
from moldau.server.peers.controller import ControllerCalls, LocalController
from moldau.server.requests.broker import Services
from moldau.server.requests.cluster_view import ImageView
from moldau.server.requests.dispatch import Dispatcher
from moldau.server.requests.listeners import Listeners
from moldau.server.requests.registry import apis_of

RETRY_PAUSE_S: Final = 1.0


class ControllerServer:
    """See the module."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        schema: ConfigSchema,
        cluster_id: str,
        shared: SharedServer,
        listeners: Listeners,
        outside: Outside,
    ) -> None:
        server, quorum = config.server, config.of(QuorumConfig)
        self._config: Final = config
        self._listeners: Final = listeners
        self._outside: Final = outside
        self.controller: Final = Controller(
            shared.driver,
            shared.loader,
            outside.clock,
            ControllerConfig(
                cluster_id=cluster_id,
                session_timeout_ms=server.broker_session_timeout_ms,
                delete_topic_enable=server.delete_topic_enable,
                rules=TopicRules(
                    schema=schema,
                    num_partitions=server.num_partitions,
                    replication_factor=server.default_replication_factor,
                    new_id=outside.new_uuid,
                    chance=outside.random,
                ),
                idle_interval_ms=partial(idle_interval_ms, config.properties, quorum.max_idle_interval_ms),
            ),
            bootstrap=read_bootstrap(outside.files, config.metadata_log_dir),
        )

        self._watch: Final = BrokerWatch(
            local_id=config.node_id,
            network=outside.network,
            image=lambda: shared.loader.image,
            listener_name=config.inter_broker_listener_name,
            is_active=lambda: self.controller.is_active,
            on_dead=self.controller.end_session,
        )
        self._services: Final = Services(
            config=config,
            cluster_id=cluster_id,
            schema=schema,
            controller=LocalController(self.controller, self._watch.heard),
            raft=shared.driver,
            loader=shared.loader,
            clock=outside.clock,
            cluster=ImageView(lambda: shared.loader.image, supported_ranges(), lambda: shared.driver.kraft_version),
            apis={endpoint.name: apis_of(MODULES, "controller") for endpoint in config.controller_listeners},
        )

    async def start(self, active: ControllerCalls) -> None:
        """Serve the controllers' listeners; returns once `active`, the leading controller, knows this one's address.

        Errors: StartRefused.
        """
        self._listeners.serve({name: Dispatcher(self._services, apis).dispatch for name, apis in self._services.apis.items()})
        await self._outside.unless_failed(self._register(active))

    async def _register(self, active: ControllerCalls) -> None:
        request = register_controller(self._config, self._listeners.ports, self._outside.new_uuid())
        refusal: object = None
        while True:
            try:
                code = ErrorCode.of((await active.ask(request)).error_code)
                if code is ErrorCode.NONE:
                    return
                told: object = code.name
            except KafkaError as error:
                told = error
            if str(told) != str(refusal):
                self._outside.tell(f"waiting for the controllers: {told}")
            refusal = told
            await asyncio.sleep(RETRY_PAUSE_S)

    def leader_changed(self) -> None:
        if self.controller.is_active:
            self._watch.probe_all()

    async def stop(self) -> None:
        self._watch.close()
        await self.controller.stop()
        self._listeners.stop_reading(self._services.apis)
