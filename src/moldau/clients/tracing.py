"""● Spans of OpenTelemetry for producers and consumers: a trace goes on where its record is read.

    from moldau.clients.tracing import Tracing

    Producer("localhost:9092", interceptors=[Tracing()])
    Consumer("localhost:9092", group_id="billing", interceptors=[tracing := Tracing()])
    …
    async for record in consumer:
        with tracing.process(record):
            …

    send     PRODUCER   from `send` to its acknowledgement, or to the error; its context goes along in the record's headers
    receive  CLIENT     each batch or each record that a poll hands out, linked to the spans that sent it
    process  CONSUMER   a block of the program, a child of the span that sent the record

Needs `moldau[otel]`: opentelemetry-api.  Which spans are kept, and where they go, is for the program's own TracerProvider to say; without
one no header is written.  Context is written by the program's propagator: `traceparent` and `baggage`, unless it
chose others.

Source: OpenTelemetry's semantic conventions for messaging and for Kafka; KIP-42, KIP-512.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Literal

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.propagators.textmap import Getter, TextMapPropagator
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
    from opentelemetry.util.types import AttributeValue
except ModuleNotFoundError as error:
    raise ModuleNotFoundError('tracing needs the package opentelemetry-api: pip install "moldau[otel]"', name=error.name) from error

from moldau.clients.producer.delivery import RecordMetadata
from moldau.clients.producer.outgoing import OutgoingRecord, header_list
from moldau.clients.records import ConsumerRecord, Records
from moldau.version import __version__

RecordHeaders = Iterable[tuple[str, bytes | None]]
Attributes = Mapping[str, AttributeValue]
NAMED: Final = 128
"""The most links of a span to those who sent its records: OpenTelemetry's default limit."""


class _HeaderGetter(Getter[Mapping[str, bytes | None]]):
    def get(self, carrier: Mapping[str, bytes | None], key: str) -> list[str] | None:
        value = carrier.get(key)
        return None if value is None else [value.decode("utf-8", "replace")]

    def keys(self, carrier: Mapping[str, bytes | None]) -> list[str]:
        return list(carrier)


GETTER: Final = _HeaderGetter()


