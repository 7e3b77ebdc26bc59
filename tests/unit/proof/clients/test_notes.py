"""The promises of a group of several clients: each violation is found, and what may happen is none."""

from collections.abc import Sequence

import pytest

from proof.clients.mixed.notes import Life, check

CALM = ("1 A 0", "2 G 0:0-4", "9 R 0", "10 A 0", "11 G 0:5-9", "12 E")


def told(*lives: Life, end: int = 10, commits: Sequence[int] = (5, 10)) -> list[str]:
    return check(lives, {0: end}, {0: commits}, end_ns=100)


def test_a_calm_group_breaks_no_promise() -> None:
    assert told(Life("a", CALM)) == []


def test_a_killed_member_is_followed_by_another() -> None:
    assert told(Life("a", ("1 A 0", "2 G 0:0-4"), gone_ns=20), Life("b", ("30 A 0", "31 G 0:0-9", "32 E"))) == []


def test_a_paused_member_and_one_that_was_thrown_out_may_learn_of_it_late() -> None:
    late = ("1 A 0", "2 G 0:0-4", "50 L 0", "51 E")
    follower = Life("b", ("30 A 0", "31 G 0:0-9", "60 E"))
    assert told(Life("a", late), follower) == []
    paused = ("1 A 0", "2 G 0:0-4", "50 R 0", "51 E")
    assert told(Life("a", paused, paused_ns=20), Life("b", follower.lines)) == []
    old_assignment = Life("c", ("40 A 0", "41 L 0", "70 E"))
    assert told(Life("a", ("1 A 0", "2 G 0:0-9", "60 E")), old_assignment) == []


@pytest.mark.parametrize(
    ("lives", "end", "commits", "violation"),
    [
        ([("1 A 0", "2 G 0:0-4", "3 G 0:6-9", "4 E")], 10, (10,), "unread: nobody was handed 5 to 5 of partition 0"),
        ([("1 A 0", "2 G 0:0-8", "4 E")], 10, (10,), "unread: nobody was handed 9 to 9 of partition 0"),
        ([CALM], 10, (5, 4, 10), "commit-went-back: partition 0 from 5 to 4"),
        ([CALM], 10, (5,), "unfinished: partition 0 ends at 10, the group's last commit is 5"),
        ([("1 A 0", "2 R 0", "3 G 0:0-9", "4 E")], 10, (10,), "0 handed out 0:0-9 without owning it"),
        ([("1 A 0", "2 G 0:0-4", "50 R 0", "51 E"), ("30 A 0", "31 G 0:0-9", "60 E")], 10, (10,), "two-owners"),
        ([("1 R 0", "2 A 0", "3 G 0:0-9", "4 E")], 10, (10,), "0 gave up 0, which it did not have"),
    ],
)
def test_each_violation_is_found(lives: list[Sequence[str]], end: int, commits: Sequence[int], violation: str) -> None:
    found = told(*(Life(str(number), lines) for number, lines in enumerate(lives)), end=end, commits=commits)
    assert len(found) == 1
    assert found[0].startswith(violation)
