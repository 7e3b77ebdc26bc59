import tracemalloc

import pytest

from moldau.net.framing import FIRST_CAPACITY, GROWTH, PEEK_BYTES, SHARED_BYTES, Framing, ReceiveBuffers

MIB = 1 << 20


def framing(max_bytes: int = 100 * MIB) -> Framing:
    return Framing(max_bytes, ReceiveBuffers())


def receive(machine: Framing, data: bytes) -> list[memoryview]:
    frames: list[memoryview] = []
    while data:
        buffer = machine.get_buffer()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        frames += machine.received(count)
    return frames


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def test_a_frame_stays_as_it_was_while_others_come() -> None:
    machine = framing()
    held = [frame for number in range(40) for frame in receive(machine, framed(bytes([number]) * (MIB if number % 3 == 0 else 100)))]
    assert [bytes(frame[:1]) for frame in held] == [bytes([number]) for number in range(40)]
    assert all(bytes(frame) == bytes(frame[:1]) * len(frame) for frame in held)


def test_frames_are_writable_in_place() -> None:
    machine = framing()
    small, big = receive(machine, framed(b"small")) + receive(machine, framed(b"b" * 200_000))
    small[:1] = big[:1] = b"X"
    assert (bytes(small), bytes(big[:3])) == (b"Xmall", b"Xbb")


@pytest.mark.parametrize("size", [-1, -(1 << 31), 1001, (1 << 31) - 1])
def test_a_size_out_of_bounds_is_an_error_after_the_frames_before_it(size: int) -> None:
    machine = framing(max_bytes=1000)
    frames = receive(machine, framed(b"good") + size.to_bytes(4, "big", signed=True))
    assert [bytes(frame) for frame in frames] == [b"good"]
    assert machine.error is not None and str(size) in machine.error and "1000" in machine.error


def test_the_largest_and_the_empty_frame_are_fine() -> None:
    machine = framing(max_bytes=1000)
    assert [len(frame) for frame in receive(machine, framed(b"x" * 1000) + framed(b""))] == [1000, 0]
    assert machine.error is None


def test_a_declared_size_costs_nothing_until_it_comes() -> None:
    buffers = ReceiveBuffers()
    machines = [Framing(100 * MIB, buffers) for _ in range(20)]
    tracemalloc.start()
    for machine in machines:
        receive(machine, (100 * MIB).to_bytes(4, "big"))
        receive(machine, b"four")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak / len(machines) < 64 * 1024


def test_the_buffer_grows_with_what_came() -> None:
    machine = framing()
    receive(machine, (100 * MIB).to_bytes(4, "big"))
    came = 0
    while came < 4 * MIB:
        room = len(machine.get_buffer())
        assert room <= max(FIRST_CAPACITY, GROWTH * came)
        came += machine.received(min(room, 50_000)) == () and min(room, 50_000)


def test_after_a_big_frame_little_of_the_next_is_copied() -> None:
    machine = framing()
    receive(machine, framed(b"x" * MIB))
    assert len(machine.get_buffer()) == PEEK_BYTES
    machine.get_buffer()[:4] = MIB.to_bytes(4, "big")
    machine.received(4)
    assert len(machine.get_buffer()) == MIB, "the buffer is as big as the last frame: the rest comes straight into it"


def test_after_a_small_frame_much_is_received_at_once() -> None:
    machine = framing()
    receive(machine, framed(b"x" * MIB) + framed(b"small"))
    assert len(machine.get_buffer()) == SHARED_BYTES


def test_big_buffers_are_used_again_once_released() -> None:
    buffers = ReceiveBuffers()
    first = buffers.take(MIB)
    view = memoryview(first)
    assert buffers.take(MIB) is not first
    view.release()
    assert buffers.take(MIB) is first
