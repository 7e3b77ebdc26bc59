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
