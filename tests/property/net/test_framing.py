"""Any way of cutting the bytes gives the same frames; replies always leave in the order of requests."""

from hypothesis import given
from hypothesis import strategies as st

from moldau.net.framing import Framing, ReceiveBuffers
from moldau.net.pipeline import Pipeline


def stream_of(frames: list[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


def feed(framing: Framing, data: bytes, cuts: list[int]) -> list[bytes]:
    """Feeds data as a socket would: never more than the buffer holds, and cut at `cuts` besides."""
    found: list[memoryview] = []
    position = 0
    ends = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
    for end in ends:
        while position < end:
            buffer = framing.get_buffer()
            count = min(len(buffer), end - position)
            buffer[:count] = data[position : position + count]
            position += count
            found += framing.received(count)
    return [bytes(frame) for frame in found]


frame_bytes = st.one_of(
    st.binary(max_size=40),
    st.tuples(st.sampled_from([1_000, 32_768, 65_531, 65_532, 65_533, 70_000, 131_072, 600_000]), st.binary(min_size=1, max_size=8)).map(
        lambda sized: (sized[1] * sized[0])[: sized[0]]
    ),
)


@given(st.lists(frame_bytes, max_size=8), st.lists(st.integers(0, 1 << 30), max_size=12))
def test_any_cut_gives_the_same_frames(frames: list[bytes], cuts: list[int]) -> None:
    assert feed(Framing(1 << 20, ReceiveBuffers()), stream_of(frames), cuts) == frames


@given(st.lists(st.lists(frame_bytes, max_size=4), min_size=2, max_size=3), st.lists(st.integers(0, 1 << 30), max_size=6))
def test_connections_that_share_buffers_do_not_mix(streams: list[list[bytes]], cuts: list[int]) -> None:
    buffers = ReceiveBuffers()
    framings = [Framing(1 << 20, buffers) for _ in streams]
    held = [[] for _ in streams]
    data = [stream_of(frames) for frames in streams]
    step = max(501, *(cut % 50_000 for cut in cuts)) if cuts else 50_000
    for start in range(0, max(map(len, data)), step):
        for framing, found, whole in zip(framings, held, data, strict=True):
            piece = whole[start : start + step]
            while piece:
                buffer = framing.get_buffer()
                count = min(len(buffer), len(piece))
                buffer[:count] = piece[:count]
                piece = piece[count:]
                found += framing.received(count)
    assert [[bytes(frame) for frame in found] for found in held] == streams


@given(st.permutations(range(8)), st.lists(st.booleans(), min_size=8, max_size=8))
def test_replies_leave_in_request_order(order: list[int], silent: list[bool]) -> None:
    pipeline = Pipeline()
    slots = [pipeline.request() for _ in order]
    left: list[bytes] = []
    for position in order:
        left += pipeline.reply(slots[position], None if silent[position] else [b"%d" % position])
        answered = set(order[: order.index(position) + 1])
        in_a_row = next((slot for slot in range(8) if slot not in answered), 8)
        assert left == [b"%d" % slot for slot in range(in_a_row) if not silent[slot]]
    assert pipeline.in_flight == 0
