"""A node of ours under faults, from seeds: defects that were once found stay away, and the same seed is the same history everywhere."""

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from proof.cluster.plants import NODE_PLANTS, planted
from proof.cluster.simulate import main
from proof.cluster.simulation import Result, Simulation

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("seeds")]

SEEDS_FILE = Path(__file__).parent / "seeds.txt"
FRESH_SEEDS = range(1000, 1008)
PLANTED_WITHIN = range(1, 13)
RARE = {"aborted-lost-at-restart"}
"""Plants that take more seeds than a test has time for."""


def known_seeds() -> list[int]:
    lines = (line.split("#")[0].strip() for line in SEEDS_FILE.read_text(encoding="utf-8").splitlines())
    return [int(line) for line in lines if line]


def digest_elsewhere(seed: int, hash_seed: str) -> str:
    script = f"from proof.cluster.simulation import Simulation; print(Simulation({seed}).run().digest)"
    environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True, text=True).stdout.strip()


@functools.cache
def result_of(seed: int) -> Result:
    return Simulation(seed).run()


@pytest.mark.parametrize("seed", [*known_seeds(), *FRESH_SEEDS])
def test_nothing_goes_wrong(seed: int) -> None:
    result = result_of(seed)
    assert not result.violations, f"seed {seed}: " + "\n".join(result.violations)
    assert result.done["send OK"] > 50 and result.done["poll"] > 50, f"seed {seed}: too little happened to prove anything: {result.done}"


def test_a_seed_is_the_same_history_in_every_process() -> None:
    assert {digest_elsewhere(7, hash_seed) for hash_seed in ("0", "4711")} == {result_of(7).digest}
    assert result_of(7).digest != result_of(FRESH_SEEDS[0]).digest


def test_every_fault_strikes_and_everything_succeeds_sometimes() -> None:
    done: set[str] = set()
    for seed in FRESH_SEEDS:
        done |= set(result_of(seed).done)
    faults = {"kill", "power", "power_while_starting", "restart", "reset", "flaky", "cut", "slow_disk", "clock_jump"}
    assert done >= {f"fault: {fault}" for fault in faults} | {"send OK", "send INFO", "poll", "create", "broker start"}
    assert done >= {f"group {kind}" for kind in ("join", "sync", "heartbeat", "report", "commit", "fetch offsets", "leave", "holds")}

    transactions = ("committed", "aborted", "zombie", "left open", "crashed", "paused", "given up")
    assert done >= {f"transactions {what}" for what in transactions} | {"audit"}


@pytest.mark.parametrize("plant", sorted(set(NODE_PLANTS) - RARE))
def test_a_planted_fault_is_found(plant: str) -> None:
    with planted(plant):
        assert any(Simulation(seed).run().violations for seed in PLANTED_WITHIN)


def test_the_command_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "7", "--hours", "0.01"]) == 0
    said = capsys.readouterr().out
    assert "1 seed(s) from 7: 0.0" in said and "passed: nothing acknowledged was lost" in said
