"""● A connector's configuration, checked: its own options, the options of all connectors, its transforms, predicates and converters.

Source: AbstractHerder.validateConnectorConfig, ConnectorConfig.enrich.
"""

from collections.abc import Mapping
from typing import Any, Final

from moldau.connect.connectors.connector import Connector
from moldau.connect.connectors.registry import connector_of
from moldau.connect.converters.catalogue import CONVERTERS, HEADER_CONVERTERS
from moldau.connect.declare.connector_keys import BASE_GROUPS, SINK, SOURCE, SOURCE_GROUPS, common
from moldau.connect.declare.definition import REQUIRED, Config, Definition, Key, Kind, Validated, infos
from moldau.connect.errors import BadRequest, InvalidConfig
from moldau.connect.transforms.catalogue import PREDICATE_PLUGINS, TRANSFORM_PLUGINS
from moldau.connect.transforms.chain import aliases

VERSION: Final = "4.3.1"
"""The version of the interface: Kafka's own worker of this version reports it for its plug-ins."""
CLASSES: Final = {*HEADER_CONVERTERS, *TRANSFORM_PLUGINS, *PREDICATE_PLUGINS}
_DLQ: Final = "errors.deadletterqueue.topic.name"
_NEGATE: Final = Key("negate", Kind.BOOLEAN, False, "MEDIUM", "Whether the transform acts where its predicate does not hold.")
_PREDICATE: Final = Key("predicate", Kind.STRING, None, "MEDIUM", "The predicate that decides whether the transform acts.")


def base(connector: Connector, worker: Config | None) -> Definition:
    """`worker` None: the definition describes the plug-in alone, without a worker's defaults."""
    names = () if worker is None else ("key", "value", "header")
    defaults = tuple((worker or {}).get(f"{kind}.converter") for kind in names) or (None, None, None)
    shared = common(VERSION, tuple(CONVERTERS), tuple(HEADER_CONVERTERS), defaults)
    return shared + (SOURCE if connector.kind == "source" else SINK)


def validate(config: Config, worker: Config) -> tuple[dict[str, Validated], list[str]]:
    """All options, and the groups that they stand in.  Errors: BadRequest, when the connector itself cannot be found."""
    name = config.get("connector.class")
    if not name:
        given = ", ".join(f"{key}={value}" for key, value in config.items())
        raise BadRequest(f"Connector config {{{given}}} contains no connector type")
    connector = connector_of(name.strip())
    found = base(connector, worker).validate(config, CLASSES.__contains__)
    groups = list(SOURCE_GROUPS if connector.kind == "source" else BASE_GROUPS)
    _versions(found)
    _check_source(connector, found)
    _check_sink(connector, found)
    for kind, plugins in (("transforms", TRANSFORM_PLUGINS), ("predicates", PREDICATE_PLUGINS)):
        for alias in aliases(config.get(kind)):
            keys = _of_alias(kind, alias, config, plugins)
            found |= Definition(*keys).validate(config, set(plugins).__contains__)
            groups.append(f"{kind.capitalize()}: {alias}")
    for kind in ("key", "value", "header"):
        found |= _of_converter(kind, config)
    own = connector.definition.validate(config)
    connector.check(own)
    found |= own
    return found, groups


def validated_infos(config: Config, worker: Config) -> dict[str, Any]:
    found, groups = validate(config, worker)
    return infos(str(config["connector.class"]), found.values(), groups)


def require_valid(config: Config, worker: Config) -> None:
    """Errors: BadRequest."""
    found, _ = validate(config, worker)
    errors = [error for one in found.values() for error in one.errors]
    if errors:
        raise InvalidConfig(errors)


def _versions(found: dict[str, Validated]) -> None:
    for kind in ("key", "value", "header"):
        version = found[f"{kind}.converter.plugin.version"]
        if found[f"{kind}.converter"].errors:
            version.value, version.visible = None, False
            version.key = Key(**{**_fields(version.key), "default": None, "recommended": ()})


def _fields(key: Key) -> dict[str, Any]:
    return {name: getattr(key, name) for name in Key.__dataclass_fields__}


def _check_source(connector: Connector, found: dict[str, Validated]) -> None:
    boundary = found.get("transaction.boundary")
    if connector.kind == "source" and boundary is not None and str(boundary.value).lower() == "connector" and not boundary.errors:
        boundary.errors.append(
            "The connector does not support connector-defined transaction boundaries with the given configuration. "
            "Please reconfigure it to use a different transaction boundary definition."
        )


def _check_sink(connector: Connector, found: dict[str, Validated]) -> None:
    if connector.kind != "sink":
        return
    topics, regex, dead = found["topics"], found["topics.regex"], found[_DLQ].value
    both = [topics, regex]
    if topics.value and regex.value:
        text = "topics and topics.regex are mutually exclusive options, but both are set."
    elif not topics.value and not regex.value:
        text = "Must configure one of topics or topics.regex"
    else:
        text = ""
        if dead and dead in (topics.value or []):
            both = [topics]
            listed = ", ".join(topics.value)
            text = f"The DLQ topic '{dead}' may not be included in the list of topics ('topics=[{listed}]') consumed by the connector"
    for one in both:
        if text:
            one.errors.append(text)


def _of_alias(kind: str, alias: str, config: Config, plugins: Mapping[str, Any]) -> list[Key]:
    """The type, its version, and the plug-in's own options."""
    prefix, singular = f"{kind}.{alias}.", kind.removesuffix("s").capitalize()
    label = {"Transform": "Transformation"}.get(singular, singular)
    group = f"{kind.capitalize()}: {alias}"
    chosen = plugins.get((config.get(f"{prefix}type") or "").strip())
    names = tuple(sorted(plugins))
    doc = f"The class of {alias}."
    version = None if chosen is None else VERSION
    versions = () if version is None else (version,)
    keys = [
        Key(f"{prefix}type", Kind.CLASS, REQUIRED, "HIGH", doc, None, group, 0, "LONG", f"{label} type for {alias}", names),
        Key(f"{prefix}plugin.version", Kind.STRING, version, "HIGH", doc, None, group, 1, "LONG", f"{label} version for {alias}", versions),
    ]
    if chosen is None:
        return keys
    own = chosen.definition + Definition(_NEGATE, _PREDICATE) if kind == "transforms" else chosen.definition
    return [*keys, *own.prefixed(prefix, group, 2)]


def _of_converter(kind: str, config: Config) -> dict[str, Validated]:
    """The options of a converter that the connector names itself."""
    plugin = HEADER_CONVERTERS.get((config.get(f"{kind}.converter") or "").strip())
    if plugin is None:
        return {}
    prefix = f"{kind}.converter."
    keys = [
        Key(**{**_fields(key), "name": prefix + name, "display": key.display or name, "checked_as": name})
        for name, key in plugin.definition.keys.items()
    ]
    return Definition(*keys).validate({f"{prefix}converter.type": kind, **config})
