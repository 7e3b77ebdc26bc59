"""● The choices of Java's clients: partitions of keys, and assignments.  `Choices.java` describes the questions."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from proof.metadata.oracle import FLAGS, compiled_command

SOURCE: Final = Path(__file__).parent / "Choices.java"
WITHIN_S: Final = 300.0


def choices(questions: Sequence[str]) -> list[str]:
    """One answer a question.  Errors: CalledProcessError, AssertionError without a compiler."""
    command = compiled_command(SOURCE, "moldau.oracle.Choices", flags=FLAGS)
    done = subprocess.run(command, input="\n".join(questions) + "\n", capture_output=True, text=True, timeout=WITHIN_S, check=True)
    return done.stdout.splitlines()
