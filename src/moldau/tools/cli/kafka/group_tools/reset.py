"""● The offsets to which kafka-consumer-groups.sh --reset-offsets sets a group, in each of its scenarios.

Source: ConsumerGroupCommand, OffsetsUtils.
"""

import argparse
import csv
import io
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.groups import GroupAdmin
from moldau.clients.admin.values import EARLIEST, LATEST
from moldau.clients.cluster import Cluster
from moldau.clients.view import ClusterView
from moldau.errors import ErrorCode, KafkaError
from moldau.types import TopicPartition

UNFIT_TOPIC: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
"""What `existing_partitions` finds wrong with topics."""
SCENARIOS: Final = ("to-offset", "shift-by", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "from-file")
_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d+)D)?(?:T(?=.)(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?(?:(?P<seconds>[-+]?\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)

Offsets = dict[TopicPartition, int]


class ResetRefused(ValueError):
    """The reset cannot be read, or makes no sense for the group."""


def add_reset_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the scenarios in `SCENARIOS`."""
    add = parser.add_argument
    add("--export", action="store_true", help="reset: print as CSV, for --from-file")
    add("--to-earliest", action="store_true", help="reset to the first offset")
    add("--to-latest", action="store_true", help="reset to the end")
    add("--to-current", action="store_true", help="reset to the committed offset")
    add("--to-offset", type=int, metavar="OFFSET", help="reset to this offset")
    add("--shift-by", type=int, metavar="N", help="reset forward by this many, or back when negative")
    add("--to-datetime", metavar="TIME", help="reset to the first offset at or after YYYY-MM-DDThh:mm:ss.sss")
    add("--by-duration", metavar="PnDTnHnMnS", help="reset to the first offset at or after this long ago")
    add("--from-file", metavar="FILE", help="reset to what a CSV file says")


def parse_topic(text: str) -> tuple[str, list[int] | None]:
    """`topic` or `topic:0,1`.  Errors: ResetRefused."""
    topic, colon, indexes = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, [int(index) for index in indexes.split(",")]
    except ValueError:
        raise ResetRefused(f"Invalid partition '{indexes}' specified in topic arg '{text}'") from None


def parse_datetime(text: str) -> int:
    """Milliseconds since the epoch; UTC unless the text names an offset.  Errors: ResetRefused."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ResetRefused(f"{text} is not a time of the form YYYY-MM-DDThh:mm:ss.sss") from None
    return round((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_duration(text: str) -> int:
    """Milliseconds.  Errors: ResetRefused."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match[name] for name in ("days", "hours", "minutes", "seconds")):
        raise ResetRefused(f"{text} is not a duration of the form PnDTnHnMnS")
    seconds = 86_400 * int(match["days"] or 0) + 3_600 * int(match["hours"] or 0) + 60 * int(match["minutes"] or 0)
    total_ms = round((seconds + float(match["seconds"] or 0)) * 1000)
    return -total_ms if match["sign"] == "-" else total_ms


async def reset_partitions(groups: GroupAdmin, known: Iterable[TopicPartition], options: argparse.Namespace) -> Offsets:
    """The offsets where a share group would go on: of the partitions of the named topics, without names of the `known` partitions.

    Errors: ResetRefused, KafkaError.
    """
    partitions = await existing_partitions(groups.cluster, options.topic) if options.topic else list(known)
    if options.to_datetime is not None:
        return await _at(groups, partitions, parse_datetime(options.to_datetime))
    return await _log_offsets(groups, partitions, EARLIEST if options.to_earliest else LATEST)


async def reset_offsets(
    groups: GroupAdmin, group_id: str, options: argparse.Namespace, partitions: Sequence[TopicPartition] | None = None
) -> Offsets:
    """`partitions`: the partitions to reset, when `options` do not name them.  Errors: ResetRefused, KafkaError."""
    if options.from_file is not None:
        plan = read_plan(options.from_file, group_id, is_single=len(options.group) == 1)
        if plan is None:
            print(f"\nError: No reset plan for group {group_id} found")
            return {}
        return await _within_log(groups, plan)
    committed = {one: offset.offset for one, offset in (await groups.offsets(group_id)).items()}
    if partitions is None and options.all_topics:
        partitions = sorted(committed)
        _check(await groups.cluster.refresh({one.topic for one in partitions}), partitions)
    elif partitions is None:
        partitions = await existing_partitions(groups.cluster, options.topic)
    if options.to_offset is not None:
        return await _within_log(groups, dict.fromkeys(partitions, options.to_offset))
    if options.shift_by is not None:
        for one in partitions:
            if one not in committed:
                raise ResetRefused(f"Cannot shift offset for partition {one} since there is no current committed offset")
        return await _within_log(groups, {one: committed[one] + options.shift_by for one in partitions})
    if options.to_current:
        known = {one: committed[one] for one in partitions if one in committed}
        return known | await _log_offsets(groups, [one for one in partitions if one not in committed], LATEST)
    if options.to_datetime is not None:
        return await _at(groups, partitions, parse_datetime(options.to_datetime))
    if options.by_duration is not None:
        return await _at(groups, partitions, round(time.time() * 1000) - parse_duration(options.by_duration))
    return await _log_offsets(groups, partitions, EARLIEST if options.to_earliest else LATEST)


def read_plan(path: str, group_id: str, *, is_single: bool) -> Offsets | None:
    """`topic,partition,offset` for one group, `group,topic,partition,offset` for several.  None: nothing for this group."""
    try:
        rows = [row for row in csv.reader(io.StringIO(Path(path).read_text(encoding="utf-8"))) if row]
    except OSError as error:
        raise ResetRefused(f"{path} cannot be read: {error.strerror}") from error
    plan: Offsets = {}
    for row in rows:
        try:
            *group, topic, partition, offset = (cell.strip() for cell in row)
            if len(group) > 1 or (not group and not is_single):
                raise ValueError
            if not group or group == [group_id]:
                plan[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise ResetRefused(f"{path}: {','.join(row)} is not of the form [group,]topic,partition,offset") from None
    return plan or None


async def existing_partitions(cluster: Cluster, topics: Iterable[str]) -> list[TopicPartition]:
    """`topic` or `topic:0,1` → partitions.  Errors: ResetRefused, KafkaError."""
    found: list[TopicPartition] = []
    for text in topics:
        topic, indexes = parse_topic(text)
        view = await cluster.refresh([topic])
        code = view.error_of(topic) or ErrorCode.NONE
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
        found += [TopicPartition(topic, index) for index in (view.partitions_of(topic) if indexes is None else indexes)]
    found = list(dict.fromkeys(found))
    _check(cluster.view, found)
    return found


def _check(view: ClusterView, partitions: Iterable[TopicPartition]) -> None:
    """Refuse partitions whose offsets cannot be looked up.  Errors: KafkaError."""
    missing = [one for one in partitions if one.partition not in view.partitions_of(one.topic)]
    if missing:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f'The partitions "{",".join(map(str, missing))}" do not exist')
    headless = [one for one in partitions if view.leader_of(one) is None]
    if headless:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f'The partitions "{",".join(map(str, headless))}" have no leader')


async def named_partitions(groups: GroupAdmin, topics: Sequence[str]) -> tuple[list[TopicPartition], dict[str, KafkaError]]:
    """`topic` or `topic:0,1` → partitions, and the topics that are not there."""
    partitions: list[TopicPartition] = []
    unknown = {}
    for text in topics:
        topic, indexes = parse_topic(text)
        if indexes is None:
            view = await groups.cluster.refresh([topic])
            code = view.error_of(topic) or ErrorCode.NONE
            if code is not ErrorCode.NONE:
                unknown[topic] = KafkaError(code)
            indexes = view.partitions_of(topic)
        partitions += [TopicPartition(topic, index) for index in indexes]
    return list(dict.fromkeys(partitions)), unknown


async def _log_offsets(groups: GroupAdmin, partitions: Iterable[TopicPartition], target: int) -> Offsets:
    found = await Admin(groups.cluster).partitions.list_offsets(dict.fromkeys(partitions, target))
    offsets = {}
    for one, answer in found.items():
        if isinstance(answer, KafkaError):
            raise answer
        offsets[one] = answer.offset
    return offsets


async def _at(groups: GroupAdmin, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Offsets:
    """The first offsets at or after a time; a partition with nothing so late falls back to its end."""
    found = await _log_offsets(groups, partitions, timestamp_ms)
    later = [one for one, offset in found.items() if offset < 0]
    for one in later:
        print(f"\nWarn: Partition {one.partition} from topic {one.topic} is empty. Falling back to latest known offset.")
    return found | await _log_offsets(groups, later, LATEST)


async def _within_log(groups: GroupAdmin, wanted: Mapping[TopicPartition, int]) -> Offsets:
    first, end = await _log_offsets(groups, wanted, EARLIEST), await _log_offsets(groups, wanted, LATEST)
    offsets = {}
    for one, offset in wanted.items():
        offsets[one] = min(max(offset, first[one]), end[one])
        if offset != offsets[one]:
            words = "higher than latest" if offset > end[one] else "lower than earliest"
            text = f"New offset ({offset}) is {words} offset for topic partition {one}. Value will be set to {offsets[one]}"
            print(f"WARN {text} (org.apache.kafka.tools.OffsetsUtils)", file=sys.stderr)
    return offsets
