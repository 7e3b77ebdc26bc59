"""The documentation keeps up with the code: generated pages are fresh, links lead somewhere."""

import re
from pathlib import Path

import pytest

from moldau.config import Configs
from moldau.tools import reference
from moldau.tools.cli.main import ALL

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("reference/options.md", reference.options_page),
        ("reference/errors.md", reference.errors_page),
        ("reference/apis.md", reference.apis_page),
    ],
)
def test_a_generated_page_says_what_the_code_declares(name: str, page: object) -> None:
    assert callable(page)
    assert (DOCS / name).read_text(encoding="utf-8") == page(), f"docs/{name} is behind the code: `make docs` writes it anew"


def test_every_room_with_options_is_in_the_reference() -> None:
    declared = {each for each in Configs.__subclasses__() if each.__module__.startswith("moldau.") and "." in each.__module__}
    assert declared == set(reference.ROOMS.values())


def test_every_command_has_its_section() -> None:
    # Headings only: how argparse lays out a help text differs between versions of Python.
    text = (DOCS / "reference/commands.md").read_text(encoding="utf-8")
    assert re.findall(r"^## moldau (.+)$", text, re.MULTILINE) == list(ALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_that_are_there(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not target.startswith(("http:", "https:")) and not (page.parent / target).exists()]
    assert not missing, f"{page.relative_to(ROOT)} links to nothing: {missing}"


def test_every_explanation_can_be_found_from_the_readme() -> None:
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or not page.exists():
            continue
        seen.add(page)
        todo += [(page.parent / target).resolve() for target in re.findall(r"\]\(([^)#\s]+\.md)[^)]*\)", page.read_text(encoding="utf-8"))]
    lost = [str(page.relative_to(ROOT)) for page in PAGES if page.resolve() not in {each.resolve() for each in seen}]
    assert not lost, f"no way leads from the README to {lost}"
