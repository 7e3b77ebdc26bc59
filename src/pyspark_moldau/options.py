"""◇ The options of `format("moldau")`, declared once: name, use, default, meaning.

The names are those of Spark's stock Kafka connector, so that a query changes its format and nothing else.  Case does not matter, as
everywhere in Spark.  An option that is not known is an error that names the nearest one; a value that cannot be taken is an error that
names the option and what it takes.  The reference page of options is made from `OPTIONS` and `KAFKA_OPTIONS`.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from moldau.config import nearest

SOURCE, SINK = "source", "sink"
KAFKA_PREFIX: Final = "kafka."
LATEST, EARLIEST = "latest", "earliest"
OFFSET_WORDS: Final = {LATEST: -1, EARLIEST: -2}
"""The words for offsets, as in the JSON form."""

Offsets = dict[str, dict[int, int]]
"""Topic → partition → offset or timestamp."""


class OptionError(ValueError):
    """An option that is unknown, missing, or has a value that cannot be taken."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"option {name!r}: {reason}")
        self.name = name


class Declared(NamedTuple):
    """One option.  `parse` raises a ValueError that says what is expected."""

    name: str
    used_by: tuple[str, ...]
    default: str
    parse: Callable[[str], Any]
    doc: str


# ---------------------------------------------------------------- values


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("a text that is not empty is expected")
    return text.strip()


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise ValueError("topics, separated by commas, are expected")
    return names


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(_text(text))
    except re.error as error:
        raise ValueError(f"a regular expression is expected, {error} in {text!r}") from None


def _boolean(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.strip().lower()]
    except KeyError:
        raise ValueError(f"true or false is expected, not {text!r}") from None


def _at_least(low: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text) if re.fullmatch(r"-?\d{1,18}", text.strip()) else None
        if number is None or number < low:
            raise ValueError(f"a whole number of at least {low} is expected, not {text!r}")
        return number

    return parse


_UNITS_MS: Final = {"ms": 1, "s": 1_000, "sec": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "hr": 3_600_000, "d": 86_400_000}


def _duration_ms(text: str) -> int:
    found = re.fullmatch(r"(\d{1,12})\s*([a-z]*)", text.strip().lower())
    if found is None or (found[2] or "ms") not in _UNITS_MS:
        raise ValueError(f"a duration such as 500ms, 30s, 15m or 2h is expected, not {text!r}")
    return int(found[1]) * _UNITS_MS[found[2] or "ms"]


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip().lower() not in allowed:
            raise ValueError(f"{' or '.join(allowed)} is expected, not {text!r}")
        return text.strip().lower()

    return parse


def _partitions_json(text: str) -> dict[str, tuple[int, ...]]:
    example = '{"orders":[0,1],"payments":[0]}'
    found = _json(text, example)
    try:
        if all(isinstance(of, list) and of and all(_is_number(one) and one >= 0 for one in of) for of in found.values()) and found:
            return {topic: tuple(sorted(set(of))) for topic, of in found.items()}
    except TypeError:
        pass
    raise ValueError(f"partitions as in {example} are expected, not {text!r}")


def _offsets_json(text: str) -> Offsets:
    """Topic → partition → number."""
    example = '{"orders":{"0":23,"1":-2}}'
    found = _json(text, example)
    for topic, of in found.items():
        if not isinstance(of, dict) or not of:
            raise ValueError(f"topic {topic} has no partitions: JSON such as {example} is expected")
        for partition, number in of.items():
            if not partition.isdigit() or not _is_number(number):
                raise ValueError(
                    f"{partition!r}: {number!r} of topic {topic} is no partition and number: JSON such as {example} is expected"
                )
    return {topic: {int(partition): number for partition, number in of.items()} for topic, of in found.items()}


def _json(text: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"JSON such as {example} is expected, not {text!r}")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _offset_json(text: str) -> Offsets:
    found = _offsets_json(text)
    for topic, of in found.items():
        for partition, offset in of.items():
            if offset < OFFSET_WORDS[EARLIEST]:
                raise ValueError(f"{offset} of {topic}-{partition} is no offset: -2 is earliest, -1 latest")
    return found


def _starting_offsets(text: str) -> int | Offsets:
    word = OFFSET_WORDS.get(text.strip().lower())
    if word is not None:
        return word
    try:
        return _offset_json(text)
    except ValueError as error:
        raise ValueError(f"earliest or latest, or {error}") from None


