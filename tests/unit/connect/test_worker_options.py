"""A worker's properties."""

from moldau.connect.worker.options import parse_worker

REQUIRED = {
    "group.id": "g",
    "key.converter": "k",
    "value.converter": "v",
    **{f"{one}.storage.topic": one for one in ("config", "offset", "status")},
}


def test_topics_of_the_worker_have_the_settings_that_the_properties_give_them() -> None:
    more = {"offset.storage.partitions": "3", "offset.storage.min.insync.replicas": "2", "offset.storage.cleanup.policy": "delete"}
    options = parse_worker({**REQUIRED, **more})
    assert options.settings_of("offset") == {"min.insync.replicas": "2", "cleanup.policy": "compact"}
    assert options.settings_of("config") == {"cleanup.policy": "compact"}
