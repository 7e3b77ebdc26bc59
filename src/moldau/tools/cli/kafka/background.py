"""● `-daemon` of Kafka's scripts: the command goes on in the background, and the caller has its prompt back.

Its output goes to `LOG_DIR/kafkaServer.out` and so on; LOG_DIR is `logs` in the present folder unless the environment says otherwise.

Source: kafka-run-class.sh.
"""

import os
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from moldau.tools.cli.failure import Failure
from moldau.tools.cli.terminal import say

_DAEMON: Final = "-daemon"


def add_daemon(parser: ArgumentParser) -> None:
    parser.add_argument(_DAEMON, action="store_true", help="go on in the background; output goes to a file in $LOG_DIR, or in logs")


def start_in_background(command: str, arguments: list[str], output: str) -> int:
    """Run `moldau COMMAND ARGUMENTS` without -daemon, in a session of its own; `output` names the file that gets what it prints.

    Errors: Failure, if that file cannot be written.
    """
    path = Path(os.environ.get("LOG_DIR") or "logs") / f"{output}.out"
    words = [word for word in arguments if word != _DAEMON]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("wb")
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror or error}", "The variable LOG_DIR names another folder") from error
    with file:
        child = subprocess.Popen(
            [sys.executable, "-m", "moldau.tools.cli.main", command, *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    say(f"Started as process {child.pid}; its output is in {path}")
    return 0
