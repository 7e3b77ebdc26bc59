"""◇ The common parts of Kafka's tools: their common options, their deprecated spellings, and how they match topic names."""

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any, Final

from moldau.tools.cli.failure import Failure
from moldau.tools.cli.parser import Parser

KAFKA_VERSION: Final = "4.3.1"
"""The version whose options and output the tools follow."""


class KafkaParser(Parser):
    """A tool's options, and its complaints in Kafka's words."""

    def __init__(
        self,
        tool: str,
        description: str,
        *,
        examples: Iterable[str] = (),
        repeatable: Iterable[str] = (),
        takes_last: bool = False,
        **rest: Any,
    ) -> None:
        """`repeatable` are options that may be given several times; `takes_last`: all may be, and the last one counts."""
        super().__init__(f"moldau {tool}", description, examples=[f"moldau {tool} {example}" for example in examples], **rest)
        self._repeatable: Final = frozenset(repeatable)
        self._takes_last: Final = takes_last

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Refuses an option that is given twice where one counts: it would act on the second alone."""
        given = [word.partition("=")[0] for word in (sys.argv[1:] if args is None else args)]
        is_checked = not self._takes_last and self._subparsers is None
        for action in self._actions if is_checked else ():
            name = action.option_strings[-1].lstrip("-") if action.option_strings else ""
            counts_once = isinstance(action, argparse._StoreAction) and name not in self._repeatable
            if name and counts_once and sum(word in action.option_strings for word in given) > 1:
                raise Failure(f"Found multiple arguments for option {name}, but you asked for only one")
        return super().parse_args(args, namespace)

    def conflict(self, option: str, other: str) -> Failure:
        return self.usage_error(f'Option "[{option}]" can\'t be used with option "[{other}]"')

    def add_common(self) -> None:
        """--bootstrap-server, --command-config, --version."""
        self.add_argument("--bootstrap-server", metavar="HOST:PORT", help="one or more brokers, comma separated")
        self.add_argument("--command-config", metavar="FILE", help="a properties file with client settings")
        self.add_version()

    def add_version(self) -> None:
        shown = f"{KAFKA_VERSION} (moldau {version('moldau')})"
        self.add_argument("--version", action="version", version=shown, help="print the version and end")

    def missing(self, *options: str) -> Failure:
        return Failure(f'Missing required argument "[{", ".join(options)}]"', f"`{self.prog} --help` lists the options")

    def usage_error(self, text: str) -> Failure:
        return Failure(text, f"`{self.prog} --help` lists the options")


def deprecated(given: object, old: str, new: str) -> str | None:
    """The note about an old spelling (KIP-1147), when it was used."""
    if not given:
        return None
    return f"Option {old} is deprecated and will be removed in a future version. Use {new} instead."


class TopicFilter:
    """A regular expression over topic names in Kafka's way: commas separate, quotes and spaces do not count, the whole name must match.

    Source: TopicFilter.java, IncludeList.
    """

    def __init__(self, text: str) -> None:
        self.text = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            self._pattern = re.compile(self.text)
        except re.error as error:
            raise Failure(f"{text} is an invalid regex.") from error

    def matches(self, topic: str, *, exclude_internal: bool = False) -> bool:
        return self._pattern.fullmatch(topic) is not None and not (exclude_internal and topic in INTERNAL_TOPICS)


INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
