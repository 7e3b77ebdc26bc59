import logging
from collections.abc import Iterator

import pytest

from moldau.errors import ErrorCode
from moldau.metadata.config_schema import Refusal
from moldau.metadata.configs import Operation
from moldau.protocol.messages.incremental_alter_configs import AlterableConfig
from moldau.server.node.loggers import alter, levels

ABOVE, LOGGER = "moldau.test_loggers", "moldau.test_loggers.quiet"


@pytest.fixture(autouse=True)
def own_loggers() -> Iterator[None]:
    logging.getLogger(LOGGER)
    yield
    for name in (ABOVE, LOGGER):
        logging.getLogger(name).setLevel(logging.NOTSET)


def change(name: str, operation: int, value: str | None = None) -> AlterableConfig:
    return AlterableConfig(name=name, config_operation=operation, value=value)


def altered(*changes: AlterableConfig, node: str = "1", validate_only: bool = False) -> Refusal | None:
    return alter(1, node, changes, validate_only=validate_only)


def test_a_logger_goes_by_the_level_above_it_unless_it_has_its_own() -> None:
    assert altered(change(ABOVE, Operation.SET, "ERROR")) is None
    assert (levels()[ABOVE], levels()[LOGGER]) == ("ERROR", "ERROR")
    assert altered(change(LOGGER, Operation.SET, "TRACE"), change(ABOVE, Operation.SET, "FATAL")) is None
    assert (levels()[ABOVE], levels()[LOGGER]) == ("FATAL", "TRACE")
    assert logging.getLogger(LOGGER).isEnabledFor(logging.DEBUG)
    assert altered(change(LOGGER, Operation.DELETE)) is None
    assert levels()[LOGGER] == "FATAL"


def test_nothing_changes_where_only_validity_is_asked_for() -> None:
    before = levels()
    assert altered(change("root", Operation.SET, "FATAL"), validate_only=True) is None
    assert levels() == before


@pytest.mark.parametrize(
    ("refused", "code", "text"),
    [
        (change("no.such", Operation.SET, "INFO"), ErrorCode.INVALID_CONFIG, "Logger no.such does not exist!"),
        (change("no.such", Operation.DELETE), ErrorCode.INVALID_CONFIG, "Logger no.such does not exist!"),
        (
            change(LOGGER, Operation.SET, "LOUD"),
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {LOGGER} to LOUD as it is not a supported log level. "
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (change("root", Operation.DELETE), ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"),
        (
            change(LOGGER, Operation.APPEND, "INFO"),
            ErrorCode.INVALID_REQUEST,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (change(LOGGER, 9, "INFO"), ErrorCode.INVALID_REQUEST, "Unknown operation type 9 is not allowed for the BROKER_LOGGER resource"),
    ],
)
def test_one_refusal_keeps_all_from_being_done(refused: AlterableConfig, code: ErrorCode, text: str) -> None:
    before = levels()
    assert altered(change(ABOVE, Operation.SET, "FATAL"), refused) == Refusal(code, text)
    assert levels() == before


@pytest.mark.parametrize(
    ("node", "text"),
    [("", "Node id must be an integer, but it is: "), ("2", "Unexpected node id. Expected 1, but received 2")],
)
def test_a_broker_alters_only_its_own(node: str, text: str) -> None:
    assert altered(change(ABOVE, Operation.SET, "FATAL"), node=node) == Refusal(ErrorCode.INVALID_REQUEST, text)
