"""◇ The transforms of one connector, in order, each with its predicate.  Source: TransformationChain, TransformationStage."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.connect.data import Record
from moldau.connect.errors import ConfigError
from moldau.connect.transforms.catalogue import PREDICATE_PLUGINS, TRANSFORM_PLUGINS, PredicatePlugin, TransformPlugin
from moldau.connect.transforms.parts import Transform
from moldau.connect.transforms.predicates import Predicate


class Step(NamedTuple):
    transform: Transform
    class_name: str
    predicate: Predicate | None
    is_negated: bool

    def apply(self, record: Record) -> Record | None:
        if self.predicate is not None and self.predicate.holds(record) == self.is_negated:
            return record
        return self.transform.apply(record)


def aliases(text: str | None) -> list[str]:
    return list(dict.fromkeys(one.strip() for one in (text or "").split(",") if one.strip()))


def options_of(config: Mapping[str, str | None], prefix: str) -> dict[str, str | None]:
    """The options behind a prefix, under their own names."""
    return {key[len(prefix) :]: value for key, value in config.items() if key.startswith(prefix)}


def plugin_of(config: Mapping[str, str | None], prefix: str, plugins: Mapping[str, Any]) -> Any:
    name = (config.get(f"{prefix}type") or "").strip()
    if name not in plugins:
        raise ConfigError.invalid(f"{prefix}type", name or None, f"Class {name} could not be found.")
    return plugins[name]


def chain_of(config: Mapping[str, str | None]) -> list[Step]:
    """Errors: ConfigError."""
    predicates: dict[str, Predicate] = {}
    for alias in aliases(config.get("predicates")):
        prefix = f"predicates.{alias}."
        plugin: PredicatePlugin = plugin_of(config, prefix, PREDICATE_PLUGINS)
        predicates[alias] = plugin.make(plugin.definition.parse(options_of(config, prefix)))
    steps = []
    for alias in aliases(config.get("transforms")):
        prefix = f"transforms.{alias}."
        chosen: TransformPlugin = plugin_of(config, prefix, TRANSFORM_PLUGINS)
        options = options_of(config, prefix)
        wanted = options.get("predicate")
        if wanted is not None and wanted not in predicates:
            raise ConfigError.invalid(f"{prefix}predicate", wanted, "there is no predicate of this name")
        transform = chosen.make(chosen.part, chosen.definition.parse(options))
        is_negated = (options.get("negate") or "false").lower() == "true"
        steps.append(Step(transform, str(config[f"{prefix}type"]), predicates[wanted] if wanted else None, is_negated))
    return steps
