"""◇ Calls the interceptors of a consumer.  One that raises is logged and skipped.

    on_consume(records)  →  records, or None for the same      before a poll hands them out: a list of `Records`
    on_commit(offsets)                                         after a commit: offsets by TopicPartition

Source: KIP-42, ConsumerInterceptors.java.  As there, records that an interceptor leaves out count as read.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from moldau.clients.records import Records
from moldau.types import TopicPartition

LOG: Final = logging.getLogger(__name__)


def consumed(interceptors: Sequence[Any], records: list[Records]) -> list[Records]:
    """The records after all interceptors."""
    for interceptor in interceptors:
        on_consume = getattr(interceptor, "on_consume", None)
        if on_consume is not None:
            try:
                changed = on_consume(records)
            except Exception:
                LOG.exception("an interceptor failed")
            else:
                records = records if changed is None else changed
    return records


def committed(interceptors: Sequence[Any], offsets: Mapping[TopicPartition, Any]) -> None:
    """Tell the interceptors which offsets were committed."""
    for interceptor in interceptors:
        on_commit = getattr(interceptor, "on_commit", None)
        if on_commit is not None:
            try:
                on_commit(offsets)
            except Exception:
                LOG.exception("an interceptor failed")
