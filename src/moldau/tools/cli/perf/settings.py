"""◇ Turns a producer's properties, as Kafka's tools take them, into the options of our producer."""

from dataclasses import fields
from typing import Any

from moldau.clients.options import OptionError, parse_options
from moldau.clients.producer import ProducerOptions
from moldau.tools.cli.connecting import ClientSettings
from moldau.tools.cli.failure import Failure


def producer_options(settings: ClientSettings, **given: Any) -> ProducerOptions:
    """Unknown properties are ignored, as Kafka's tools ignore them.  `given` overrides `settings`.  Errors: Failure."""
    known = {one.name.replace("_", ".") for one in fields(ProducerOptions)}
    chosen = {key: value for key, value in settings.properties.items() if key in known}
    try:
        return parse_options(ProducerOptions, {**chosen, **{key.replace("_", "."): value for key, value in given.items()}})
    except OptionError as error:
        raise Failure(str(error)) from error
