"""Pure modules stay pure and no files import each other in a circle: simulation and easy reading depend on it, so it is checked."""

import ast
import asyncio
import re
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests.unit.conftest import REAL_LOOPS

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "src" / "moldau", ROOT / "src" / "pyspark_moldau", ROOT / "proof")
IMPURE_MODULES = {"asyncio", "os", "socket", "ssl", "time", "random", "threading", "subprocess", "select", "selectors", "pathlib", "shutil"}
PURE_MARK = "◇"
SHELL_MARK = "●"


def modules() -> list[Path]:
    return sorted(path for source in SOURCES for path in source.rglob("*.py") if path.name != "__init__.py")


def mark_of(tree: ast.Module) -> str | None:
    doc = ast.get_docstring(tree) or ""
    return doc[0] if doc[:1] in (PURE_MARK, SHELL_MARK) else None


def impurities(tree: ast.Module) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "").split(".")[0]]
        else:
            names = []
        found += [(node.lineno, f"imports {name}") for name in names if name in IMPURE_MODULES]
        if isinstance(node, ast.Await | ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith):
            found.append((node.lineno, "awaits"))
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_module_says_what_it_is_and_keeps_to_it(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    mark = mark_of(tree)
    assert mark is not None, f"{path}: the docstring must begin with {PURE_MARK} (pure) or {SHELL_MARK} (does IO)"
    if mark == PURE_MARK:
        found = [f"{path}:{line}: a pure module {what}" for line, what in impurities(tree)]
        assert not found, "\n".join(found)


AWAITED = {
    "net/connection.py": "the reply is written when it is done",
    "raft/peers.py": "a connection is awaited by those who send on it",
    "server/handlers/fetch.py": "the handler awaits what is read",
    "server/node/outside.py": "awaited where it begins",
    "server/share/remote.py": "the fetch takes its result",
    "server/tier/fetch.py": "the handler awaits what is read",
    "storage/cleaner/compactor.py": "catches everything itself",
    "storage/tiered/reader.py": "whoever reads awaits it",
}
"""Files that begin tasks by themselves, and the reader of each task's exceptions."""


@pytest.mark.parametrize("room", ["metadata", "net", "raft", "replication", "server", "storage"])
def test_what_runs_beside_everything_else_does_not_end_silently(room: str) -> None:
    home = ROOT / "src" / "moldau"
    found = {
        str(path.relative_to(home)): node.lineno
        for path in (home / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "create_task"
    }
    unwatched = {name: line for name, line in found.items() if name not in AWAITED}
    assert not unwatched, f"begin it by `moldau.background.in_background`: {unwatched}"
    assert {name for name in AWAITED if name.startswith(f"{room}/")} <= found.keys()


def test_the_check_sees_what_is_impure() -> None:
    tree = ast.parse("import os\nfrom time import sleep\nasync def f():\n    await g()\n")
    assert {what for _, what in impurities(tree)} == {"imports os", "imports time", "awaits"}


def circle(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """The modules of one circle of imports, each before the one that imports it; empty where there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("package", ["moldau", "pyspark_moldau", "proof", "benchmarks"])
def test_no_files_import_each_other_in_a_circle(package: str) -> None:
    """Imports inside functions and for type checkers count, too.

    Only in `proof` those for type checkers do not: a replica of the laboratory and the world around it call each other.
    """
    graph = grimp.build_graph(package, exclude_type_checking_imports=package == "proof", cache_dir=None)
    found = circle({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
    assert not found, f"a circle of imports: {' ← '.join(found)}"


def test_the_check_sees_a_circle() -> None:
    assert set(circle({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]})) == {"a", "b", "c"}
    assert circle({"a": ["b", "c"], "b": ["c"]}) == []


def sleeps(tree: ast.Module, *, has_real_loop: bool) -> list[int]:
    """The lines that sleep in real time.  `SimLoop` sleeps in virtual time, and `asyncio.sleep(0)` only gives others their turn."""
    found = []
    for part in tree.body:
        names = {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
        for node in ast.walk(part):
            if isinstance(node, ast.ImportFrom) and node.module in ("time", "asyncio") and any(each.name == "sleep" for each in node.names):
                found.append(node.lineno)  # nobody would see it under another name
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                is_real = has_real_loop and "SimLoop" not in names and [ast.unparse(each) for each in node.args] != ["0"]
                if called == "time.sleep" or (called == "asyncio.sleep" and is_real):
                    found.append(node.lineno)
    return sorted(found)


def test_no_unit_test_sleeps() -> None:
    unit, found = ROOT / "tests" / "unit", []
    for path in sorted(unit.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        runs_its_own = any(
            isinstance(node, ast.Attribute) and ast.unparse(node) in ("asyncio.run", "asyncio.Runner") for node in ast.walk(tree)
        )
        has_real_loop = bool(runs_its_own) or str(path.relative_to(unit)) in REAL_LOOPS
        found += [f"{path}:{line}" for line in sleeps(tree, has_real_loop=has_real_loop)]
    assert not found, f"wait for an event, or run on a SimLoop: {found}"


def test_the_check_sees_who_sleeps() -> None:
    text = (
        "async def a():\n await asyncio.sleep(0)\n await asyncio.sleep(0.1)\n time.sleep(1)\ndef b():\n SimLoop().start(asyncio.sleep(9))\n"
    )
    assert sleeps(ast.parse(text), has_real_loop=True) == [3, 4]
    assert sleeps(ast.parse(text), has_real_loop=False) == [4]
    assert sleeps(ast.parse("from asyncio import sleep"), has_real_loop=False) == [1]


async def test_what_unit_tests_await_passes_in_virtual_time() -> None:
    began_s = asyncio.get_running_loop().time()
    await asyncio.sleep(36_000)
    assert asyncio.get_running_loop().time() - began_s == 36_000


HEADLESS = re.compile(r"(?:[◇●] )?(?:(?:Whose|What|Who|Which|Where|Those|Of|And|As|But|Until|Nobody) |Not `)")
"""The beginnings of docstrings that name their subject late or never.  A docstring begins with a verb or with the thing itself."""


def headless(tree: ast.Module) -> list[tuple[int, str]]:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef))
    docs = ((node.body[0], ast.get_docstring(node)) for node in nodes if node.body)
    return [(first.lineno, doc.splitlines()[0]) for first, doc in docs if doc and HEADLESS.match(doc)]


def test_docstrings_name_their_subject_first() -> None:
    sources = (ROOT / "src" / "moldau", ROOT / "src" / "pyspark_moldau")
    paths = sorted(path for source in sources for path in source.rglob("*.py"))
    found = [f"{path}:{line}: {doc}" for path in paths for line, doc in headless(ast.parse(path.read_text(encoding="utf-8")))]
    assert not found, "begin with a verb or with the thing itself:\n" + "\n".join(found)


def test_the_check_sees_a_headless_docstring() -> None:
    tree = ast.parse('def f():\n    """What a thing is."""\ndef g():\n    """Whatever it takes."""\ndef h():\n    """Not `x`: y."""\n')
    assert [line for line, _ in headless(tree)] == [2, 6]
