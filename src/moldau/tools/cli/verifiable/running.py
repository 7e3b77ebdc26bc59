"""● The common start of both verifiable tools: client settings under a new and an old option, and one cluster to work on."""

from argparse import Namespace
from collections.abc import Awaitable, Callable

from moldau.clients.cluster import Cluster
from moldau.tools.cli.connecting import ClientSettings, client_settings, run
from moldau.tools.cli.kafka.options import KafkaParser, deprecated

Work = Callable[[Cluster, Namespace, ClientSettings], Awaitable[None]]


def run_tool(parser: KafkaParser, arguments: list[str], work: Work, *, old_option: str) -> int:
    """Run `work` and return the exit code.  `old_option`: the name of --command-config before KIP-1147."""
    options = parser.parse_args(arguments)
    old_file = getattr(options, old_option.removeprefix("--").replace(".", "_"))
    if options.command_config and old_file:
        raise parser.usage_error(f"Options {old_option} and --command-config are mutually exclusive")
    note = deprecated(old_file, old_option, "--command-config")
    if note:
        print(note)
    settings = client_settings(options.command_config or old_file)

    async def begin(cluster: Cluster) -> int:
        await work(cluster, options, settings)
        return 0

    return run(options.bootstrap_server, begin, settings)
