"""◇ Compares two workers' answers: status, content type and JSON must be the same, except in the points under DIFFERENCES.

DIFFERENCES
- the worker's own address, the cluster id, the commit
- the text of an error about a body that is not JSON or has the wrong shape (500 in both): Java's names Jackson's classes and columns
- names of Java's classes before the text of an error
- the text of an error of a regular expression: each language has its own
- the documentation of an option: ours is in our own words
- the list of plugins, also as recommended values: ours has others beside Kafka's; those of Kafka are the same
- the order of entries in a JSON object, of the configs in an answer to validate, and of methods in an answer to OPTIONS
"""

import json
import re
from typing import Any

import httpx

PARSER_WORDS = (
    "Cannot ",
    "Unrecognized field",
    "Unexpected ",
    "the body ",
    "is expected",
    "initial_state cannot",
    "is missing",
    "not valid JSON",
)
CONNECTORS = ("org.apache.kafka.connect.file.FileStreamSinkConnector", "org.apache.kafka.connect.file.FileStreamSourceConnector")
KINDS = ("source", "sink")
OTHERS = ("io.confluent.", "io.debezium.")


def shown(answer: httpx.Response, folder: str) -> dict[str, Any]:
    """The compared part of one answer."""
    own = f"127.0.0.1:{answer.url.port}"
    text = answer.text.replace(own, "WORKER").replace(folder, "FOLDER")
    kind = (answer.headers.get("content-type") or "").partition(";")[0]
    location = (answer.headers.get("location") or "").replace(own, "WORKER")
    if kind == "text/plain":
        return {"status": answer.status_code, "body": sorted(text.split(", "))}
    body = json.loads(text) if text else None
    if answer.status_code in (404, 405, 415):
        kind = ""  # Java's web server names no content type in answers of its own
    return {"status": answer.status_code, "type": kind if body is not None else "", "location": location, "body": _body(body)}


def _body(body: Any) -> Any:
    if isinstance(body, dict) and "error_code" in body:
        return {**body, "message": _message(body["message"])}
    if isinstance(body, dict) and "kafka_cluster_id" in body:
        return {**body, "kafka_cluster_id": "", "commit": ""}
    if isinstance(body, dict) and "configs" in body:
        return {**body, "configs": {one["definition"]["name"]: _config(one) for one in body["configs"]}}
    if isinstance(body, list) and body and isinstance(body[0], dict) and "class" in body[0]:
        return [one for one in body if one["class"] in CONNECTORS or (one["type"] not in KINDS and one["class"].startswith("org.apache."))]
    if isinstance(body, list) and body and isinstance(body[0], dict) and "default_value" in body[0]:
        return {one["name"]: {**one, "documentation": ""} for one in body}
    return body


def _config(one: dict[str, Any]) -> dict[str, Any]:
    kept = [name for name in one["value"]["recommended_values"] if not name.startswith(OTHERS)]
    value = {**one["value"], "errors": [_message(error) for error in one["value"]["errors"]], "recommended_values": kept}
    return {"definition": {**one["definition"], "documentation": ""}, "value": value}


def _message(text: str) -> str:
    text = re.sub(r"Invalid regex: .*", "Invalid regex: (its text)", text, flags=re.DOTALL)
    text = re.sub(r"^org\.apache\.kafka\.connect\.[\w.]+Exception: ", "", text)
    if any(word in text for word in PARSER_WORDS):
        return "(about the body)"
    return re.sub(r"available connectors are: .*", "available connectors are: (these)", text, flags=re.DOTALL)
