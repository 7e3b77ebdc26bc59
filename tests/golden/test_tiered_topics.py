"""The valid options of a tiered topic: our answers beside those that LogConfig.validate of Apache Kafka 4.3.1 gave (Answers.java)."""

import json
from pathlib import Path

import pytest

from moldau.metadata.config_schema import ConfigSchema

ANSWERS = [
    json.loads(line) for line in (Path(__file__).parent / "tiered_topics" / "answers.jsonl").read_text(encoding="utf-8").splitlines()
]


def test_each_kind_of_answer_is_there() -> None:
    assert len({str(answer)[:60] for *_, answer in ANSWERS}) == 9


@pytest.mark.parametrize(("is_enabled", "was_tiered", "configs", "answer"), ANSWERS)
def test_the_answer_is_kafkas(is_enabled: bool, was_tiered: bool, configs: dict[str, str], answer: str | None) -> None:
    schema = ConfigSchema({"remote.log.storage.system.enable": str(is_enabled).lower()})
    refusal = schema.validate_topic(configs, {"remote.storage.enable": "true"} if was_tiered else {})
    assert (refusal.message if refusal is not None else None) == answer
