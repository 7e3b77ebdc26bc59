"""Clusters of several real nodes under faults, from seeds; `python -m proof.fleet --seeds 1000` runs more and longer lives."""

import os
from collections import Counter
from functools import partial

import pytest

from proof.fleet.counting import Counting
from proof.fleet.fleet import SHAPES
from proof.fleet.forgetting import Forgetting
from proof.fleet.hunts import Hunt
from proof.fleet.life import FAULTS, Life, Result, live
from proof.fleet.plants import planted
from proof.fleet.reading import Reading
from proof.fleet.sharing import Sharing

SEEDS = int(os.environ.get("MOLDAU_FLEET_SEEDS", "200"))
COUNTING_SEEDS = FORGETTING_SEEDS = READING_SEEDS = SHARING_SEEDS = SEEDS // 8
CHAOS_S = 6.0
"""Shorter than by hand, so that more lives fit into the time that tests have."""
AT_A_TIME = 25
ONCE_BROKEN = (2, 12, 10_052, 30_401, 31_560, 35_450, 31_115, 31_471, 35_012, 30_048, 30_541, 60_014, 60_124, 89_374)
"""The last known leader came back with an empty disk; a full disk and the metadata log; a voter's disk was emptied while another voter was
removed, which only the simulation does; full disks again: a high watermark that went back, epochs of batches that were not written, twice.
Then a stop that outlasted the healing; an empty disk before a directory was told; a log in two directories; a stop on a
full disk; a disk that failed and was replaced by one that worked; a high watermark that followers were not told; a power
cut while a fetched snapshot replaced the log; a replica that was moved away and stayed eligible.
"""


def run(seed: int, chaos_s: float = CHAOS_S) -> Result:
    result = live(seed, chaos_s=chaos_s)
    assert not result.violations, f"seed {seed} ({result.shape}): {result.violations}"
    return result


@pytest.mark.parametrize("first", range(0, SEEDS, AT_A_TIME))
def test_nothing_goes_wrong(first: int) -> None:
    results = [run(seed) for seed in range(first, min(first + AT_A_TIME, SEEDS))]
    assert {result.shape for result in results} == set(map(str, SHAPES))
    assert sum(result.done["acknowledged"] for result in results) > 20 * AT_A_TIME, "too little happened to prove anything"
    struck = {name for result in results for name in result.done if name.startswith("fault: ")}
    assert len(struck) > len(set(FAULTS)) * 0.7, struck


@pytest.mark.parametrize("seed", ONCE_BROKEN)
def test_what_was_found_stays_away(seed: int) -> None:
    run(seed, 20.0)


def test_a_seed_is_the_same_history_every_time() -> None:
    assert run(5).digest == run(5).digest != run(6).digest


@pytest.mark.parametrize("plant", ["acknowledged-by-leader", "whoever-lives-leads", "same-leader-epoch"])
def test_a_planted_fault_is_found(plant: str) -> None:
    """docs/reliability/simulation.md says how many lives each fault takes."""
    with planted(plant):
        assert any(live(seed).violations for seed in range(3))


@pytest.mark.parametrize("first", range(0, COUNTING_SEEDS, AT_A_TIME))
def test_transactions_count_once(first: int) -> None:
    done: Counter[str] = Counter()
    for seed in range(first, min(first + AT_A_TIME, COUNTING_SEEDS)):
        result = live(seed, kind=Counting, chaos_s=CHAOS_S)
        assert not result.violations, f"seed {seed} ({result.shape}): {result.violations}"
        done += result.done
    assert done["counted"] > 5 * AT_A_TIME, "too little happened to prove anything"
    assert {"fault: counter_dies", "fault: counter_succeeds"} <= set(done)


@pytest.mark.parametrize("first", range(0, FORGETTING_SEEDS, AT_A_TIME))
def test_a_topic_forgets(first: int) -> None:
    results = [live(seed, kind=Forgetting, chaos_s=CHAOS_S) for seed in range(first, min(first + AT_A_TIME, FORGETTING_SEEDS))]
    assert not {result.seed: result.violations for result in results if result.violations}
    assert sum(result.done["acknowledged in a fleeting topic"] for result in results) > 5 * AT_A_TIME, "too little happened"


@pytest.mark.parametrize("first", range(0, READING_SEEDS, AT_A_TIME))
def test_a_group_reads_everything(first: int) -> None:
    results = [live(seed, kind=Reading, chaos_s=CHAOS_S) for seed in range(first, min(first + AT_A_TIME, READING_SEEDS))]
    assert not {result.seed: result.violations for result in results if result.violations}
    assert sum(result.done["commits"] for result in results) > 10 * AT_A_TIME, "too little happened"


@pytest.mark.parametrize("first", range(0, SHARING_SEEDS, AT_A_TIME))
def test_a_share_group_works_on_everything(first: int) -> None:
    results = [live(seed, kind=Sharing, chaos_s=CHAOS_S) for seed in range(first, min(first + AT_A_TIME, SHARING_SEEDS))]
    assert not {result.seed: result.violations for result in results if result.violations}
    assert sum(result.done["records of the share group confirmed"] for result in results) > 10 * AT_A_TIME, "too little happened"


@pytest.mark.parametrize(("plant", "kind"), [("aborted-offsets-count", Counting), ("coordinator-answers-early", Reading)])
def test_a_planted_fault_of_coordinators_is_found(plant: str, kind: type[Life]) -> None:
    assert not live(0, kind=kind).violations
    with planted(plant):
        assert any(live(seed, kind=kind).violations for seed in range(14))


@pytest.mark.parametrize(
    ("plant", "hunt"),
    [
        ("end-told-after-failed-sync", "one_directory_fails"),
        ("any-in-sync-set", "joins_from_an_earlier_life"),
        ("stale-broker-epoch", "joins_from_an_earlier_life"),
    ],
)
def test_a_rare_fault_is_hunted_down(plant: str, hunt: str) -> None:
    kind = partial(Hunt, only=hunt)
    assert not live(0, kind=kind).violations
    with planted(plant):
        assert any(live(seed, kind=kind).violations for seed in range(14))


@pytest.mark.parametrize("seed", range(3))
def test_the_last_one_in_sync_does_not_lead_on_an_empty_disk_without_eligible_replicas(seed: int) -> None:
    result = live(seed, kind=partial(Hunt, only="last_disk_is_replaced"), shape=SHAPES[1])
    assert not result.violations, f"seed {seed}: {result.violations}"
    assert result.done["over: a partition is offline because its last leader lost its disk"] == 1


@pytest.mark.parametrize("seed", range(4))
def test_nothing_goes_wrong_when_it_is_hunted_for(seed: int) -> None:
    result = live(seed, kind=Hunt, chaos_s=10.0)
    assert not result.violations, f"seed {seed} ({result.shape}): {result.violations}"
