"""Writes `tiered_topics/answers.jsonl`: what Apache Kafka answers to options of a tiered topic.  Needs a JDK to compile Answers.java."""

import itertools
import json
import random
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Final

from proof.kafka.apache import java_command

HERE: Final = Path(__file__).parent / "tiered_topics"
VALUES: Final[dict[str, tuple[str | None, ...]]] = {
    "remote.storage.enable": ("true", "false", None),
    "cleanup.policy": ("delete", "compact", "compact,delete", "", None),
    "retention.ms": ("-1", "1000", None),
    "local.retention.ms": ("-2", "-1", "500", "2000", None),
    "retention.bytes": ("-1", "1000", None),
    "local.retention.bytes": ("-2", "-1", "500", "2000", None),
    "remote.log.copy.disable": ("true", None),
    "remote.log.delete.on.disable": ("true", None),
}
CASES: Final = 16_000
KEPT_OF_EACH_KIND: Final = 30

Case = tuple[bool, bool, dict[str, str]]


def cases() -> list[Case]:
    """Each case: whether the system is enabled, whether the topic was tiered, and the options of the topic."""
    combinations = itertools.product((True, False), (True, False), *VALUES.values())
    chosen = random.Random(1).sample(list(combinations), CASES)
    return [
        (enabled, was, {key: value for key, value in zip(VALUES, values, strict=True) if value is not None})
        for enabled, was, *values in chosen
    ]


def kafkas_answers(asked: list[Case]) -> list[str]:
    lines = [
        f"{enabled}\t{was}\t".lower() + ";".join(f"{key}={value}" for key, value in configs.items()) for enabled, was, configs in asked
    ]
    done = subprocess.run(java_command(str(HERE / "Answers.java")), input="\n".join(lines), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def main() -> None:
    asked = cases()
    kinds: dict[str, list[str]] = defaultdict(list)
    for (enabled, was, configs), answer in zip(asked, kafkas_answers(asked), strict=True):
        kinds[answer[:60]].append(json.dumps([enabled, was, configs, None if answer == "ok" else answer]))
    kept = [line for lines in kinds.values() for line in lines[:KEPT_OF_EACH_KIND]]
    (HERE / "answers.jsonl").write_text("\n".join(kept) + "\n", encoding="utf-8")
