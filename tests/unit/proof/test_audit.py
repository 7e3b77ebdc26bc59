"""The audits of proofs notice what they are there for."""

from proof.cluster.java_load import Queue


def test_a_record_that_comes_again_after_its_acceptance_is_a_violation() -> None:
    queue = Queue()
    for offset in (0, 1, 1, 3):
        queue.note_delivered(0, offset)
    queue.note_accepted(0, 1)
    assert queue.violations == [], "a record may come again before its acceptance is confirmed"
    assert queue.left_out(0, 4) == [2]
    queue.note_delivered(0, 1)
    queue.note_accepted(0, 1)
    assert len(queue.violations) == 2
