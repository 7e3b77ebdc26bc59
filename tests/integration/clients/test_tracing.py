"""Spans of OpenTelemetry, from producers to consumers, through our broker and through Apache Kafka."""

import uuid

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode, TraceFlags

from moldau import Consumer, Producer, TopicPartition, sync
from moldau.clients.errors import ClientError
from moldau.clients.records import ConsumerRecord
from moldau.clients.tracing import Tracing
from moldau.errors import ErrorCode

pytestmark = pytest.mark.xdist_group("both brokers")


class Spans:
    """The spans of a program."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def named(self, name: str) -> list[ReadableSpan]:
        found = [span for span in self.exporter.get_finished_spans() if span.name == name]
        return sorted(found, key=lambda span: span.start_time or 0)


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


async def read(bootstrap: str, topic: str, tracing: Tracing, count: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    async with Consumer(bootstrap, interceptors=[tracing]) as consumer:
        await consumer.assign({TopicPartition(topic, 0): 0})
        async for record in consumer:
            found.append(record)
            if len(found) == count:
                break
    return found


async def test_a_trace_goes_on_where_the_record_is_read(bootstrap: str, spans: Spans, topic: str) -> None:
    tracing = Tracing(tracer_provider=spans.provider, attributes={"messaging.consumer.group.name": "billing"})
    tracer = spans.provider.get_tracer("program")
    async with Producer(bootstrap, interceptors=[tracing]) as producer:
        with tracer.start_as_current_span("request"):
            await producer.send(topic, "a", key="k", headers={"mine": "x"})
        await producer.send(topic, None, key=b"\xff")
        (record, _) = await read(bootstrap, topic, tracing, 2)
        with tracing.process(record):
            await producer.send(f"{topic}-out", b"b")
    (request,), (sent, gone) = spans.named("request"), spans.named(f"send {topic}")
    (processed,), (passed_on,) = spans.named(f"process {topic}"), spans.named(f"send {topic}-out")
    assert [name for name, _ in record.headers] == ["mine", "traceparent"]
    assert sent.parent is not None
    assert sent.parent.span_id == id_of(request)
    assert processed.parent is not None
    assert processed.parent.span_id == id_of(sent)
    assert passed_on.parent is not None
    assert passed_on.parent.span_id == id_of(processed)
    assert len({trace_of(one) for one in (request, sent, processed, passed_on)}) == 1
    assert trace_of(gone) != trace_of(sent)
    assert (sent.kind, processed.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert dict(sent.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": "billing",
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.kafka.message.key": "k",
        "messaging.kafka.offset": 0,
        "messaging.message.body.size": 1,
    }
    assert (gone.attributes or {})["messaging.kafka.message.tombstone"] is True
    assert (processed.attributes or {})["messaging.kafka.offset"] == 0
    assert not tracing._sending


async def test_polls_by_batch_or_by_record(bootstrap: str, spans: Spans, topic: str) -> None:
    sending = Tracing(tracer_provider=spans.provider)
    async with Producer(bootstrap, interceptors=[sending], linger_ms=1000) as producer:
        for number in range(3):
            producer.send(topic, b"%d" % number, partition=0)
        await producer.flush()
    sent = {id_of(span) for span in spans.named(f"send {topic}")}
    await read(bootstrap, topic, sending, 3)
    (polled,) = spans.named(f"poll {topic}")
    assert polled.kind is SpanKind.CLIENT
    assert (polled.attributes or {})["messaging.batch.message_count"] == 3
    assert {link.context.span_id for link in polled.links} == sent
    spans.exporter.clear()
    await read(bootstrap, topic, Tracing(tracer_provider=spans.provider, receive=None), 3)
    assert not spans.exporter.get_finished_spans()
    await read(bootstrap, topic, Tracing(tracer_provider=spans.provider, receive="record"), 3)
    each = spans.named(f"poll {topic}")
    assert [(span.attributes or {})["messaging.kafka.offset"] for span in each] == [0, 1, 2]
    assert {link.context.span_id for span in each for link in span.links} == sent


async def test_errors_are_on_the_spans(bootstrap: str, spans: Spans, topic: str) -> None:
    tracing = Tracing(tracer_provider=spans.provider)
    async with Producer(bootstrap, interceptors=[tracing], max_request_size=1000) as producer:
        with pytest.raises(ClientError) as caught:
            await producer.send(topic, bytes(2000))
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(TypeError):
            producer.send(topic, 3)
        where = await producer.send(topic, b"a")
    assert where.offset == 0
    large, refused, good = spans.named(f"send {topic}")
    assert [one.status.status_code for one in (large, refused, good)] == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]
    assert [(one.attributes or {})["error.type"] for one in (large, refused)] == [type(caught.value).__name__, "TypeError"]
    (record,) = await read(bootstrap, topic, tracing, 1)
    with pytest.raises(ValueError, match="on purpose"), tracing.process(record):
        raise ValueError("on purpose")
    (processed,) = spans.named(f"process {topic}")
    assert processed.status.status_code is StatusCode.ERROR
    assert (processed.attributes or {})["error.type"] == "ValueError"
    assert not tracing._sending


async def test_a_span_that_is_not_kept_still_passes_its_context_on(bootstrap: str, topic: str) -> None:
    tracing = Tracing(tracer_provider=TracerProvider(sampler=ALWAYS_OFF))
    async with Producer(bootstrap, interceptors=[tracing]) as producer:
        await producer.send(topic, b"a")
    (record,) = await read(bootstrap, topic, tracing, 1)
    ((name, content),) = record.headers
    assert name == "traceparent"
    assert content is not None
    assert not int(content[-2:], 16) & TraceFlags.SAMPLED
    assert not tracing._sending


async def test_without_an_sdk_nothing_is_written(bootstrap: str, topic: str) -> None:
    tracing = Tracing(tracer_provider=trace.NoOpTracerProvider())
    async with Producer(bootstrap, interceptors=[tracing]) as producer:
        await producer.send(topic, b"a")
    (record,) = await read(bootstrap, topic, tracing, 1)
    assert record.headers == ()
    with tracing.process(record):
        pass


def test_blocking_clients_are_traced_too(bootstrap: str, spans: Spans, topic: str) -> None:
    tracing = Tracing(tracer_provider=spans.provider)
    tracer = spans.provider.get_tracer("program")
    with sync.Producer(bootstrap, interceptors=[tracing]) as producer:
        for _ in range(20):
            with tracer.start_as_current_span("request"):
                producer.send(topic, b"a")
        producer.flush()
        producer.send(topic, b"a").result(30)
    requests, sent = spans.named("request"), spans.named(f"send {topic}")
    assert [one.parent.span_id for one in sent if one.parent is not None] == [id_of(one) for one in requests]
    assert sent[-1].parent is None


def test_a_wrong_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="batch, record or None"):
        Tracing(receive="batches")  # type: ignore[arg-type]
