import re

import pytest

from moldau.config import ConfigError
from moldau.server.node.accepted import REFUSED, accepted_options
from moldau.server.node.config import ROOMS, NodeConfig, UnknownOption
from moldau.server.requests.endpoints import Endpoint

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    "log.dirs": "/tmp/kraft-combined-logs",
}


def parse(*without: str, **changed: str) -> NodeConfig:
    properties = {key: value for key, value in COMBINED.items() if key not in without}
    return NodeConfig.parse(properties | {key.replace("__", "."): value for key, value in changed.items()})


def test_reads_the_file_that_kafka_ships() -> None:
    config = parse(num__network__threads="3", num__io__threads="8", socket__request__max__bytes="104857600", log__retention__hours="168")
    assert config.is_broker and config.is_controller
    assert config.node_id == 1
    assert config.warnings == ()
    assert config.broker_listeners == (Endpoint("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert config.controller_listeners == (Endpoint("CONTROLLER", "", 9093, "PLAINTEXT"),)
    assert config.advertised_broker_listeners == (Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
    assert config.advertised_controller_listeners == (Endpoint("CONTROLLER", "localhost", 9093, "PLAINTEXT"),)
    assert config.metadata_log_dir == "/tmp/kraft-combined-logs"


def test_needs_no_protocol_map_for_plaintext() -> None:
    config = parse("listener.security.protocol.map", "advertised.listeners", "inter.broker.listener.name")
    assert config.controller_protocols == {"CONTROLLER": "PLAINTEXT"}
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.advertised == config.listeners


def test_takes_kafkas_older_keys() -> None:
    config = parse("node.id", "log.dirs", broker__id="7", log__dir="/data")
    assert config.node_id == 7
    assert config.log_dirs == ("/data",)


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"process.roles": ""}, ["process.roles", "broker,controller"]),
        ({"controller.quorum.bootstrap.servers": ""}, ["controller.quorum.bootstrap.servers", "controller.quorum.voters"]),
        ({"process.roles": "brooker"}, ["process.roles", "brooker", "broker, controller"]),
        ({"process.roles": "broker,broker"}, ["process.roles"]),
        ({"node.id": "one"}, ["node.id", "one"]),
        ({"node.id": "-3"}, ["node.id"]),
        ({"broker.id": "2"}, ["broker.id", "2", "node.id"]),
        ({"log.dirs": ""}, ["log.dirs"]),
        ({"log.dirs": "/a,/a"}, ["log.dirs", "twice"]),
        ({"log.dirs": "/a,/b\0c"}, ["log.dirs", "zero byte"]),
        ({"log.dirs": "/a,/b\ud800c"}, ["log.dirs", "surrogate"]),
        ({"metadata.log.dir": "/b\0c"}, ["metadata.log.dir", "zero byte"]),
        ({"controller.quorum.voters": "somebody"}, ["controller.quorum.voters", "somebody", "1@controller1.example.com:9093"]),
        ({"listeners": "PLAINTEXT:9092"}, ["listeners", "PLAINTEXT:9092", "PLAINTEXT://localhost:9092"]),
        ({"listeners": "PLAINTEXT://:9092,CONTROLLER://:9092"}, ["listeners", "9092"]),
        ({"listeners": "PLAINTEXT://:9092,PLAINTEXT://:9094,CONTROLLER://:9093"}, ["listeners", "PLAINTEXT", "twice"]),
        ({"listeners": "PLAINTEXT://:92000,CONTROLLER://:9093"}, ["listeners", "92000", "65535"]),
        ({"listeners": "HOME://:9092,CONTROLLER://:9093"}, ["listeners", "HOME", "listener.security.protocol.map"]),
        ({"listeners": "PLAINTEXT://:9092"}, ["controller.listener.names", "CONTROLLER"]),
        (
            {"listeners": "SSL://:9092,CONTROLLER://:9093", "advertised.listeners": "SSL://a:9092", "inter.broker.listener.name": "SSL"},
            ["SSL"],
        ),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, ["advertised.listeners", "0.0.0.0"]),
        ({"advertised.listeners": "SSL://a:9092,PLAINTEXT://a:9092"}, ["advertised.listeners", "SSL"]),
        ({"advertised.listeners": "CONTROLLER://a:9093"}, ["advertised.listeners"]),
        ({"inter.broker.listener.name": "SSL"}, ["inter.broker.listener.name", "SSL", "PLAINTEXT"]),
        ({"security.inter.broker.protocol": "PLAINTEXT"}, ["security.inter.broker.protocol", "inter.broker.listener.name"]),
        ({"controller.listener.names": ""}, ["controller.listener.names"]),
        ({"listener.security.protocol.map": "CONTROLLER"}, ["listener.security.protocol.map", "CONTROLLER"]),
        ({"listener.security.protocol.map": "CONTROLLER:TELEX"}, ["listener.security.protocol.map", "TELEX", "SASL_SSL"]),
        ({"process.roles": "controller"}, ["listeners", "PLAINTEXT"]),
        ({"process.roles": "broker"}, ["listeners", "CONTROLLER"]),
        ({"replica.fetch.wait.max.ms": "60000"}, ["replica.fetch.wait.max.ms", "60000", "replica.lag.time.max.ms"]),
        ({"queued.max.request.bytes": "5"}, ["queued.max.request.bytes", "5", "socket.request.max.bytes"]),
        ({"max.connections.per.ip.overrides": "10.0.0.7"}, ["max.connections.per.ip.overrides", "10.0.0.7", "host:number"]),
        ({"max.connections.per.ip": "0"}, ["max.connections.per.ip", "max.connections.per.ip.overrides"]),
        ({"replica.socket.timeout.ms": "400"}, ["replica.fetch.wait.max.ms", "500", "replica.socket.timeout.ms", "400"]),
        (
            {"group.consumer.session.timeout.ms": "100"},
            ["group.consumer.session.timeout.ms", "100", "group.consumer.min.session.timeout.ms", "45000", "change one of the two"],
        ),
        (
            {"group.share.min.session.timeout.ms": "1", "group.share.session.timeout.ms": "5000"},
            ["group.share.session.timeout.ms", "5000", "greater than group.share.heartbeat.interval.ms"],
        ),
        ({"group.streams.max.standby.replicas": "0", "group.streams.num.standby.replicas": "1"}, ["max.standby.replicas, which is 0"]),
        ({"group.share.max.share.sessions": "100"}, ["group.share.max.share.sessions", "100", "group.share.max.size", "200"]),
        ({"group.share.max.record.lock.duration.ms": "30000", "group.share.record.lock.duration.ms": "40000"}, ["40000", "30000"]),
        (
            {"log.cleaner.dedupe.buffer.size": "4194304", "log.cleaner.threads": "4"},
            ["log.cleaner.dedupe.buffer.size", "threads, which is 4"],
        ),
        ({"log.retention.hours": "0"}, ["log.retention.ms", "-1"]),
        (
            {
                "process.roles": "broker",
                "listeners": "PLAINTEXT://:9092",
                "advertised.listeners": "",
                "controller.quorum.auto.join.enable": "true",
            },
            ["controller.quorum.auto.join.enable", "controller"],
        ),
        ({"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"}, ["min.compaction.lag.ms", "9", "8"]),
        ({"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}, ["authorizer.class.name"]),
    ],
    ids=str,
)
def test_says_in_one_line_what_is_wrong(changed: dict[str, str], names: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        NodeConfig.parse(COMBINED | changed)
    text = str(caught.value)
    assert "\n" not in text
    for name in names:
        assert name in text, text


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("log.retention.hour", "log.retention.hours"),
        ("log.dris", "log.dirs"),
        ("num.partition", "num.partitions"),
        ("advertised.listener", "advertised.listeners"),
        ("offsets.topic.replication.facto", "offsets.topic.replication.factor"),
    ],
)
def test_a_typo_refuses_the_start(typo: str, meant: str) -> None:
    with pytest.raises(UnknownOption) as caught:
        NodeConfig.parse(COMBINED | {typo: "1"})
    assert caught.value.meant == meant
    assert f"did you mean {meant}?" in str(caught.value)


