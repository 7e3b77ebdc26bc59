"""Replaying the topics' records makes the states; the records are byte for byte those that Kafka's worker writes."""

from moldau.connect.store.configs import (
    ConfigState,
    RestartRequest,
    Target,
    TaskId,
    connector_record,
    deletion,
    restart_record,
    target_record,
    task_records,
)
from moldau.connect.store.offsets import OffsetState, offset_record
from moldau.connect.store.statuses import State, Status, StatusState, connector_status, task_status, topic_status

FROM_JAVA = [
    (b"session-key", b'{"key":"/0AnL/bR9HxX7cufXvLsx5ZB3LKGu46izvznWlAPK3o=","algorithm":"HmacSHA256","creation-timestamp":1795422125074}'),
    (b"connector-s", b'{"properties":{"connector.class":"FileStreamSource","tasks.max":"1","topic":"lines","name":"s"}}'),
    (b"task-s-0", b'{"properties":{"task.class":"org.apache.kafka.connect.file.FileStreamSourceTask","topic":"lines"}}'),
    (b"commit-s", b'{"tasks":1}'),
    (b"target-state-s", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
]
CONFIG = {"connector.class": "FileStreamSource", "tasks.max": "1", "topic": "lines", "name": "s"}


def replayed(*records: tuple[bytes, bytes | None]) -> ConfigState:
    state = ConfigState()
    for offset, (key, value) in enumerate(records):
        state.replay(offset, key, value)
    return state


def test_a_topic_that_the_java_worker_wrote_is_understood() -> None:
    state = replayed(*FROM_JAVA)
    assert state.connectors == {"s": CONFIG}
    assert state.tasks == {"s": [{"task.class": "org.apache.kafka.connect.file.FileStreamSourceTask", "topic": "lines"}]}
    assert state.target("s") is Target.STOPPED
    assert state.session_key is not None and len(state.session_key) == 32
    assert state.offset == len(FROM_JAVA)


def test_our_records_are_the_java_workers() -> None:
    task = {"task.class": "org.apache.kafka.connect.file.FileStreamSourceTask", "topic": "lines"}
    assert [connector_record("s", CONFIG), *task_records("s", [task]), target_record("s", Target.STOPPED)] == FROM_JAVA[1:]
    assert restart_record(RestartRequest("s", True, False)) == (b"restart-connector-s", b'{"include-tasks":true,"only-failed":false}')


def test_tasks_count_once_their_commit_has_come() -> None:
    records = [connector_record("s", CONFIG), *task_records("s", [{"a": "1"}, {"a": "2"}])]
    assert replayed(*records[:-1]).tasks == {}
    assert replayed(*records).tasks == {"s": [{"a": "1"}, {"a": "2"}]}


def test_a_commit_whose_tasks_compaction_took_away_changes_nothing() -> None:
    records = [connector_record("s", CONFIG), *task_records("s", [{"a": "1"}])]
    assert replayed(*records, (b"commit-s", b'{"tasks":3}')).tasks == {"s": [{"a": "1"}]}


def test_a_deleted_connector_leaves_nothing() -> None:
    state = replayed(connector_record("s", CONFIG), *task_records("s", [CONFIG]), target_record("s", Target.PAUSED), *deletion("s"))
    assert (state.connectors, state.tasks, state.targets, state.applied) == ({}, {}, {}, {})


def test_what_is_not_understood_is_passed_over() -> None:
    state = replayed(
        (b"connector-s", b"not json"), (b"new-kind-of-key", b"{}"), (b"task-s-x", b'{"properties":{}}'), (b"commit-nobody", b'{"tasks":1}')
    )
    assert (state.connectors, state.tasks) == ({}, {})


def test_a_request_to_restart_is_told_once_and_leaves_nothing() -> None:
    state = ConfigState()
    assert state.replay(0, *restart_record(RestartRequest("s", True, True))) == RestartRequest("s", True, True)
    assert state == ConfigState(offset=1)


def test_states_come_and_go() -> None:
    state, status = StatusState(), Status(State.FAILED, "h:1", 3, "why", "4.3.1")
    for record in (connector_status("s", status), task_status(TaskId("s-0", 1), status), topic_status("s", "t", 0, 5)):
        state.replay(*record)
    assert state.connectors == {"s": status}
    assert state.tasks == {TaskId("s-0", 1): status}
    assert state.topics == {"s": {"t": 0}}
    for record in (connector_status("s", None), task_status(TaskId("s-0", 1), None), topic_status("s", "t", 0, None)):
        state.replay(*record)
    assert (state.connectors, state.tasks, state.topics) == ({}, {}, {"s": {}})


def test_offsets_are_found_whatever_the_order_of_a_partitions_entries() -> None:
    state = OffsetState()
    state.replay(b'["s",{"b":1,"a":"x"}]', b'{"position":14}')
    assert state.offset("s", {"a": "x", "b": 1}) == {"position": 14}
    assert offset_record("s", {"b": 1, "a": "x"}, {"position": 14}) == (b'["s",{"a":"x","b":1}]', b'{"position":14}')
    state.replay(*offset_record("s", {"a": "x", "b": 1}, None))
    assert state.offsets("s") == []
