"""◇ A request's own refusal: its response with one error everywhere, derived from the declarations.

Callers use `Request.refused`.

Source: getErrorResponse of each org.apache.kafka.common.requests class.
"""

from typing import Any, Final

from moldau.protocol.declared import Struct, blank

IDENTITIES: Final = frozenset(
    (
        *("name", "topic", "topic_id", "topic_name", "partition", "partition_index", "index"),
        *("group_id", "transactional_id", "producer_id", "resource_type", "resource_name", "entity", "user"),
    )
)
ALIASES: Final = {"partition_index": "partition", "topic_name": "name", "user": "name"}
"""The fields that name an item in a response, with the request's name of the field where it differs."""
ERROR_CODES: Final = frozenset(("error_code", "partition_error_code"))
UNKNOWN: Final = frozenset(("base_offset", "committed_offset", "high_watermark", "low_watermark", "node_id", "port"))
"""The value -1 in a refusal, because zero would mean something."""


def refusal(declared: type[Struct], code: int, message: str | None) -> Any:
    """A blank `declared` with its error set."""
    refused = blank(declared)
    for field in declared.FIELDS:
        if field.name in ERROR_CODES:
            setattr(refused, field.name, code)
        elif field.name == "error_message" and (field.ignorable or field.versions == "0+"):
            setattr(refused, field.name, message)
        elif field.name in UNKNOWN:
            setattr(refused, field.name, -1)
    return refused


def echoed_items(asker: Any, answer: type[Struct], path: tuple[list[str], list[str]], code: int, message: str | None) -> list[Any]:
    """The items of `asker` under the first path, as refused items of `answer` under the second."""
    asked, answered = path
    item_class = next(field.struct for field in answer.FIELDS if field.name == answered[0])
    assert item_class is not None, f"{answer.__name__}.{answered[0]} holds no structs to carry an error"
    items = []
    for item in getattr(asker, asked[0]) or ():
        refused = refusal(item_class, code, message)
        for field in item_class.FIELDS:
            if not isinstance(item, Struct):
                if field.name not in ERROR_CODES and field.name != "error_message":
                    setattr(refused, field.name, item)  # a plain value is its own name, and stands first
                    break
            elif field.name in IDENTITIES:
                source = field.name if hasattr(item, field.name) else ALIASES.get(field.name, "")
                if hasattr(item, source):
                    setattr(refused, field.name, getattr(item, source))
        if len(asked) > 1:
            setattr(refused, answered[1], echoed_items(item, item_class, (asked[1:], answered[1:]), code, message))
        items.append(refused)
    return items
