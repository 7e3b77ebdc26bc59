"""● `python -m moldau.pipelines.demo`."""

import sys

from moldau.pipelines.demo.command import main

if __name__ == "__main__":
    sys.exit(main())
