"""● A headless Chromium, driven by the DevTools protocol over a pair of pipes.

with Browser(profile) as browser:
    page = browser.open("http://localhost:8085")
    page.until("document.title")        # tries the JavaScript until its value is true, and returns the value
"""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

CHROMIUM: Final = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
WITHIN_S: Final = 90.0
OPTIONS: Final = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe --window-size=1320,1060"


class Browser:
    def __init__(self, profile: Path) -> None:
        self._profile = profile
        self._number = 0
        self._rest = b""

    def __enter__(self) -> Self:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4.
        script = f'exec "$0" {OPTIONS} --user-data-dir="$1" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, str(CHROMIUM), str(self._profile)],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = ours_out, ours_in
        return self

    def open(self, url: str) -> "Page":
        target = self.call("Target.createTarget", {"url": url})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = Page(self, session)
        page.until('location.href != "about:blank" && document.readyState == "complete"')
        return page

    def call(self, method: str, params: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        """Call a method of the DevTools protocol.  Errors: AssertionError with Chromium's words."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        os.write(self._out, json.dumps(request).encode() + b"\0")
        while True:
            answer = json.loads(self._line())
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer}"
                return dict(answer["result"])

    def _line(self) -> bytes:
        while b"\0" not in self._rest:
            part = os.read(self._in, 1 << 20)
            assert part, "Chromium has ended"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        return line

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)


class Page:
    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def run(self, script: str) -> Any:
        """The value of an expression.  A promise is awaited.  Errors: AssertionError with the exception's text."""
        params = {"expression": script, "awaitPromise": True, "returnByValue": True}
        answer = self._browser.call("Runtime.evaluate", params, self._session)
        assert "exceptionDetails" not in answer, f"{script}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def until(self, script: str) -> Any:
        """Try an expression until it is true.  Errors: AssertionError with the page's text if that takes too long."""
        deadline_s = time.monotonic() + WITHIN_S
        while not (found := self.run(script)):
            assert time.monotonic() < deadline_s, f"{script} did not become true:\n{self.run('document.body.innerText')}"
        return found
