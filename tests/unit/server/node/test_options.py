"""Every option acts, or says that it does not."""

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.config import Configs, Option
from moldau.server.node.accepted import accepted_options
from moldau.server.node.config import ROOMS
from moldau.storage.tiered.config import MetadataTopicConfig, StoreConfig

SOURCES = Path(__file__).parents[4] / "src" / "moldau"
WITHOUT_EFFECT = "Without effect: "
"""The beginning of the description of an option that is accepted for Kafka's sake.  The reason follows."""


def declared() -> Iterator[tuple[type[Configs], Option]]:
    for room in (*ROOMS, StoreConfig, MetadataTopicConfig):
        for option in room.OPTIONS.values():
            yield room, option


def names_read() -> set[str]:
    """Every attribute that is read anywhere."""
    return {
        node.attr
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def unread() -> dict[str, Option]:
    """Options by name, without those that the code reads and those that limit another option."""
    read = names_read()
    bounds = {bound.key for _, option in declared() for bound in option.bounds if ".max." in bound.key or ".min." in bound.key}
    return {
        option.key or option.topic or option.group or "": option
        for _, option in declared()
        if option.field not in read and option.key not in bounds
    }


def test_an_option_that_nobody_reads_says_that_it_is_without_effect() -> None:
    silent = {key for key, option in unread().items() if not option.doc.startswith(WITHOUT_EFFECT)}
    assert silent == set(), f"read it, or let its description begin with {WITHOUT_EFFECT!r} and the reason"


def test_an_option_that_is_read_does_not_say_that_it_is_without_effect() -> None:
    silent = unread()
    liars = {option.key for _, option in declared() if option.doc.startswith(WITHOUT_EFFECT)} - silent.keys()
    assert liars == set()


def test_what_is_accepted_without_effect_has_a_reason() -> None:
    accepted = accepted_options()
    assert all(option.reason for option in accepted.values())
    for key in sorted(accepted.keys() & {option.key for _, option in declared()}):
        warnings.warn(f"{key} is declared by a room now: take its line out of accepted.py", stacklevel=1)


@pytest.mark.parametrize("text", ["without effect", "no effect", "Accepted for"])
def test_there_is_one_way_to_say_so(text: str) -> None:
    found = {option.key for _, option in declared() if text in option.doc and not option.doc.startswith(WITHOUT_EFFECT)}
    assert found == set()


def test_reading_is_seen() -> None:
    read = names_read()
    assert {"segment_bytes", "node_id"} <= read
    assert "preallocate" not in read
