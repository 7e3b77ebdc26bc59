"""The page that sets Java's Admin beside ours names every method of Java's, and calls that are there."""

import inspect
import re
from functools import cached_property
from pathlib import Path

from moldau.clients.admin.admin import Admin
from moldau.sync import Admin as BlockingAdmin

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs/reference/admin.md"
ROWS = [line.split("|")[1:4] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
OURS = [call for row in ROWS for call in re.findall(r"`(admin\.[\w.]+)`", row[1] + row[2])]


def test_the_page_names_each_method_of_javas_admin_once() -> None:
    """The list of names is what `javap` prints of the class in kafka-clients-4.3.1.jar, without overloads."""
    named = [name for java, _, _ in ROWS for name in re.findall(r"`(\w+)`", java)]
    assert sorted(named) == (HERE / "java_admin_methods.txt").read_text(encoding="utf-8").split()


def test_a_row_without_a_call_of_ours_says_why() -> None:
    assert all(ours.strip() or why.strip() for _, ours, why in ROWS)


async def test_the_calls_that_the_page_names_are_there() -> None:
    admin, blocking = Admin("localhost:1"), BlockingAdmin("localhost:1")
    for call in OURS:
        path = call.split(".")[1:]
        found, beside = admin, blocking
        for name in path:
            found, beside = getattr(found, name), getattr(beside, name)
        assert inspect.iscoroutinefunction(found) or call == "admin.metrics", call
        assert callable(beside), call


def test_every_room_is_on_the_page() -> None:
    rooms = {name for name, found in vars(Admin).items() if isinstance(found, cached_property)}
    assert {call.split(".")[1] for call in OURS if call.count(".") == 2} == rooms
