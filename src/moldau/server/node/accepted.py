"""◇ Options of Kafka that no module here reads: they are accepted and listed by DescribeConfigs, without effect.

They tune threads, buffers and plug-ins that are not here, or features to come.  An option that a room declares is looked up there first,
so a line below goes out of use the day its feature arrives.  `REMOVED` lists former options, which Kafka 4 ignores, too.
Source: org.apache.kafka.server.config.AbstractKafkaConfig of Kafka 4.3.1.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from moldau.config import Kind


class AcceptedOption(NamedTuple):
    key: str
    kind: Kind
    default: str | None
    reason: str = ""
    """The reason why the option has no effect."""

    def is_default(self, text: str) -> bool:
        return text.strip().lower() == (self.default or "").lower()


@cache
def accepted_options() -> Mapping[str, AcceptedOption]:
    """The options by key.  The table is read on first use: the broker's start does not wait for it."""
    options = {}
    for reason, table in _TABLES.items():
        for line in table.splitlines():
            key, kind, default = (*line.split(" ", 2), "")[:3]
            options[key] = AcceptedOption(key, Kind[kind], None if default == "null" else default, reason)
    return dict(sorted(options.items()))


def is_fixed(key: str) -> bool:
    """Whether Kafka refuses to change this option of the table below while the broker runs."""
    is_dynamic = key in DYNAMIC or (key.startswith(DYNAMIC_PREFIXES) and key not in FIXED)
    return key in accepted_options() and not is_dynamic


DYNAMIC_PREFIXES: Final = ("ssl.", "sasl.kerberos.", "sasl.login.refresh.")
FIXED: Final = frozenset({"ssl.allow.dn.changes", "ssl.allow.san.changes", "ssl.principal.mapping.rules"})
DYNAMIC: Final = frozenset(
    {
        "background.threads",
        "config.providers",
        "cordoned.log.dirs",
        "follower.fetch.last.tiered.offset.enable",
        "group.coordinator.cached.buffer.max.bytes",
        "group.streams.assignment.interval.ms",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "metric.reporters",
        "num.io.threads",
        "num.network.threads",
        "num.replica.fetchers",
        "principal.builder.class",
        "remote.log.manager.follower.thread.pool.size",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.mechanism.inter.broker.protocol",
        "share.coordinator.cached.buffer.max.bytes",
    }
)
REMOVED: Final = frozenset(
    {
        "advertised.host.name",
        "advertised.port",
        "broker.id.generation.enable",
        "control.plane.listener.name",
        "delegation.token.master.key",
        "host.name",
        "inter.broker.protocol.version",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "offsets.commit.required.acks",
        "password.encoder.cipher.algorithm",
        "password.encoder.iterations",
        "password.encoder.key.length",
        "password.encoder.keyfactory.algorithm",
        "password.encoder.old.secret",
        "password.encoder.secret",
        "port",
        "reserved.broker.max.id",
        "zookeeper.connect",
        "zookeeper.connection.timeout.ms",
        "zookeeper.max.in.flight.requests",
        "zookeeper.metadata.migration.enable",
        "zookeeper.session.timeout.ms",
        "zookeeper.set.acl",
    }
)

REFUSED: Final[Mapping[str, str]] = {
    "authorizer.class.name": "access control is not served yet, and starting without it would let everyone in: leave the option out",
    "alter.config.policy.class.name": "policies are Java classes, which this broker cannot run: leave the option out",
    "create.topic.policy.class.name": "policies are Java classes, which this broker cannot run: leave the option out",
}
"""Options that would silently break a promise if set to anything but their default.  The text is the way out."""

PREFIXES: Final = ("config.providers.", "listener.name.", "rlmm.config.", "rsm.config.", "remote.log.metadata.")
"""The prefixes of keys that belong to a plug-in or to one listener."""

