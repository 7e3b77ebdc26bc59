"""A queue over TCP: several members, every way to acknowledge, a killed broker, dead letters, delays."""

import random
import time
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.replication.share.in_flight import AcknowledgeType
from moldau.testing.process import BrokerProcess
from proof.shares.member import Delivered, ShareMember, configure_group

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("shares")]

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW
WITHIN_S = 60.0

Join = Callable[..., ShareMember]
Produce = Callable[..., list[bytes]]


def drain(members: list[ShareMember], wanted: set[bytes], decide: Callable[[Delivered], AcknowledgeType], most: int = 50) -> Counter[bytes]:
    """Every member polls in turn until all values were delivered.  Returns how often each value was."""
    seen: Counter[bytes] = Counter()
    deadline = time.monotonic() + WITHIN_S
    while set(seen) < wanted:
        assert time.monotonic() < deadline, f"{len(wanted - set(seen))} of {len(wanted)} were not delivered"
        for member in members:
            for record in member.poll(wait_ms=100, max_records=most):
                seen[record.value or b""] += 1
                member.acknowledge(record, decide(record))
            member.commit()
    return seen


def test_members_share_one_queue(join: Join, produce: Produce) -> None:
    """There are more members than partitions, and each record goes to one member."""
    members = [join() for _ in range(4)]
    values = produce(400)
    seen = drain(members, set(values), lambda record: ACCEPT)
    assert all(count == 1 for count in seen.values())
    shares = [len(member.accepted) for member in members]
    assert sum(shares) == 400
    assert sum(share > 0 for share in shares) >= 2, shares


def test_released_records_come_again_and_rejected_ones_do_not(join: Join, produce: Produce) -> None:
    member = join()
    values = produce(30)
    first = {record.value: record for record in poll_all(member, 30)}
    for number, value in enumerate(values):
        member.acknowledge(first[value], (ACCEPT, RELEASE, REJECT)[number % 3])
    assert set(member.commit()) == {0}
    again = {record.value: record.delivery_count for record in poll_all(member, 10)}
    assert again == {value: 2 for number, value in enumerate(values) if number % 3 == 1}
    assert member.poll(wait_ms=300) == []


@pytest.mark.parametrize("partition_count", [1])
def test_locks_end_unless_they_are_renewed(address: tuple[str, int], group: str, join: Join, produce: Produce) -> None:
    configure_group(address, group, share_record_lock_duration_ms="5000")
    member, other = join(), join()
    values = produce(2)
    kept, lost = sorted(poll_all(member, 2), key=lambda record: record.value or b"")
    again: list[Delivered] = []
    deadline, rounds_left = time.monotonic() + WITHIN_S, 3  # rounds after one lock has ended: the other, as old, has not
    while rounds_left:
        assert time.monotonic() < deadline, "the lock does not end"
        member.acknowledge(kept, RENEW)
        assert set(member.commit()) == {0}
        again += other.poll(wait_ms=200)
        rounds_left -= bool(again)
    assert [(record.value, record.delivery_count) for record in again] == [(values[1], 2)]
    member.acknowledge(kept, ACCEPT)
    assert set(member.commit()) == {0}
    member.acknowledge(lost, ACCEPT)
    assert set(member.commit()) == {121}


@pytest.mark.parametrize("partition_count", [1])
def test_a_member_that_dies_leaves_its_records_at_once(join: Join, produce: Produce) -> None:
    member, other = join(), join()
    produce(10)
    assert len(poll_all(member, 10)) == 10
    died_s = time.monotonic()
    member.close()
    assert {record.delivery_count for record in poll_all(other, 10)} == {2}
    assert time.monotonic() - died_s < member.lock_ms / 1000, "the records come again without waiting for the locks"


def test_nothing_is_lost_when_the_broker_is_killed(broker: BrokerProcess, join: Join, produce: Produce) -> None:
    """Confirmed records do not come again; all others do, until they are confirmed."""
    members = [join() for _ in range(3)]
    chance = random.Random(7)
    confirmed: dict[tuple[int, int], int] = {}
    values: list[bytes] = []
    delivered: dict[bytes, list[int]] = {}
    for generation in range(3):
        values += produce(300, start=300 * generation)
        until = time.monotonic() + 2
        while time.monotonic() < until:
            for member in members:
                work(member, chance, generation, delivered, confirmed)
        broker.kill()
        broker.start()
    deadline = time.monotonic() + WITHIN_S
    while len(confirmed) < len(values):
        assert time.monotonic() < deadline, f"{len(values) - len(confirmed)} were never confirmed"
        for member in members:
            work(member, chance, 3, delivered, confirmed)
    assert set(delivered) == set(values)


