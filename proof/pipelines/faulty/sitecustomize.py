"""● Strikes once, at a step of the sink and at a victim that a file names, in every Python process whose path begins with this folder.

The file holds `step victim`, such as `end:after driver`.  The first process that comes to the step and can rename the file strikes.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

TARGET = "pyspark_moldau.sink"
FOLDER = os.environ.get("MOLDAU_FAULTS")
STEPS = {
    "begin": "epoch_for",
    "marker": "committed",
    "add_offset": "add_offset",
    "end": "end",
    "handed": "_write_handed",
    "pass_on": "pass_on",
}
METHODS = {
    "task": ("_Task", "write"),
    "batch": ("_Task", "_send"),
    "written": ("PartitionsWriter", "_settle"),
    "commit": ("_Writer", "_end"),
}


def strike(step: str) -> None:
    assert FOLDER is not None
    fault = Path(FOLDER) / "fault"
    try:
        wanted, victim = fault.read_text(encoding="ascii").split()
        if wanted != step:
            return
        fault.rename(fault.with_name("struck"))
    except (OSError, ValueError):
        return
    if victim == "driver":
        os.killpg(int((Path(FOLDER) / "driver.pid").read_text(encoding="ascii")), signal.SIGKILL)
    elif victim == "broker":
        os.kill(int((Path(FOLDER) / "broker.pid").read_text(encoding="ascii")), signal.SIGKILL)
    elif victim == "worker":
        os.kill(os.getpid(), signal.SIGKILL)
    elif victim == "executor":  # the JVM that started the parent of this process
        stat = Path(f"/proc/{os.getppid()}/stat").read_text(encoding="utf-8")
        os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    elif victim == "freeze":
        # Once the trial sees that the driver stands still, it may start another one in its place.
        driver = int((Path(FOLDER) / "driver.pid").read_text(encoding="ascii"))
        (Path(FOLDER) / "frozen.pid").write_text(str(os.getpid()), encoding="ascii")
        os.killpg(driver, signal.SIGSTOP)
        if os.getpgrp() != driver:  # Spark's Python workers have a group of their own
            os.kill(os.getpid(), signal.SIGSTOP)


def watched(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        strike(f"{step}:before")
        result = function(*arguments, **named)
        strike(f"{step}:after")
        return result

    return called


class Loader(importlib.abc.Loader):
    def __init__(self, real: Any) -> None:
        self.real = real

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.real.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        self.real.exec_module(module)
        for step, name in STEPS.items():
            setattr(module, name, watched(step, getattr(module, name)))
        for step, (owner, name) in METHODS.items():
            declared = getattr(module, owner)
            setattr(declared, name, watched(step, getattr(declared, name)))


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None:
            spec.loader = Loader(spec.loader)
        return spec


if FOLDER is not None:
    sys.meta_path.insert(0, Finder())
