"""Planted anomalies are found, each by its name, and clean histories are clean."""

import random

import pytest

from moldau.testing.checker import ANOMALIES, HighWatermark, History, Operation, Outcome, Poll, Read, Send, check

K = "t-0"


def send(
    process: int, *values: int, at: int | None = None, outcome: Outcome = Outcome.OK, key: str = K, ms: float = 0, acks: int = -1
) -> Operation:
    offsets = [None if at is None else at + index for index in range(len(values))]
    return Operation(process, tuple(Send(key, v, o, acks) for v, o in zip(values, offsets, strict=True)), outcome, ms, ms + 1)


def poll(process: int, *reads: tuple[int, int], key: str = K, ms: float = 0, **options: bool) -> Operation:
    return Operation(process, (Poll(tuple(Read(key, o, v) for o, v in reads)),), Outcome.OK, ms, ms + 1, **options)


def kinds(*operations: Operation, is_complete: bool = False, power_losses: tuple[float, ...] = ()) -> set[str]:
    return {found.kind for found in check(History(list(operations), list(power_losses)), is_complete=is_complete)}


FAIL, INFO = Outcome.FAIL, Outcome.INFO

PLANTED = {
    "two sends are told of one offset": ({"inconsistent-offsets"}, [send(0, 1, at=0), send(1, 2, at=0)]),
    "a send and a poll differ": ({"inconsistent-offsets"}, [send(0, 1, at=0), poll(1, (0, 2)), poll(1, (0, 1), repositions=True)]),
    "two polls differ": ({"inconsistent-offsets"}, [poll(0, (3, 7)), poll(1, (3, 8))]),
    "a value is polled twice": ({"duplicate"}, [poll(0, (0, 1), (1, 1))]),
    "a value is told of at one offset and polled at another": ({"duplicate"}, [send(0, 1, at=0), poll(1, (0, 1), (1, 1))]),
    "a failed send is read": ({"G1a"}, [send(0, 1, outcome=FAIL), poll(1, (0, 1))]),
    "an acknowledged send below a read one is never read": ({"lost-write", "int-poll-skip"}, [send(0, 2, at=1), poll(1, (0, 1), (2, 3))]),
    "the only other reader starts above it": ({"lost-write"}, [send(0, 1, at=0), poll(1, (1, 2))]),
    "part of an unknown transaction is lost": ({"lost-write"}, [send(0, 1, 2, at=0, outcome=INFO), send(3, 1, at=0), poll(1, (1, 2))]),
    "a poll leaves one out": ({"int-poll-skip"}, [poll(0, (0, 1), (1, 2), (2, 3)), poll(1, (0, 1), (2, 3))]),
    "a poll goes back": ({"int-nonmonotonic-poll"}, [poll(0, (1, 2), (0, 1))]),
    "a poll repeats": ({"int-nonmonotonic-poll"}, [poll(0, (1, 2), (1, 2))]),
    "the next poll leaves one out": ({"poll-skip"}, [poll(0, (0, 1), (1, 2), (2, 3)), poll(1, (0, 1)), poll(1, (2, 3))]),
    "the next poll goes back": ({"nonmonotonic-poll"}, [poll(0, (0, 1), (1, 2)), poll(0, (1, 2))]),
    "the next send is put before": ({"nonmonotonic-send"}, [send(0, 1, at=5), send(0, 2, at=3)]),
    "a send within an operation is put before": (
        {"int-nonmonotonic-send"},
        [Operation(0, (Send(K, 1, 5), Send(K, 2, 4)))],
    ),
    "a transaction reads itself": ({"precommitted-read"}, [Operation(0, (Send(K, 1, 0), Poll((Read(K, 0, 1),))))]),
    "two transactions read each other": (
        {"G1c"},
        [Operation(0, (Send("a", 1, 0), Poll((Read("b", 0, 2),)))), Operation(1, (Send("b", 2, 0), Poll((Read("a", 0, 1),))))],
    ),
}
CLEAN = {
    "nothing": [],
    "sent and read": [send(0, 1, at=0), send(0, 2, at=1), poll(1, (0, 1), (1, 2))],
    "unknown and read": [send(0, 1, outcome=INFO), poll(1, (0, 1))],
    "unknown and not read": [send(0, 1, outcome=INFO), poll(1, (0, 2))],
    "failed and not read": [send(0, 1, outcome=FAIL), poll(1, (0, 2))],
    "offsets between are markers": [poll(0, (0, 1), (2, 2), (7, 3))],
    "an assignment starts again": [poll(0, (0, 1), (1, 2)), poll(0, (0, 1), (1, 2), repositions=True)],
    "a rebalance skips": [poll(0, (0, 1), (1, 2), (2, 3)), poll(1, (0, 1)), poll(1, (2, 3), may_rebalance=True)],
    "others write between": [send(0, 1, at=0), send(1, 9, at=1), send(0, 2, at=2), poll(2, (0, 1), (1, 9), (2, 2))],
    "keys are apart": [send(0, 1, at=3, key="a"), send(0, 2, at=0, key="b"), poll(1, (3, 1), key="a"), poll(1, (0, 2), key="b")],
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_was_planted_is_found(name: str) -> None:
    expected, operations = PLANTED[name]
    assert kinds(*operations) == expected


@pytest.mark.parametrize("name", CLEAN)
def test_clean_histories_are_clean(name: str) -> None:
    assert kinds(*CLEAN[name]) == set()


def test_what_was_never_read_counts_at_the_end_only() -> None:
    operations = [send(0, 1, at=0), send(0, 2, at=1), poll(1, (0, 1))]
    assert kinds(*operations) == set()
    assert kinds(*operations, is_complete=True) == {"unseen"}


def test_a_power_loss_excuses_what_was_not_acknowledged_by_all() -> None:
    before = [send(0, 1, at=0, ms=1), send(0, 2, at=1, ms=2, acks=1), poll(1, (0, 1), (1, 2), ms=3)]
    after = [send(2, 3, at=1, ms=20), poll(1, (0, 1), (1, 3), ms=30, repositions=True)]
    assert kinds(*before, *after) >= {"inconsistent-offsets"}
    assert kinds(*before, *after, power_losses=(10,), is_complete=True) == set()


def test_a_power_loss_does_not_excuse_what_was_acknowledged_or_lies_below() -> None:
    unsafe_below = [send(0, 1, at=0, ms=1, acks=1), send(0, 2, at=1, ms=2)]
    assert kinds(*unsafe_below, poll(1, (1, 2), ms=30), power_losses=(10,)) == {"lost-write"}
    assert kinds(send(0, 2, at=1, ms=2), poll(1, (1, 3), ms=30), power_losses=(10,)) == {"inconsistent-offsets"}
    assert kinds(send(0, 2, at=1, ms=20, acks=1), poll(1, (2, 3), ms=30), power_losses=(10,)) == {"lost-write"}


def test_a_high_watermark_that_goes_back_is_found() -> None:
    def marks(*offsets: tuple[int, float, float]) -> set[str]:
        return {found.kind for found in check(History(watermarks=[HighWatermark(K, 0, *mark) for mark in offsets]))}

    assert marks((5, 0, 1), (4, 2, 3)) == {"high-watermark-went-back"}
    assert marks((5, 0, 1), (4, 0.5, 3)) == set(), "both were on the way at the same time"
    assert marks((4, 0, 1), (5, 2, 3), (5, 4, 5)) == set()


@pytest.mark.parametrize("seed", range(20))
def test_one_bad_thing_in_a_long_clean_history_is_found(seed: int) -> None:
    choice = random.Random(seed)
    operations = []
    position = dict.fromkeys(range(3), 0)
    for value in range(200):
        operations.append(send(value % 5, value, at=value))
        reader = choice.randrange(3)
        if choice.random() < 0.5 and position[reader] <= value:
            operations.append(poll(10 + reader, *[(offset, offset) for offset in range(position[reader], value + 1)]))
            position[reader] = value + 1
    operations.append(poll(99, *[(offset, offset) for offset in range(200)]))
    assert kinds(*operations, is_complete=True) == set()
    victim = choice.randrange(len(operations) - 1)
    broken = list(operations)
    action = broken[victim].actions[0]
    if isinstance(action, Send):
        broken[victim] = send(broken[victim].process, 1000 + action.value, at=action.offset)
        assert kinds(*broken, is_complete=True) >= {"inconsistent-offsets", "unseen"} or kinds(*broken) >= {
            "inconsistent-offsets",
            "lost-write",
        }
    else:
        last = action.reads[-1]
        broken[victim] = poll(broken[victim].process, *[(r.offset, r.value) for r in action.reads], (last.offset, last.value))
        assert kinds(*broken, is_complete=True) == {"int-nonmonotonic-poll"}


def test_every_anomaly_is_planted_somewhere() -> None:
    planted = {kind for expected, _ in PLANTED.values() for kind in expected}
    assert planted | {"unseen", "high-watermark-went-back"} == set(ANOMALIES)
