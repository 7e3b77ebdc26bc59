"""● Names as Protobuf wants them."""

import re
from urllib.parse import quote


def camel_case(name: str) -> str:
    """A name with underscores as CamelCase; any other name stays."""
    return "".join(part.capitalize() for part in name.split("_")) if "_" in name else name


def snake_case(name: str) -> str:
    """The name of the map whose entries have the name."""
    return name[:1].lower() + re.sub("[A-Z]", lambda one: f"_{one[0].lower()}", name[1:])


def scrubbed(name: str) -> str:
    """The name, or the names between dots, with what Protobuf refuses replaced."""
    return ".".join(map(_scrubbed, name.split("."))) if name else name


def _scrubbed(name: str) -> str:
    coded = quote(name, safe="-* ").replace("~", "%7E").replace("%", "_")
    found = re.sub("[^A-Za-z0-9_]", "_", coded)
    return f"x{found}" if re.match("[0-9_]", name) else found
