"""The settings with which a task of the sink knows that Spark runs it once."""

import pytest

from moldau.pipelines.session import SETTINGS
from pyspark_moldau.attempts import RUN_STAGES_ONCE, is_run_once


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_one_process_loses_no_executor(master: str) -> None:
    assert is_run_once({"spark.master": master}.get)


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://host", "local-cluster[2,1,1024]", None])
def test_a_cluster_has_to_be_told(master: str | None) -> None:
    found = {} if master is None else {"spark.master": master}
    assert not is_run_once(found.get)
    assert is_run_once({**found, **RUN_STAGES_ONCE}.get)
    for name in RUN_STAGES_ONCE:
        assert not is_run_once({**found, **RUN_STAGES_ONCE, name: "4"}.get)


def test_our_sessions_tell_it() -> None:
    assert RUN_STAGES_ONCE.items() <= SETTINGS.items()
