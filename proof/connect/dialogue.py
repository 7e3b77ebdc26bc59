"""● A dialogue with a Connect worker: requests in order, right ones and wrong ones, sent to Kafka's worker and to ours."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx

SOURCE = "FileStreamSource"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
WITHIN_S = 30.0


class Step(NamedTuple):
    """One request.  With `until` it is sent again until the answer fulfils the condition: some changes take effect after their answer."""

    method: str
    path: str
    json: Any = None
    raw: bytes | None = None
    headers: dict[str, str] = {}
    until: Callable[[httpx.Response], bool] | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.json if self.json is not None else (self.raw or b'').decode()}"


def get(path: str, until: Callable[[httpx.Response], bool] | None = None) -> Step:
    return Step("GET", path, until=until)


def post(path: str, json: Any = None) -> Step:
    return Step("POST", path, json)


def put(path: str, json: Any = None) -> Step:
    return Step("PUT", path, json)


def patch(path: str, json: Any = None) -> Step:
    return Step("PATCH", path, json)


def delete(path: str) -> Step:
    return Step("DELETE", path)


def states(connector: str, *tasks: str) -> Callable[[httpx.Response], bool]:
    def holds(answer: httpx.Response) -> bool:
        if answer.status_code != 200:
            return False
        body = answer.json()
        return body["connector"]["state"] == connector and [one["state"] for one in body["tasks"]] == list(tasks)

    return holds


def status_is(code: int) -> Callable[[httpx.Response], bool]:
    return lambda answer: answer.status_code == code


def steps(folder: Path) -> Iterator[Step]:
    yield from opening()
    yield from plugins()
    yield from validations(folder)
    yield from refused_creations(folder)
    yield from life_of_a_source(folder)
    yield from life_of_a_sink(folder)
    yield from source_offsets(folder)
    yield from initial_states(folder)
    yield from transformed(folder)
    yield from with_variables(folder)
    yield from loggers()
    yield from wrong_paths()
    yield from wrong_methods()
    yield from wrong_bodies(folder)
    yield from farewell()


def source(folder: Path, **more: str) -> dict[str, str]:
    return {"connector.class": SOURCE, "tasks.max": "1", "file": str(folder / "in.txt"), "topic": "lines", **more}


def sink(folder: Path, **more: str) -> dict[str, str]:
    return {
        "connector.class": SINK,
        "tasks.max": "2",
        "file": str(folder / "out.txt"),
        "topics": "lines",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        **more,
    }


def opening() -> Iterator[Step]:
    yield get("/")
    yield get("/connectors")
    yield get("/connectors/")
    yield get("/connectors?expand=status")
    yield get("/connectors?expand=nonsense")
    yield get("/health")
    yield Step("HEAD", "/connectors")
    yield Step("OPTIONS", "/connectors")


def plugins() -> Iterator[Step]:
    yield get("/connector-plugins")
    yield get("/connector-plugins/")
    yield get("/connector-plugins?connectorsOnly=true")
    for name in (
        "FileStreamSource", "FileStreamSourceConnector", SINK, "org.apache.kafka.connect.transforms.InsertField$Value", "RegexRouter",
        "org.apache.kafka.connect.transforms.RegexRouter", "TopicNameMatches", "HasHeaderKey", "RecordIsTombstone", "JsonConverter",
        "StringConverter", "ByteArrayConverter", "LongConverter", "SimpleHeaderConverter", "Filter", "TimestampRouter", "Cast$Value",
        "org.apache.kafka.connect.transforms.Flatten$Key", "MaskField$Value", "ReplaceField$Value", "ValueToKey", "HoistField$Key",
        "ExtractField$Key", "TimestampConverter$Value",
        "HeaderFrom$Value", "InsertHeader", "DropHeaders",
        "SetSchemaMetadata$Value", "NoSuchPlugin", "InsertField",
    ):  # fmt: skip
        yield get(f"/connector-plugins/{name}/config")
    yield get("/connector-plugins/FileStreamSource/config?version=latest")
    yield get("/connector-plugins/FileStreamSource")


def validations(folder: Path) -> Iterator[Step]:
    def validate(plugin: str, config: Any) -> Step:
        return put(f"/connector-plugins/{plugin}/config/validate", config)

    good = {**source(folder), "name": "v"}
    yield validate("FileStreamSource", good)
    yield validate("FileStreamSource", {})
    yield validate("FileStreamSource", {"connector.class": SOURCE})
    yield validate("FileStreamSink", good)
    yield validate("FileStreamSink", {**sink(folder), "name": "v"})
    yield validate("NoSuch", {"connector.class": "NoSuch"})
    yield validate("FileStreamSource", {**good, "tasks.max": "many"})
    yield validate("FileStreamSource", {**good, "tasks.max": "0"})
    yield validate("FileStreamSource", {**good, "tasks.max": "-3"})
    yield validate("FileStreamSource", {**good, "tasks.max": "99999999999"})
    yield validate("FileStreamSource", {**good, "batch.size": "none"})
    yield validate("FileStreamSource", {**good, "errors.tolerance": "some"})
    yield validate("FileStreamSource", {**good, "errors.retry.timeout": "x", "errors.log.enable": "yes"})
    yield validate("FileStreamSource", {**good, "config.action.reload": "sometimes"})
    yield validate("FileStreamSource", {**good, "exactly.once.support": "maybe"})
    yield validate("FileStreamSource", {**good, "transaction.boundary": "never"})
    yield validate("FileStreamSource", {**good, "transaction.boundary": "connector"})
    yield validate("FileStreamSource", {**good, "key.converter": "NoSuchConverter"})
    yield validate("FileStreamSource", {**good, "key.converter": "org.apache.kafka.connect.storage.StringConverter"})
    yield validate("FileStreamSource", {**good, "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"})
    yield validate("FileStreamSource", {**good, "transforms": "a"})
    yield validate(
        "FileStreamSource", {**good, "transforms": "a,a", "transforms.a.type": "org.apache.kafka.connect.transforms.RegexRouter"}
    )
    yield validate("FileStreamSource", {**good, "transforms": "a", "transforms.a.type": "NoSuch"})
    yield validate("FileStreamSource", {**good, "transforms": "a", "transforms.a.type": "org.apache.kafka.connect.transforms.RegexRouter"})
    regex = {"transforms": "a", "transforms.a.type": "org.apache.kafka.connect.transforms.RegexRouter"}
    yield validate("FileStreamSource", {**good, **regex, "transforms.a.regex": "(", "transforms.a.replacement": "x"})
    yield validate("FileStreamSource", {**good, **regex, "transforms.a.regex": "(.*)", "transforms.a.replacement": "x-$1"})
    yield validate(
        "FileStreamSource", {**good, **regex, "transforms.a.regex": ".", "transforms.a.replacement": "", "transforms.a.predicate": "p"}
    )
    yield validate(
        "FileStreamSource",
        {
            **good, **regex, "transforms.a.regex": ".", "transforms.a.replacement": "", "transforms.a.predicate": "p",
            "predicates": "p", "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
            "predicates.p.pattern": "x.*",
        },
    )  # fmt: skip
    yield validate("FileStreamSource", {**good, "predicates": "p"})
    yield validate("FileStreamSource", {**good, "topic.creation.groups": "g"})
    yield validate("FileStreamSource", {**good, "topic.creation.default.replication.factor": "1"})
    yield validate("FileStreamSource", {**good, "topic.creation.default.replication.factor": "0", "topic.creation.default.partitions": "1"})
    yield validate("FileStreamSource", {**good, "topic": ""})
    yield validate("FileStreamSource", {**good, "name": ""})
    yield validate("FileStreamSink", {**sink(folder), "name": "v", "topics.regex": "x.*"})
    yield validate("FileStreamSink", {"connector.class": SINK, "name": "v", "file": "x"})
    yield validate("FileStreamSink", {**sink(folder), "name": "v", "topics": ""})
    yield validate("FileStreamSink", {"connector.class": SINK, "name": "v", "topics.regex": "("})
    yield validate("FileStreamSink", {**sink(folder), "name": "v", "errors.deadletterqueue.topic.name": "lines"})
    yield validate("FileStreamSink", {**sink(folder), "name": "v", "errors.deadletterqueue.topic.replication.factor": "x"})
    yield validate("FileStreamSource", {"connector.class": SINK})
    yield validate("FileStreamSource", {**good, "consumer.override.max.poll.records": "1", "unknown.key": "1"})
    yield validate("FileStreamSource", {**good, "batch.size": 7})
    yield validate("FileStreamSource", {**good, "batch.size": None})
    yield validate("FileStreamSource", {**good, "tasks.max.enforce": "perhaps"})
    yield validate("FileStreamSource", [1])
    yield Step("PUT", "/connector-plugins/FileStreamSource/config/validate", raw=b"{", headers={"Content-Type": "application/json"})
    for transform, more in {
        "InsertField$Value": {}, "InsertField$Key": {"static.field": "a"}, "ReplaceField$Value": {"renames": "a"}, "MaskField$Value": {},
        "ValueToKey": {}, "HoistField$Value": {}, "ExtractField$Value": {}, "Cast$Value": {"spec": "int99"},
        "TimestampConverter$Value": {"target.type": "x"}, "TimestampRouter": {}, "Flatten$Value": {}, "Filter": {},
        "HeaderFrom$Value": {"fields": "a", "headers": "b", "operation": "x"}, "InsertHeader": {}, "DropHeaders": {},
        "SetSchemaMetadata$Value": {"schema.version": "x"},
    }.items():  # fmt: skip
        config = {**good, "transforms": "t", "transforms.t.type": f"org.apache.kafka.connect.transforms.{transform}"}
        yield validate("FileStreamSource", {**config, **{f"transforms.t.{key}": value for key, value in more.items()}})


def refused_creations(folder: Path) -> Iterator[Step]:
    yield post("/connectors", {"name": "a", "config": {}})
    yield post("/connectors", {"name": "a", "config": {"connector.class": "NoSuch"}})
    yield post("/connectors", {"name": "a"})
    yield post("/connectors", {"config": source(folder)})
    yield post("/connectors", {"name": "", "config": source(folder)})
    yield post("/connectors", {"name": "a", "config": {**source(folder), "name": "b"}})
    yield post("/connectors", {"name": "a", "config": {**source(folder), "tasks.max": "none"}})
    yield post("/connectors", {"name": "a", "config": {**source(folder), "topic": None}})
    yield delete("/connectors/a")
    yield get("/connectors/a/status", status_is(404))
    yield post("/connectors", {"name": "a", "config": source(folder), "nonsense": 1})
    yield post("/connectors", {"name": "a", "config": source(folder), "initial_state": "NONSENSE"})
    yield post("/connectors", {"name": "a\u0007", "config": source(folder)})
    yield post("/connectors", [])
    yield post("/connectors", "text")
    yield Step("POST", "/connectors", raw=b"{", headers={"Content-Type": "application/json"})
    yield Step("POST", "/connectors", raw=b"", headers={"Content-Type": "application/json"})
    yield Step("POST", "/connectors", raw=b"a=b", headers={"Content-Type": "text/plain"})
    yield put("/connectors/a/config", {})
    yield put("/connectors/a/config", {"connector.class": SOURCE, "name": "b"})
    yield get("/connectors/a/status", states("RUNNING", "RUNNING"))
    yield patch("/connectors/a/config", {"topic": "x"})
    yield get("/connectors")


def life_of_a_source(folder: Path) -> Iterator[Step]:
    created = {"name": "s", "config": source(folder)}
    yield post("/connectors", created)
    yield get("/connectors/s/status", states("RUNNING", "RUNNING"))
    yield post("/connectors", created)
    yield get("/connectors")
    yield get("/connectors?expand=status")
    yield get("/connectors?expand=info")
    yield get("/connectors?expand=info&expand=status")
    yield get("/connectors?expand=nonsense")
    yield get("/connectors/s")
    yield get("/connectors/s/config")
    yield get("/connectors/s/tasks")
    yield get("/connectors/s/tasks-config")
    yield get("/connectors/s/tasks/0/status")
    yield get("/connectors/s/tasks/7/status")
    yield get("/connectors/s/tasks/x/status")
    yield get("/connectors/s/topics", lambda answer: "lines" in answer.text)
    yield put("/connectors/s/topics/reset")
    yield get("/connectors/s/topics", lambda answer: "lines" not in answer.text)
    yield get("/connectors/s/offsets", lambda answer: "position" in answer.text)
    yield delete("/connectors/s/offsets")
    yield patch("/connectors/s/offsets", {"offsets": []})
    yield patch("/connectors/s/offsets", {"offsets": [{"partition": {"filename": "x"}, "offset": {"position": 1}}]})
    yield put("/connectors/s/pause")
    yield get("/connectors/s/status", states("PAUSED", "PAUSED"))
    yield put("/connectors/s/pause")
    yield put("/connectors/s/resume")
    yield get("/connectors/s/status", states("RUNNING", "RUNNING"))
    yield post("/connectors/s/restart")
    yield get("/connectors/s/status", states("RUNNING", "RUNNING"))
    yield post("/connectors/s/restart?includeTasks=true")
    yield get("/connectors/s/status", states("RUNNING", "RUNNING"))
    yield post("/connectors/s/restart?includeTasks=true&onlyFailed=true")
    yield post("/connectors/s/restart?onlyFailed=true")
    yield post("/connectors/s/tasks/0/restart")
    yield get("/connectors/s/status", states("RUNNING", "RUNNING"))
    yield post("/connectors/s/tasks/9/restart")
    yield put("/connectors/s/config", source(folder, topic="lines", **{"batch.size": "10"}))
    yield get("/connectors/s/config")
    yield patch("/connectors/s/config", {"batch.size": "20"})
    yield patch("/connectors/s/config", {"batch.size": None})
    yield patch("/connectors/s/config", {"tasks.max": "x"})
    yield get("/connectors/s/status", states("RUNNING", "RUNNING"))
    yield put("/connectors/s/stop")
    yield get("/connectors/s/status", states("STOPPED"))
    yield get("/connectors/s/tasks", lambda answer: answer.json() == [])
    yield get("/connectors/s")
    yield put("/connectors/s/resume")
    yield get("/connectors/s/status", states("RUNNING", "RUNNING"))


def life_of_a_sink(folder: Path) -> Iterator[Step]:
    yield put("/connectors/k/config", sink(folder))
    yield get("/connectors/k/status", states("RUNNING", "RUNNING", "RUNNING"))
    yield get("/connectors/k")
    yield get("/connectors/k/tasks")
    yield get("/connectors/k/topics", lambda answer: "lines" in answer.text)
    yield get("/connectors/k/offsets", lambda answer: "kafka_offset" in answer.text)
    yield get("/connectors?expand=info&expand=status")
    known = {"kafka_topic": "lines", "kafka_partition": 0}
    yield patch("/connectors/k/offsets", {"offsets": [{"partition": known, "offset": {"kafka_offset": 1}}]})
    yield delete("/connectors/k/offsets")
    yield put("/connectors/k/pause")
    yield get("/connectors/k/status", states("PAUSED", "PAUSED", "PAUSED"))
    yield delete("/connectors/k/offsets")
    yield put("/connectors/k/resume")
    yield get("/connectors/k/status", states("RUNNING", "RUNNING", "RUNNING"))
    yield put("/connectors/k/stop")
    yield get("/connectors/k/status", states("STOPPED"))
    yield get("/connectors/k/tasks", lambda answer: answer.json() == [])
    yield patch(
        "/connectors/k/offsets", {"offsets": [{"partition": {"kafka_topic": "lines", "kafka_partition": 0}, "offset": {"kafka_offset": 1}}]}
    )
    yield get("/connectors/k/offsets")
    yield patch("/connectors/k/offsets", {"offsets": [{"partition": {"kafka_topic": "lines", "kafka_partition": 0}, "offset": None}]})
    yield patch("/connectors/k/offsets", {"offsets": [{"partition": {"kafka_topic": "lines"}, "offset": {"kafka_offset": 1}}]})
    yield patch(
        "/connectors/k/offsets",
        {"offsets": [{"partition": {"kafka_topic": "lines", "kafka_partition": "x"}, "offset": {"kafka_offset": 1}}]},
    )
    yield patch(
        "/connectors/k/offsets",
        {"offsets": [{"partition": {"kafka_topic": "lines", "kafka_partition": 0}, "offset": {"kafka_offset": -1}}]},
    )
    yield patch(
        "/connectors/k/offsets", {"offsets": [{"partition": {"kafka_topic": "nope", "kafka_partition": 0}, "offset": {"kafka_offset": 1}}]}
    )
    yield delete("/connectors/k/offsets")
    yield get("/connectors/k/offsets")
    yield delete("/connectors/k")
    yield get("/connectors/k", status_is(404))
    yield get("/connectors/k/status", status_is(404))
    yield get("/connectors/k/offsets")


def source_offsets(folder: Path) -> Iterator[Step]:
    yield put("/connectors/s/stop")
    yield get("/connectors/s/status", states("STOPPED"))
    yield get("/connectors/s/tasks", lambda answer: answer.json() == [])
    yield get("/connectors/s/offsets")
    where = {"filename": str(folder / "in.txt")}
    yield patch("/connectors/s/offsets", {"offsets": [{"partition": where, "offset": {"position": 6}}]})
    yield get("/connectors/s/offsets")
    yield patch("/connectors/s/offsets", {"offsets": [{"partition": where, "offset": {"position": "x"}}]})
    yield patch("/connectors/s/offsets", {"offsets": [{"partition": where, "offset": {"position": -1}}]})
    yield patch("/connectors/s/offsets", {"offsets": [{"partition": where, "offset": {"other": 1}}]})
    yield patch("/connectors/s/offsets", {"offsets": [{"partition": {"a": 1}, "offset": {"position": 1}}]})
    yield patch("/connectors/s/offsets", {"offsets": [{"partition": where, "offset": None}]})
    yield patch("/connectors/s/offsets", {"offsets": []})
    yield patch("/connectors/s/offsets", {"offsets": None})
    yield patch("/connectors/s/offsets", {})
    yield patch("/connectors/s/offsets", {"nonsense": []})
    yield patch("/connectors/s/offsets", [])
    yield patch("/connectors/s/offsets", {"offsets": [{"offset": {"position": 1}}]})
    yield patch(
        "/connectors/s/offsets", {"offsets": [{"partition": where, "offset": {"position": 6}}, {"partition": where, "offset": None}]}
    )
    yield get("/connectors/s/offsets")
    yield delete("/connectors/s/offsets")
    yield delete("/connectors/s/offsets")
    yield get("/connectors/s/offsets")
    yield delete("/connectors/nope/offsets")
    yield patch("/connectors/nope/offsets", {"offsets": [{"partition": where, "offset": None}]})
    yield post("/connectors/s/restart")
    yield delete("/connectors/s")
    yield get("/connectors/s", status_is(404))


def initial_states(folder: Path) -> Iterator[Step]:
    yield post("/connectors", {"name": "p", "config": source(folder), "initial_state": "PAUSED"})
    yield get("/connectors/p/status", states("PAUSED"))
    yield post("/connectors", {"name": "t", "config": source(folder), "initial_state": "stopped"})
    yield get("/connectors/t/status", states("STOPPED"))
    yield post("/connectors", {"name": "r", "config": source(folder, file="/nonexistent/x"), "initial_state": "running"})
    yield get("/connectors/r/status", states("RUNNING", "RUNNING"))
    for name in ("p", "t", "r"):
        yield delete(f"/connectors/{name}")
        yield get(f"/connectors/{name}", status_is(404))


def transformed(folder: Path) -> Iterator[Step]:
    config = source(
        folder,
        topic="raw",
        transforms="hoist,stamp,route",
        **{
            "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
            "transforms.hoist.field": "line",
            "transforms.stamp.type": "org.apache.kafka.connect.transforms.InsertField$Value",
            "transforms.stamp.static.field": "source",
            "transforms.stamp.static.value": "test",
            "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
            "transforms.route.regex": "(.*)",
            "transforms.route.replacement": "$1-routed",
        },
    )
    yield post("/connectors", {"name": "x", "config": config})
    yield get("/connectors/x/status", states("RUNNING", "RUNNING"))
    yield get("/connectors/x/topics", lambda answer: "raw-routed" in answer.text)
    yield get("/connectors/x/config")
    yield delete("/connectors/x")
    yield get("/connectors/x", status_is(404))


def with_variables(folder: Path) -> Iterator[Step]:
    """Configurations with variables of config providers: what is shown, what is read, what is wrong."""
    (folder / "secrets.properties").write_text(f"path={folder / 'in.txt'}\nsize=7\nbad=many\n", encoding="utf-8")
    secret = f"${{file:{folder / 'secrets.properties'}:"
    config = source(folder, file=f"{secret}path}}", **{"batch.size": f"{secret}size}}"}, topic="of-a-variable")
    yield put("/connectors/q/config", config)
    yield get("/connectors/q/status", states("RUNNING", "RUNNING"))
    yield get("/connectors/q/topics", lambda answer: "of-a-variable" in answer.text)
    yield get("/connectors/q/config")
    yield get("/connectors/q")
    yield get("/connectors/q/tasks")
    yield get("/connectors?expand=info")
    validate = "/connector-plugins/FileStreamSource/config/validate"
    yield put(validate, {**config, "name": "q"})
    yield put(validate, {**config, "name": "q", "batch.size": f"{secret}bad}}"})
    yield put(validate, {**config, "name": "q", "batch.size": f"{secret}nope}}"})
    yield put("/connectors/q/config", {**config, "tasks.max": f"{secret}bad}}"})
    yield put("/connectors/q/config", {**config, "file": "${file:/nonexistent/x:y}"})
    yield put(validate, {**config, "name": "q", "file": "${file:/nonexistent/x:y}"})
    yield put(validate, {**config, "name": "q", "topic": "${other:a:b}"})
    yield patch("/connectors/q/config", {"batch.size": None})
    yield delete("/connectors/q")
    yield get("/connectors/q", status_is(404))


def loggers() -> Iterator[Step]:
    yield get("/admin/loggers/org.apache.kafka.connect.nothing.here")
    yield put("/admin/loggers/org.apache.kafka.connect.nothing.here", {"level": "DEBUG"})
    yield put("/admin/loggers/org.apache.kafka.connect.nothing.here", {"level": "trace"})
    yield put("/admin/loggers/org.apache.kafka.connect.nothing.here", {"level": "LOUD"})
    yield put("/admin/loggers/org.apache.kafka.connect.nothing.here", {"nolevel": "DEBUG"})
    yield put("/admin/loggers/org.apache.kafka.connect.nothing.here", {})
    yield put("/admin/loggers/org.apache.kafka.connect.nothing.here?scope=cluster", {"level": "DEBUG"})
    yield put("/admin/loggers/org.apache.kafka.connect.nothing.else?scope=nonsense", {"level": "DEBUG"})
    yield get("/admin/loggers/root")


def wrong_paths() -> Iterator[Step]:
    for path in ("config", "status", "tasks", "tasks-config", "topics", "offsets"):
        yield get(f"/connectors/nope/{path}")
    yield get("/connectors/nope")
    yield get("/nothing")
    yield get("/connectors/nope/nothing")
    yield get("/connector-plugins/x/y/z")
    yield get("/admin")
    yield delete("/connectors/nope")
    yield delete("/connectors")
    yield post("/")
    yield put("/connectors", {})
    yield put("/connectors/nope/pause")
    yield put("/connectors/nope/resume")
    yield put("/connectors/nope/stop")
    yield post("/connectors/nope/restart")
    yield post("/connectors/nope/restart?includeTasks=maybe")
    yield post("/connectors/nope/tasks/0/restart")
    yield get("/connectors/nope/tasks/0/status")
    yield put("/connectors/nope/topics/reset")
    yield put("/connectors/nope/tasks/0/restart")
    yield post("/connectors/nope/pause")
    yield post("/connectors/nope/tasks", [{"a": "b"}])
    yield put("/connectors/nope/fence")


METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
PATHS = {
    "/": "GET", "/health": "GET", "/connectors": "GET POST", "/connectors/nope": "GET DELETE", "/connectors/nope/config": "GET PUT PATCH",
    "/connectors/nope/status": "GET", "/connectors/nope/topics": "GET", "/connectors/nope/topics/reset": "PUT",
    "/connectors/nope/restart": "POST", "/connectors/nope/pause": "PUT", "/connectors/nope/resume": "PUT", "/connectors/nope/stop": "PUT",
    "/connectors/nope/tasks": "GET POST", "/connectors/nope/tasks-config": "GET", "/connectors/nope/tasks/0/status": "GET",
    "/connectors/nope/tasks/0/restart": "POST", "/connectors/nope/offsets": "GET PATCH DELETE", "/connectors/nope/fence": "PUT",
    "/connector-plugins": "GET", "/connector-plugins/FileStreamSource/config": "GET",
    "/connector-plugins/FileStreamSource/config/validate": "PUT", "/admin/loggers": "GET", "/admin/loggers/root": "GET PUT",
}  # fmt: skip


def wrong_methods() -> Iterator[Step]:
    """Every path with every method that it does not have."""
    for path, allowed in PATHS.items():
        for method in METHODS:
            if method not in allowed.split():
                yield Step(method, path, {} if method in ("POST", "PUT", "PATCH") else None)


def wrong_bodies(folder: Path) -> Iterator[Step]:
    """Every path that takes a body, with bodies that it cannot take."""
    yield put("/connectors/w/config", source(folder))
    yield get("/connectors/w/status", states("RUNNING", "RUNNING"))
    for method, path in (
        ("PUT", "/connectors/w/config"), ("PATCH", "/connectors/w/config"), ("PATCH", "/connectors/w/offsets"),
        ("PUT", "/connector-plugins/FileStreamSource/config/validate"), ("PUT", "/admin/loggers/org.apache.kafka.connect.nothing.here"),
        ("POST", "/connectors"),
    ):  # fmt: skip
        for raw in (b"", b"{", b"[]", b"1", b'"text"', b"null"):
            yield Step(method, path, raw=raw, headers={"Content-Type": "application/json"})
        yield Step(method, path, raw=b"a=b", headers={"Content-Type": "application/x-www-form-urlencoded"})
    yield put("/connectors/w/config", {"connector.class": SOURCE, "file": {"a": 1}})
    yield put("/connectors/w/config", {"connector.class": SOURCE, "file": ["a"]})
    yield put("/connectors/w/config", {"connector.class": SOURCE, "batch.size": 5, "topic": True})
    yield delete("/connectors/w")
    yield get("/connectors/w", status_is(404))


def farewell() -> Iterator[Step]:
    yield delete("/connectors/a")
    yield get("/connectors")
