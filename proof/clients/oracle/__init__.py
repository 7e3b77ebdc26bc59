"""● The choices of Java's clients: partitions of keys, and assignments.  `Choices.java` describes the questions."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from proof.kafka.apache import java_command
from proof.metadata.oracle import FLAGS, compiled

SOURCE: Final = Path(__file__).parent / "Choices.java"
WITHIN_S: Final = 300.0


def choices(questions: Sequence[str]) -> list[str]:
    """One answer a question.  Errors: CalledProcessError, AssertionError without a compiler."""
    command = java_command("moldau.oracle.Choices", flags=FLAGS)
    position = command.index("-cp") + 1
    command[position] = os.pathsep.join([str(compiled(SOURCE)), command[position]])
    done = subprocess.run(command, input="\n".join(questions) + "\n", capture_output=True, text=True, timeout=WITHIN_S, check=True)
    return done.stdout.splitlines()
