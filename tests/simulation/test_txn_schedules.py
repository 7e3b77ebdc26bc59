"""Late, lost, doubled and overtaken requests of neighbouring transactions.

A share of what `python -m proof.transactions.schedules` does at length.
"""

from collections import Counter

import pytest

from proof.transactions.schedules.__main__ import first_found, main
from proof.transactions.schedules.plants import PLANTS, planted
from proof.transactions.schedules.schedule import Schedule

pytestmark = pytest.mark.slow

SEEDS_AT_ONCE = 125
PLANTED_WITHIN = range(1, 301)
SEEN_BY = {
    "no-verification": (1, 2),
    "guard-outlives-marker": (1,),
    "end-of-any-epoch": (1, 2),
    "no-epoch-bump": (2,),
    "retry-ends-open-one": (2,),
    "late-marker": (2,),
    "add-in-any-epoch": (1, 2),
    "abort-without-fence": (1, 2),
    "markers-not-sent-again": (1, 2),
    "first-marker-is-enough": (1, 2),
    "aborted-offsets-count": (1, 2),
    "no-connection-order": (1,),
}
"""transaction.version of the clients whose schedules see the fault; the others have a second rule behind the first."""


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("first", range(1, 1001, SEEDS_AT_ONCE))
def test_no_schedule_tears_loses_shows_or_hangs_a_transaction(first: int, version: int) -> None:
    done: Counter[str] = Counter()
    for seed in range(first, first + SEEDS_AT_ONCE):
        outcome = Schedule(seed, version=version).run()
        assert not outcome.violations, f"seed {seed}, version {version}: " + "\n".join(outcome.violations)
        done.update(outcome.done)
    for what in ("committed", "aborted", "ghosts", "marker ghosts", "zombie", "fail-over", "crashed", "paused", "given up"):
        assert done[what] > 5, f"{what} hardly happened: {done}"


@pytest.mark.parametrize(("plant", "version"), [(plant, version) for plant, versions in SEEN_BY.items() for version in versions])
def test_a_planted_fault_is_found(plant: str, version: int) -> None:
    with planted(plant):
        assert first_found(version, PLANTED_WITHIN) is not None


def test_every_plant_is_tried() -> None:
    assert set(SEEN_BY) == set(PLANTS)


def test_a_seed_is_the_same_history_every_time() -> None:
    for version in (1, 2):
        assert Schedule(7, version=version).run().done == Schedule(7, version=version).run().done


def test_the_command_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--schedules", "2"]) == 0
    assert "4 schedules from seed 1" in capsys.readouterr().out
    assert main(["--plant", "first-marker-is-enough", "--version", "1", "--schedules", "5"]) == 0
    assert "first-marker-is-enough, version 1: seed 1:" in capsys.readouterr().out
