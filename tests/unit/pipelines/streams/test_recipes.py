"""The recipes of docs/reference/streams.md run as they stand."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[4] / "docs/reference/streams.md"
RECIPES = [
    block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL) if "open_session" not in block
]
OPENING = "from moldau.pipelines.streams import *\n"


@pytest.mark.parametrize("recipe", RECIPES, ids=range(len(RECIPES)))
def test_a_recipe_runs(recipe: str) -> None:
    assert "assert" in recipe, "a recipe says what comes out"
    exec(OPENING + recipe, {})


def test_every_operator_of_the_table_has_a_recipe() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Each operator\n")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row.split("|")[1]) if name != "grace_ms"}
    assert len(named) > 20
    missing = sorted(name for name in named if not any(f".{name}(" in recipe for recipe in RECIPES))
    assert not missing, f"no recipe uses {', '.join(missing)}"