def work(
    member: ShareMember,
    chance: random.Random,
    generation: int,
    delivered: dict[bytes, list[int]],
    confirmed: dict[tuple[int, int], int],
) -> None:
    """One round of a member that accepts most of what it gets and releases some."""
    for record in member.poll(wait_ms=100, max_records=chance.choice((1, 20, 100))):
        where = record.partition, record.offset
        assert where not in confirmed, f"{where} was confirmed in generation {confirmed[where]} and came again in {generation}"
        delivered.setdefault(record.value or b"", []).append(generation)
        member.acknowledge(record, RELEASE if record.delivery_count < 3 and chance.random() < 0.2 else ACCEPT)
    before = set(member.accepted)
    if chance.random() < 0.5:
        member.commit()
    for where in member.accepted - before | (member.accepted - set(confirmed)):
        confirmed.setdefault(where, generation)


@pytest.mark.parametrize("how", ["rejected", "delivered in vain"])
def test_dead_letters(
    broker: BrokerProcess, address: tuple[str, int], group: str, join: Join, produce: Produce, topic: str, how: str
) -> None:
    dead_letter_topic = f"dlq.{topic}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {"errors.deadletterqueue.group.enable": "true"}
    admin.create_topics([NewTopic(dead_letter_topic, 2, 1, config=config)])[dead_letter_topic].result(30)
    configure_group(
        address,
        group,
        errors_deadletterqueue_topic_name=dead_letter_topic,
        errors_deadletterqueue_copy_record_enable="true",
        share_delivery_count_limit="2",
    )
    member = join()
    values = produce(6)
    for count in (1,) if how == "rejected" else (1, 2):
        for record in poll_all(member, 6):
            assert record.delivery_count == count
            member.acknowledge(record, REJECT if how == "rejected" else RELEASE)
        assert set(member.commit()) == {0}
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "r", "auto.offset.reset": "earliest"})
    reader.subscribe([dead_letter_topic])
    letters = []
    deadline = time.monotonic() + WITHIN_S
    while len(letters) < 6:
        assert time.monotonic() < deadline, f"only {len(letters)} letters came"
        letters += [message for message in reader.consume(6, 0.5) if message.error() is None]
    reader.close()
    assert sorted(message.value() for message in letters) == values
    assert {dict(message.headers())["__dlq.errors.group"] for message in letters} == {group.encode()}
    assert all(int(dict(message.headers())["__dlq.errors.partition"]) == message.partition() for message in letters)
    assert member.poll(wait_ms=300) == []


def test_delays(address: tuple[str, int], group: str, join: Join, produce: Produce) -> None:
    configure_group(address, group, share_delivery_delay_ms="1500", share_retry_delay_ms="1000")
    member = join()
    began_s = time.time()
    produce(2)
    first = poll_all(member, 2)
    assert time.time() - began_s >= 1.5
    for record in first:
        member.acknowledge(record, RELEASE)
    released_s = time.monotonic()
    member.commit()
    assert {record.delivery_count for record in poll_all(member, 2)} == {2}
    assert time.monotonic() - released_s >= 0.95


@pytest.mark.parametrize(("level", "seen"), [("read_committed", {b"kept"}), ("read_uncommitted", {b"kept", b"taken back", b"open"})])
def test_transactions(
    broker: BrokerProcess, address: tuple[str, int], group: str, join: Join, topic: str, level: str, seen: set[bytes]
) -> None:
    configure_group(address, group, share_isolation_level=level)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"t-{topic}"})
    producer.init_transactions(30)
    for value in (b"taken back", b"kept", b"open"):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(30)
        if value == b"kept":
            producer.commit_transaction(30)
        elif value == b"taken back":
            producer.abort_transaction(30)
    member = join()
    found = poll_all(member, len(seen))
    for record in found:
        member.acknowledge(record, ACCEPT)
    assert set(member.commit()) == {0}
    assert {record.value for record in found} == seen
    assert member.poll(wait_ms=300) == []
    producer.abort_transaction(30)


def test_old_records_come_from_remote_storage(broker: BrokerProcess, address: tuple[str, int], request: pytest.FixtureRequest) -> None:
    topic, group = "remote", "g-remote"
    configs = {"remote.storage.enable": "true", "segment.bytes": str(1 << 20), "local.retention.bytes": "1", "retention.ms": "-1"}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=configs)])[topic].result(30)
    configure_group(address, group, share_auto_offset_reset="earliest")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 2, "batch.size": 50_000})
    values = [b"%d " % number + b"x" * 1000 for number in range(5_000)]
    for number, value in enumerate(values):
        producer.produce(topic, value)
        if number % 500 == 0:
            producer.flush()
    assert producer.flush(30) == 0
    deadline = time.monotonic() + WITHIN_S
    while [int(path.stem) for path in (broker.log_dir / f"{topic}-0").glob("*.log")] == [0] or len(
        list((broker.log_dir / f"{topic}-0").glob("*.log"))
    ) > 1:
        assert time.monotonic() < deadline, "segments stay"
        time.sleep(0.05)
    member = ShareMember(address, group, topic)
    request.addfinalizer(member.close)
    member.join()
    seen = drain([member], set(values), lambda record: ACCEPT, most=500)
    assert all(count == 1 for count in seen.values())


def poll_all(member: ShareMember, count: int) -> list[Delivered]:
    found: list[Delivered] = []
    deadline = time.monotonic() + WITHIN_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        found += member.poll(wait_ms=500)
    return found
