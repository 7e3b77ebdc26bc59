"""The pure part of a share consumer: what it says of records, as runs of offsets."""

from moldau.clients.share.acknowledging import Acknowledge, runs_of

A, L, R = Acknowledge.ACCEPT, Acknowledge.RELEASE, Acknowledge.REJECT


def test_nothing_said() -> None:
    assert list(runs_of({})) == []


def test_a_run_of_one_kind_names_it_once() -> None:
    assert list(runs_of({7: A, 5: A, 6: A})) == [(5, 7, [1])]


def test_a_run_of_several_kinds_names_one_an_offset() -> None:
    assert list(runs_of({5: A, 6: L, 7: R})) == [(5, 7, [1, 2, 3])]


def test_gaps_between_offsets_part_runs() -> None:
    assert list(runs_of({5: A, 7: A, 8: Acknowledge.GAP, 20: R})) == [(5, 5, [1]), (7, 8, [1, 0]), (20, 20, [3])]