class Tracing:
    """An interceptor for producers and consumers; see the module.  One object may serve several clients.

    `receive`: a span for each "batch" that a poll hands out, for each "record", or None for none.  `attributes`: added to every span, such
    as `{"messaging.consumer.group.name": "billing"}`.  `tracer_provider`, `propagator` None: the program's.
    """

    def __init__(
        self,
        *,
        receive: Literal["batch", "record"] | None = "batch",
        attributes: Attributes | None = None,
        tracer_provider: TracerProvider | None = None,
        propagator: TextMapPropagator | None = None,
    ) -> None:
        if receive not in ("batch", "record", None):
            raise ValueError(f"receive cannot be {receive!r}: batch, record or None is expected")
        self._tracer = trace.get_tracer("moldau", __version__, tracer_provider)
        self._own_propagator = propagator
        self._receive = receive
        self._attributes: Attributes = {"messaging.system": "kafka", **(attributes or {})}
        self._sending: dict[tuple[bytes | None, ...], Span] = {}
        """The spans of records that are not acknowledged yet, by the context that the record has in its headers."""

    # ------------------------------------------------------------ producer

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord | None:
        """Begin a span, and write its context into the headers, in the place of one that is there already."""
        attributes = self._attributes_of("send", record.topic, record.partition)
        if isinstance(record.key, str | bytes):
            attributes["messaging.kafka.message.key"] = _text(record.key)
        if record.value is None:
            attributes["messaging.kafka.message.tombstone"] = True
        elif isinstance(record.value, str | bytes):
            attributes["messaging.message.body.size"] = len(record.value.encode() if isinstance(record.value, str) else record.value)
        span = self._tracer.start_span(f"send {record.topic}", kind=SpanKind.PRODUCER, attributes=attributes)
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, trace.set_span_in_context(span))
        if not carrier:
            span.end()
            return None
        injected = [(name, text.encode()) for name, text in carrier.items()]
        headers = [(name, content) for name, content in header_list(record.headers) if name not in carrier] + injected
        if span.is_recording():
            self._sending[self._place_of(headers)] = span
        return record._replace(headers=headers)

    def on_acknowledgement(self, where: RecordMetadata | None, error: BaseException | None, headers: RecordHeaders) -> None:
        """End the span of the record that has these headers."""
        span = self._sending.pop(self._place_of(headers), None)
        if span is None:
            return
        if where is not None:
            span.set_attribute("messaging.destination.partition.id", str(where.partition))
            if where.offset >= 0:
                span.set_attribute("messaging.kafka.offset", where.offset)
        if error is not None:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end()

    def _place_of(self, headers: RecordHeaders) -> tuple[bytes | None, ...]:
        by_name = dict(headers)
        return tuple(by_name.get(name) for name in sorted(self._propagator.fields))

    # ------------------------------------------------------------ consumer

    def on_consume(self, found: list[Records]) -> None:
        """Note what a poll hands out."""
        if self._receive == "batch":
            for records in found:
                self._received(records, records.headers, {"messaging.batch.message_count": len(records)})
        elif self._receive == "record":
            for records in found:
                for offset, key, headers in zip(records.offsets, records.raw_keys, records.headers, strict=True):
                    more: dict[str, AttributeValue] = {"messaging.kafka.offset": offset}
                    if key is not None:
                        more["messaging.kafka.message.key"] = _text(key)
                    self._received(records, [headers], more)

    def _received(self, records: Records, headers: Sequence[RecordHeaders], more: Attributes) -> None:
        links: dict[int, Link] = {}
        for one in headers:
            sent = trace.get_current_span(self._context_of(one)).get_span_context() if one else trace.INVALID_SPAN_CONTEXT
            if sent.is_valid and len(links) < NAMED:
                links[sent.span_id] = Link(sent)
        self._tracer.start_span(
            f"poll {records.topic}",
            kind=SpanKind.CLIENT,
            attributes={**self._attributes_of("receive", records.topic, records.partition, name="poll"), **more},
            links=list(links.values()),
        ).end()

    @contextmanager
    def process(self, record: ConsumerRecord) -> Iterator[Span]:
        """Trace the work on a record: spans that the block begins are children of this one, and so are records that it sends.

        An exception that leaves the block marks the span as failed, and is raised on.
        """
        attributes = self._attributes_of("process", record.topic, record.partition)
        attributes["messaging.kafka.offset"] = record.offset
        if isinstance(record.key, str | bytes):
            attributes["messaging.kafka.message.key"] = _text(record.key)
        if record.value is None:
            attributes["messaging.kafka.message.tombstone"] = True
        context = self._context_of(record.headers)
        name = f"process {record.topic}"
        with self._tracer.start_as_current_span(name, context=context, kind=SpanKind.CONSUMER, attributes=attributes) as span:
            try:
                yield span
            except Exception as error:
                span.set_attribute("error.type", type(error).__qualname__)
                raise

    # ------------------------------------------------------------ both

    @property
    def _propagator(self) -> TextMapPropagator:
        return self._own_propagator or propagate.get_global_textmap()

    def _context_of(self, headers: RecordHeaders) -> Context:
        return self._propagator.extract(dict(headers), getter=GETTER)

    def _attributes_of(self, kind: str, topic: str, partition: int | None, *, name: str | None = None) -> dict[str, AttributeValue]:
        found: dict[str, AttributeValue] = {
            **self._attributes,
            "messaging.operation.type": kind,
            "messaging.operation.name": name or kind,
            "messaging.destination.name": topic,
        }
        if partition is not None:
            found["messaging.destination.partition.id"] = str(partition)
        return found


def _text(key: str | bytes) -> str:
    return key if isinstance(key, str) else key.decode("utf-8", "replace")
