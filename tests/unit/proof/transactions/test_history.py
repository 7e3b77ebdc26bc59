"""The checker of transactions finds what is wrong in one place of a history."""

from collections.abc import Callable

import pytest

from moldau.types import TopicPartition
from proof.transactions.history import Sight, TransactionHistory, check_transactions
from proof.transactions.schedules.notebook import Attempt, Fate, Place, Snapshot

SOURCE, LEFT, RIGHT = TopicPartition("source", 0), TopicPartition("output", 0), TopicPartition("output", 1)
GROUPS = {"copier": "copiers"}


class Story:
    """Two transactions of a copier: the first copies 0 to the left and 1 to the right, the second is aborted."""

    def __init__(self) -> None:
        self.history = TransactionHistory()
        self.first = self.transaction({LEFT: (0, 0), RIGHT: (0, 1)}, at_s=1.0)
        self.first.fate, self.first.offset, self.first.was_open_until_s = Fate.COMMITTED, 2, 5.0
        self.second = self.transaction({LEFT: (2, 2)}, at_s=6.0)
        self.second.was_open_until_s = 7.0
        one, two = self.first.places
        self.visible = {LEFT: [(0, one)], RIGHT: [(0, two)]}
        self.committed: int | None = 2
        self.history.sights += [
            Sight(LEFT, 0, 0, (), 0, 2.0, 3.0),
            Sight(LEFT, 0, 2, ((0, one),), 2, 5.5, 5.6),
            Sight(LEFT, 0, 4, ((0, one),), 4, 8.0, 8.1),
        ]

    def transaction(self, copied: dict[TopicPartition, tuple[int, int]], at_s: float) -> Attempt:
        """A copy of records; `copied` has for each partition the offset of the copy and the offset of its source."""
        notebook = self.history.notebook
        attempt = notebook.begin("copier", 2)
        for partition, (offset, source) in copied.items():
            value = notebook.new_value(attempt)
            attempt.acknowledged(partition, [value], offset, at_s)
            self.history.sources[value] = Place(SOURCE, source, at_s)
        return attempt

    def violations(self) -> list[str]:
        return check_transactions(self.history, Snapshot(self.visible, {}, {"copiers": self.committed}), GROUPS)


def test_a_right_story_has_no_violation() -> None:
    assert Story().violations() == []


def torn(story: Story) -> None:
    story.visible[RIGHT] = []


def aborted(story: Story) -> None:
    story.visible[LEFT].append((2, *story.second.places))


def doubled(story: Story) -> None:
    story.visible[LEFT].append((1, story.visible[LEFT][0][1]))


def offsets_behind(story: Story) -> None:
    story.committed = 1


def offsets_alone(story: Story) -> None:
    story.visible = {LEFT: [], RIGHT: []}
    story.first.fate = Fate.UNKNOWN


def out_of_order(story: Story) -> None:
    later = story.transaction({LEFT: (5, 2), RIGHT: (5, 4)}, at_s=9.0)
    last = story.transaction({LEFT: (6, 1)}, at_s=9.0)
    for attempt in (later, last):
        attempt.fate = Fate.UNKNOWN
    story.visible[LEFT] += [(5, min(later.places)), (6, *last.places)]


def shown_and_gone(story: Story) -> None:
    story.history.sights.append(Sight(LEFT, 2, 3, ((2, *story.second.places),), 3, 8.0, 8.1))


def left_out(story: Story) -> None:
    story.history.sights.append(Sight(LEFT, 0, 2, (), 2, 8.0, 8.1))


def passed_while_open(story: Story) -> None:
    story.history.sights.append(Sight(LEFT, 3, 3, (), 3, 6.5, 6.6))


def granted_to_a_zombie(story: Story) -> None:
    notebook = story.history.notebook
    before, _ = notebook.take_over("copier", 1.0), notebook.take_over("copier", 4.0)
    notebook.check_zombie("copier", before, "Produce", 3.9)
    assert not notebook.violations, "it was asked before the take-over"
    notebook.check_zombie("copier", before, "Produce", 4.1)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (torn, "lost: "),
        (aborted, "aborted: "),
        (doubled, "doubled: "),
        (offsets_behind, "copied: "),
        (offsets_alone, "torn: "),
        (out_of_order, "copied: "),
        (shown_and_gone, "seen: "),
        (left_out, "seen: "),
        (passed_while_open, "passed: "),
        (granted_to_a_zombie, "zombie: "),
    ],
)
def test_what_is_wrong_is_found(wrong: Callable[[Story], None], kind: str) -> None:
    story = Story()
    wrong(story)
    assert any(found.startswith(kind) for found in story.violations()), story.violations()
