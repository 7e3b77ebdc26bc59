"""A node of ours under faults, from seeds: what was once found stays away, and the same seed is the same history everywhere."""

import subprocess
import sys
from pathlib import Path

import pytest

from moldau.testing.simulate import main
from moldau.testing.simulation import Result, Simulation

SEEDS_FILE = Path(__file__).parent / "seeds.txt"
FRESH_SEEDS = range(1000, 1010)


def known_seeds() -> list[int]:
    lines = (line.split("#")[0].strip() for line in SEEDS_FILE.read_text(encoding="utf-8").splitlines())
    return [int(line) for line in lines if line]


def digest_elsewhere(seed: int, hash_seed: str) -> str:
    script = f"from moldau.testing.simulation import Simulation; print(Simulation({seed}).run().digest)"
    environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True, text=True).stdout.strip()


@pytest.mark.parametrize("seed", [*known_seeds(), *FRESH_SEEDS])
def test_nothing_goes_wrong(seed: int) -> None:
    result = Simulation(seed).run()
    assert not result.violations, f"seed {seed}: " + "\n".join(result.violations)
    assert result.done["send OK"] > 50 and result.done["poll"] > 50, f"seed {seed}: too little happened to prove anything: {result.done}"


def test_a_seed_is_the_same_history_in_every_process() -> None:
    here = Simulation(7).run().digest
    assert {digest_elsewhere(7, hash_seed) for hash_seed in ("0", "1", "4711")} == {here}
    assert Simulation(8).run().digest != here


def test_every_fault_strikes_and_everything_succeeds_sometimes() -> None:
    done: set[str] = set()
    for seed in range(2000, 2006):
        result: Result = Simulation(seed).run()
        done |= set(result.done)
    faults = {"kill", "power", "power_while_starting", "restart", "reset", "cut", "slow_disk", "clock_jump"}
    assert done >= {f"fault: {fault}" for fault in faults} | {"send OK", "send INFO", "poll", "create", "broker start"}


def test_the_command_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "7", "--hours", "0.01"]) == 0
    said = capsys.readouterr().out
    assert "1 seed(s) from 7: 0.0" in said and "passed: nothing acknowledged was lost" in said
