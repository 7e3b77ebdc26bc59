"""● Writes the reference pages of the documentation from what the code declares: `python -m moldau.tools.reference docs`.

The pages list options, error codes, APIs with their handlers' opening blocks, and the commands' own help.  A test compares the committed
pages with what this module writes, so a page cannot fall behind.
"""

import contextlib
import dataclasses
import io
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from pkgutil import iter_modules
from typing import Final

from moldau.clients.admin.options import AdminOptions
from moldau.clients.consumer import ConsumerOptions
from moldau.clients.options import WITHOUT_EFFECT, ClientOptions
from moldau.clients.producer import ProducerOptions
from moldau.clients.share import ShareConsumerOptions
from moldau.config import Configs, Kind, Option
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.share.config import ShareCoordinatorConfig
from moldau.coordinator.txn.config import TransactionConfig
from moldau.errors import ErrorCode
from moldau.metadata.options import ControllerOptions
from moldau.protocol.messages import REQUESTS
from moldau.raft.config import QuorumConfig
from moldau.replication.config import ReplicationConfig
from moldau.replication.share.config import SharePartitionConfig
from moldau.server import handlers
from moldau.server.node.accepted import accepted_options
from moldau.server.node.options import ServerConfig
from moldau.server.requests.registry import apis_of
from moldau.storage.config import CleanerConfig, LogConfig
from moldau.storage.tiered.config import MetadataTopicConfig, RemoteLogConfig, StoreConfig
from moldau.tools.cli import main as command_line

ROOMS: Final[Mapping[str, type[Configs]]] = {
    "Node": ServerConfig,
    "Logs and topics": LogConfig,
    "Compaction": CleanerConfig,
    "Tiered storage": RemoteLogConfig,
    "Tiered storage: the object store, behind rsm.config.": StoreConfig,
    "Tiered storage: the topic __remote_log_metadata, behind rlmm.config.": MetadataTopicConfig,
    "Metadata quorum": QuorumConfig,
    "Replication": ReplicationConfig,
    "Leaders of partitions": ControllerOptions,
    "Groups": GroupCoordinatorConfig,
    "Transactions": TransactionConfig,
    "Share groups' states": ShareCoordinatorConfig,
    "Share partitions": SharePartitionConfig,
}
GENERATED: Final = "<!-- Written by `make docs` from the declarations in the code. -->\n\n"


def pages() -> dict[str, str]:
    """The pages by their path below docs/."""
    return {
        "reference/options.md": options_page(),
        "reference/errors.md": errors_page(),
        "reference/apis.md": apis_page(),
        "reference/commands.md": commands_page(),
        "reference/spark-options.md": spark_page(),
        "reference/client-options.md": client_options_page(),
    }


def options_page() -> str:
    """Every option that is read, by room; then those that are taken without effect, by reason."""
    parts = [GENERATED, "# Options\n\nNames and defaults are Kafka's; options marked *(ours)* exist here only.\n"]
    for title, declared in ROOMS.items():
        parts.append(
            f"\n## {title}\n\n| option | type | default | of a topic or group | changes | what it does |\n|---|---|---|---|---|---|\n"
        )
        parts += [_option_row(option) for _, option in sorted(declared.OPTIONS.items(), key=lambda item: item[1].key)]
    return "".join(parts) + _accepted_options()


def _accepted_options() -> str:
    """The accepted options without effect.  A feature that declares one of them reads it."""
    read = {option.key for declared in ROOMS.values() for option in declared.OPTIONS.values()}
    by_reason: dict[str, list[str]] = {}
    for option in accepted_options().values():
        if option.key not in read:
            by_reason.setdefault(option.reason, []).append(f"`{option.key}`")
    parts = ["\n## Taken without effect\n\nThese options of Kafka are taken without complaint, and listed by DescribeConfigs.\n"]
    parts += [f"\n- {reason[0].upper()}{reason[1:]}: {', '.join(keys)}.\n" for reason, keys in by_reason.items()]
    return "".join(parts)


def client_options_page() -> str:
    """Every option of our Python clients."""
    intro = (
        "# Options of the Python clients\n\nNames are Kafka's, with underscores as keywords: `Producer(linger_ms=5)` or "
        '`Producer(options={"linger.ms": "5"})`.  What each means stands in Kafka\'s documentation; where a default differs, the module '
        "says why.  The last table lists options of Java's clients that are accepted and have no effect.\n"
    )
    parts = [GENERATED, intro]
    shared = {one.name for one in dataclasses.fields(ClientOptions)}
    declared_by_title = {
        "All clients": ClientOptions,
        "Producer": ProducerOptions,
        "Consumer": ConsumerOptions,
        "Share consumer": ShareConsumerOptions,
        "Admin": AdminOptions,
    }
    for title, declared in declared_by_title.items():
        parts.append(f"\n## {title}\n\n| option | default |\n|---|---|\n")
        for one in sorted(dataclasses.fields(declared), key=lambda each: each.name):
            if declared is ClientOptions or one.name not in shared:
                parts.append(f"| `{one.name.replace('_', '.')}` | {_shown_default(one.default)} |\n")
    parts.append("\n## Accepted without effect\n\n| option | why |\n|---|---|\n")
    parts += [f"| `{name}` | {reason} |\n" for name, reason in sorted(WITHOUT_EFFECT.items())]
    return "".join(parts)


