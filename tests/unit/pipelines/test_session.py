"""Settings of `spark-submit` win; settings of a file come next, and ours fill what is left."""

from moldau.pipelines.session import LOCAL_CHECKPOINTS, UNSAID, gaps_filled, is_local_path

MANAGER = next(iter(LOCAL_CHECKPOINTS))
WANTED = {"spark.master": "local[*]", "spark.app.name": "orders", "spark.ui.enabled": "false"}


def test_what_was_submitted_wins() -> None:
    said = {"spark.master": "spark://h:7077", "spark.app.name": "mine", "spark.ui.enabled": "true", "spark.jars": "/a.jar"}
    assert gaps_filled(WANTED, said, "s3a://b/ck", is_submitted=True) == {}


def test_what_pyspark_says_by_itself_was_said_by_nobody() -> None:
    assert gaps_filled(WANTED, UNSAID, "s3a://b/ck", is_submitted=False) == WANTED
    assert "spark.master" not in gaps_filled(WANTED, {"spark.master": "local[3]"}, "s3a://b/ck", is_submitted=False)


def test_the_checkpoint_manager_follows_the_checkpoint() -> None:
    for checkpoint, has_it in (("/data", True), ("file:///data", True), ("data", True), ("s3a://b/ck", False), ("hdfs:///ck", False)):
        assert (MANAGER in gaps_filled(WANTED, {}, checkpoint, is_submitted=False)) is has_it
    assert MANAGER not in gaps_filled(WANTED, {MANAGER: "theirs"}, "/data", is_submitted=True)
    assert not is_local_path("/data", "hdfs://names")


def test_workers_find_what_was_packed() -> None:
    said = {"spark.master": "spark://h:7077", "spark.archives": "file:///tmp/moldau.tar.gz#moldau"}
    assert gaps_filled(WANTED, said, "s3a://b", is_submitted=True)["spark.executorEnv.PYTHONPATH"] == "./moldau"
    assert "spark.executorEnv.PYTHONPATH" not in gaps_filled(WANTED, {**said, "spark.master": "local[2]"}, "s3a://b", is_submitted=True)
    beside = gaps_filled(WANTED, said, "s3a://b", is_submitted=True, here=["/site-packages"])
    assert beside["spark.executorEnv.PYTHONPATH"] == "./moldau:/site-packages"
    own = {**said, "spark.executorEnv.PYTHONPATH": "/theirs"}
    assert "spark.executorEnv.PYTHONPATH" not in gaps_filled(WANTED, own, "s3a://b", is_submitted=True)
