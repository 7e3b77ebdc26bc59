"""● The raw load: prebuilt frames over plain sockets, in processes of its own.

`python -m benchmarks.generator '{"kind": "produce", …}'` prints one JSON object.  Frames are made before the clock
starts, replies are counted by their size, and only what is needed is decoded.  So the broker is the slow side: every
result carries the generator's own CPU share as evidence.
"""

import json
import multiprocessing
import resource
import select
import socket
import struct
import sys
import time
from array import array
from collections import deque
from dataclasses import asdict, dataclass, field, fields

from benchmarks import frames

CONNECT_WITHIN_S = 10.0
REPLY_WITHIN_S = 30.0
READ_SIZE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A load; it travels as JSON to the generator's process."""

    kind: str
    port: int
    topic: str
    partitions: int = 4
    record_size: int = 1024
    records: int = 64
    in_flight: int = 5
    connections: int = 1
    processes: int = 1
    acks: int = 1
    warm_s: float = 1.0
    seconds: float = 5.0
    total_bytes: int = 0
    rate: float = 0.0
    partition_bytes: int = 1 << 20


@dataclass(slots=True)
class Tally:
    """The counts of one process inside the measured window, and the bytes that it moved in all."""

    requests: int = 0
    bytes: int = 0
    records: int = 0
    seconds: float = 0.0
    all_bytes: int = 0
    all_requests: int = 0
    cpu_s: float = 0.0
    latencies: list[float] = field(default_factory=list)
    end_to_end: list[float] = field(default_factory=list)


def connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), CONNECT_WITHIN_S)
    sock.settimeout(None)  # a Python time-out would cost a poll before every call: let the kernel watch the time
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(REPLY_WITHIN_S), 0))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class Replies:
    """Counts produce replies in a stream of bytes and looks at their error codes."""

    def __init__(self, load: Load) -> None:
        self.size = frames.produce_reply_size(load.topic, load.partitions)
        self.errors = frames.produce_error_positions(load.topic, load.partitions)
        self.rest = b""

    def count(self, data: bytes) -> int:
        if self.rest:
            data = self.rest + data
        if len(data) >= 4 and struct.unpack_from(">i", data)[0] != self.size - 4:
            raise RuntimeError(f"a produce reply of {struct.unpack_from('>i', data)[0] + 4} bytes, not {self.size}: {data[:80]!r}")
        whole = len(data) // self.size
        for start in range(0, whole * self.size, self.size):
            for position in self.errors:
                if data[start + position] or data[start + position + 1]:
                    raise RuntimeError(f"produce answered error {struct.unpack_from('>h', data, start + position)[0]}")
        self.rest = data[whole * self.size :]
        return whole


def request_of(load: Load) -> tuple[bytes, int]:
    """The produce frame and how many bytes of values it carries."""
    batch = frames.record_batch([bytes([65 + index % 26]) * load.record_size for index in range(load.records)], int(time.time() * 1000))
    return frames.produce_request(load.topic, [batch] * load.partitions, acks=load.acks), load.partitions * load.records * load.record_size


def produce(load: Load) -> Tally:
    """Keep `in_flight` requests on each connection for the time given, or until `total_bytes` are acknowledged."""
    frame, payload = request_of(load)
    several = [frame * count for count in range(load.in_flight + 1)] if len(frame) < 4096 else None
    poll = select.epoll()
    socks = {sock.fileno(): (sock, Replies(load), deque[float]()) for sock in (connect(load.port) for _ in range(load.connections))}
    tally, latencies, now = Tally(), array("d"), time.perf_counter
    begin = now()
    start, end = begin + load.warm_s, begin + load.warm_s + load.seconds
    if load.total_bytes:
        start, end = begin, begin + 600.0
    for fd, (sock, _, sent) in socks.items():
        poll.register(fd, select.EPOLLIN)
        for _ in range(load.in_flight):
            sent.append(now())
            sock.sendall(frame)
    moved = begin
    alone = len(socks) == 1
    only = next(iter(socks))
    while moved < end and not (load.total_bytes and tally.all_bytes >= load.total_bytes):
        for fd in (only,) if alone else [fd for fd, _ in poll.poll(REPLY_WITHIN_S)]:
            sock, replies, sent = socks[fd]
            data = sock.recv(65536)
            if not data:
                raise RuntimeError("the broker closed the connection")
            done = replies.count(data)
            moved = now()
            for _ in range(done):
                begun = sent.popleft()
                if start <= moved < end:
                    latencies.append(moved - begun)
            tally.all_bytes += done * payload
            tally.all_requests += done
            tally.requests += done if start <= moved < end else 0
            if several:
                sent.extend([moved] * done)
                sock.sendall(several[done])
            else:
                for _ in range(done):
                    sent.append(now())
                    sock.sendall(frame)
    tally.seconds = min(moved, end) - start
    tally.bytes, tally.records = tally.requests * payload, tally.requests * load.partitions * load.records
    tally.latencies = latencies.tolist()
    return tally


def consume(load: Load) -> Tally:
    """One consumer that reads its partitions from the start again and again, one fetch in flight, as clients do."""
    sock = connect(load.port)
    batch_size = len(frames.record_batch([b"A" * load.record_size] * load.records, 0))
    offsets = [0] * load.partitions
    buffer = memoryview(bytearray(load.partition_bytes * load.partitions + READ_SIZE))
    tally, now = Tally(), time.perf_counter
    begin = moved = now()
    start, end = begin + load.warm_s, begin + load.warm_s + load.seconds
    latencies = array("d")
    while moved < end:
        sent = now()
        sock.sendall(frames.fetch_request(load.topic, offsets, partition_bytes=load.partition_bytes))
        read_exactly(sock, buffer[:4])
        reply = buffer[: struct.unpack_from(">i", buffer)[0]]
        read_exactly(sock, reply)
        moved = now()
        got = 0
        for partition, high_watermark, _, size in frames.fetched(reply, load.topic):
            got += size
            after = offsets[partition] + size // batch_size * load.records
            offsets[partition] = after if after < high_watermark else 0
        tally.all_bytes += got
        tally.all_requests += 1
        if start <= moved < end:
            tally.requests += 1
            tally.bytes += got
            latencies.append(moved - sent)
    tally.seconds = end - start
    tally.records = tally.bytes // batch_size * load.records
    tally.latencies = latencies.tolist()
    return tally