def _ending_offsets(text: str) -> int | Offsets:
    found = _starting_offsets(text)
    if found == OFFSET_WORDS[EARLIEST] or (isinstance(found, dict) and any(-2 in of.values() for of in found.values())):
        raise ValueError("latest or offsets are expected: what ends at earliest is empty")
    return found


def _timestamps_json(text: str) -> Offsets:
    found = _offsets_json(text)
    if any(timestamp < 0 for of in found.values() for timestamp in of.values()):
        raise ValueError("milliseconds since 1970 are expected, none below 0")
    return found


# ---------------------------------------------------------------- declarations

BOTH: Final = (SOURCE, SINK)
OPTIONS: Final = (
    Declared("subscribe", (SOURCE,), "", _names, "Topics to read, separated by commas."),
    Declared("subscribePattern", (SOURCE,), "", _pattern, "A regular expression that whole names of topics match; new ones are found."),
    Declared("assign", (SOURCE,), "", _partitions_json, 'Partitions to read, as `{"orders":[0,1]}`.'),
    Declared(
        "startingOffsets",
        (SOURCE,),
        "latest (stream), earliest (batch)",
        _starting_offsets,
        'Where a new query begins: `earliest`, `latest`, or `{"orders":{"0":23,"1":-2}}` with -2 for earliest and -1 for latest. '
        "A query that goes on begins where its checkpoint says; partitions found later begin at earliest.",
    ),
    Declared("endingOffsets", (SOURCE,), "latest", _ending_offsets, "Where a batch read ends (exclusive), as `startingOffsets`."),
    Declared(
        "startingOffsetsByTimestamp",
        (SOURCE,),
        "",
        _timestamps_json,
        'Begin at the first record that is not older, in milliseconds: `{"orders":{"0":1700000000000}}`. Stands above `startingOffsets`.',
    ),
    Declared("endingOffsetsByTimestamp", (SOURCE,), "", _timestamps_json, "A batch read ends before the first record that is not older."),
    Declared("startingTimestamp", (SOURCE,), "", _at_least(0), "One time in milliseconds for all partitions. Stands above all others."),
    Declared("endingTimestamp", (SOURCE,), "", _at_least(0), "One time in milliseconds for all partitions, of a batch read."),
    Declared(
        "startingOffsetsByTimestampStrategy",
        (SOURCE,),
        "error",
        _one_of("error", "latest"),
        "What to do where no record is as new as the starting time: `error`, or begin at `latest`.",
    ),
    Declared(
        "failOnDataLoss",
        (SOURCE,),
        "true",
        _boolean,
        "Fail when records went before they were read (deleted, or a topic made anew or gone); false goes on with what there is.",
    ),
    Declared("minOffsetsPerTrigger", (SOURCE,), "", _at_least(1), "Wait until so many offsets are new, `maxTriggerDelay` at most."),
    Declared(
        "maxOffsetsPerTrigger", (SOURCE,), "", _at_least(1), "At most so many offsets a micro-batch, shared out by what each partition has."
    ),
    Declared("maxTriggerDelay", (SOURCE,), "15m", _duration_ms, "How long `minOffsetsPerTrigger` may hold a micro-batch back."),
    Declared(
        "minPartitions",
        (SOURCE,),
        "",
        _at_least(1),
        "At least so many tasks: large partitions are read by several, and small ones not by one.",
    ),
    Declared("maxRecordsPerPartition", (SOURCE,), "", _at_least(1), "At most so many offsets a task."),
    Declared("includeHeaders", (SOURCE,), "false", _boolean, "Whether there is a column `headers`."),
    Declared("groupIdPrefix", (SOURCE,), "", _text, "The group to which end offsets are committed, unless `kafka.group.id` names one."),
    Declared(
        "fetchOffset.numRetries", (SOURCE,), "", _at_least(0), "Accepted; offsets are asked for again for `kafka.default.api.timeout.ms`."
    ),
    Declared("fetchOffset.retryIntervalMs", (SOURCE,), "", _at_least(0), "Accepted, and without effect."),
    Declared("kafkaConsumer.pollTimeoutMs", (SOURCE,), "", _at_least(1), "How long a task waits for records that should be there."),
    Declared("topic", (SINK,), "", _text, "The topic that all rows go to; a column `topic` is then not looked at."),
    Declared(
        "sinkId",
        (SINK,),
        "the query's id",
        _text,
        "The name under which the sink writes, `spark.` before it: its transactional id, and the group whose offset marks the newest one. "
        "One query at a time may use it.",
    ),
    Declared(
        "onePartitionOneTask",
        (SINK,),
        "false",
        _boolean,
        "The rows of one output partition all are in one task, as `pyspark_moldau.by_output_partition` sees to: tasks write by themselves. "
        " On a cluster they do so only with `spark.stage.maxConsecutiveAttempts=1` and `spark.stage.ignoreDecommissionFetchFailure=false`, "
        "which `moldau pipelines run` sets; in other sessions they hand their records to the driver.",
    ),
    Declared(
        "maxBytesThroughDriver",
        (SINK,),
        "33554432",
        _at_least(0),
        "Where tasks do not write by themselves: how many bytes of records one task may hand to the driver, which then writes them.  When "
        "it is not given, tasks on the driver's machine hand over any number, in files in the folder for temporary files.",
    ),
)
IGNORED: Final = frozenset({"checkpointlocation", "path", "queryname", "header", "includetimestamp"})
"""Options that Spark puts beside the given ones."""