def test_keys_of_others_are_a_warning() -> None:
    config = NodeConfig.parse(
        COMBINED
        | {"confluent.license.topic": "x", "inter.broker.protocol.version": "3.5", "listener.name.plaintext.ssl.client.auth": "none"}
    )
    assert [warning.split(" ", 1)[0] for warning in config.warnings] == ["confluent.license.topic", "inter.broker.protocol.version"]


@pytest.mark.parametrize(
    ("changed", "warning"),
    [
        ({"broker.heartbeat.interval.ms": "9001"}, "broker.heartbeat.interval.ms=9001 is above broker.session.timeout.ms=9000: "),
        ({"transaction.state.log.replication.factor": "1"}, "transaction.state.log.min.isr=2 is above "),
        ({"share.coordinator.state.topic.replication.factor": "1"}, "share.coordinator.state.topic.min.isr=2 is above "),
        ({"group.max.session.timeout.ms": "5000"}, "group.min.session.timeout.ms=6000 is above group.max.session.timeout.ms=5000: "),
    ],
    ids=str,
)
def test_what_will_hardly_do_what_was_meant_is_a_warning(changed: dict[str, str], warning: str) -> None:
    (found,) = NodeConfig.parse(COMBINED | changed).warnings
    assert found.startswith(warning)