def paced(load: Load) -> Tally:
    """Produce to partition 0 at a fixed rate and read it back.  A latency counts from when its request was due, not from its sending."""
    frame, payload = request_of(load)
    out, back = connect(load.port), connect(load.port)
    offset = end_offset(back, load)
    replies, tally, now = Replies(load), Tally(), time.perf_counter
    unacknowledged: deque[float] = deque()
    unread: deque[float] = deque()
    poll = select.epoll()
    poll.register(out, select.EPOLLIN)
    poll.register(back, select.EPOLLIN)
    buffer = bytearray()
    back.sendall(fetch_one(load, offset))
    due = begin = now()
    interval, start, end = 1.0 / load.rate, begin + load.warm_s, begin + load.warm_s + load.seconds
    while due < end or unacknowledged or unread:
        if now() > end + REPLY_WITHIN_S:
            raise RuntimeError("replies to the paced load are missing")
        while due <= now() and due < end:
            unacknowledged.append(due)
            unread.append(due)
            out.sendall(frame)
            due += interval
        for fd, _ in poll.poll(max(due - now(), 0.0) if due < end else 1.0):
            if fd == out.fileno():
                done = replies.count(out.recv(65536))
                tally.requests += done
                tally.latencies += delays(unacknowledged, done, now(), start)
                continue
            buffer += back.recv(READ_SIZE)
            if len(buffer) >= 4 and len(buffer) >= 4 + struct.unpack_from(">i", buffer)[0]:
                after = last_read_offset(bytes(buffer[4:]), load, offset)
                tally.end_to_end += delays(unread, (after - offset) // load.records, now(), start)
                offset = after
                buffer.clear()
                back.sendall(fetch_one(load, offset))
    tally.seconds, tally.all_bytes, tally.all_requests = load.seconds, tally.requests * payload, tally.requests
    return tally


def delays(due: deque[float], count: int, moment: float, start: float) -> list[float]:
    """Take `count` due times off the queue.  Returns how long ago each of them was; due times before the measured window do not count."""
    taken = [due.popleft() for _ in range(count)]
    return [moment - each for each in taken if each >= start]


def fetch_one(load: Load, offset: int, max_wait_ms: int = 500) -> bytes:
    return frames.fetch_request(load.topic, [offset], partition_bytes=load.partition_bytes, max_wait_ms=max_wait_ms)


def end_offset(sock: socket.socket, load: Load) -> int:
    """The high watermark of partition 0, from a fetch reply."""
    sock.sendall(fetch_one(load, 0, max_wait_ms=1))
    size = bytearray(4)
    read_exactly(sock, memoryview(size))
    reply = bytearray(struct.unpack(">i", size)[0])
    read_exactly(sock, memoryview(reply))
    return frames.fetched(memoryview(reply), load.topic)[0][1]


def last_read_offset(reply: bytes, load: Load, offset: int) -> int:
    """The offset after the last whole batch of a one-partition fetch reply."""
    for _, _, position, size in frames.fetched(memoryview(reply), load.topic):
        stop = position + size
        while position + 61 <= stop:
            base, length = struct.unpack_from(">qi", reply, position)
            if position + 12 + length > stop:
                break
            offset = base + struct.unpack_from(">i", reply, position + 23)[0] + 1
            position += 12 + length
    return offset


def read_exactly(sock: socket.socket, into: memoryview) -> None:
    while into:
        count = sock.recv_into(into, 0, socket.MSG_WAITALL)
        if not count:
            raise RuntimeError("the broker closed the connection")
        into = into[count:]


KINDS = {"produce": produce, "consume": consume, "paced": paced}


def one_process(load: Load) -> Tally:
    tally = KINDS[load.kind](load)
    used = resource.getrusage(resource.RUSAGE_SELF)
    tally.cpu_s = used.ru_utime + used.ru_stime
    return tally


def run(load: Load) -> Tally:
    """Run all processes of a load and add up their counts."""
    if load.processes == 1:
        return one_process(load)
    with multiprocessing.get_context("fork").Pool(load.processes) as pool:
        parts = pool.map(one_process, [load] * load.processes, chunksize=1)
    whole = Tally(seconds=max(part.seconds for part in parts))
    for part in parts:
        for name in ("requests", "bytes", "records", "all_bytes", "all_requests", "cpu_s", "latencies", "end_to_end"):
            setattr(whole, name, getattr(whole, name) + getattr(part, name))
    return whole


def percentiles(values: list[float]) -> dict[str, float]:
    """p50, p99 and p99.9 in milliseconds."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {name: ordered[int(last * share)] * 1000 for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))} if ordered else {}


def main() -> None:
    given = json.loads(sys.argv[1])
    tally = run(Load(**{each.name: given[each.name] for each in fields(Load) if each.name in given}))
    told = {key: value for key, value in asdict(tally).items() if key not in {"latencies", "end_to_end"}}
    print(json.dumps({**told, "latency_ms": percentiles(tally.latencies), "end_to_end_ms": percentiles(tally.end_to_end)}))


if __name__ == "__main__":
    main()
