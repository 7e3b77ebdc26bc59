"""Nodes are found by their command lines, and their roles and ids by the files in them."""

from pathlib import Path

import pytest

from moldau.tools.cli.kafka.server_stop import arguments_of, properties_of, servers


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("/venv/bin/python /venv/bin/moldau serve s.properties", ["s.properties"]),
        ("python -m moldau.tools.cli.main kafka-server-start s.properties --override a=b", ["s.properties", "--override", "a=b"]),
        ("/venv/bin/python /venv/bin/moldau kafka-server-start.sh s.properties", ["s.properties"]),
        ("python -m moldau.tools.cli.tied serve s.properties", None),  # it ends with its parent
        ("/venv/bin/python /venv/bin/moldau kafka-server-stop", None),
        ("less moldau", None),
        ("less serve", None),
        ("", None),
    ],
)
def test_a_node_is_known_by_its_command_line(line: str, arguments: list[str] | None) -> None:
    assert arguments_of(line.split()) == arguments


def test_an_override_counts_more_than_the_file(tmp_path: Path) -> None:
    (tmp_path / "s.properties").write_text("node.id=1\nprocess.roles=broker\n", encoding="utf-8")
    found = properties_of(["--override", "node.id=2", "s.properties", "--override=log.retention.hours=24"], tmp_path)
    assert found == {"node.id": "2", "process.roles": "broker", "log.retention.hours": "24"}


def test_a_file_that_is_gone_tells_nothing(tmp_path: Path) -> None:
    assert properties_of(["gone.properties"], tmp_path) == {}


def test_a_relative_path_is_that_of_the_processs_own_folder(tmp_path: Path) -> None:
    place, process = tmp_path / "place", tmp_path / "proc" / "17"
    place.mkdir()
    process.mkdir(parents=True)
    (tmp_path / "proc" / "18").mkdir()  # one that has ended, or belongs to somebody else
    (place / "s.properties").write_text("node.id=7\n", encoding="utf-8")
    (process / "cwd").symlink_to(place)
    (process / "cmdline").write_bytes(b"/bin/moldau\0serve\0s.properties\0")
    assert [(one.process_id, one.properties) for one in servers(tmp_path / "proc")] == [(17, {"node.id": "7"})]
