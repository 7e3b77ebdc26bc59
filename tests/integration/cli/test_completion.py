"""The completion scripts in the shells that they are for.  bash is everywhere; zsh and fish are tried where they are installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CASES = {
    "moldau top": {"topics"},
    "moldau topics cr": {"create"},
    "moldau topics create --bootstrap-server localhost:9092 --rep": {"--replicas"},
    "moldau completion z": {"zsh"},
    "moldau kafka-producer-perf-test --num": {"--num-records"},
}
BASH = """
source "$1"
read -ra COMP_WORDS <<< "$2"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_moldau
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
compdef() { }
compadd() { shift; print -l -- "$@" }
_files() { print files }
source $1
words=(${(z)2})
CURRENT=${#words}
_moldau
"""
FISH = 'source $argv[1]; complete -C "$argv[2]"'
SHELLS = {
    "bash": ["bash", "--norc", "-c", BASH, "bash"],
    "zsh": ["zsh", "-f", "-c", ZSH, "zsh"],
    "fish": ["fish", "--no-config", "-c", FISH],
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `moldau` of this very tree."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "moldau"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m moldau.tools.cli.main "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return folder


def completed(shell: str, path: Path, line: str, folder: Path) -> set[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    source = str(Path(__file__).parents[3] / "src")
    around = {"PATH": f"{path}:/usr/bin:/bin", "PYTHONPATH": source, "HOME": str(folder)}
    script = folder / f"moldau.{shell}"
    made = subprocess.run([path / "moldau", "completion", shell], env=around, capture_output=True, text=True, check=True)
    script.write_text(made.stdout, encoding="utf-8")
    command = [*SHELLS[shell], str(script), line]
    done = subprocess.run(command, env=around, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return {text.split("\t")[0] for text in done.stdout.splitlines() if text}


@pytest.mark.parametrize("line", CASES)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_words(shell: str, line: str, path: Path, tmp_path: Path) -> None:
    assert completed(shell, path, line, tmp_path) == CASES[line]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_file_is_completed_where_no_word_fits(shell: str, path: Path, tmp_path: Path) -> None:
    (tmp_path / "server.properties").touch()
    assert completed(shell, path, "moldau serve serv", tmp_path) in ({"server.properties"}, {"files"})
