"""The real Kafka that other tests lean on does what its helpers promise."""

import pytest

from proof.kafka.apache import ApacheKafka, ToolFailed, console_consume, console_produce, dump_log

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("apache-kafka")]


def test_a_node_serves_survives_a_kill_and_shows_its_files() -> None:
    with ApacheKafka(properties={"num.partitions": "1"}) as kafka:
        assert "Created topic t." in kafka.topics("--create", "--topic", "t", "--partitions", "1")
        console_produce(kafka.bootstrap, "t", ["a", "b", "c"])
        kafka.kill()
        kafka.start()
        assert kafka.offsets("t") == {0: 3}
        assert console_consume(kafka.bootstrap, "t", count=3) == ["a", "b", "c"]
        assert "payload: b" in dump_log(kafka.log_dir / "t-0" / "00000000000000000000.log", arguments=["--print-data-log"])
        with pytest.raises(ToolFailed, match="already exists"):
            kafka.topics("--create", "--topic", "t")
        directory = kafka.directory
    assert not directory.exists()
