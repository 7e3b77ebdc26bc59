"""● The partitions that a query reads, their beginnings and ends, and the id of their topic.

Offsets are written as the stock connector writes them, `{"orders":{"0":23}}`, with the topic's id beside its partitions
(`{"orders":{"0":23,"id":"..."}}`): a topic that was deleted and made anew has the same name and another id, and its offsets mean other
records.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from moldau.clients.blocking.cluster import BlockingCluster
from moldau.clients.blocking.offsets import EARLIEST, LATEST, NOT_FOUND, list_offsets
from moldau.errors import ErrorCode, KafkaError
from moldau.types import INTERNAL_TOPICS, ZERO_UUID, TopicPartition, uuid_from_text, uuid_to_text
from pyspark_moldau.options import OptionError, Options

ID: Final = "id"
SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")


class DataLoss(Exception):
    """Records were lost before they were read; `failOnDataLoss=false` goes on."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}. Some records may have been missed: set option failOnDataLoss to false to go on with what there is")


class Positions(NamedTuple):
    """An offset of each partition, and the ids of their topics (none from a checkpoint of the stock connector)."""

    offsets: dict[TopicPartition, int]
    ids: dict[str, UUID]

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            found.setdefault(topic, {})[str(partition)] = offset
        for topic, of in found.items():
            if self.ids.get(topic, ZERO_UUID) != ZERO_UUID:
                of[ID] = uuid_to_text(self.ids[topic])
        return found

    @classmethod
    def from_json(cls, found: Mapping[str, Mapping[str, Any]]) -> "Positions":
        offsets = {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, of in found.items()
            for partition, offset in of.items()
            if partition != ID
        }
        return cls(offsets, {topic: uuid_from_text(of[ID]) for topic, of in found.items() if ID in of})


def check_subscription(options: Options) -> None:
    """Errors: OptionError."""
    given = [name for name in SUBSCRIPTIONS if name in options]
    if len(given) != 1:
        said = f"{' and '.join(given)} are given" if given else "none is given"
        raise OptionError("subscribe", f"exactly one of {', '.join(SUBSCRIPTIONS)} is needed, {said}")


class Subscription:
    """The present meaning of `subscribe`, `subscribePattern` or `assign`."""

    def __init__(self, cluster: BlockingCluster, options: Options) -> None:
        self._cluster = cluster
        self._options = options
        self.is_committed_only = options.get("kafka.isolation.level") == "read_committed"

    def partitions(self) -> tuple[list[TopicPartition], dict[str, UUID]]:
        """All present partitions.  Errors: KafkaError UNKNOWN_TOPIC_OR_PARTITION and others, OSError."""
        return self._cluster.retrying(self._partitions)

    def _partitions(self) -> tuple[list[TopicPartition], dict[str, UUID]]:
        assigned = self._options.get("assign")
        pattern = self._options.get("subscribePattern")
        names = self._options.get("subscribe") or assigned
        view = self._cluster.refresh(None if names is None else list(names))
        if names is None:
            names = [one for one in view.topics if one not in INTERNAL_TOPICS and pattern.fullmatch(one) and not view.error_of(one)]
        found: list[TopicPartition] = []
        for name in names:
            code = view.error_of(name) or ErrorCode.NONE
            if code or name not in view.topics:
                raise KafkaError(code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name}: {code.text}")
            there = view.partitions_of(name)
            wanted = there if assigned is None else assigned[name]
            for partition in wanted:
                if partition not in there:
                    raise OptionError("assign", f"there is no partition {name}-{partition}: the topic has {len(there)}")
                found.append(TopicPartition(name, partition))
        return sorted(found), {name: view.topic_id_of(name) for name in names}

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._listed(dict.fromkeys(partitions, LATEST))

    def beginnings(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._listed(dict.fromkeys(partitions, EARLIEST))

    def since(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """The offset of each partition's first record that is not older; `NOT_FOUND` if there is none."""
        return self._listed(dict.fromkeys(partitions, timestamp_ms))

    def _listed(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return list_offsets(self._cluster, asked, read_committed=self.is_committed_only)

    def starting(self, partitions: list[TopicPartition], default: int) -> dict[TopicPartition, int]:
        """Errors: OptionError if no record is as new as the time asked for."""
        times = self._times("starting", partitions)
        if times is not None:
            found = self._listed(times)
            missing = [one for one, offset in found.items() if offset == NOT_FOUND]
            if missing and self._options.get("startingOffsetsByTimestampStrategy", "error") == "error":
                names = ", ".join(map(str, missing))
                raise OptionError(
                    "startingOffsetsByTimestampStrategy",
                    f"{names}: no record is as new as the starting time; latest begins at the end there",
                )
            return {**found, **self.ends(missing)}
        return self._resolved("startingOffsets", self._options.get("startingOffsets", default), partitions)

    def ending(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        times = self._times("ending", partitions)
        if times is not None:
            found = self._listed(times)
            return {**found, **self.ends([one for one, offset in found.items() if offset == NOT_FOUND])}
        return self._resolved("endingOffsets", self._options.get("endingOffsets", LATEST), partitions)

    def _times(self, which: str, partitions: list[TopicPartition]) -> dict[TopicPartition, int] | None:
        one_for_all = self._options.get(f"{which}Timestamp")
        if one_for_all is not None:
            return dict.fromkeys(partitions, one_for_all)
        name = f"{which}OffsetsByTimestamp"
        given = self._options.get(name)
        return None if given is None else self._of_each(name, given, partitions)

    def _resolved(self, name: str, given: Any, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(partitions, given) if isinstance(given, int) else self._of_each(name, given, partitions)
        listed = self._listed({one: offset for one, offset in asked.items() if offset < 0})
        return {**asked, **listed}

    def _of_each(self, name: str, given: Mapping[str, Mapping[int, int]], partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        told = {TopicPartition(topic, partition): number for topic, of in given.items() for partition, number in of.items()}
        if set(told) != set(partitions):
            missing = sorted(set(partitions) - set(told))
            unknown = sorted(set(told) - set(partitions))
            said = [f"nothing is said of {', '.join(map(str, missing))}"] if missing else []
            said += [f"{', '.join(map(str, unknown))} not read here"] if unknown else []
            raise OptionError(name, f"it has to name every partition that is read, and no other: {'; '.join(said)}")
        return told


def refuse_other_topics(known: Mapping[str, UUID], present: Mapping[str, UUID]) -> None:
    """Errors: DataLoss."""
    for topic, topic_id in known.items():
        if ZERO_UUID not in (topic_id, now := present.get(topic, ZERO_UUID)) and topic_id != now:
            raise TopicMadeAnew(topic)


class TopicMadeAnew(Exception):
    """The topic of the checkpoint is gone, and another topic has its name.  No option mixes the two."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic {topic} was deleted and made anew since this query's checkpoint was written: the offsets there belong to the old one. "
            "Start the query with a new checkpointLocation to read the new topic"
        )
