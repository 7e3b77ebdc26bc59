"""● Finds the functions that the source marks as hot."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[2] / "src" / "moldau"
MARK = re.compile(r"#\s*hot:\s*(.+)$")


class Hot(NamedTuple):
    """`name` is `room.module.function` without `moldau.`; a method has its class in between."""

    name: str
    budget: str


def hot_functions(source: Path = SOURCE) -> list[Hot]:
    """All marked functions, in the order of files and lines."""
    return [hot for path in sorted(source.rglob("*.py")) for hot in hot_in(path, source)]


def hot_in(path: Path, source: Path) -> list[Hot]:
    text = path.read_text(encoding="utf-8")
    if "# hot:" not in text:
        return []
    lines = text.splitlines()
    module = ".".join(path.relative_to(source).with_suffix("").parts)
    return [Hot(f"{module}.{name}", mark) for name, function in functions(ast.parse(text)) if (mark := mark_of(function, lines))]


def functions(tree: ast.AST, inside: str = "") -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    found: list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append((f"{inside}{node.name}", node))
        elif isinstance(node, ast.ClassDef):
            found += functions(node, f"{inside}{node.name}.")
    return found


def mark_of(function: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> str | None:
    """The budget in the mark, or None.  The mark stands on a line of the signature, or alone above the function and its decorators."""
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    signature = lines[first - 1 : function.body[0].lineno - 1]
    above = lines[first - 2].strip() if first > 1 else ""
    for line in [above if above.startswith("#") else "", *signature]:
        if found := MARK.search(line):
            return found[1].strip()
    return None
