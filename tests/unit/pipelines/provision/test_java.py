import subprocess
from pathlib import Path

import pytest

from moldau.pipelines.provision import java


def a_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def a_java(folder: Path, version: str, *, exit_code: int = 0) -> Path:
    said = f"    java.home = {folder}\n    java.specification.version = {version}"
    return a_program(folder / "bin" / "java", f"cat >&2 <<END\n{said}\nEND\nexit {exit_code}")


def test_a_java_that_is_new_enough_is_found_by_its_own_words(tmp_path: Path) -> None:
    assert java.home_of(a_java(tmp_path / "jdk", "17")) == tmp_path / "jdk"


@pytest.mark.parametrize(("version", "exit_code"), [("11", 0), ("1.8", 0), ("21", 1)])
def test_an_old_java_or_one_without_the_module_does_not_count(tmp_path: Path, version: str, exit_code: int) -> None:
    assert java.home_of(a_java(tmp_path / "jdk", version, exit_code=exit_code)) is None


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(tmp_path / "named", "21")
    a_java(tmp_path / "on_path", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    monkeypatch.setenv("PATH", str(tmp_path / "on_path" / "bin"))
    assert java.candidates() == [tmp_path / "named" / "bin" / "java", tmp_path / "on_path" / "bin" / "java"]
    monkeypatch.delenv("JAVA_HOME")
    assert java.candidates() == [tmp_path / "on_path" / "bin" / "java"]


def test_the_script_drops_the_one_argument_and_keeps_all_others_as_they_are(tmp_path: Path) -> None:
    a_program(tmp_path / "runtime" / "bin" / "java", 'for argument do echo "<$argument>"; done')
    script = a_program(tmp_path / "bin" / "java", java.JAVA_SCRIPT.removeprefix("#!/bin/sh\n"))
    through_a_link = tmp_path / "java-link"
    through_a_link.symlink_to(script)
    told = subprocess.run([through_a_link, "-cp", "a b", java.SPARK_MODULE, "", "x*"], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["<-cp>", "<a b>", "<>", "<x*>"]
