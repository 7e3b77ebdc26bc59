"""The jars that a machine needs beside pip's packages are fetched, also from a server that fails now and then."""

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from moldau.pipelines.provision import ProvisionError, java_home
from proof.kafka.jars import ROUNDS, Jar, fetch, missing

pytestmark = [pytest.mark.slow, pytest.mark.java]

JAR = b"what is in a jar"
DESCRIPTION = (
    b"<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>core</artifactId>"
    b"<version>1.0</version></project>"
)
SETTINGS = """<ivysettings><settings defaultResolver="here"/>
<resolvers><ibiblio name="here" m2compatible="true" root="http://127.0.0.1:{port}/"/></resolvers></ivysettings>"""


class Repository(ThreadingHTTPServer):
    """A server with one jar, which it refuses `refusals_left` times."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.refusals_left = 0
        self.asked: Counter[str] = Counter()


class Answers(BaseHTTPRequestHandler):
    server: Repository

    def do_GET(self) -> None:
        name = Path(self.path).name
        self.server.asked[name] += 1
        content = {"core-1.0.jar": JAR, "core-1.0.pom": DESCRIPTION}.get(name)
        is_refused = name.endswith(".jar") and self.server.refusals_left > 0
        self.server.refusals_left -= is_refused
        self.send_response(503 if is_refused else 200 if content else 404)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content or b"")

    do_HEAD = do_GET

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    java_home()  # brings Java into the user's own cache, if it is not there
    with Repository() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (tmp_path / "settings.xml").write_text(SETTINGS.format(port=server.server_port))
        monkeypatch.setenv("MOLDAU_IVY_SETTINGS", str(tmp_path / "settings.xml"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield server
        server.shutdown()


def test_a_jar_that_does_not_come_at_first_is_asked_for_again(repository: Repository, tmp_path: Path) -> None:
    jar = Jar("org.example", "core", "1.0", hashlib.sha256(JAR).hexdigest())
    repository.refusals_left = 1
    fetch("set", [jar], tmp_path / "jars")
    assert missing(tmp_path / "jars", [jar]) == []
    assert repository.asked["core-1.0.jar"] >= 2


def test_a_jar_that_is_not_what_it_should_be_is_told_in_the_end(repository: Repository, tmp_path: Path) -> None:
    jar = Jar("org.example", "core", "1.0", hashlib.sha256(b"another").hexdigest())
    with pytest.raises(ProvisionError, match=r"1 of 1 jars of set did not come, first core-1\.0\.jar"):
        fetch("set", [jar], tmp_path / "jars")
    assert repository.asked["core-1.0.jar"] >= ROUNDS