def test_every_bound_is_another_option_of_a_node() -> None:
    declared = {option.key: option for room in ROOMS for option in room.OPTIONS.values()}
    bounds = [(option, bound) for option in declared.values() for bound in option.bounds]
    assert len(bounds) > 30
    for option, bound in bounds:
        assert bound.key in declared and bound.holds(option.default, declared[bound.key].default), (option.key, bound)


def test_options_without_effect_are_kafkas_and_no_rooms() -> None:
    declared = {key for room in ROOMS for option in room.OPTIONS.values() for key in option.keys}
    assert accepted_options()["num.io.threads"].default == "8"
    assert REFUSED.keys() <= accepted_options().keys()
    assert not declared & accepted_options().keys(), "an option that a room reads is no longer without effect: take it out of accepted.py"


def test_a_broker_alone_names_controllers_that_it_does_not_listen_for() -> None:
    config = NodeConfig.parse(
        COMBINED | {"process.roles": "broker", "listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://one:9092"}
    )
    assert config.controller_listeners == ()
    assert config.controller_protocols == {"CONTROLLER": "PLAINTEXT"}


TIERED = {"remote.log.storage.system.enable": "true", "rsm.config.storage.url": "file:///tier"}


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"rsm.config.storage.url": ""}, "rsm.config.storage.url"),
        ({"rsm.config.storage.s3.regon": "x"}, "did you mean rsm.config.storage.s3.region"),
        ({"remote.log.storage.manager.class.name": "io.aiven.RemoteStorageManager"}, "take the line out"),
        (
            {"log.retention.ms": "10", "log.local.retention.ms": "20"},
            "log.local.retention.ms: Value must not be more than log.retention.ms",
        ),
        ({"rlmm.config.remote.log.metadata.topic.num.partitions": "0"}, "rlmm.config.remote.log.metadata.topic.num.partitions"),
    ],
)
def test_what_is_wrong_with_tiered_storage_is_told_at_the_start(changed: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        NodeConfig.parse(COMBINED | TIERED | changed)
    NodeConfig.parse(COMBINED | changed | {"log.retention.ms": "100"})  # nobody minds where tiered storage is switched off


def test_the_store_may_stand_behind_another_prefix() -> None:
    config = NodeConfig.parse(COMBINED | {"remote.log.storage.manager.impl.prefix": "tier."} | TIERED | {"tier.storage.url": "s3://bucket"})
    assert (config.store.url, config.remote_log_metadata.replication_factor) == ("s3://bucket", 3)
