"""◇ Turns a consumer's properties into the options of our consumer."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from moldau.clients.consumer import ConsumerOptions
from moldau.clients.options import OptionError, parse_options
from moldau.tools.cli.failure import Failure


def consumer_options(properties: Mapping[str, str], **given: Any) -> ConsumerOptions:
    """Unknown properties are ignored, as Kafka's tools ignore them.  `given` overrides `properties`.  Errors: Failure."""
    known = {one.name.replace("_", ".") for one in fields(ConsumerOptions)}
    chosen = {key: value for key, value in properties.items() if key in known}
    try:
        return parse_options(ConsumerOptions, {**chosen, **{key.replace("_", "."): value for key, value in given.items()}})
    except OptionError as error:
        raise Failure(str(error)) from error
