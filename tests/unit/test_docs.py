"""The documentation keeps up with the code: generated pages are fresh, links lead somewhere."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from moldau.config import Configs
from moldau.tools import reference
from moldau.tools.cli.main import ALL

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "moldau"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("reference/options.md", reference.options_page),
        ("reference/errors.md", reference.errors_page),
        ("reference/apis.md", reference.apis_page),
        ("reference/spark-options.md", reference.spark_page),
        ("reference/client-options.md", reference.client_options_page),
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


# ---------------------------------------------------------------- what pages say of the code

OF_THE_CODE = [DOCS / "ARCHITECTURE.md", DOCS / "HACKING.md"]
FOREIGN = {"Struct", "TwsTester"}
"""Words in backquotes that look like our names, but belong to others."""


def files_in(text: str) -> list[str]:
    """Files and folders that the text names; a slash at the end makes a folder."""
    named = re.findall(r"(?<![\w./<-])((?:[\w-]+/)*[\w-]+\.(?:py|toml|txt))(?![\w./])", text)
    return [*named, *re.findall(r"`((?:[\w-]+/)+)`", text)]


def is_file(name: str) -> bool:
    return (ROOT / name).exists() or (PACKAGE / name).exists()


def dotted_names_in(text: str) -> list[str]:
    return re.findall(r"(?<![\w./-])((?:moldau|proof|tests)(?:\.\w+)+)", text)


def resolves(name: str) -> bool:
    """Whether a dotted name leads to a module, or through a module to something that it declares."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[count:]:
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False


def words_in(text: str) -> list[str]:
    """Words in backquotes: `LikeThis`, `LikeThis.member`, `module.function()`."""
    quoted = re.findall(r"`([^`\n]+)`", text)
    return [re.sub(r"\(.*", "", each) for each in quoted if re.fullmatch(r"[A-Z]\w*[a-z]\w*(\.\w+)?(\(.*\))?|[a-z_]+\.[a-z_]+\(.*\)", each)]


@cache
def declared() -> frozenset[str]:
    """Every class with its members, every module with its functions, and the name of every API."""
    found: set[str] = set()
    for path in (*PACKAGE.rglob("*.py"), *(ROOT / "proof").rglob("*.py")):
        for name in _declared_in(ast.parse(path.read_text(encoding="utf-8")), path.stem):
            found |= {name, name.removesuffix("Request")}
    return frozenset(found)


def is_declared(word: str) -> bool:
    """Any module may declare `module.function`.  Behind another lower-case word, as in `request.refused`, stands a member of some class."""
    first, _, member = word.partition(".")
    is_instance = first.islower() and not any(path.stem == first for path in PACKAGE.rglob("*.py"))
    return word in declared() or (is_instance and f".{member}" in declared())


def _declared_in(tree: ast.Module, module: str) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
            for member in node.body:
                names = [getattr(member, "name", None), getattr(getattr(member, "target", None), "id", None)]
                yield from (word for name in names if name for word in (f"{node.name}.{name}", f".{name}"))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{module}.{node.name}"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


@pytest.mark.parametrize("page", OF_THE_CODE, ids=lambda page: page.name)
def test_files_and_names_that_a_page_tells_of_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = [name for name in files_in(text) if not is_file(name)]
    missing += [name for name in dotted_names_in(text) if not resolves(name)]
    missing += [name for name in words_in(text) if not is_declared(name) and name not in FOREIGN and not (ROOT / name).exists()]
    assert not missing, f"{page.name} tells of what is not there: {missing}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_names_modules_that_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    files = re.findall(r"`((?:src|tests|proof|benchmarks|docs)/[\w/.-]+)`", text)
    missing = [name for name in files if not (ROOT / name).exists()]
    missing += [name for name in re.findall(r"(?:-m |`)((?:moldau|proof)(?:\.[a-z_]\w*)+)", text) if not resolves(name)]
    assert not missing, f"{page.relative_to(ROOT)} tells of what is not there: {missing}"


def test_the_check_sees_what_is_not_there() -> None:
    text = "`storage/nowhere.py`, `nowhere/`, net/nowhere.py → `types.py`; moldau.types.Nobody, `proof.kafka.nowhere`; "
    text += "`FileSlice.nowhere()`, `FileSlice`, `validator.nowhere(batch)`, `request.refused(code)`"
    assert [name for name in files_in(text) if not is_file(name)] == ["storage/nowhere.py", "net/nowhere.py", "nowhere/"]
    assert [name for name in dotted_names_in(text) if not resolves(name)] == ["moldau.types.Nobody", "proof.kafka.nowhere"]
    assert [name for name in words_in(text) if not is_declared(name)] == ["FileSlice.nowhere", "validator.nowhere"]
