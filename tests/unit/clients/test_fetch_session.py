"""A request names what has changed since the one before.  After a session has ended it names everything."""

from uuid import UUID

from moldau.clients.consumer.session import FetchSession, Wanted
from moldau.types import TopicPartition

ID, OTHER_ID = UUID(int=7), UUID(int=8)
ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def wanted(offset: int, topic_id: UUID = ID) -> Wanted:
    return Wanted(topic_id, offset, 0, 1000)


def test_only_changes_are_named() -> None:
    session = FetchSession()
    first = session.ask({ONE: wanted(0), OTHER: wanted(0)})
    assert (first.session_id, first.epoch, set(first.partitions), first.forgotten) == (0, 0, {ONE, OTHER}, {})
    session.answered(99)
    second = session.ask({ONE: wanted(5), OTHER: wanted(0)})
    assert (second.session_id, second.epoch, set(second.partitions), second.forgotten) == (99, 1, {ONE}, {})
    session.answered(99)
    third = session.ask({ONE: wanted(5)})
    assert (third.epoch, third.partitions, third.forgotten) == (2, {}, {OTHER: ID})
    session.answered(99)
    again = session.ask({ONE: wanted(5, OTHER_ID)})
    assert (set(again.partitions), again.forgotten) == ({ONE}, {ONE: ID})


def test_everything_after_an_end() -> None:
    session = FetchSession()
    session.ask({ONE: wanted(0)})
    session.answered(99)
    session.begin_anew()
    assert session.ask({ONE: wanted(0)}) == (0, 0, {ONE: wanted(0)}, {})
    session.answered(0)
    assert session.ask({ONE: wanted(0)}).epoch == 0
