import hashlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from proof.kafka import jars
from proof.kafka.jars import Jar


def a_jar(content: bytes = b"jar", name: str = "core") -> Jar:
    return Jar("org.example", name, "1.0", hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize(("name", "count"), [("kafka-4.3.1", 95), ("spark-connector-4.2.0", 4)])
def test_the_sets_are_complete_and_well_formed(name: str, count: int) -> None:
    members = jars.read_set(name)
    assert len(members) == count == len({jar.file_name for jar in members})
    assert all(len(jar.sha256) == 64 and int(jar.sha256, 16) for jar in members)


def test_ivy_is_asked_for_exactly_these_jars() -> None:
    asked = ElementTree.fromstring(jars.ivy_file([a_jar(), a_jar(name="tools")])).iter("dependency")
    assert [(one.get("org"), one.get("name"), one.get("rev"), one.get("transitive")) for one in asked] == [
        ("org.example", "core", "1.0", "false"),
        ("org.example", "tools", "1.0", "false"),
    ]


def test_a_jar_enters_the_folder_only_when_its_bytes_are_right(tmp_path: Path) -> None:
    good, bad, absent = a_jar(), a_jar(b"other", "bad"), a_jar(name="absent")
    ivy, folder = tmp_path / "ivy", tmp_path / "set"
    for place in (folder, ivy / "out", ivy / "cache" / "org.example" / "bad"):
        place.mkdir(parents=True)
    for jar in (good, bad):
        (ivy / "out" / jar.file_name).write_bytes(b"jar")
    jars.adopt([good, bad, absent], ivy, folder)
    assert jars.missing(folder, [good, bad, absent]) == [bad, absent]
    assert not (ivy / "cache" / "org.example" / "bad").exists(), "a wrong jar must be asked for again"


def test_a_damaged_jar_in_the_folder_is_seen(tmp_path: Path) -> None:
    (tmp_path / a_jar().file_name).write_bytes(b"jat")
    assert jars.missing(tmp_path, [a_jar()]) == [a_jar()]
