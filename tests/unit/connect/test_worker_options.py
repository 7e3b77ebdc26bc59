"""A worker's properties."""

import pytest

from moldau.connect.errors import ConfigError
from moldau.connect.worker.options import parse_standalone, parse_worker

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


def test_a_worker_alone_needs_a_file_and_no_group() -> None:
    converters = {"key.converter": "k", "value.converter": "v"}
    with pytest.raises(ConfigError, match=r"offset\.storage\.file\.filename"):
        parse_standalone(converters)
    options = parse_standalone({**converters, "offset.storage.file.filename": "/o", "exactly.once.source.support": "enabled"})
    assert not options.writes_once, "a transaction cannot hold a file"
