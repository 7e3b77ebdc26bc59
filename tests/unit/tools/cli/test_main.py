"""Commands are found, mistakes are one line with the way out, and a command that is not called is not imported."""

import argparse
import logging
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from moldau.tools.cli.failure import Failure
from moldau.tools.cli.main import ALL, main
from moldau.tools.cli.node import LineFormatter
from moldau.tools.cli.parser import Parser


def test_every_command_has_its_module() -> None:
    assert [name for name, command in ALL.items() if find_spec(command.module) is None] == []


@pytest.mark.parametrize("name", list(ALL))
def test_every_command_explains_itself_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert printed.startswith("usage: moldau")
    assert "examples:\n  moldau " in printed


class Understood(Exception):
    pass


@pytest.mark.parametrize("name", list(ALL))
def test_every_example_can_be_typed(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    examples = [line.strip() for line in capsys.readouterr().out.partition("examples:\n")[2].splitlines()]
    examples = [example for example in examples if not example.startswith("curl ")]  # these ask a server that runs
    assert examples
    for kind in (argparse.ArgumentParser, Parser):

        def understood(parser: Any, *arguments: Any, read: Any = kind.parse_args) -> None:
            read(parser, *arguments)
            raise Understood

        monkeypatch.setattr(kind, "parse_args", understood)
    for example in examples:
        words = shlex.split(re.sub(r"\$\(.*?\)", "x", re.split(r" [<|] ", example)[0]))
        with pytest.raises(Understood):
            main(words[1:])


def test_without_a_command_the_list_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    assert "moldau up" in capsys.readouterr().err
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ALL)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topcs"], "there is no command 'topcs'; did you mean 'topics'?"),
        (["up", "--prot", "3"], "there is no option --prot; did you mean --port?"),
        (["topics", "crate"], "'crate' is not one of list, create, describe, extend, delete; did you mean create?"),
        (["topics", "create", "x", "-p", "0"], "0 is not a number from 1 up"),
        (["topics", "create", "x", "-c", "novalue"], "'novalue' is not of the form key=value"),
        (["kafka-features", "describe", "--bootstrap-server", "x"], "--bootstrap-server is too late here: it goes before the action"),
        (["topics", "list", "-b", "nowhere:x"], "'nowhere:x' is not an address of the form host:port"),
        (["kafka-topics", "--list", "--create", "--bootstrap-server", "x"], "Command must include exactly one action"),
        (["kafka-console-consumer", "--bootstrap-server", "x"], "Exactly one of the following arguments is required: [topic], [include]"),
        (["kafka-get-offsets", "--bootstrap-server", "x", "--time", "bogus"], "Malformed time argument bogus"),
        (["dump-log", "/nowhere"], "there is no file /nowhere"),
        (["serve", "/nowhere"], "/nowhere cannot be read: no such file or directory"),
    ],
)
def test_mistakes_are_one_line_on_stderr(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert said in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""


def test_a_failure_ends_its_sentence_once() -> None:
    assert str(Failure("no", "Try yes")) == "no. Try yes"
    assert str(Failure("did you mean x?", "Try yes")) == "did you mean x? Try yes"
    assert str(Failure("no")) == "no"
    assert str(Failure("no", more="at A\nat B")) == "no\nat A\nat B"


def test_other_peoples_words_neither_break_a_line_nor_move_the_cursor() -> None:
    assert str(Failure("no option a\nb\x00\x1b[2J\u2028č", "Try\rc")) == "no option a\\nb\\x00\\x1b[2J\\u2028č. Try\\rc"
    record = logging.LogRecord("x", logging.INFO, "", 1, "topic %s", ("a\n[2026] ERROR b",), None)
    assert LineFormatter("%(message)s").format(record) == "topic a\\n[2026] ERROR b"


def test_help_does_not_import_what_it_does_not_need() -> None:
    seen = "import sys; from moldau.tools.cli.main import main; main(['--help']); print(*sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True).stdout.split()
    assert "moldau.tools.cli.main" in modules
    assert not [name for name in modules if name.split(".")[0] in ("asyncio", "rich", "cramjam", "argparse") or ".protocol" in name]
