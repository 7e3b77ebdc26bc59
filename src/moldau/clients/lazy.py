"""◇ Loads a name of a package when it is first used, so that a program pays only for what it uses."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, where: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of `package` (PEP 562).  `where`: for each name the module below the package that defines it."""

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{where[name]}"), name)

    return load
