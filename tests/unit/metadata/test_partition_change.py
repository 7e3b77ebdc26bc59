"""Kafka's rules for changes of a partition, one by one.  Brokers are numbers; the record says only what changes."""

from typing import Any
from uuid import UUID

import pytest

from moldau.metadata.image import PartitionRegistration
from moldau.metadata.partition_change import RECOVERED, RECOVERING, Election, PartitionChange
from moldau.metadata.records import PartitionChangeRecord
from moldau.types import DIRECTORY_UNASSIGNED, NO_LEADER

TOPIC = UUID(int=7)
ALL = (1, 2, 3, 4)


def a_partition(**changes: Any) -> PartitionRegistration:
    """Three replicas, all in sync, the first leads."""
    replicas = changes.get("replicas", (1, 2, 3))
    given: dict[str, Any] = {
        "replicas": replicas,
        "directories": tuple(UUID(int=100 + one) for one in replicas),
        "isr": replicas,
        "removing_replicas": (),
        "adding_replicas": (),
        "elr": (),
        "last_known_elr": (),
        "leader": 1,
        "leader_recovery_state": RECOVERED,
        "leader_epoch": 5,
        "partition_epoch": 9,
    }
    return PartitionRegistration(**{**given, **changes})


def change(
    partition: PartitionRegistration, *, alive: tuple[int, ...] = ALL, min_isr: int = 2, elr: bool = True, **rest: Any
) -> dict[str, Any]:
    """The fields in which the record differs from one without changes; empty for no record."""
    made = PartitionChange(TOPIC, 0, partition, alive.__contains__, min_isr, elr, **rest).record()
    if made is None:
        return {}
    nothing = PartitionChangeRecord(partition_id=0, topic_id=TOPIC)
    names = [field.name for field in PartitionChangeRecord.FIELDS]
    assert (made.partition_id, made.topic_id) == (0, TOPIC)
    return {name: getattr(made, name) for name in names if getattr(made, name) != getattr(nothing, name)}


# ------------------------------------------------------------ who leads


@pytest.mark.parametrize("election", Election)
def test_a_leader_that_is_in_sync_and_there_stays(election: Election) -> None:
    assert change(a_partition(), election=election) == {}


def test_the_first_replica_in_sync_leads_when_the_leader_is_gone() -> None:
    gone = {"isr": (2, 3), "alive": (2, 3, 4)}
    assert change(a_partition(), **gone) == {"isr": [2, 3], "leader": 2}
    assert change(a_partition(isr=(1, 3)), isr=(3,), min_isr=1, alive=(2, 3)) == {"isr": [3], "leader": 3}, "2 is there, but behind"


def test_only_a_preferred_election_takes_the_lead_from_one_that_is_fit() -> None:
    led_by_another = a_partition(leader=2)
    assert change(led_by_another) == {}
    assert change(led_by_another, election=Election.PREFERRED) == {"leader": 1}
    assert change(led_by_another, election=Election.PREFERRED, alive=(2, 3)) == {}
    assert change(a_partition(leader=2, isr=(2, 3)), election=Election.PREFERRED) == {}, "the preferred one is behind"
    assert change(a_partition(leader=2), isr=(1, 3), election=Election.PREFERRED, alive=(3,)) == {"isr": [1, 3], "leader": 3}


def test_without_eligible_replicas_an_empty_in_sync_set_is_not_written() -> None:
    last = a_partition(isr=(1,))
    assert change(last, isr=(), alive=(2, 3), elr=False) == {"leader": NO_LEADER}
    assert change(a_partition(isr=(1,), leader=NO_LEADER), alive=(2, 3), elr=False) == {}
    assert change(a_partition(isr=(1,), leader=NO_LEADER), elr=False) == {"leader": 1}


def test_unclean_election_takes_whoever_lives_and_says_that_records_may_be_lost() -> None:
    last = a_partition(isr=(1,))
    lost = {"isr": [2], "leader": 2, "leader_recovery_state": RECOVERING}
    assert change(last, isr=(), alive=(2, 3), elr=False, election=Election.UNCLEAN) == lost
    assert change(last, isr=(), alive=(), elr=False, election=Election.UNCLEAN) == {"leader": NO_LEADER}
    assert change(last, isr=(), alive=(2,), elr=False, election=Election.PREFERRED) == {"leader": NO_LEADER}
    recovering = a_partition(isr=(1,), leader_recovery_state=RECOVERING)
    assert change(recovering, isr=(), alive=(2, 3), elr=False, election=Election.UNCLEAN) == {"isr": [2], "leader": 2}


# ------------------------------------------------------------ eligible leader replicas (KIP-966)


def test_who_leaves_below_the_minimum_stays_eligible() -> None:
    assert change(a_partition(), isr=(1, 2)) == {"isr": [1, 2]}, "two are enough"
    assert change(a_partition(), isr=(1,)) == {"isr": [1], "eligible_leader_replicas": [2, 3]}
    assert change(a_partition(), isr=(1,), lost_their_log={2}) == {"isr": [1], "eligible_leader_replicas": [3]}
    below = a_partition(isr=(1,), elr=(3,))
    assert change(below, isr=(1, 2)) == {"isr": [1, 2], "eligible_leader_replicas": []}, "enough again"
    assert change(below, lost_their_log={3}) == {"eligible_leader_replicas": []}
    assert change(a_partition(), isr=(1,), elr=False) == {"isr": [1]}


