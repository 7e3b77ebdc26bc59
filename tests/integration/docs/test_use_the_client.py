"""The how-to of the Python client: every program of the page runs, one after the other, against one broker, and says what it should."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs/how-to/use-the-python-client.md"
WITHIN_S = 120.0
SECTION = re.compile(r"^## (.*?)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAID = {
    "Choose the partition": r"0\n3\n2\n",
    "Turn objects into bytes, and back": r"2\nskipped: b'no JSON'\n3\n",
    "Send much, and stop in time": r"done\n",
    "See or change every record": r"acknowledged: True\nread: 1\n\[\(\('origin', b'shop-1'\),\)\]\ncommitted: \[1\]\n",
    "Read, change, write: exactly once": r"2\n",
    "Follow rebalances": r"fill caches of 1\nwrite down what is finished of 1\n",
    "Begin at an hour, or anywhere": r"\[b'0', b'30', b'60'\]\nb'-60'\n\{TopicPartition\(.*\): 3\}\n6 0\n",
    "Acknowledge the records of a queue": r"4\n",
    "Look after a cluster": r"\{'menus': False, 'not a name': True\}\n\[.*\]\n\{.*GroupOffset.*\n1\n\{'menus': None\}\n",
    "Metrics": r"(\S+ [\d.e+-]+\n)+",
    "Arrow": r"3 \[.*'value'.*\]\n",
    "Threads, forks, notebooks": r"100\n100\n",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as running:
        yield running


def programs() -> dict[str, str]:
    sections = SECTION.findall(PAGE.read_text(encoding="utf-8"))
    return {title: program for title, text in sections for program in PROGRAM.findall(text)}


def test_every_program_is_known() -> None:
    assert programs().keys() == SAID.keys()


@pytest.mark.parametrize("title", SAID)
def test_a_program_says_what_it_should(broker: BrokerProcess, title: str) -> None:
    text = programs()[title].replace("localhost:9092", broker.bootstrap)
    done = subprocess.run(
        [sys.executable, "-c", text], env=broker.environment(), capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    assert re.fullmatch(SAID[title], done.stdout), f"{text}\n{done.stdout}"
