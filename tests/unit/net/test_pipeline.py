import pytest

from moldau.net.pipeline import Pipeline


def test_a_later_reply_waits_for_the_earlier_one() -> None:
    pipeline = Pipeline()
    first, second, third = (pipeline.request() for _ in range(3))
    assert list(pipeline.reply(second, [b"2"])) == []
    assert list(pipeline.reply(first, [b"1a", b"1b"])) == [b"1a", b"1b", b"2"]
    assert pipeline.in_flight == 1
    assert list(pipeline.reply(third, None)) == []
    assert pipeline.in_flight == 0


def test_answering_twice_is_a_bug() -> None:
    pipeline = Pipeline()
    slot = pipeline.request()
    pipeline.reply(slot, None)
    with pytest.raises(AssertionError):
        pipeline.reply(slot, None)
