"""◇ Tells a task whether it is the only one that Spark runs for its rows.

Spark tells a task how often it was tried, but begins to count anew when it runs the task's whole stage again, as it does when an executor
ended and the shuffled rows on it are lost.  Python tasks cannot learn the number of the stage's try.  So a stage must not be run again:
then the micro-batch fails, and begins anew with a new epoch.

Source: DAGScheduler.handleTaskCompletion (FetchFailed), TaskContext.attemptNumber.
"""

from collections.abc import Callable
from typing import Final

ATTEMPTS: Final = "spark.stage.maxConsecutiveAttempts"
UNCOUNTED: Final = "spark.stage.ignoreDecommissionFetchFailure"
"""Whether a stage whose executor is being decommissioned is run again without limit."""
RUN_STAGES_ONCE: Final = {ATTEMPTS: "1", UNCOUNTED: "false"}
RUN_ONCE: Final = (
    "tasks write by themselves only where Spark runs no stage again, "
    f"so start the session with {' and '.join(f'{name}={value}' for name, value in RUN_STAGES_ONCE.items())}"
)


def is_run_once(setting: Callable[[str], str | None]) -> bool:
    """`setting`: gives a setting of the session, which Spark puts into each task's local properties."""
    master = setting("spark.master") or ""
    is_in_one_process = master.startswith("local") and not master.startswith("local-cluster")
    return is_in_one_process or all(setting(name) == value for name, value in RUN_STAGES_ONCE.items())
