"""● Hurts a cluster whose processes stand apart: cut lines, unplugged nodes, lost power, moves under a throttle; stock clients work on it.

    python -m proof.cluster.hurting_apart --seed 7 --rounds 40 --java
    python -m proof.cluster.hurting_apart --seed 7 --rounds 10 --brokers 3 --controllers 0 --disks --only "power cut"

The load, the faults and the violations are those of `proof.cluster.processes`; `--java` adds Kafka's Java clients, as `--java-clients`
does there.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from proof.cluster.apart import ClusterApart
from proof.cluster.moves import ThrottledMoves
from proof.cluster.namespaces import why_not
from proof.cluster.process_load import PARTITIONS
from proof.cluster.processes import QUICK, SESSION_S, SHARES, SHOWN_VIOLATIONS, Hurting, say_line
from proof.storage.writeback import write_back

CUTS_AT_ONCE: Final = (1, 2, 3)
MOVES_AT_ONCE: Final = 4
OPTIONS: Final = {**QUICK, **SHARES, "log.flush.policy": "ack"}


class HurtingApart(Hurting):
    """See the module."""

    def __init__(
        self,
        cluster: ClusterApart,
        seed: int,
        say: Callable[[str], None] = say_line,
        *,
        has_copier: bool = True,
        has_java: bool = False,
        has_disks: bool = False,
    ) -> None:
        super().__init__(cluster, seed, say, has_copier=has_copier, has_java=has_java)
        self._apart: Final = cluster
        self._moves: Final = ThrottledMoves(cluster, self.choice)
        self.cached_writes = 0
        self._kinds["leader and controller killed"] = self._kill_leader_and_controller
        self._kinds["leader unplugged and killed"] = lambda: self._unplug(self._some_leader())
        self._kinds["one-way cuts"] = self._cut
        self._kinds["moves under throttle"] = lambda: self._move(self._nothing)
        self._kinds["moves under throttle, a leader killed"] = lambda: self._move(lambda: self._kill_for_a_while(self._some_leader()))
        self._kinds["moves under throttle, the controller killed"] = lambda: self._move(
            lambda: self._kill_for_a_while(self.active_controller())
        )
        self._kinds["moves, cuts and kills at once"] = lambda: self._move(self._cut_and_kill)
        if has_disks:
            self._kinds["power cut"] = self._lose_power

    def _nothing(self) -> None:
        pass

    def _cut_and_kill(self) -> None:
        self._cut()
        self._kill_leader_and_controller()

    def _kill_leader_and_controller(self) -> None:
        """Kill a leader and the active controller, which may be one process."""
        nodes = list(dict.fromkeys((self._some_leader(), self.active_controller())))
        for node_id in nodes:
            self.cluster.kill(node_id)
        self.faults["leaders and controllers killed, processes"] += len(nodes)
        self._calm(self.choice.choice((0.0, 0.5, 2.0, SESSION_S + 1)))
        self.cluster.start()

    def _unplug(self, node_id: int) -> None:
        """Kill a node whose connections do not end: the others notice only that it is silent."""
        self._apart.net.silence(node_id)
        self.cluster.kill(node_id)
        self._calm(self.choice.choice((0.5, SESSION_S + 1)))
        self._apart.net.heal()
        self.cluster.start_again(node_id)

    def _cut(self) -> None:
        pairs = [(one, other) for one in self.cluster.nodes for other in self.cluster.nodes if one != other]
        chosen = self.choice.sample(pairs, self.choice.choice(CUTS_AT_ONCE))
        for one, other in chosen:
            self._apart.net.cut(one, other)
        self._calm(self.choice.choice((1.0, SESSION_S + 1, SESSION_S + 4)))
        self._apart.net.heal()
        self.faults["one-way cuts, each"] += len(chosen)

    def _move(self, meanwhile: Callable[[], None]) -> None:
        places = [(topic, partition) for topic in self.topics for partition in range(PARTITIONS)]
        chosen = self.choice.sample(places, MOVES_AT_ONCE)
        rate = self._moves.begin(chosen)
        meanwhile()
        self._moves.wait()
        self.faults["moves under throttle, each"] += len(chosen)
        self.say(f"{len(chosen)} partitions moved at {rate:,} bytes a second")

    def _lose_power(self) -> None:
        for node in self.cluster.nodes.values():
            write_back(node.log_dir, self.choice.random(), self.choice)
        self.cached_writes += self._apart.lose_power(self.choice)
        self.cluster.start()

    def figures(self) -> Iterator[str]:
        yield from super().figures()
        if self.cached_writes:
            yield f"{self.cached_writes:,} writes were in the caches of the disks when the power failed"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--brokers", type=int, default=4)
    parser.add_argument("--controllers", type=int, default=3, help="how many; 0: every broker is a controller, too")
    parser.add_argument("--disks", action="store_true", help="each node has a disk of its own that loses its cache with the power")
    parser.add_argument("--java", action="store_true", help="add Kafka's Java clients to the load")
    parser.add_argument("--flush-policy", choices=["ack", "os"], default="ack", help="with os a power cut loses records")
    parser.add_argument("--only", action="append", default=[], help="a kind of fault; may be given several times")
    parser.add_argument("--directory", type=Path, help="where the nodes' folders are left")
    options = parser.parse_args(arguments)
    if reason := why_not():
        say_line(reason)
        return 2
    properties = {**OPTIONS, "log.flush.policy": options.flush_policy}
    with ClusterApart(
        options.brokers, options.controllers, has_disks=options.disks, properties=properties, directory=options.directory
    ) as cluster:
        hurting = HurtingApart(cluster, options.seed, has_java=options.java, has_disks=options.disks)
        try:
            violations = hurting.run(options.rounds, options.only)
        finally:
            for line in hurting.figures():
                say_line(line)
            for line in hurting.violations[:SHOWN_VIOLATIONS]:
                say_line(f"WRONG: {line}")
            if hurting.violations:
                for line in hurting.history.journal[:200]:
                    say_line(line)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
