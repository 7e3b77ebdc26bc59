"""● Clusters by name, so that commands need no --bootstrap-server: one file, `$MOLDAU_CONFIG` or `~/.config/moldau/config.toml`.

profile = "staging"

[profiles.staging]
bootstrap_server = "kafka-1.staging:9093"
command_config = "/home/me/staging.properties"
"""

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from moldau.tools.cli.failure import Failure

VARIABLE: Final = "MOLDAU_CONFIG"
PROFILE_VARIABLE: Final = "MOLDAU_PROFILE"


class Profile(NamedTuple):
    bootstrap_server: str
    command_config: str | None = None


class Profiles(NamedTuple):
    current: str | None
    by_name: Mapping[str, Profile]


def path_of_file() -> Path:
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "moldau" / "config.toml"


def read_profiles() -> Profiles:
    """Errors: Failure."""
    path = path_of_file()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Profiles(None, {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Failure(f"{path} cannot be read: {error}", "Mend it, or delete it") from error
    found = {}
    for name, given in content.get("profiles", {}).items():
        address = given.get("bootstrap_server") if isinstance(given, dict) else None
        if not isinstance(address, str):
            raise Failure(f"{path}: profile {name} has no bootstrap_server", f"`moldau profile set {name} HOST:PORT` gives it one")
        found[name] = Profile(address, given.get("command_config"))
    return Profiles(content.get("profile"), found)


def current_profile() -> Profile | None:
    """$MOLDAU_PROFILE, else the one in use.  Errors: Failure."""
    named = os.environ.get(PROFILE_VARIABLE)
    if not named and not path_of_file().exists():
        return None
    profiles = read_profiles()
    name = named or profiles.current
    if not name:
        return None
    if name not in profiles.by_name:
        raise unknown(name, profiles)
    return profiles.by_name[name]


def unknown(name: str, profiles: Profiles) -> Failure:
    known = ", ".join(sorted(profiles.by_name))
    return Failure(f"there is no profile {name!r}", f"Known: {known}" if known else f"`moldau profile set {name} HOST:PORT` makes it")


def write_profiles(current: str | None, by_name: Mapping[str, Profile]) -> None:
    path = path_of_file()
    lines = [] if current is None else [f"profile = {json.dumps(current)}", ""]
    for name, profile in sorted(by_name.items()):
        lines += [f"[profiles.{json.dumps(name)}]", f"bootstrap_server = {json.dumps(profile.bootstrap_server)}"]
        if profile.command_config is not None:
            lines.append(f"command_config = {json.dumps(profile.command_config)}")
        lines.append("")
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text("\n".join(lines), encoding="utf-8")
        scratch.replace(path)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror or error}") from error
