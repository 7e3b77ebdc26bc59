"""◇ Turns a consumer's properties into the options of our consumer."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from moldau.clients.consumer import ConsumerOptions
from moldau.clients.options import OptionError, parse_options
from moldau.tools.cli.failure import Failure


def consumer_options(properties: Mapping[str, str], **given: Any) -> ConsumerOptions:
    """Properties that are no options of ours are passed by, as Kafka's tools do; `given` counts more.  Errors: Failure."""
    known = {one.name.replace("_", ".") for one in fields(ConsumerOptions)}
    chosen = {key: value for key, value in properties.items() if key in known}
    try:
        return parse_options(ConsumerOptions, {**chosen, **{key.replace("_", "."): value for key, value in given.items()}})
    except OptionError as error:
        raise Failure(str(error)) from error