KAFKA_OPTIONS: Final = (
    Declared("bootstrap.servers", BOTH, "", _text, "`host:port,host:port` of some brokers."),
    Declared("client.id", BOTH, "spark", _text, "The name that brokers' logs and quotas know."),
    Declared("group.id", (SOURCE,), "", _text, "The group to which end offsets are committed, so that tools can tell the query's lag."),
    Declared(
        "isolation.level",
        (SOURCE,),
        "read_uncommitted",
        _one_of("read_uncommitted", "read_committed"),
        "`read_committed` leaves out what is not committed, or was aborted.",
    ),
    Declared("request.timeout.ms", BOTH, "30000", _at_least(1), "How long one answer may take."),
    Declared("default.api.timeout.ms", (SOURCE,), "60000", _at_least(1), "How long is tried again."),
    Declared("socket.connection.setup.timeout.ms", BOTH, "10000", _at_least(1), "How long a connection may take."),
    Declared("fetch.max.wait.ms", (SOURCE,), "500", _at_least(0), "How long a broker may wait for records."),
    Declared("max.partition.fetch.bytes", (SOURCE,), "8388608", _at_least(1), "Bytes asked for at once."),
    Declared("delivery.timeout.ms", (SINK,), "120000", _at_least(1), "How long a write is tried again."),
    Declared(
        "transaction.timeout.ms", (SINK,), "600000", _at_least(1), "The longest that a micro-batch may take from its plan to its commit."
    ),
    Declared("transactional.id", (SINK,), "", _text, "Instead of `sinkId`: the whole transactional id."),
    Declared("batch.size", (SINK,), "524288", _at_least(1), "Bytes of records in one batch, before compression."),
    Declared("compression.type", (SINK,), "none", _one_of("none", "gzip", "snappy", "lz4", "zstd"), "The codec of batches."),
    Declared("acks", (SINK,), "all", _one_of("all", "-1"), "Transactions know only all."),
    Declared("enable.idempotence", (SINK,), "true", _one_of("true"), "Transactions know only true."),
    Declared(
        "security.protocol",
        BOTH,
        "PLAINTEXT",
        _one_of("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"),
        "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.",
    ),
    Declared("sasl.mechanism", BOTH, "", _text, "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER`."),
    Declared("sasl.jaas.config", BOTH, "", _text, "Java's line with `username` and `password`."),
    Declared("sasl.username", BOTH, "", _text, "Instead of `sasl.jaas.config`."),
    Declared("sasl.password", BOTH, "", _text, "Instead of `sasl.jaas.config`."),
    Declared("sasl.oauthbearer.token", BOTH, "", _text, "A token for `OAUTHBEARER`, as it is."),
    Declared("ssl.truststore.location", BOTH, "", _text, "A PEM file of certificates to trust; without it the system's."),
    Declared("ssl.truststore.type", BOTH, "PEM", _one_of("pem"), "Only PEM: `keytool` and `openssl` turn others into it."),
    Declared("ssl.truststore.certificates", BOTH, "", _text, "The certificates to trust themselves, as PEM."),
    Declared("ssl.keystore.location", BOTH, "", _text, "A PEM file with the client's key and its certificates."),
    Declared("ssl.keystore.type", BOTH, "PEM", _one_of("pem"), "Only PEM."),
    Declared("ssl.key.password", BOTH, "", _text, "What the client's key is encrypted with."),
    Declared(
        "ssl.endpoint.identification.algorithm", BOTH, "https", str, "Empty: the broker's name is not compared with its certificate's."
    ),
)