def test_a_replica_that_is_moved_away_is_not_eligible() -> None:
    moved = a_partition(replicas=(1, 2, 3, 4), isr=(1, 2), removing_replicas=(1, 3), adding_replicas=(4,), elr=(3,))
    done = change(moved, isr=(2, 4), min_isr=3)
    assert (done["replicas"], done["isr"], done["eligible_leader_replicas"]) == ([2, 4], [2, 4], [])


def test_a_replica_that_is_added_again_is_not_eligible_by_the_log_that_it_had() -> None:
    by_kafka = a_partition(replicas=(2, 3), isr=(2,), leader=2, elr=(3, 4))
    again = change(by_kafka, replicas=(2, 3, 4), adding=(4,))
    assert again["eligible_leader_replicas"] == [3]


def test_a_last_known_leader_that_was_moved_away_does_not_lead() -> None:
    leaderless = a_partition(replicas=(2, 3), isr=(), leader=NO_LEADER, last_known_elr=(1,))
    assert change(leaderless) == {}


def test_an_eligible_replica_leads_once_nobody_is_in_sync() -> None:
    below = a_partition(isr=(1,), elr=(3,))
    assert change(below, isr=(), alive=(2, 3)) == {"isr": [3], "leader": 3, "eligible_leader_replicas": [1]}
    assert change(below, isr=(), alive=(2,)) == {
        "isr": [],
        "leader": NO_LEADER,
        "eligible_leader_replicas": [1, 3],
        "last_known_elr": [1],
    }
    still_in_sync = a_partition(isr=(1,), elr=(3,), leader=1)
    assert change(still_in_sync, alive=(3,)) == {"leader": NO_LEADER, "last_known_elr": [1]}, "1 has records that 3 may lack"


def test_the_last_known_leader_leads_when_neither_set_has_anybody() -> None:
    leaderless = a_partition(isr=(), leader=NO_LEADER, last_known_elr=(2,))
    again = {"isr": [2], "leader": 2, "leader_recovery_state": RECOVERING, "last_known_elr": []}
    assert change(leaderless, alive=(1, 2, 3)) == again
    assert change(leaderless, alive=(1, 3)) == {}
    assert change(leaderless, alive=(1, 3), election=Election.UNCLEAN)["leader"] == 1
    assert change(a_partition(isr=(), leader=NO_LEADER, last_known_elr=(2,), elr=(3,)), alive=(2,)) == {}, "3 has not lost its log"
    assert change(a_partition(isr=(), leader=NO_LEADER, last_known_elr=(2, 3)), alive=(2, 3)) == {}, "nobody knows which of them led last"


def test_the_last_known_leader_is_noted_once() -> None:
    leaderless = a_partition(isr=(3,), leader=NO_LEADER, last_known_elr=(1,))
    emptied = change(leaderless, isr=(), alive=())
    assert emptied == {"isr": [], "eligible_leader_replicas": [3]}
    unnoted = a_partition(isr=(3,), leader=NO_LEADER)
    assert "last_known_elr" not in change(unnoted, isr=(), alive=()), "NO_LEADER is no replica"


# ------------------------------------------------------------ reassignments (KIP-455)


def test_a_reassignment_is_complete_when_all_that_come_are_in_sync() -> None:
    moving = a_partition(replicas=(1, 2, 3, 4), isr=(1, 2, 3), adding_replicas=(4,), removing_replicas=(1,))
    assert change(moving) == {}
    assert change(moving, isr=(1, 2, 3, 4)) == {
        "isr": [2, 3, 4],
        "leader": 2,
        "replicas": [2, 3, 4],
        "removing_replicas": [],
        "adding_replicas": [],
        "directories": [UUID(int=102), UUID(int=103), UUID(int=104)],
    }


def test_nothing_is_removed_before_somebody_in_sync_stays() -> None:
    moving = a_partition(replicas=(1, 2), isr=(1,), removing_replicas=(1,))
    assert change(moving, min_isr=1) == {}
    assert change(moving, isr=(1, 2), min_isr=1)["replicas"] == [2]


def test_the_epoch_rises_when_a_replica_leaves_under_the_same_leader() -> None:
    moving = a_partition(replicas=(1, 2, 3), isr=(1, 2, 3), removing_replicas=(3,))
    found = change(moving)
    assert (found["leader"], found["replicas"], found["isr"]) == (1, [1, 2], [1, 2])


def test_new_replicas_come_with_their_directories() -> None:
    found = change(a_partition(), replicas=(1, 2, 3, 4), adding=(4,), new_directories={4: UUID(int=9)})
    assert found == {
        "replicas": [1, 2, 3, 4],
        "adding_replicas": [4],
        "directories": [UUID(int=101), UUID(int=102), UUID(int=103), UUID(int=9)],
    }
    assert change(a_partition(), replicas=(1, 2, 3, 4), adding=(4,))["directories"][-1] == DIRECTORY_UNASSIGNED
    assert change(a_partition(), new_directories={2: UUID(int=9)}) == {"directories": [UUID(int=101), UUID(int=9), UUID(int=103)]}


def test_a_recovery_that_is_over_is_noted() -> None:
    recovering = a_partition(leader_recovery_state=RECOVERING)
    assert change(recovering, recovery_state=RECOVERED) == {"leader_recovery_state": RECOVERED}
    assert change(recovering, recovery_state=RECOVERING) == change(recovering) == {}
