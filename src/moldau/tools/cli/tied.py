"""● `moldau` as a child that ends with its parent: `python -m moldau.tools.cli.tied serve server.properties`.

The parent holds the other end of the child's standard input and writes nothing to it.  The end of the input means that the parent is gone,
even by SIGKILL: the child ends at once, as by a crash.  A child that is stopped by SIGSTOP ends when it is continued.

Linux's PR_SET_PDEATHSIG is no choice: it follows the thread that started the child, and other systems do not have it.
"""

import os
import sys
import threading
from typing import Final

from moldau.tools.cli.main import main

ORPHANED: Final = 137
"""The exit code: that of SIGKILL in a shell."""


def end_with_parent() -> None:
    """Wait for the end of standard input, then end the process."""
    while os.read(0, 1024):
        pass
    os._exit(ORPHANED)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, name="parent", daemon=True).start()
    sys.exit(main())
