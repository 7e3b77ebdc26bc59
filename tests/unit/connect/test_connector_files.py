"""The files that a worker alone begins with: three forms, and what is wrong with them."""

from pathlib import Path

import pytest

from moldau.connect.errors import ConfigError
from moldau.connect.store.configs import Target
from moldau.connect.worker.connector_files import read_connector

CONFIG = {"name": "lines", "connector.class": "FileStreamSource", "tasks.max": "1"}


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("name=lines\nconnector.class=FileStreamSource\ntasks.max=1\n", None),
        ('{"name": "lines", "connector.class": "FileStreamSource", "tasks.max": 1}', None),
        ('{"name": "lines", "config": {"connector.class": "FileStreamSource", "tasks.max": "1"}}', None),
        (
            '{"name": "lines", "config": {"connector.class": "FileStreamSource", "tasks.max": "1"}, "initial_state": "paused"}',
            Target.PAUSED,
        ),
    ],
)
def test_each_form_is_read(tmp_path: Path, text: str, target: Target | None) -> None:
    path = tmp_path / "connector"
    path.write_text(text, encoding="utf-8")
    found = read_connector(str(path))
    assert (found.name, found.config, found.target) == ("lines", CONFIG, target)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("connector.class=FileStreamSource\n", "the name of the connector is missing"),
        ('{"connector.class": "FileStreamSource"}', "the name of the connector is missing"),
        ('{"config": {"connector.class": "FileStreamSource"}}', "the name of the connector is missing"),
        ('{"name": "a", "config": {"name": "b"}}', "the name in the configuration, b, is not a"),
        ('{"name": "a", "config": {}, "state": "PAUSED"}', 'Unrecognized field "state"'),
        ('{"name": "a", "file": ["x"]}', "the value of file"),
        ("name=\\uzzzz\n", "line 1"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(tmp_path: Path, text: str, wrong: str) -> None:
    path = tmp_path / "connector"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=wrong) as caught:
        read_connector(str(path))
    assert str(caught.value).startswith(str(path))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read_connector(str(tmp_path / "nothing"))
