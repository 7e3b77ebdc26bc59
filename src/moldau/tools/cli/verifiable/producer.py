"""● `moldau kafka-verifiable-producer`: sends rising numbers and reports the outcome of each, as kafka-verifiable-producer.sh does.

Source: VerifiableProducer.java.
"""

import argparse
import asyncio
import contextlib
import signal
from typing import Final

from moldau.clients.cluster import Cluster
from moldau.clients.errors import BufferFull
from moldau.clients.producer import Producer, RecordMetadata
from moldau.errors import KafkaError
from moldau.tools.cli.connecting import ClientSettings
from moldau.tools.cli.kafka.options import KafkaParser
from moldau.tools.cli.perf.settings import producer_options
from moldau.tools.cli.verifiable.events import event
from moldau.tools.cli.verifiable.running import run_tool

FOREVER: Final = -1


def main(arguments: list[str]) -> int:
    return run_tool(_parser(), arguments, _produce, old_option="--producer.config")


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-verifiable-producer",
        "Send rising numbers and print, as JSON, the outcome of each, as kafka-verifiable-producer.sh does.",
        takes_last=True,
        examples=["--bootstrap-server localhost:9092 --topic t --max-messages 1000 --throughput 100"],
    )
    add = parser.add_argument
    add("--bootstrap-server", metavar="HOST:PORT", required=True, help="one or more brokers, comma separated")
    add("--topic", required=True, help="where to")
    add("--max-messages", type=int, default=FOREVER, metavar="COUNT", help="end after so many; -1: go on until stopped (%(default)s)")
    add("--throughput", type=int, default=FOREVER, metavar="RATE", help="records a second, about; -1: as fast as they go (%(default)s)")
    add("--acks", type=int, choices=(0, 1, -1), default=-1, help="(%(default)s)")
    add("--message-create-time", type=int, default=-1, metavar="MS", help="give records timestamps from this one on (%(default)s: now)")
    add("--value-prefix", type=int, metavar="NUMBER", help="number before each value, with a dot between")
    add("--repeating-keys", type=int, metavar="COUNT", help="give records keys from 0 to below this, again and again")
    add("--command-config", metavar="FILE", help="a properties file with settings of the producer")
    add("--producer.config", dest="producer_config", metavar="FILE", help="(deprecated) --command-config")
    return parser


class _Told:
    """The outcome of the records."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.sent = self.acked = 0

    def of(self, key: str | None, value: str) -> "_Of":
        return _Of(self, key, value)


class _Of:
    def __init__(self, told: _Told, key: str | None, value: str) -> None:
        self._told, self._key, self._value = told, key, value

    def __call__(self, where: RecordMetadata | None, error: KafkaError | None) -> None:
        if where is not None:
            self._told.acked += 1
            event(
                "producer_send_success",
                key=self._key,
                value=self._value,
                offset=where.offset,
                topic=where.topic,
                partition=where.partition,
            )
        else:
            event(
                "producer_send_error",
                topic=self._told.topic,
                key=self._key,
                value=self._value,
                exception=type(error).__name__,
                message=str(error),
            )


async def _produce(cluster: Cluster, options: argparse.Namespace, settings: ClientSettings) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, ended.set)
    told = _Told(options.topic)
    begun = loop.time()
    chosen = producer_options(settings, acks=str(options.acks) if options.acks >= 0 else "all", retries=0, enable_idempotence=False)
    async with Producer(cluster, chosen) as producer:
        event("startup_complete")
        while not ended.is_set() and (options.max_messages < 0 or told.sent < options.max_messages):
            if options.throughput > 0 and (ahead_s := told.sent / options.throughput - (loop.time() - begun)) > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), ahead_s)
                continue
            await _send(producer, told, options)
    event("shutdown_complete")
    rate = 1000 * told.acked / max((loop.time() - begun) * 1000, 1)
    event("tool_data", sent=told.sent, acked=told.acked, target_throughput=options.throughput, avg_throughput=rate)


async def _send(producer: Producer, told: _Told, options: argparse.Namespace) -> None:
    number = told.sent
    key = None if options.repeating_keys is None else str(number % options.repeating_keys)
    value = str(number) if options.value_prefix is None else f"{options.value_prefix}.{number}"
    timestamp_ms = None if options.message_create_time < 0 else options.message_create_time + number
    while True:
        try:
            producer.send(options.topic, value, key=key, timestamp_ms=timestamp_ms, on_delivery=told.of(key, value))
            break
        except BufferFull:
            await producer.drain()
    told.sent += 1
    await asyncio.sleep(0)
