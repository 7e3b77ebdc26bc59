"""◇ How a simulated member speaks the streams protocol.  Each topic has a subtopology of its own, so a task is a partition."""

from collections.abc import Iterable, Sequence

from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from proof.groups.topologies import subtopology, tasks, topology


def report(
    group: str, member_id: str, epoch: int, topics: Sequence[str], held: Iterable[str] | None, rebalance_ms: int
) -> StreamsGroupHeartbeatRequest:
    """A member's heartbeat.  `held` are keys `topic-partition`; with None the heartbeat does not mention tasks."""
    request = StreamsGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch, endpoint_information_epoch=0)
    if epoch == 0:
        request.topology = topology(*(subtopology(topic, [topic]) for topic in topics))
        request.rebalance_timeout_ms, request.process_id, request.client_tags = rebalance_ms, member_id, []
    if held is not None:
        by_topic: dict[str, list[int]] = {}
        for key in sorted(held):
            topic, _, partition = key.rpartition("-")
            by_topic.setdefault(topic, []).append(int(partition))
        request.active_tasks, request.standby_tasks, request.warmup_tasks = tasks(by_topic), [], []
    return request


def leave(group: str, member_id: str) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=-1, endpoint_information_epoch=0)


def given(response: StreamsGroupHeartbeatResponse, topics: Sequence[str]) -> list[str] | None:
    """The active tasks; None if the response does not mention them."""
    if response.active_tasks is None:
        return None
    return [
        f"{each.subtopology_id}-{index}" for each in response.active_tasks for index in each.partitions if each.subtopology_id in topics
    ]