REFUSED: Final = {
    "auto.offset.reset": "use startingOffsets: the checkpoint says where a query goes on",
    "key.deserializer": "keys are bytes: use column expressions",
    "value.deserializer": "values are bytes: use column expressions",
    "key.serializer": "keys are bytes or text: use column expressions",
    "value.serializer": "values are bytes or text: use column expressions",
    "enable.auto.commit": "the checkpoint says where a query goes on; kafka.group.id lets tools see it",
    "interceptor.classes": "no Java runs here",
}
"""Options that are refused, as the stock connector refuses them, with the way out."""

_ACCEPTED: Final = """
allow.auto.create.topics auto.commit.interval.ms buffer.memory check.crcs client.dns.lookup client.rack compression.gzip.level
compression.lz4.level compression.zstd.level config.providers connections.max.idle.ms enable.metrics.push exclude.internal.topics
fetch.max.bytes fetch.min.bytes group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms linger.ms max.block.ms
max.in.flight.requests.per.connection max.poll.interval.ms max.poll.records max.request.size metadata.max.age.ms metadata.max.idle.ms
metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level
metrics.sample.window.ms partition.assignment.strategy partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms
partitioner.class partitioner.ignore.keys receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms retries
retry.backoff.max.ms retry.backoff.ms send.buffer.bytes session.timeout.ms socket.connection.setup.timeout.max.ms ssl.cipher.suites
ssl.enabled.protocols ssl.protocol ssl.provider ssl.keystore.password ssl.truststore.password
"""
ACCEPTED: Final = frozenset(_ACCEPTED.split())
"""Options of Java's clients without a counterpart here: a query keeps them when it changes its format."""


# ---------------------------------------------------------------- reading them


@dataclass(frozen=True, slots=True)
class Options:
    """The given options, parsed: `get` by the declared name."""

    values: Mapping[str, Any]

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self.values


_BY_NAME: Final = {one.name.lower(): one for one in OPTIONS}
_BY_KAFKA_NAME: Final = {one.name: one for one in KAFKA_OPTIONS}


def read_options(given: Mapping[str, str]) -> Options:
    """Errors: OptionError."""
    values: dict[str, Any] = {}
    for name, text in given.items():
        key = name.lower()
        if key in IGNORED or key.startswith("__"):
            continue
        declared = _kafka_option(name, key) if key.startswith(KAFKA_PREFIX) else _option(name, key)
        if declared is None:
            continue
        try:
            full = KAFKA_PREFIX + declared.name if key.startswith(KAFKA_PREFIX) else declared.name
            values[full] = declared.parse(str(text))
        except ValueError as error:
            raise OptionError(full, str(error)) from None
    if "kafka.bootstrap.servers" not in values:
        raise OptionError("kafka.bootstrap.servers", "it is needed: host:port of a broker")
    return Options(values)


def _option(name: str, key: str) -> Declared:
    if key in _BY_NAME:
        return _BY_NAME[key]
    if key in _BY_KAFKA_NAME or key in ACCEPTED:
        raise OptionError(name, f"it is one of Kafka's: call it {KAFKA_PREFIX}{key}")
    raise OptionError(name, _unknown(key, (one.name for one in OPTIONS), ""))


def _kafka_option(name: str, key: str) -> Declared | None:
    short = key.removeprefix(KAFKA_PREFIX)
    if short in REFUSED:
        raise OptionError(name, f"it cannot be set: {REFUSED[short]}")
    if short in _BY_KAFKA_NAME:
        return _BY_KAFKA_NAME[short]
    if short in ACCEPTED:
        return None
    raise OptionError(name, _unknown(short, [*_BY_KAFKA_NAME, *ACCEPTED], KAFKA_PREFIX))


def _unknown(key: str, known: Iterable[str], prefix: str) -> str:
    meant = nearest(key, {name.lower(): name for name in known})
    by_lower = {one.name.lower(): one.name for one in OPTIONS}
    return "it is not known" + (f": did you mean {prefix}{by_lower.get(meant, meant)}?" if meant else "")