_TABLES: Final = {
    "it names code for a Java machine, which this broker cannot run": """\
alter.config.policy.class.name CLASS null
authorizer.class.name STRING
client.quota.callback.class CLASS null
config.providers LIST
create.topic.policy.class.name CLASS null
group.share.persister.class.name STRING org.apache.kafka.server.share.persister.DefaultStatePersister
kafka.metrics.reporters LIST
metric.reporters LIST org.apache.kafka.common.metrics.JmxReporter
principal.builder.class CLASS org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
remote.log.metadata.custom.metadata.max.bytes INT 128
remote.log.metadata.manager.class.name STRING org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path STRING null
remote.log.metadata.manager.listener.name STRING null
remote.log.storage.manager.class.name STRING null
remote.log.storage.manager.class.path STRING null
security.providers STRING null
""",
    "it tunes threads; one event loop does the work of all of them": """\
background.threads INT 10
group.coordinator.background.threads INT 2
group.coordinator.threads INT 4
num.io.threads INT 8
num.network.threads INT 3
remote.log.manager.follower.thread.pool.size INT 2
remote.log.manager.thread.pool.size INT 2
share.coordinator.threads INT 1
""",
    "it tunes how often waiting requests are checked; here the awaited event wakes them": """\
delete.records.purgatory.purge.interval.requests INT 1
fetch.purgatory.purge.interval.requests INT 1000
producer.purgatory.purge.interval.requests INT 1000
share.fetch.purgatory.purge.interval.requests INT 1000
""",
    "it tunes measurements that are not taken here": """\
controller.performance.always.log.threshold.ms LONG 2000
controller.performance.sample.period.ms LONG 60000
kafka.metrics.polling.interval.secs INT 10
metrics.num.samples INT 2
metrics.recording.level STRING INFO
metrics.sample.window.ms LONG 30000
telemetry.max.bytes INT 1048576
""",
    "quotas are not kept yet": """\
controller.quota.window.num INT 11
controller.quota.window.size.seconds INT 1
quota.window.num INT 11
quota.window.size.seconds INT 1
remote.log.manager.copy.quota.window.num INT 11
remote.log.manager.copy.quota.window.size.seconds INT 1
remote.log.manager.fetch.quota.window.num INT 11
remote.log.manager.fetch.quota.window.size.seconds INT 1
""",
    "rates of replication are kept to the byte, without windows": """\
alter.log.dirs.replication.quota.window.num INT 11
alter.log.dirs.replication.quota.window.size.seconds INT 1
replication.quota.window.num INT 11
replication.quota.window.size.seconds INT 1
""",
    "listeners speak no TLS and no SASL yet": """\
connection.failed.authentication.delay.ms INT 100
connections.max.reauth.ms LONG 0
delegation.token.expiry.check.interval.ms LONG 3600000
delegation.token.expiry.time.ms LONG 86400000
delegation.token.max.lifetime.ms LONG 604800000
delegation.token.secret.key PASSWORD null
early.start.listeners LIST null
sasl.client.callback.handler.class CLASS null
sasl.enabled.mechanisms LIST GSSAPI
sasl.jaas.config PASSWORD null
sasl.kerberos.kinit.cmd STRING /usr/bin/kinit
sasl.kerberos.min.time.before.relogin LONG 60000
sasl.kerberos.principal.to.local.rules LIST DEFAULT
sasl.kerberos.service.name STRING null
sasl.kerberos.ticket.renew.jitter DOUBLE 0.05
sasl.kerberos.ticket.renew.window.factor DOUBLE 0.8
sasl.login.callback.handler.class CLASS null
sasl.login.class CLASS null
sasl.login.connect.timeout.ms INT null
sasl.login.read.timeout.ms INT null
sasl.login.refresh.buffer.seconds SHORT 300
sasl.login.refresh.min.period.seconds SHORT 60
sasl.login.refresh.window.factor DOUBLE 0.8
sasl.login.refresh.window.jitter DOUBLE 0.05
sasl.login.retry.backoff.max.ms LONG 10000
sasl.login.retry.backoff.ms LONG 100
sasl.mechanism.controller.protocol STRING GSSAPI
sasl.mechanism.inter.broker.protocol STRING GSSAPI
sasl.oauthbearer.assertion.algorithm STRING RS256
sasl.oauthbearer.assertion.claim.aud STRING null
sasl.oauthbearer.assertion.claim.exp.seconds INT 300
sasl.oauthbearer.assertion.claim.iss STRING null
sasl.oauthbearer.assertion.claim.jti.include BOOLEAN false
sasl.oauthbearer.assertion.claim.nbf.seconds INT 60
sasl.oauthbearer.assertion.claim.sub STRING null
sasl.oauthbearer.assertion.file STRING null
sasl.oauthbearer.assertion.private.key.file STRING null
sasl.oauthbearer.assertion.private.key.passphrase PASSWORD null
sasl.oauthbearer.assertion.template.file STRING null
sasl.oauthbearer.client.credentials.client.id STRING null
sasl.oauthbearer.client.credentials.client.secret PASSWORD null
sasl.oauthbearer.clock.skew.seconds INT 30
sasl.oauthbearer.expected.audience LIST
sasl.oauthbearer.expected.issuer STRING null
sasl.oauthbearer.jwks.endpoint.refresh.ms LONG 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG 100
sasl.oauthbearer.jwks.endpoint.url STRING null
sasl.oauthbearer.jwt.retriever.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope STRING null
sasl.oauthbearer.scope.claim.name STRING scope
sasl.oauthbearer.sub.claim.name STRING sub
sasl.oauthbearer.token.endpoint.url STRING null
sasl.server.callback.handler.class CLASS null
sasl.server.max.receive.size INT 524288
ssl.allow.dn.changes BOOLEAN false
ssl.allow.san.changes BOOLEAN false
ssl.cipher.suites LIST
ssl.client.auth STRING none
ssl.enabled.protocols LIST TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm STRING https
ssl.engine.factory.class CLASS null
ssl.key.password PASSWORD null
ssl.keymanager.algorithm STRING SunX509
ssl.keystore.certificate.chain PASSWORD null
ssl.keystore.key PASSWORD null
ssl.keystore.location STRING null
ssl.keystore.password PASSWORD null
ssl.keystore.type STRING JKS
ssl.principal.mapping.rules STRING DEFAULT
ssl.protocol STRING TLSv1.3
ssl.provider STRING null
ssl.secure.random.implementation STRING null
ssl.trustmanager.algorithm STRING PKIX
ssl.truststore.certificates PASSWORD null
ssl.truststore.location STRING null
ssl.truststore.password PASSWORD null
ssl.truststore.type STRING JKS
""",
    "it acts between several nodes, and is not served yet": """\
controller.socket.timeout.ms INT 30000
cordoned.log.dirs LIST
follower.fetch.last.tiered.offset.enable BOOLEAN false
log.dir.failure.timeout.ms LONG 30000
num.replica.fetchers INT 1
replica.socket.receive.buffer.bytes INT 65536
socket.connection.setup.timeout.max.ms LONG 30000
socket.connection.setup.timeout.ms LONG 10000
""",
    "it tunes buffers that are of another kind here, or of none": """\
group.coordinator.cached.buffer.max.bytes INT 1048588
log.cleaner.io.buffer.load.factor DOUBLE 0.9
log.cleaner.io.buffer.size INT 524288
share.coordinator.cached.buffer.max.bytes INT 1048588
transaction.state.log.load.buffer.size INT 5242880
""",
    "records of coordinators that wait share one sync, and none waits for others": """\
group.coordinator.append.linger.ms INT -1
offsets.commit.timeout.ms INT 5000
share.coordinator.append.linger.ms INT -1
share.coordinator.write.timeout.ms INT 5000
""",
    "tasks of tiered storage that fail are tried again at the pace of remote.log.manager.task.interval.ms": """\
remote.log.manager.task.retry.backoff.max.ms LONG 30000
remote.log.manager.task.retry.backoff.ms LONG 500
remote.log.manager.task.retry.jitter DOUBLE 0.2
""",
    "versions that Kafka holds back are not served": """\
unstable.api.versions.enable BOOLEAN false
unstable.feature.versions.enable BOOLEAN false
""",
    "a node waits for its cluster as long as it takes, and names the reason in its log": """\
server.max.startup.time.ms LONG 9223372036854775807
""",
}
"""The tables by the reason why their options have no effect."""
