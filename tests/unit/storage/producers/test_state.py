import pytest

from moldau.errors import ErrorCode
from moldau.protocol.records.batch import BatchHeader, read_header
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.storage.producers.state import MAX_SEQUENCE, AppendOrigin, CorruptSnapshot, EndMarker, ProducerStates, VerificationGuard

NOW = 1_700_000_000_000


def header(
    sequence: int = 0, *, epoch: int = 0, offset: int = 0, count: int = 1, is_transactional: bool = True, producer_id: int = 7
) -> BatchHeader:
    return read_header(
        build_batch(
            [NewRecord(NOW, b"k", b"v")] * count,
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
    )


def error_of(
    states: ProducerStates, batch: BatchHeader, guard: VerificationGuard | None = None, *, verify: bool = False
) -> ErrorCode | None:
    refusal = states.refusal_of(batch, AppendOrigin.CLIENT, guard, verify=verify)
    return refusal.error if refusal else None


def test_a_transaction_is_verified_before_its_first_batch() -> None:
    states = ProducerStates("t-0")
    assert error_of(states, header(), verify=True) is ErrorCode.INVALID_TXN_STATE
    guard = states.begin_verification(7, 0, 0, NOW, supports_epoch_bump=False)
    assert guard is not None
    assert error_of(states, header(), VerificationGuard(), verify=True) is ErrorCode.INVALID_TXN_STATE
    assert error_of(states, header(), guard, verify=True) is None
    states.append(header())
    assert states.begin_verification(7, 1, 0, NOW, supports_epoch_bump=False) is None  # the transaction is open, so nothing more is asked
    assert error_of(states, header(1), verify=True) is None


def test_what_overtook_the_first_batch_while_it_was_verified_waits_for_it() -> None:
    states = ProducerStates("t-0")
    guard = states.begin_verification(7, 0, 0, NOW, supports_epoch_bump=False)
    assert error_of(states, header(1), guard, verify=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    other = ProducerStates("t-0")
    guard = other.begin_verification(7, 5, 0, NOW, supports_epoch_bump=True)
    assert error_of(other, header(5), guard, verify=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # a bumped epoch begins at 0


def test_markers_of_zombies_are_refused() -> None:
    states = ProducerStates("t-0")
    states.append(header(epoch=5))

    def marker_error(epoch: int, coordinator_epoch: int, *, version: int = 0) -> ErrorCode | None:
        refusal = states.marker_refusal_of(
            header(-1, epoch=epoch), EndMarker(False, coordinator_epoch), AppendOrigin.COORDINATOR, transaction_version=version
        )
        return refusal.error if refusal else None

    assert marker_error(4, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert marker_error(5, 1) is None
    assert marker_error(5, 1, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH  # from version 2 on the marker has the next epoch
    assert marker_error(6, 1, version=2) is None
    completed = states.complete(header(-1, epoch=6, offset=1), EndMarker(True, 3))
    assert completed == (7, 0, 1, True)
    states.settle(completed)
    assert marker_error(6, 3, version=2) is None  # this is the same marker again
    assert marker_error(6, 2) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert error_of(states, header(0, epoch=6, is_transactional=False)) is None
    assert error_of(states, header(1, epoch=6)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_followers_take_what_the_leader_has() -> None:
    states = ProducerStates("t-0")
    states.append(header(epoch=5))
    assert states.refusal_of(header(9, epoch=1), AppendOrigin.REPLICATION) is None
    assert states.refusal_of(header(9, epoch=5), AppendOrigin.COORDINATOR) is None  # a coordinator's batches have no sequences


def test_data_of_a_zombie_and_writes_beside_a_transaction_are_refused() -> None:
    states = ProducerStates("t-0")
    states.append(header(epoch=5))
    assert error_of(states, header(epoch=4)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_of(states, header(1, epoch=5, is_transactional=False)) is ErrorCode.INVALID_TXN_STATE
    assert error_of(states, header(1, epoch=5)) is None
    zombie = states.marker_refusal_of(header(-1, epoch=4), EndMarker(False, 0), AppendOrigin.REPLICATION)
    assert zombie is None, "the leader has decided already"


def test_sequences_follow_each_other_within_an_epoch() -> None:
    states = ProducerStates("t-0")
    assert error_of(states, header(5, is_transactional=False)) is None, "nobody remembers this producer"
    states.append(header(5, count=3, is_transactional=False))
    for sequence, wrong in ((8, None), (7, 45), (9, 45), (0, 45)):
        found = error_of(states, header(sequence, is_transactional=False))
        assert found == (None if wrong is None else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), sequence
    states.append(header(0, epoch=1, offset=3, is_transactional=False))
    assert [batch.first_sequence for batch in states.producers[7].batches] == [0], "another epoch begins anew"
    states.append(header(MAX_SEQUENCE, epoch=1, offset=4, is_transactional=False))
    assert error_of(states, header(0, epoch=1, is_transactional=False)) is None


def test_the_last_stable_offset_waits_for_the_oldest_transaction_and_for_its_marker() -> None:
    states = ProducerStates("t-0")
    states.append(header(offset=10))
    states.append(header(offset=11, producer_id=8))
    states.append(header(1, offset=12))
    assert states.first_unstable_offset == 10
    completed = states.complete(header(-1, offset=13), EndMarker(False, 1))
    assert completed == (7, 10, 13, False)
    assert states.last_stable_offset_after(completed) == 11
    states.settle(completed)
    states.high_watermark_moved(13)
    assert states.first_unstable_offset == 10, "the marker may still be lost"
    states.high_watermark_moved(14)
    assert states.first_unstable_offset == 11
    last = states.complete(header(-1, offset=14, producer_id=8), EndMarker(True, 1))
    assert last is not None and states.last_stable_offset_after(last) == 15
    states.settle(last)
    states.high_watermark_moved(14)
    assert states.first_unstable_offset == 11
    states.high_watermark_moved(15)
    assert states.first_unstable_offset is None and not states.unreplicated


def test_a_younger_transaction_that_ends_first_waits_behind_the_older_one() -> None:
    states = ProducerStates("t-0")
    states.append(header(offset=10))
    states.append(header(offset=11, producer_id=8))
    younger = states.complete(header(-1, offset=12, producer_id=8), EndMarker(False, 1))
    assert younger is not None and states.last_stable_offset_after(younger) == 10
    states.settle(younger)
    states.note_first_unstable()
    assert states.first_unstable_offset == 10
    states.clear(0)
    states.high_watermark_moved(0)
    assert states.first_unstable_offset is None and not states.unreplicated


def test_a_coordinator_is_fenced_after_a_restart_too() -> None:
    states = ProducerStates("t-0")
    states.complete(header(-1, epoch=3), EndMarker(False, 9))
    again = ProducerStates("t-0")
    again.restore(states.snapshot(), 1)
    refusal = again.marker_refusal_of(header(-1, epoch=3), EndMarker(False, 8), AppendOrigin.COORDINATOR)
    assert refusal is not None and refusal.error is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_for_nothing_completes_nothing() -> None:
    states = ProducerStates("t-0")
    assert states.complete(header(-1, epoch=3), EndMarker(False, 9)) is None
    entry = states.producers[7]
    assert (entry.producer_epoch, entry.coordinator_epoch, entry.batches) == (3, 9, [])
    states.append(header(0, epoch=3, offset=1, is_transactional=False))
    states.complete(header(-1, epoch=4, offset=2), EndMarker(False, 9))
    assert (entry.producer_epoch, entry.batches) == (4, []), "the marker's epoch is the producer's from then on"
    again = ProducerStates("t-0")
    again.restore(states.snapshot(), 3)
    assert again.producers[7].batches == [] and again.producers[7].producer_epoch == 4


def test_a_verification_is_over_with_the_batch_the_marker_or_in_time() -> None:
    def begun() -> tuple[ProducerStates, VerificationGuard | None]:
        states = ProducerStates("t-0")
        return states, states.begin_verification(7, 0, 0, NOW, supports_epoch_bump=False)

    for end in (
        lambda states: states.append(header(producer_id=7)),
        lambda states: states.complete(header(-1), EndMarker(True, 0)),
        lambda states: states.remove_expired(NOW + 1000, 1000),
        lambda states: states.clear(0),
    ):
        states, guard = begun()
        assert states.begin_verification(7, 0, 0, NOW, supports_epoch_bump=False) is guard
        end(states)
        states.complete(header(-1, offset=1), EndMarker(True, 0))  # no transaction is open any more
        assert error_of(states, header(), guard, verify=True) is ErrorCode.INVALID_TXN_STATE
    states, guard = begun()
    assert states.remove_expired(NOW + 999, 1000) == 0
    states.append(header(is_transactional=False, producer_id=9))
    assert error_of(states, header(), guard, verify=True) is None


def test_the_lowest_sequence_of_the_newest_epoch_is_what_a_verification_waits_for() -> None:
    states = ProducerStates("t-0")
    for sequence, epoch in ((5, 1), (3, 1), (4, 1), (1, 0), (9, 2), (0, 1)):
        guard = states.begin_verification(7, sequence, epoch, NOW, supports_epoch_bump=False)
    assert error_of(states, header(10, epoch=2), guard, verify=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error_of(states, header(9, epoch=2), guard, verify=True) is None


def test_silent_producers_are_forgotten_but_not_in_a_transaction() -> None:
    states = ProducerStates("t-0")
    states.append(header(is_transactional=False))
    states.append(header(producer_id=8, offset=1))
    assert states.remove_expired(NOW + 999, 1000) == 0
    assert states.remove_expired(NOW + 1000, 1000) == 1 and list(states.producers) == [8]


def test_a_snapshot_brings_everything_back_but_the_older_batches() -> None:
    states = ProducerStates("t-0")
    states.append(header(3, offset=10, count=4))
    states.append(header(7, offset=14, count=2))
    states.append(header((1 << 31) - 2, offset=16, count=3, producer_id=9, is_transactional=False))
    again = ProducerStates("t-0")
    again.restore(states.snapshot(), 19)
    assert again.end_offset == 19 and again.first_unstable_offset == 10
    entry = again.producers[7]
    assert (entry.last_sequence, entry.last_offset, entry.transaction_first_offset, entry.last_timestamp) == (8, 15, 10, NOW)
    assert again.duplicate_of(header(7, offset=99, count=2)) == states.producers[7].batches[-1]
    assert again.producers[9].batches == states.producers[9].batches  # the sequence had wrapped
    assert again.snapshot() == states.snapshot()


@pytest.mark.parametrize("cut", [0, 5, 9, 30])
def test_a_torn_snapshot_is_refused(cut: int) -> None:
    states = ProducerStates("t-0")
    states.append(header())
    raw = states.snapshot()
    with pytest.raises(CorruptSnapshot):
        ProducerStates("t-0").restore(raw[:cut], 1)


def test_every_flipped_bit_of_a_snapshot_is_seen() -> None:
    states = ProducerStates("t-0")
    states.append(header())
    raw = states.snapshot()
    for bit in range(len(raw) * 8):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptSnapshot):
            ProducerStates("t-0").restore(bytes(flipped), 1)
