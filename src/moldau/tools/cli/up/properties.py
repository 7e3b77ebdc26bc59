"""◇ The server.properties that `moldau up` writes for a node, alone or in a cluster."""

from typing import Final

PROPERTIES: Final = """\
# Written by `moldau up`, with Kafka's option names.  Change what you like: the next start goes by it.
process.roles=broker,controller
node.id={node_id}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://localhost:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port},CONTROLLER://localhost:{controller_port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers={bootstrap}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}

{replication}
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={min_insync}
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={min_insync}
group.initial.rebalance.delay.ms=0
"""


def properties_text(*, node_id: int, host: str, port: int, controller_port: int, bootstrap: str, data: object, replicas: int) -> str:
    """`bootstrap`: host:port of every controller, separated by commas; `replicas`: of each topic."""
    min_insync = max(1, replicas - 1)
    replication = (
        "# A single broker holds the only replica."
        if replicas == 1
        else f"default.replication.factor={replicas}\nmin.insync.replicas={min_insync}"
    )
    return PROPERTIES.format(
        node_id=node_id,
        host=host,
        port=port,
        controller_port=controller_port,
        bootstrap=bootstrap,
        data=data,
        replication=replication,
        replicas=replicas,
        min_insync=min_insync,
    )
