"""◇ The errors of a worker, with the HTTP status of each.  Source: ConnectException and its subclasses, ConnectExceptionMapper."""

from collections.abc import Callable, Sequence


class ConnectError(Exception):
    """Any failure of Connect; its HTTP status is 500.  `java_class`: the name that Kafka's headers and traces give it."""

    status = 500
    java_class = "org.apache.kafka.connect.errors.ConnectException"


class DataError(ConnectError):
    """Data that a converter or a transform cannot work with."""

    java_class = "org.apache.kafka.connect.errors.DataException"


class RetriableError(ConnectError):
    """Worth another try with the same records."""

    java_class = "org.apache.kafka.connect.errors.RetriableException"


class Absent(RetriableError):
    """A converter lacks something that the network has.  `fetch` brings it, and blocks; then the converter can be asked again."""

    def __init__(self, fetch: Callable[[], None]) -> None:
        super().__init__("the schema was not fetched yet")
        self.fetch = fetch


class ConfigError(ConnectError):
    """A value that an option cannot have.  The text is Kafka's `Invalid value X for configuration Y: why`."""

    java_class = "org.apache.kafka.common.config.ConfigException"

    @classmethod
    def invalid(cls, name: str, value: object, why: str) -> "ConfigError":
        return cls(f"Invalid value {shown(value)} for configuration {name}: {why}")


class BadRequest(ConnectError):
    status = 400
    java_class = "org.apache.kafka.connect.runtime.rest.errors.BadRequestException"


class NotFound(ConnectError):
    status = 404
    java_class = "org.apache.kafka.connect.errors.NotFoundException"


class AlreadyExists(ConnectError):
    status = 409
    java_class = "org.apache.kafka.connect.errors.AlreadyExistsException"


class Rebalancing(ConnectError):
    """The group is distributing its work anew: ask again."""

    status = 409
    java_class = "org.apache.kafka.connect.runtime.rest.errors.ConnectRestException"


class InvalidConfig(BadRequest):
    """`errors`: the errors of all options of one configuration."""

    def __init__(self, errors: Sequence[str]) -> None:
        lines = "".join(f"\n{error}" for error in errors)
        super().__init__(
            f"Connector configuration is invalid and contains the following {len(errors)} error(s):{lines}\n"
            "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
        )


def java_class_of(error: BaseException) -> str:
    """Kafka's name for the kind of an error; Python's own errors keep their Python name."""
    return error.java_class if isinstance(error, ConnectError) else f"{type(error).__module__}.{type(error).__qualname__}"


def shown(value: object) -> str:
    """The value's text, as Java prints it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(shown, value)) + "]"
    return str(value)