def _shown_default(default: object) -> str:
    if default is None:
        return ""
    if isinstance(default, tuple):
        return f"`{','.join(default)}`" if default else ""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default}`" if default != "" else "(empty)"


def _option_row(option: Option) -> str:
    default = option.text(option.default)
    shown = "" if default is None else f"`{default}`" if default else "(empty)"
    own = option.topic or option.group
    single = f"`{own}`" if own else ""
    also = "".join(f"<br>`{key}`" for key, _ in option.fallbacks)
    ours = " *(ours)*" if option.is_ours else ""
    doc = option.doc.replace("|", "\\|")
    changes = option.update if option.key else ""
    key = f"`{option.key}`" if option.key else f"(of {'topics' if option.topic else 'groups'} only)"
    return f"| {key}{ours}{also} | {Kind(option.kind).name.lower()} | {shown} | {single} | {changes} | {doc} |\n"


def errors_page() -> str:
    rows = (f"| {int(code)} | `{code.name}` | {'yes' if code.retriable else ''} | {code.text} |\n" for code in ErrorCode)
    return GENERATED + "# Error codes\n\n| number | name | try again | meaning |\n|---|---|---|---|\n" + "".join(rows)


def apis_page() -> str:
    """The page of served APIs, each with its handler's opening block."""
    modules = [f"{handlers.__name__}.{module.name}" for module in iter_modules(handlers.__path__)]
    served = {api.request.__name__: api.documentation for api in apis_of(modules, "broker").values()}
    parts = [GENERATED, f"# APIs\n\n{len(served)} of the protocol's {len(REQUESTS)} requests are served on broker listeners.\n"]
    for key, request in sorted(REQUESTS.items()):
        doc = served.get(request.__name__)
        if doc is not None:
            name = request.__name__.removesuffix("Request")
            parts.append(f"\n## {name} ({key})\n\n```\n{doc.strip()}\n```\n")
    missing = sorted(request.__name__.removesuffix("Request") for request in REQUESTS.values() if request.__name__ not in served)
    parts.append("\n## Not served on broker listeners\n\n" + ", ".join(missing) + "\n")
    return "".join(parts)


def spark_page() -> str:
    """The options of `format("moldau")`."""
    from pyspark_moldau.options import BOTH, KAFKA_OPTIONS, KAFKA_PREFIX, OPTIONS, REFUSED, SINK, SOURCE

    parts = [GENERATED, '# Options of `format("moldau")`\n\nCase does not matter. `kafka.bootstrap.servers` is always needed.\n']
    for title, used_by in (("Reading", (SOURCE,)), ("Writing", (SINK,)), ("Both", BOTH)):
        named = [(one.name, one) for one in OPTIONS] + [(KAFKA_PREFIX + one.name, one) for one in KAFKA_OPTIONS]
        parts.append(f"\n## {title}\n\n| option | default | what it does |\n|---|---|---|\n")
        for name, one in named:
            if one.used_by == used_by:
                default = f"`{one.default}`" if one.default and " " not in one.default else one.default
                parts.append(f"| `{name}` | {default} | {one.doc.replace('|', chr(92) + '|')} |\n")
    parts.append("\n## Refused, as by the stock connector\n\n| option | instead |\n|---|---|\n")
    parts += [f"| `{KAFKA_PREFIX}{name}` | {reason} |\n" for name, reason in REFUSED.items()]
    parts.append(
        "\nOther options of Kafka's Java clients are accepted and have no effect; what is no option at all is refused, with the nearest.\n"
    )
    return "".join(parts)


def commands_page() -> str:
    """The help of every command, as it prints it."""
    parts = [GENERATED, "# Commands\n\n```\n" + command_line.usage().strip() + "\n```\n"]
    for name in command_line.ALL:
        parts.append(f"\n## moldau {name}\n\n```\n{help_of([name, '--help'])}\n```\n")
    return "".join(parts)


def help_of(arguments: Sequence[str]) -> str:
    os.environ["COLUMNS"] = "100"  # argparse folds at the terminal's width, and a page has a fixed width
    os.environ["MOLDAU_CONFIG"] = os.devnull  # the writer of the page may have a profile in use
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), contextlib.suppress(SystemExit):
        command_line.main(list(arguments))
    return "\n".join(line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", printed.getvalue()).strip().splitlines())


def write(folder: Path) -> Iterable[Path]:
    for name, text in pages().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        yield path


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m moldau.tools.reference FOLDER", file=sys.stderr)
        return 2
    for path in write(Path(arguments[0])):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
