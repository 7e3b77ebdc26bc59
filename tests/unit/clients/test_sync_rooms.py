"""The rooms of the blocking admin: all methods of the rooms behind them, each with its signature."""

import inspect
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import pytest

from moldau.clients.admin.admin import Admin as AsyncAdmin
from moldau.clients.admin.topics import TopicAdmin
from moldau.sync import Admin
from moldau.sync.rooms import Blocking, Room, Topics

ROOMS = sorted(name for name, found in vars(AsyncAdmin).items() if isinstance(found, cached_property))
ROOT = Path(__file__).parents[3]

REFUSED = """
from moldau.sync import Admin

admin = Admin("localhost:9092")
admin.topics.create([], validate_only=True)
admin.topics.create(3)  # wrong
admin.topics.create([], validate=True)  # wrong
admin.groups.describe("billing").members
admin.groups.describe("billing").leader  # wrong
"""


@pytest.fixture(scope="module")
def admin() -> Admin:
    return Admin("localhost:1")


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_has_every_method_of_the_room_behind_it(admin: Admin, name: str) -> None:
    room = getattr(admin, name)
    assert isinstance(room, Room)
    behind = {one for one, _ in inspect.getmembers(type(room.room), inspect.iscoroutinefunction) if one[0] != "_"}
    declared = {one: method for one, method in vars(type(room)).items() if isinstance(method, Blocking)}
    assert declared.keys() == behind
    assert all(method.method is getattr(type(room.room), one) for one, method in declared.items())


def test_a_method_shows_its_signature_and_its_docstring_while_a_program_runs(admin: Admin) -> None:
    expected = [one for one in inspect.signature(TopicAdmin.create_partitions).parameters if one != "self"]
    assert list(inspect.signature(admin.topics.create_partitions).parameters) == expected
    assert Topics.create_partitions.__doc__ == TopicAdmin.create_partitions.__doc__


def test_a_type_checker_refuses_wrong_arguments(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(REFUSED)
    command = [sys.executable, "-m", "mypy", "--strict", str(program)]
    checked = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    refused = {int(line.split(":")[1]) for line in checked.stdout.splitlines() if ": error:" in line}
    assert refused == {number for number, line in enumerate(REFUSED.splitlines(), 1) if "wrong" in line}, checked.stdout
