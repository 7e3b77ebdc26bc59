"""● `python -m moldau.pipelines.demo`."""

import sys

from moldau.pipelines.demo.main import main

if __name__ == "__main__":
    sys.exit(main())
