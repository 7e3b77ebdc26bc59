"""● The program for `spark-submit`: `moldau pipelines script` prints the path of this file."""

import sys

try:
    from moldau.pipelines.running.command import main
except ModuleNotFoundError as error:
    sys.exit(f"moldau: {sys.executable} has no {error.name}: activate the environment of this installation before spark-submit")

if __name__ == "__main__":
    sys.exit(main())
