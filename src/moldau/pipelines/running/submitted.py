"""● What `spark-submit` runs: the path of this file is what `moldau pipelines script` prints."""

import sys

from moldau.pipelines.running.command import main

if __name__ == "__main__":
    sys.exit(main())
