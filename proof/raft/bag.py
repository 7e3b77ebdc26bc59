"""● Consensus machines with a bag of messages between them: no loop, no bytes, thousands of lives a minute.

    run(seed)                       raises Broken for a broken promise, with the seed and the last events
    run(seed, plant=PLANTS[…])      the same with a planted mistake, which must be found
    python -m proof.raft.bag --seeds 1000                             how many seeds hold
    python -m proof.raft.bag --plants --seeds 400                     how many seeds each planted mistake takes

Faults (`life.py`): one-way cuts, bridges and rings, crashes, slow and full disks, disks that are lost (a new directory), ports that refuse,
machines that stand still, leaders that die as soon as they are elected, changes of voters, snapshots.

Promises checked after every event (`world.py`):

- an epoch has one leader, and a leader has all committed entries
- a replica gives one vote an epoch, only as a voter; vote and leader are on its disk before the vote leaves, and stay there
- committed logs are equal; committed entries are on the disks of a majority of the voters
- a leader commits by an entry of its own epoch
- every record that a replica reports is on its disk
- the high watermark never goes back

At the end all is healed: within `HEALED_WITHIN_MS` there is a leader, and the entries that it is given are committed everywhere.
"""

import argparse
import sys
import time
from collections.abc import Sequence

from proof.raft.life import Life
from proof.raft.replica import Broken, Plant
from proof.raft.world import World

__all__ = ["Broken", "run"]


def run(seed: int, plant: Plant | None = None, *, keeps_events: bool = False) -> World:
    """Run the life of one seed.  Errors: Broken."""
    world = World(seed, plant or Plant(), keeps_events=keeps_events)
    try:
        Life(world).run()
    except AssertionError as error:
        if isinstance(error, Broken):
            raise
        raise Broken(f"seed {seed}: {error!r}\n" + "\n".join(world.told)) from error
    return world


def found_at(plant: Plant, seeds: int) -> tuple[int, str] | None:
    """The first seed that finds a planted mistake, and the words of its failure."""
    for seed in range(seeds):
        try:
            run(seed, plant)
        except Broken as broken:
            return seed, str(broken).partition("\n")[0].partition(": ")[2]
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--plants", action="store_true", help="plant each mistake in turn, and tell after how many seeds it is found")
    parser.add_argument("--only", action="append", default=[], help="a planted mistake; may be given several times")
    options = parser.parse_args(arguments)
    if options.plants or options.only:
        from proof.raft.plants import PLANTS

        wanted = options.only or list(PLANTS)
        missed = [name for name in wanted if not _tell(name, found_at(PLANTS[name], options.seeds), options.seeds)]
        return len(missed)
    begun, broken = time.process_time(), 0
    for seed in range(options.first, options.first + options.seeds):
        try:
            run(seed)
        except Broken as error:
            broken += 1
            _say(str(error))
    taken_s = time.process_time() - begun
    _say(f"{options.seeds - broken} of {options.seeds} seeds from {options.first} on hold, in {taken_s:.0f} s of a processor")
    return int(broken > 0)


def _tell(name: str, found: tuple[int, str] | None, seeds: int) -> bool:
    _say(f"{name}: {f'not in {seeds}' if found is None else f'{found[0] + 1}: {found[1][:160]}'}")
    return found is not None


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
