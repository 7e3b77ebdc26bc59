"""◇ Options of a configuration that nobody reads: named with the nearest known one.

Kafka's worker passes over such options in silence, and so does the JSON of the REST API.  The worker's log names them.
"""

from collections.abc import Iterator
from typing import Final

from moldau.config import nearest
from moldau.connect.connectors.connector import Connector
from moldau.connect.declare.definition import Config
from moldau.connect.worker.validation import validate

PASSED_ON: Final = ("producer.override.", "consumer.override.", "admin.override.")
ALIASED: Final = "topic.creation."


def unknown_options(connector: Connector, config: Config, worker: Config) -> Iterator[str]:
    """A sentence for each such option.  Errors: those of `validate`."""
    own = connector.definition.keys
    known = {*validate(config, worker)[0], *own, *(name for key in own.values() for name in key.other_names)}
    passed_on = (*PASSED_ON, ALIASED, *connector.prefixes)
    for name in sorted(config):
        if name not in known and not name.startswith(passed_on):
            meant = nearest(name, known)
            yield f"{name} is no option of {connector.names[0]} here and has no effect" + (f"; the nearest is {meant}" if meant else "")
