"""● The program for `spark-submit`: `moldau pipelines script` prints the path of this file."""

import sys

from moldau.pipelines.running.command import main

if __name__ == "__main__":
    sys.exit(main())
