"""Variables of configurations: `${file:…}`, `${dir:…}` and `${env:…}`."""

from pathlib import Path

import pytest

from moldau.connect.errors import ConfigError
from moldau.connect.providers import Providers, with_variables
from moldau.connect.worker.options import parse_worker

JAVA = "org.apache.kafka.common.config.provider."
CLASSES = {"file": "FileConfigProvider", "dir": "DirectoryConfigProvider", "env": "EnvVarConfigProvider"}


def properties(**more: str) -> dict[str, str]:
    listed = {f"config.providers.{name}.class": JAVA + one for name, one in CLASSES.items()}
    return {"config.providers": "file, dir,env", **listed, **more}


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "secrets.properties").write_text("user=anna\npassword=p:$1\\\\}\n", encoding="utf-8")
    (tmp_path / "token").write_text("abc\n", encoding="utf-8")
    return tmp_path


def resolved(text: str, **more: str) -> str | None:
    return Providers.of(properties(**more)).resolved({"a": text, "none": None})["a"]


def test_variables_have_the_values_of_files_folders_and_the_environment(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLDAU_TEST_NAME", "n")
    file = f"{secrets}/secrets.properties"
    assert resolved(f"${{file:{file}:user}}/${{file:{file}:password}}") == "anna/p:$1\\}"
    assert resolved(f"x${{dir:{secrets}:token}}y") == "xabc\ny", "the whole file, as Kafka reads it"
    assert resolved("${env:MOLDAU_TEST_NAME}") == "n"
    assert resolved("${env:MOLDAU_TEST_NAME}", **{"config.providers.env.param.allowlist.pattern": "OTHER_.*"}) == "${env:MOLDAU_TEST_NAME}"


@pytest.mark.parametrize("text", ["plain", "${topic}", "${other:a:b}", "${env:MOLDAU_NOT_SET}", "$1-${", "${file:}"])
def test_what_no_provider_knows_stays(text: str) -> None:
    assert resolved(text) == text
    assert Providers.of({}).resolved({"a": text}) == {"a": text}


def test_a_key_that_is_not_there_stays_and_a_file_that_is_not_there_is_an_error(secrets: Path) -> None:
    missing = f"${{file:{secrets}/secrets.properties:nope}}"
    assert resolved(missing) == missing
    with pytest.raises(ConfigError, match="Could not read properties from file /nonexistent"):
        resolved("${file:/nonexistent:a}")
    with pytest.raises(ConfigError, match="Path is not supported for EnvVarConfigProvider"):
        resolved("${env:/path:a}")


def test_only_allowed_paths_are_read(secrets: Path, tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    for text in (f"${{file:{secrets}/secrets.properties:user}}", f"${{dir:{allowed}/..:token}}"):
        limits = {f"config.providers.{name}.param.allowed.paths": str(allowed) for name in ("file", "dir")}
        assert resolved(text, **limits) == text
        assert resolved(text) != text


def test_a_provider_that_is_not_here_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"config\.providers\.vault\.class"):
        Providers.of({"config.providers": "vault", "config.providers.vault.class": "com.example.Vault"})


def test_a_workers_own_properties_have_variables(secrets: Path) -> None:
    worker = {
        "bootstrap.servers": "b:1", "group.id": f"${{dir:{secrets}:token}}", "key.converter": "k", "value.converter": "v",
        **{f"{one}.storage.topic": one for one in ("config", "offset", "status")}, **properties(),
    }  # fmt: skip
    assert parse_worker(worker)["group.id"] == "abc"


def test_a_task_is_stored_with_its_connectors_variables() -> None:
    connector = {"password": "${env:P}", "file": "x"}
    assert with_variables({"password": "secret", "file": "x", "task": "1"}, connector) == {"password": "${env:P}", "file": "x", "task": "1"}
